"""Every table and ablation of the paper, one function each."""
