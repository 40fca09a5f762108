"""Finding the settings of a method on a development set."""
