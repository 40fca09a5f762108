"""The neighbours' distribution, its mixture with the model's, the rule for ends and the best continuations.

Equations 2 and 3 of the paper and the rule for ends are stated here; other engines are compared with this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.engines.base import EndRule, Mixing, Retrieved
from nearmt.threads import scripted
from nearmt.timing import timed

# Tokens per block: the best tokens lie in the blocks with the best maxima.
_BLOCK = 64
# Blocks per wanted candidate below which one plain top-k is faster.
_MANY = 4


def neighbour_weights(distance_BK: Tensor, temperature: float | Tensor, count_BK: Tensor | None = None) -> Tensor:
    """Each neighbour's share of p_kNN: n_j exp(-d_j / T) / sum_i n_i exp(-d_i / T), equation 2.

    n is 1 unless a neighbour stands for several entries. A neighbour at infinite distance is padding; a row of
    padding has only zeros.
    """
    score_BK = -distance_BK / temperature
    if count_BK is not None:
        score_BK = score_BK + count_BK.log()
    weight_BK = torch.softmax(score_BK, dim=-1)
    return torch.where(torch.isinf(distance_BK), 0.0, weight_BK)


def evidence_of(found: Retrieved, token_BK: Tensor, count_BK: Tensor | None, mixing: Mixing) -> Evidence:
    """The neighbours' distribution under constant weights and temperatures."""
    searched_B = found.origin_B == int(Origin.SEARCH)
    temperature_B1 = torch.where(searched_B, mixing.temperature, mixing.cache_temperature)[:, None]
    share_B = torch.where(searched_B, mixing.weight, mixing.cache_weight)
    return Evidence(
        origin_B=found.origin_B,
        entry_BK=found.entry_BK,
        token_BK=token_BK,
        weight_BK=neighbour_weights(found.distance_BK, temperature_B1, count_BK),
        share_B=torch.where(found.origin_B == int(Origin.MODEL), 0.0, share_B),
    )


def apply_agreement(evidence: Evidence, agreement_BK: Tensor) -> None:
    """Let neighbours keep these shares of their weights; the rest goes to the model. `evidence` changes in place."""
    evidence.silenced_BK = evidence.weight_BK * (1 - agreement_BK)
    _keep(evidence, evidence.weight_BK * agreement_BK, (evidence.silenced_BK > 0).any(dim=1))


def apply_end_rule(evidence: Evidence, found: Retrieved, scores: Scores, rule: EndRule, ends: Sequence[int]) -> None:
    """Give the shares of neighbours that may not end the sentence to the model; `evidence` changes in place."""
    end_B1 = (scores.logits_BV[:, list(ends)] + scores.offset_B[:, None]).exp().sum(dim=1, keepdim=True)
    radius_B1 = torch.where(found.asked_B == int(Origin.SEARCH), rule.search, rule.cache)[:, None]
    ends_BK = torch.stack([evidence.token_BK == token for token in ends]).any(dim=0)
    dropped_BK = ends_BK & (found.distance_BK > radius_B1) & (end_B1 < rule.likely) & (evidence.weight_BK > 0)
    _keep(evidence, evidence.weight_BK.masked_fill(dropped_BK, 0.0), dropped_BK.any(dim=1))


def _keep(evidence: Evidence, kept_BK: Tensor, changed_B: Tensor) -> None:
    """Give what these weights lack of 1 to the model. Rows that did not change stay exactly as they are."""
    kept_B = torch.where(changed_B, kept_BK.sum(dim=1).clamp(max=1.0), 1.0)  # sums are rounded
    evidence.weight_BK = kept_BK / torch.where(kept_B > 0, kept_B, 1.0)[:, None]
    evidence.share_B = evidence.share_B * kept_B


class ReferenceScoring:
    """Scoring in torch, on any device."""

    def lease(self, owner: object) -> ReferenceScoring:
        return self

    def normalise(self, logits_BV: Tensor) -> Scores:
        # In one pass, as `generate()` does it; the logarithm of the sum alone takes twice as long.
        return Scores(logits_BV.log_softmax(dim=1), logits_BV.new_zeros(len(logits_BV)))

    def mix(self, scores: Scores, evidence: Evidence) -> Scores:
        """log((1 - lambda) p_NMT + lambda p_kNN), equation 3, with a lambda per row; the logits change in place.

        Only the neighbours' K tokens are touched, in log space: a weight of 0 leaves the model's numbers exactly as
        they are, and nothing of the size of the vocabulary is allocated.
        """
        with timed("mix"):
            return self._mixed(scores, evidence)

    def _mixed(self, scores: Scores, evidence: Evidence) -> Scores:
        logits_BV, token_BK, share_B = scores.logits_BV, evidence.token_BK, evidence.share_B
        # p_kNN of each neighbour's token: neighbours with the same token add up.
        same_BKK = token_BK[:, :, None] == token_BK[:, None, :]
        probability_BK = (same_BKK * evidence.weight_BK[:, None, :]).sum(dim=-1)
        offset_B = scores.offset_B + torch.log1p(-share_B)
        whole_B = share_B == 1
        if self._any(whole_B):
            # Nothing is left to the model: log 0, which no finite offset can express.
            logits_BV.masked_fill_(whole_B[:, None], -torch.inf)
            offset_B = offset_B.masked_fill(whole_B, 0.0)
        added_BK = torch.log(share_B[:, None] * probability_BK) - offset_B[:, None]
        logits_BV.scatter_(1, token_BK, torch.logaddexp(logits_BV.gather(1, token_BK), added_BK))
        return Scores(logits_BV, offset_B)

    def _any(self, mask_B: Tensor) -> bool:
        """Whether some row is set; an engine may answer yes unseen."""
        return bool(mask_B.any())

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
        scores = self.normalise(logits_BV)
        evidence = evidence_of(found, token_BK, count_BK, mixing)
        if trust_B is not None:
            evidence.share_B = evidence.share_B * trust_B
        if agreement_BK is not None:
            apply_agreement(evidence, agreement_BK)
        if rule is not None and ends:
            apply_end_rule(evidence, found, scores, rule, ends)
        return self.mix(scores, evidence)

    def best(self, scores: Scores, score_B: Tensor, slots: int, count: int) -> Tensor:
        found = best_candidates(scores, score_B, slots, count, _scripted_by_blocks)
        # Doubles hold scores, rows and tokens exactly: one tensor, one transfer to the host.
        return torch.stack([part_SK.double() for part_SK in found], dim=1)


ByBlocks = Callable[[Tensor, Tensor, int, int, int], tuple[Tensor, Tensor]]


def best_candidates(
    scores: Scores, score_B: Tensor, slots: int, count: int, by_blocks: ByBlocks
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, rows and tokens of the best continuations of each slot, [S, count or as many as exist]."""
    rows, vocabulary = scores.logits_BV.shape
    base_B = scores.offset_B + score_B
    count = min(count, rows // slots * vocabulary)
    if rows // slots * (vocabulary // _BLOCK) < _MANY * count:
        total_SX = (scores.logits_BV + base_B[:, None]).view(slots, -1)
        score_SK, position_SK = total_SX.topk(count)
    else:
        score_SK, position_SK = by_blocks(scores.logits_BV, base_B, slots, count, _BLOCK)
    row_SK = position_SK // vocabulary
    first_S1 = torch.arange(0, rows, rows // slots, device=row_SK.device)[:, None]
    return score_SK, row_SK + first_S1, position_SK - row_SK * vocabulary


def top_by_blocks(logits_BV: Tensor, base_B: Tensor, slots: int, count: int, size: int) -> tuple[Tensor, Tensor]:
    """Top-k over all tokens of a slot's rows, [S, count]: values, and positions row * V + token.

    Adding and rounding keep the order of numbers, so no token beats the maximum of its block of `size`. Tokens behind
    the last whole block take part one by one.
    """
    rows, vocabulary = logits_BV.size(0), logits_BV.size(1)
    each, blocks = rows // slots, vocabulary // size
    whole_RGX: Tensor = logits_BV[:, : blocks * size].unflatten(1, (blocks, size))
    maximum_SG = (whole_RGX.amax(dim=2) + base_B[:, None]).view(slots, each * blocks)
    block_SK = maximum_SG.topk(count, sorted=False)[1]
    device = logits_BV.device
    first_SK1 = torch.arange(0, rows, each, device=device)[:, None]
    row_SK, inner_SK = block_SK // blocks + first_SK1, block_SK % blocks
    value_SX = (whole_RGX[row_SK, inner_SK] + base_B[row_SK][:, :, None]).flatten(1)
    position_SK1 = (block_SK // blocks * vocabulary + inner_SK * size)[:, :, None]
    position_SX = (position_SK1 + torch.arange(size, device=device)).flatten(1)
    if blocks * size < vocabulary:
        rest_SX = (logits_BV[:, blocks * size :] + base_B[:, None]).reshape(slots, -1)
        rest_X = torch.arange(blocks * size, vocabulary, device=device)
        rest_RX = torch.arange(each, device=device)[:, None] * vocabulary + rest_X
        value_SX = torch.cat([value_SX, rest_SX], dim=1)
        position_SX = torch.cat([position_SX, rest_RX.flatten().expand(slots, -1)], dim=1)
    value_SK, order_SK = value_SX.topk(count)
    return value_SK, position_SX.gather(1, order_SK)


_scripted_by_blocks: ByBlocks = scripted(top_by_blocks)
