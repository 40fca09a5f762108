"""Nearest-neighbour indexes behind one contract: they nominate, they do not measure."""

from nearmt.index.exact import ExactIndex
from nearmt.index.shared import Quantiser, SharedIndex
from nearmt.index.subset import SubsetIndex
from nearmt.index.together import JoinedIndexes, nominate_together, remote_index

__all__ = [
    "ExactIndex",
    "JoinedIndexes",
    "Quantiser",
    "SharedIndex",
    "SubsetIndex",
    "nominate_together",
    "remote_index",
]
