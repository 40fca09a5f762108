"""The engines as parameters of tests: every operation of every engine is compared with the same expected results.

Without a GPU, the Triton kernels of the `cuda` engine run in their interpreter, on CPU tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import pytest
import torch
from torch import Tensor

from nearmt.engines.base import Scoring
from nearmt.engines.cpu.entries import CpuEntryTable
from nearmt.engines.cpu.scoring import CpuScoring
from nearmt.engines.cuda.entries import CudaEntryTable
from nearmt.engines.cuda.scoring import CudaScoring
from nearmt.engines.reference.entries import EntryTable
from nearmt.engines.reference.scoring import ReferenceScoring
from tests.kernels import needs_kernels

CPU = torch.device("cpu")
GPU = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class Engine:
    """One engine: its entry table, and the device it is tested on."""

    name: str
    device: torch.device
    table: type[EntryTable]

    def scoring(self) -> Scoring:
        """The scoring of a request that never ends."""
        if self.name == "cuda":
            return CudaScoring(self.device, triton=True).lease(self)
        return CpuScoring() if self.name == "cpu" else ReferenceScoring()

    def entries(
        self,
        keys: Sequence[Tensor],
        token_N: Tensor,
        ends: Sequence[int],
        weight_N: Tensor | None = None,
        word_N: Tensor | None = None,
    ) -> EntryTable:
        """A table of these segments of keys, which become fp16."""
        end_P = torch.tensor(ends, dtype=torch.long, device=self.device)
        optional = [None if part is None else part.to(self.device) for part in (weight_N, word_N)]
        keys = [key_ND.to(self.device, torch.float16) for key_ND in keys]
        return self.table(keys, self.to(token_N), end_P, *optional)

    def to(self, tensor: Tensor) -> Tensor:
        """A copy on the engine's device."""
        return tensor.to(self.device, copy=True)


REFERENCE = Engine("reference", CPU, EntryTable)
WITH_KERNELS = Engine("cpu", CPU, CpuEntryTable)
WITH_TRITON = Engine("cuda", GPU, CudaEntryTable)

every_engine = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(REFERENCE, id="reference"),
        pytest.param(WITH_KERNELS, id="cpu", marks=needs_kernels),
        # The interpreter computes with numpy, which warns where log 0 is meant; a GPU does not.
        pytest.param(WITH_TRITON, id="cuda", marks=pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.*")),
    ],
)


def ends_of(lengths: Sequence[int]) -> list[int]:
    """Where pairs of these lengths end."""
    return list(accumulate(lengths))
