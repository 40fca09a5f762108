"""The one place that picks an engine: when a model or a store is opened, for each component."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.base import CentreSearch, Scoring
from nearmt.engines.cpu.entries import CpuEntryTable
from nearmt.engines.cpu.exact_index import CpuExactIndex
from nearmt.engines.cpu.library import kernels
from nearmt.engines.cpu.linear import PackedLinear
from nearmt.engines.cpu.lists import FloatCentres, InvertedLists, RoundedCentres
from nearmt.engines.cpu.nearest import KeyRows
from nearmt.engines.cpu.scoring import CpuScoring
from nearmt.engines.cuda.clusters import ClusterIndex
from nearmt.engines.cuda.entries import CudaEntryTable
from nearmt.engines.cuda.scoring import CudaScoring
from nearmt.engines.reference.clusters import TorchCentres, nearest_rounded_centre, rounded
from nearmt.engines.reference.entries import EntryTable
from nearmt.engines.reference.exact_index import TorchIndex
from nearmt.engines.reference.scoring import ReferenceScoring
from nearmt.threads import side_by_side

#: Entries on a GPU from which clusters are worth their making.
MANY = 1 << 18
# Keys that a kernel compares with centres at a time.
_TOGETHER = 8192


@cache
def has_triton(device: torch.device) -> bool:
    """Whether Triton kernels run there. Triton comes with PyTorch for Nvidia's GPUs."""
    return device.type == "cuda" and find_spec("triton") is not None


def has_kernels(device: torch.device) -> bool:
    """Whether C kernels run there."""
    return device.type == "cpu" and kernels() is not None


def scoring(device: torch.device) -> Scoring:
    """For logits on this device."""
    if has_kernels(device):
        return CpuScoring()
    return CudaScoring(device, has_triton(device)) if device.type == "cuda" else ReferenceScoring()


def entry_table(
    keys: Sequence[Tensor], token_N: Tensor, end_P: Tensor, weight_N: Tensor | None, word_N: Tensor | None = None
) -> EntryTable:
    """For entries on the device of their tokens."""
    table = EntryTable
    if has_kernels(token_N.device) and KeyRows.fits(keys):
        table = CpuEntryTable
    elif has_triton(token_N.device) and keys:
        table = CudaEntryTable
    return table(keys, token_N, end_P, weight_N, word_N)


def exact_index(key_ND: Tensor) -> TorchIndex:
    """Compares queries with every key."""
    return CpuExactIndex(key_ND) if has_kernels(key_ND.device) else TorchIndex(key_ND)


def memory_index(key_ND: Tensor, tune: Callable[[ClusterIndex], None]) -> TorchIndex | ClusterIndex:
    """An index that needs no files: exact, or on a GPU in clusters where there are many keys."""
    if len(key_ND) >= MANY and has_triton(key_ND.device):
        return ClusterIndex(key_ND, tune)
    return exact_index(key_ND)


def centre_search(centre_CD: Tensor, whole_numbers: bool) -> CentreSearch:
    """The nearest of these centres, on a CPU; `whole_numbers` says that queries are rounded to 8 bits."""
    if kernels() is None or (whole_numbers and centre_CD.shape[1] % 4):
        return TorchCentres(centre_CD, whole_numbers)
    return RoundedCentres(rounded(centre_CD)) if whole_numbers else FloatCentres(centre_CD)


def inverted_lists(
    codes: Callable[[], Sequence[np.ndarray]], entries: Callable[[], Sequence[np.ndarray]], columns: int
) -> InvertedLists | None:
    """Lists of 8-bit codes as kernels scan them; None where there are no kernels."""
    return None if kernels() is None else InvertedLists(codes(), entries(), columns)


def join_lists(lists: Sequence[InvertedLists], starts: Sequence[int]) -> InvertedLists:
    """The lists of several segments as one; `starts` are the numbers of their first entries."""
    return InvertedLists.joined(lists, starts)


def assign_rounded(key_XD: Tensor, centre_CD: Tensor) -> Tensor:
    """The cluster of each key, [X], by 8-bit numbers as searches compare them."""
    if kernels() is None or key_XD.shape[1] % 4:
        return nearest_rounded_centre(key_XD, centre_CD)
    centres = RoundedCentres(rounded(centre_CD))
    found = dict(side_by_side([partial(centres.nearest, part, 1) for part in key_XD.split(_TOGETHER)]))
    return torch.cat([found[number][1][:, 0] for number in range(len(found))])


def affine(weight_OI: Tensor, bias_O: Tensor) -> Callable[[Tensor], Tensor]:
    """x W^T + b in fp32, for a few rows at a time."""
    if has_kernels(weight_OI.device):
        return PackedLinear(weight_OI, None, bias_O).forward  # without what torch does around modules
    return partial(_addmm, bias_O, weight_OI.T)


def _addmm(bias_O: Tensor, weight_IO: Tensor, row_BI: Tensor) -> Tensor:
    return torch.addmm(bias_O, row_BI, weight_IO)
