"""Scoring on a GPU: one Triton kernel mixes, a CUDA graph picks the best continuations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.contracts import Origin, Scores
from nearmt.engines.base import EndRule, Mixing, Retrieved
from nearmt.engines.cuda.graphs import GraphRunner, Pool
from nearmt.engines.cuda.sizes import power_of_two
from nearmt.engines.reference.scoring import ReferenceScoring, best_candidates, top_by_blocks
from nearmt.timing import timed

# Logits that a program of the kernel reads at a time, and its warps.
_BLOCK, _WARPS = 4096, 16


class CudaScoring(ReferenceScoring):
    """Does not synchronise with the host. `triton` is False where PyTorch came without it."""

    def __init__(self, device: torch.device, triton: bool) -> None:
        self._device, self._triton = device, triton
        self._runners = Pool[GraphRunner]()
        self._graphs: GraphRunner | None = None

    def lease(self, owner: object) -> CudaScoring:
        leased = CudaScoring(self._device, self._triton)
        leased._graphs = self._runners.take(owner, lambda: GraphRunner(self._device))
        return leased

    def _any(self, mask_B: Tensor) -> bool:
        return True  # an unneeded pass is cheaper than to wait for the answer

    def mix_neighbours(
        self,
        logits_BV: Tensor,
        found: Retrieved,
        token_BK: Tensor,
        count_BK: Tensor | None,
        mixing: Mixing,
        trust_B: Tensor | None = None,
        rule: EndRule | None = None,
        ends: Sequence[int] = (),
        agreement_BK: Tensor | None = None,
    ) -> Scores:
        # The kernel knows one end.
        neighbours = logits_BV, found, token_BK, count_BK
        if not self._triton or (rule is not None and len(ends) > 1):
            return super().mix_neighbours(*neighbours, mixing, trust_B, rule, ends, agreement_BK)
        return mix_neighbours(*neighbours, mixing, trust_B, rule, ends[0] if ends else -1, agreement_BK)

    def best(self, scores: Scores, score_B: Tensor, slots: int, count: int) -> Tensor:
        assert self._graphs is not None  # leased
        each = len(score_B) // slots

        def best(logits_BV: Tensor, offset_B: Tensor, score_B: Tensor) -> tuple[Tensor, ...]:
            found = best_candidates(Scores(logits_BV, offset_B), score_B, len(score_B) // each, count, top_by_blocks)
            return (torch.stack([part_SK.double() for part_SK in found], dim=1),)

        inputs = scores.logits_BV, scores.offset_B, score_B
        return self._graphs(("best", each, count), best, *inputs, slots=slots)[0]


def mix_neighbours(
    logits_BV: Tensor,
    found: Retrieved,
    token_BK: Tensor,
    count_BK: Tensor | None,
    mixing: Mixing,
    trust_B: Tensor | None,
    rule: EndRule | None,
    end: int,
    agreement_BK: Tensor | None,
) -> Scores:
    """Launch the kernel."""
    from nearmt.engines.cuda.step_kernels import mix

    (rows, k), vocabulary = token_BK.shape, logits_BV.shape[1]
    offset_B = torch.empty(rows, device=logits_BV.device)
    ending = (-1, 0.0, 0.0, 0.0) if rule is None else (end, rule.search, rule.cache, rule.likely)
    # A kernel takes no None: any tensor stands for what it does not read.
    with timed("mix"):
        mix[(rows,)](
            logits_BV, logits_BV.stride(0), token_BK.contiguous(), found.distance_BK.contiguous(), found.asked_B,
            offset_B if count_BK is None else count_BK.contiguous(),
            offset_B if agreement_BK is None else agreement_BK.contiguous(), offset_B if trust_B is None else trust_B,
            offset_B, k, vocabulary,
            mixing.weight, mixing.temperature, mixing.cache_weight, mixing.cache_temperature, *ending,
            SEARCH=int(Origin.SEARCH), WEIGHTED=count_BK is not None, AGREEING=agreement_BK is not None,
            GUARDED=trust_B is not None, POSITIONS=power_of_two(k), BLOCK=_BLOCK, num_warps=_WARPS,
        )  # fmt: skip
    return Scores(logits_BV, offset_B)
