"""Systems that are trained: the fine-tuned model, and the network of Adaptive kNN-MT."""
