"""Nearest-neighbour indexes behind one contract: they nominate, they do not measure."""

from nearmt.index.exact import ExactIndex
from nearmt.index.subset import SubsetIndex
from nearmt.index.torch import TorchIndex

__all__ = ["ExactIndex", "SubsetIndex", "TorchIndex"]
