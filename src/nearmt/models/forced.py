"""Pairs as forced decoding takes them: arrays for all of them instead of lists for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearmt.models.codec import TextCodec
from nearmt.models.ragged import Ragged, ranges
from nearmt.models.words import stem_code, words_of


@dataclass(frozen=True)
class ForcedPairs:
    """Tokens of B pairs, and the words of their sources."""

    source: Ragged
    target: Ragged
    #: The word of every source token, -1 for one without text.
    number: Ragged
    #: The code of every word.
    code: Ragged

    @classmethod
    def of(cls, codec: TextCodec, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> ForcedPairs:
        words = [words_of(codec.source_subwords(source)) for source in sources]
        codes = [[stem_code(word) for word in of_source] for _, of_source in words]
        numbers = [number_S for number_S, _ in words]
        return cls(*map(Ragged.of, (sources, targets, numbers, codes)))

    @classmethod
    def joined(cls, parts: Sequence[ForcedPairs]) -> ForcedPairs:
        """The pairs of several, in their order."""
        rows = zip(*((part.source, part.target, part.number, part.code) for part in parts), strict=True)
        return cls(*map(Ragged.joined, rows))

    def take(self, row_B: np.ndarray) -> ForcedPairs:
        """Some pairs, in this order."""
        return ForcedPairs(*(part.take(row_B) for part in (self.source, self.target, self.number, self.code)))

    def fed(self, prompt: Sequence[int], padding: int) -> np.ndarray:
        """The decoder's input, [B, T]. The last target token is predicted, never fed."""
        target_BT = self.target.padded(padding)
        target_BT[np.arange(len(target_BT)), self.target.length_R - 1] = padding
        prompt_BP = np.broadcast_to(np.asarray(prompt, dtype=np.int64), (len(target_BT), len(prompt)))
        return np.concatenate([prompt_BP, target_BT[:, :-1]], axis=1)

    @property
    def number_BS(self) -> np.ndarray:
        return self.number.padded(-1)

    @property
    def code_BW(self) -> np.ndarray:
        return self.code.padded(0, least=1)

    def positions(self, prompt: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For every target token, [N]: the position that predicts it among all that are fed, B times `width`; that at
        which it is fed; and 0 for the last of a target, which is never fed, else 1."""
        length_B = self.target.length_R
        position_N = ranges(np.arange(len(length_B)) * width + prompt - 1, length_B)
        inner_N = np.ones(len(position_N), dtype=np.int64)
        inner_N[self.target.end_R - 1] = 0
        return position_N, position_N + inner_N, inner_N
