"""Systems that the paper compares with, and its own cache strategies: retrievers and methods for experiments."""
