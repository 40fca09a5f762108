"""Research: measuring, tuning, training, and the systems that the paper compares with."""
