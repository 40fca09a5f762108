"""Source agreement as it is used: the rule, and what it needs to know of sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch

from nearmt.contracts import CloseSource
from nearmt.engines.base import CONTESTED, KNOWN, TERM, AgreementRule, SentenceWords
from nearmt.models.words import CODES, SourceWords

#: Tuned on the open half of the experiment contrast and on dev sets (docs/log.md).
AGREEMENT = AgreementRule(window=4, paraphrase=0.2, contrast=0.5, elsewhere=1 / 3)
#: What a source has at least in common with a sentence to be its near match.
CLOSE = 0.5
# The share of a sentence's words in which a near match may differ from it: one word of three to five, at most two.
# Sources that differ in twice as many words are no near matches.
_SHORT, _LONG, _MOST = 1 / 3, 0.2, 2.0
#: What a source has in common with a sentence from which it differs so little that a word more or less is contested.
NEARLY_EQUAL = 0.9


def stacked(words: Sequence[SentenceWords]) -> SentenceWords:
    """What is known of the sentences of all of them, one after the other."""
    parts = zip(*((each.known_SX, each.near_S, each.trust_S) for each in words), strict=True)
    return SentenceWords(*map(torch.cat, parts))


class SlotWords:
    """What is known of the sentences in the slots: between two steps, few of many slots are refilled."""

    def __init__(self) -> None:
        self._sentences: list[int] = []
        self._words: SentenceWords | None = None

    def of(self, sentences: Sequence[int], words_of: Mapping[int, SentenceWords]) -> SentenceWords:
        """What is known of these sentences. The next call overwrites it."""
        if self._words is None or len(sentences) != len(self._sentences):
            self._words = stacked([words_of[sentence] for sentence in sentences])
        else:
            for slot, (sentence, before) in enumerate(zip(sentences, self._sentences, strict=True)):
                if sentence != before:
                    self._words.put(slot, words_of[sentence])
        self._sentences = list(sentences)
        return self._words


def sentence_words(
    words: Sequence[SourceWords],
    close: Sequence[Sequence[CloseSource]],
    device: torch.device,
    terms: Mapping[int, tuple[float, Iterable[int]]] | None = None,
) -> SentenceWords:
    """What is known of sentences with these words, which have much in common with some stored sources, the most
    similar first. `terms`, by sentence: what the guard leaves of other neighbours, and the codes of words that count in
    spite of it."""
    known_SX = np.zeros((len(words), CODES), dtype=np.uint8)
    trust = [1.0] * len(words)
    for slot, (known_X, mine, sources) in enumerate(zip(known_SX, words, close, strict=True)):
        known_X[list(mine.codes)] = KNOWN
        if terms and slot in terms:
            trust[slot], codes = terms[slot]
            known_X[list(codes)] = TERM
        known_X[list(mine.contested([each.ids for each in sources if each.share >= NEARLY_EQUAL]))] = CONTESTED
    near = [
        nearness(mine, (mine.like(each.ids) for each in sources)) for mine, sources in zip(words, close, strict=True)
    ]
    parts = (torch.tensor(part, dtype=torch.float32) for part in (near, trust))
    return SentenceWords(torch.from_numpy(known_SX), *parts).to(device)


def nearness(words: SourceWords, sources: Iterable[SourceWords]) -> float:
    """1 if one of some sources differs from a sentence in a word or two, 0 if all differ in more than twice as many."""
    few = min(_MOST, max(_LONG * words.count, min(1.0, _SHORT * words.count)))
    if not few:  # nothing but punctuation
        return 0.0
    return max((1.0 - between(words.differing(each), (few, 2 * few)) for each in sources), default=0.0)


def between(value: float, bounds: tuple[float, float]) -> float:
    """0 up to the first bound, 1 from the second on, linear in between."""
    first, second = bounds
    return min(1.0, max(0.0, (value - first) / (second - first)))
