"""Exact search by the kernel of linear layers: keys are its weights."""

from __future__ import annotations

from torch import Tensor

from nearmt.engines.cpu.linear import PackedLinear
from nearmt.engines.reference.exact_index import SMALL, TorchIndex


class CpuExactIndex(TorchIndex):
    """Results of a query do not depend on the others of its batch; torch rounds by the number of rows."""

    def __init__(self, key_ND: Tensor) -> None:
        super().__init__(key_ND)
        #: Packed blocks by their start, where there are few keys.
        self._packed: dict[int, PackedLinear] = {}

    def _squared(self, query_BD: Tensor, start: int) -> Tensor:
        squared_BN: Tensor = self._packed_block(start)(-2.0 * query_BD)
        return squared_BN

    def _packed_block(self, start: int) -> PackedLinear:
        """A block as weights, and squared lengths as biases."""
        if start in self._packed:
            return self._packed[start]
        block_ND = self._key_ND[start : start + self._block]
        packed = PackedLinear(block_ND, None, self._norm(start, block_ND))
        if len(self._key_ND) <= SMALL:
            self._packed[start] = packed
        return packed
