"""Training: fine-tuning of models, and the network of Adaptive kNN-MT."""
