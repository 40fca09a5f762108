"""Source agreement: a neighbour is evidence for a word only where the sentence has the word that it translates."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.engines.base import CONTESTED, KNOWN, TERM, AgreementRule, SentenceWords


def agreement(word_N: Tensor, entry_BK: Tensor, words: SentenceWords, rule: AgreementRule) -> Tensor:
    """The share of its weight that each neighbour (-1: none) keeps, [B, K].

    `word_N` has the code (16 bits) of the source word of each entry, 0 for the last entry of a pair. With the share s
    of nearby words that the sentence has, a neighbour whose word it does not have is a paraphrase to the degree
    r = (contrast - s) / (contrast - paraphrase), between 0 and 1, times 1 - near, and keeps 1 - a (1 - r) with
    a = strength (elsewhere + (1 - elsewhere) near). Entries nearby that are aligned with the same word do not count;
    without others, s is 1. A neighbour whose word is contested keeps nothing. Of what they keep, neighbours whose word
    is not a term have the share `trust`.
    """
    known_SX = words.known_SX
    if not len(word_N):
        return torch.ones(entry_BK.shape, device=entry_BK.device)
    slot_B = torch.arange(len(entry_BK), device=entry_BK.device) // (len(entry_BK) // len(known_SX))
    word_BK = _codes(word_N, entry_BK.clamp(min=0))
    status_BK = known_SX[slot_B[:, None], word_BK]
    agrees_BK = (status_BK == KNOWN) | (status_BK == TERM) | (word_BK == 0)
    nearby_BKW = _words_nearby(word_N, entry_BK, rule.window)
    counts_BKW = (nearby_BKW != 0) & (nearby_BKW != word_BK[:, :, None])
    known_BKW = (known_SX[slot_B[:, None, None], nearby_BKW] != 0) & counts_BKW
    total_BK = counts_BKW.sum(dim=2)
    share_BK = torch.where(total_BK > 0, known_BKW.sum(dim=2) / total_BK, 1.0)
    near_B1 = words.near_S[slot_B][:, None]
    applied_B1 = rule.strength * (rule.elsewhere + (1.0 - rule.elsewhere) * near_B1)
    paraphrase_BK = ((rule.contrast - share_BK) / (rule.contrast - rule.paraphrase)).clamp(0.0, 1.0)
    disagreeing_BK = 1.0 - applied_B1 * (1.0 - paraphrase_BK * (1.0 - near_B1))
    kept_BK = torch.where(agrees_BK, 1.0, torch.where(status_BK == CONTESTED, 0.0, disagreeing_BK))
    trusted_BK = torch.where(status_BK == TERM, 1.0, words.trust_S[slot_B][:, None])
    return torch.where(entry_BK < 0, 1.0, kept_BK * trusted_BK)


def _codes(word_N: Tensor, entry: Tensor) -> Tensor:
    """Codes are unsigned; torch indexes signed numbers."""
    return word_N[entry].long() & 0xFFFF


def _words_nearby(word_N: Tensor, entry_BK: Tensor, window: int) -> Tensor:
    """The words of the entries around each entry, up to the ends of its pair and 0 beyond, [B, K, 2 * window]."""
    step_W = torch.arange(1, window + 1, device=entry_BK.device)
    sides = []
    for step in (-step_W, step_W):
        at_BKW = entry_BK[:, :, None] + step
        inside_BKW = (at_BKW >= 0) & (at_BKW < len(word_N))
        word_BKW = torch.where(inside_BKW, _codes(word_N, at_BKW.clamp(0, len(word_N) - 1)), 0)
        sides.append(word_BKW * (word_BKW != 0).cumprod(dim=2))
    return torch.cat(sides, dim=2)
