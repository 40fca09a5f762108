"""Decoder states as keys: PCA coordinates, ordered by variance."""

from nearmt.reduction.pca import FittingSample, Reduction

__all__ = ["FittingSample", "Reduction"]
