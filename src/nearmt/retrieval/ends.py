"""Where a sentence ends: what neighbours say of it counts if they are near, or the model thinks it likely as well.

A neighbour that is not near knows that a sentence like this one ended, not that this one has been said to its end.
With all of them translations become too short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nearmt.contracts import Evidence, Origin, Scores
from nearmt.retrieval.retriever import Retrieved

#: How near that is, in units of the store's typical distance (not squared). Pairs of the store find themselves so.
NEAR_SHARE = 0.5
#: A model that gives an end this probability may be helped by all.
LIKELY = 0.1


@dataclass(frozen=True)
class NearEnds:
    """How far neighbours may be to end a sentence, in the distances of each kind of step. Farther ones leave their
    share of lambda to the model, where it does not think an end likely."""

    search: float
    cache: float
    likely: float = LIKELY

    def leave(self, evidence: Evidence, found: Retrieved, scores: Scores, ends: Sequence[int]) -> None:
        """Take what is the model's from the evidence; `ends` are the tokens that end a sentence."""
        end_B1 = (scores.logits_BV[:, list(ends)] + scores.offset_B[:, None]).exp().sum(dim=1, keepdim=True)
        within_B1 = torch.where(found.asked_B == int(Origin.SEARCH), self.search, self.cache)[:, None]
        ends_BK = torch.stack([evidence.token_BK == token for token in ends]).any(dim=0)
        leaving_BK = ends_BK & (found.distance_BK > within_B1) & (end_B1 < self.likely) & (evidence.weight_BK > 0)
        kept_BK = evidence.weight_BK.masked_fill(leaving_BK, 0.0)
        kept_B = kept_BK.sum(dim=1).clamp(max=1.0)  # sums are rounded
        # Where nobody leaves all stays exactly as it is.
        kept_B = torch.where(leaving_BK.any(dim=1), kept_B, 1.0)
        evidence.weight_BK = kept_BK / torch.where(kept_B > 0, kept_B, 1.0)[:, None]
        evidence.share_B = evidence.share_B * kept_B
