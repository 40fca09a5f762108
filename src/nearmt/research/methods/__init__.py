"""Systems that the paper compares with, others of the field, and the paper's own caches: for experiments."""
