"""Scoring by C kernels. Logits are fp32 on a CPU, and rows are contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from functools import lru_cache

import torch
from torch import Tensor

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.engines.base import EndRule, Mixing, Retrieved
from nearmt.engines.cpu import library
from nearmt.engines.cpu.library import address, loaded
from nearmt.engines.reference.scoring import ReferenceScoring
from nearmt.timing import timed


class CpuScoring(ReferenceScoring):
    """One kernel call per operation; each row is computed alike, whatever shares its batch."""

    def normalise(self, logits_BV: Tensor) -> Scores:
        return Scores(logits_BV, -log_sum_exp(logits_BV))

    def _mixed(self, scores: Scores, evidence: Evidence) -> Scores:
        logits_BV, (rows, vocabulary) = scores.logits_BV, scores.logits_BV.shape
        offset_B, share_B = scores.offset_B.clone(), evidence.share_B.float().contiguous()
        token_BK, weight_BK = evidence.token_BK.contiguous(), evidence.weight_BK.contiguous()
        loaded().mix(
            logits_BV.data_ptr(), logits_BV.stride(0), rows, vocabulary, address(token_BK), address(weight_BK),
            token_BK.shape[1], address(share_B), address(offset_B),
        )  # fmt: skip
        return Scores(logits_BV, offset_B)

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
        # The kernel knows one end and neighbours that stand for one entry each.
        if count_BK is not None or (rule is not None and len(ends) > 1):
            given = found, token_BK, count_BK, mixing, trust_B, rule, ends, agreement_BK
            return super().mix_neighbours(logits_BV, *given)
        (rows, vocabulary), k = logits_BV.shape, token_BK.shape[1]
        distance_BK, asked_B, token_BK = (
            found.distance_BK.contiguous(),
            found.asked_B.contiguous(),
            token_BK.contiguous(),
        )
        offset_B, scratch = torch.empty(rows), torch.empty(k)
        agreement_BK = None if agreement_BK is None else agreement_BK.contiguous()
        with timed("mix"):
            loaded().mix_neighbours(
                byref(_as_struct(mixing, rule, ends[0] if ends else -1)), logits_BV.data_ptr(), logits_BV.stride(0),
                rows, vocabulary, address(token_BK), address(distance_BK), address(agreement_BK), k, address(asked_B),
                address(trust_B), address(offset_B), address(scratch),
            )  # fmt: skip
        return Scores(logits_BV, offset_B)

    def best(self, scores: Scores, score_B: Tensor, slots: int, count: int) -> Tensor:
        logits_BV, (rows, vocabulary) = scores.logits_BV, scores.logits_BV.shape
        count, base_B = min(count, rows // slots * vocabulary), scores.offset_B + score_B
        found_S3K = torch.empty(slots, 3, count, dtype=torch.double)
        loaded().best(
            logits_BV.data_ptr(), logits_BV.stride(0), slots, rows // slots, vocabulary, address(base_B), count,
            address(found_S3K),
        )  # fmt: skip
        return found_S3K


def log_sum_exp(logits_BV: Tensor) -> Tensor:
    """log sum exp of each row, [B]."""
    rows, vocabulary = logits_BV.shape
    sum_B = torch.empty(rows)
    loaded().log_of_sum(logits_BV.data_ptr(), logits_BV.stride(0), rows, vocabulary, address(sum_B))
    return sum_B


@lru_cache(maxsize=64)
def _as_struct(mixing: Mixing, rule: EndRule | None, end: int) -> library.Mixing:
    """The settings as the kernel reads them."""
    radii = (0.0, 0.0, 0.0) if rule is None else (rule.search, rule.cache, rule.likely)
    return library.Mixing(
        weight=mixing.weight, temperature=mixing.temperature, cache_weight=mixing.cache_weight,
        cache_temperature=mixing.cache_temperature, search=int(Origin.SEARCH), end=-1 if rule is None else end,
        near=radii[0], cache_near=radii[1], likely=radii[2],
    )  # fmt: skip
