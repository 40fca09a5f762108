"""Nearest-neighbour indexes behind one contract: they nominate, they do not measure."""

from nearmt.index.exact import ExactIndex
from nearmt.index.pieces import PieceIndex
from nearmt.index.shared import Quantiser, SharedIndex
from nearmt.index.subset import SubsetIndex
from nearmt.index.together import nominate_together
from nearmt.index.torch import TorchIndex

__all__ = ["ExactIndex", "PieceIndex", "Quantiser", "SharedIndex", "SubsetIndex", "TorchIndex", "nominate_together"]
