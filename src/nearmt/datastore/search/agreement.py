"""Source agreement as it is used: the rule, and what it needs to know of sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from nearmt.engines.base import CONTESTED, KNOWN, AgreementRule, SentenceWords
from nearmt.models.words import CODES, SourceWords

#: Tuned on the open half of the experiment contrast and on dev sets (docs/log.md).
AGREEMENT = AgreementRule(window=4, paraphrase=0.2, contrast=0.5)
#: The closeness from which a source is a near match of a sentence, and from which paraphrases do not count.
NEAR_MATCH = (0.5, 0.7)
#: The closeness from which a source differs so little from a sentence that a word more or less is contested.
NEARLY_EQUAL = 0.9


def stacked(words: Sequence[SentenceWords]) -> SentenceWords:
    """What is known of the sentences of all of them, one after the other."""
    return SentenceWords(torch.cat([each.known_SX for each in words]), torch.cat([each.strict_S for each in words]))


def sentence_words(
    words: Sequence[SourceWords],
    closeness: Sequence[float],
    nearly_equal: Sequence[Sequence[Sequence[int]]],
    device: torch.device,
) -> SentenceWords:
    """What is known of sentences with these words, whose most similar sources are this close, and of which some are
    nearly equal (subword ids)."""
    known_SX = np.zeros((len(words), CODES), dtype=np.uint8)
    for known_X, mine, sources in zip(known_SX, words, nearly_equal, strict=True):
        known_X[list(mine.codes)] = KNOWN
        known_X[list(mine.contested(sources))] = CONTESTED
    strict_S = np.array([between(close, NEAR_MATCH) for close in closeness], dtype=np.float32)
    parts = (torch.from_numpy(part).to(device, non_blocking=True) for part in (known_SX, strict_S))
    return SentenceWords(*parts)


def between(value: float, bounds: tuple[float, float]) -> float:
    """0 up to the first bound, 1 from the second on, linear in between."""
    first, second = bounds
    return min(1.0, max(0.0, (value - first) / (second - first)))
