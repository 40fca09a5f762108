"""Source words as codes, by which the sources of stored pairs and of new sentences are compared.

A word has a stem and several forms. A stored word is taken to occur in a sentence if its stem is a form of one of the
sentence's words: mostly true of inflected forms, and false of other words. Words with digits have no other forms.
Codes are hashes of 16 bits: of 65,535 other words, one has the same code.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from nearmt.models.codec import TextCodec

#: Codes are from 1 to CODES - 1; 0 stands for no word.
CODES = 1 << 16
# A stem has at most this many letters, and at least this many where the word has more.
_LONGEST, _SHORTEST = 6, 4
# Letters of an ending that a stem leaves out, and that a form may lack.
_ENDING, _LONGER_ENDING = 2, 3
# Subwords of a word or two.
_FEW_SUBWORDS = 4
# Scripts without blanks between words: a subword is a word.
_UNDIVIDED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff]")


def words_of(subwords: Sequence[str]) -> tuple[list[int], list[str]]:
    """The word of every subword (-1 for one without text), and the words in lower case.

    Subwords have blanks where words begin or end, as `TextCodec.source_subwords` gives them. Punctuation is a word.
    """
    number_S: list[int] = []
    words: list[str] = []
    continues = False
    for text, joins, begins, ends in map(_looked_at, subwords):
        if not text:
            number_S.append(-1)
            continues = continues and not begins
            continue
        if continues and joins and not begins:
            words[-1] += text
        else:
            words.append(text)
        number_S.append(len(words) - 1)
        continues = joins and not ends
    return number_S, words


@lru_cache(maxsize=1 << 16)
def _looked_at(subword: str) -> tuple[str, bool, bool, bool]:
    """Its text, whether it may be a part of a word, and whether it has a blank at its beginning and end."""
    text = subword.strip().lower()
    joins = any(map(str.isalnum, text)) and not _UNDIVIDED.search(text)
    return text, joins, subword[:1].isspace(), subword[-1:].isspace()


@lru_cache(maxsize=1 << 16)
def stem_code(word: str) -> int:
    """The code of the stem of a word in lower case."""
    length = len(word)
    if length > _SHORTEST and word.isalpha():
        word = word[: max(_SHORTEST, min(_LONGEST, length - _ENDING))]
    return _code(word)


@lru_cache(maxsize=1 << 14)
def form_codes(word: str) -> frozenset[int]:
    """The codes of the forms of a word in lower case."""
    codes = {_code(word), stem_code(word)}
    if word.isalpha():
        shortest = max(_SHORTEST, len(word) - _LONGER_ENDING)
        codes.update(_code(word[:end]) for end in range(shortest, min(_LONGEST, len(word)) + 1))
    return frozenset(codes)


@dataclass(frozen=True)
class SourceWords:
    """The words of a source, to be compared with those of stored sources."""

    #: Subword ids, and the word of each (-1 for one without text).
    source: tuple[int, ...]
    number_S: list[int]
    words: list[str]
    codec: TextCodec = field(compare=False, repr=False)

    @classmethod
    def of(cls, codec: TextCodec, source: Sequence[int]) -> SourceWords:
        return cls(tuple(source), *words_of(codec.source_subwords(source)), codec)

    def like(self, source: Sequence[int]) -> SourceWords:
        """The words of another source of the same model."""
        return SourceWords.of(self.codec, source)

    @cached_property
    def codes(self) -> frozenset[int]:
        """The codes of all forms of all words."""
        return self._codes_of(range(len(self.words)))

    @cached_property
    def _stems(self) -> list[int]:
        """The codes of the stems of all words but punctuation."""
        return [stem_code(word) for word in self.words if any(map(str.isalnum, word))]

    @property
    def count(self) -> int:
        """The number of words, without punctuation."""
        return len(self._stems)

    def differing(self, other: SourceWords) -> int:
        """The number of words that another source has in no form, or of words of it that this one has in none: the
        greater of both."""
        return max(sum(stem not in b.codes for stem in a._stems) for a, b in ((self, other), (other, self)))

    def contested(self, nearly_equal: Sequence[Sequence[int]]) -> frozenset[int]:
        """The codes of words next to a word or two that the first of these sources (subword ids) lacks, or has in
        addition.

        More than that, or what does not follow a word, is a clause that changes little of what the rest says. Where the
        source has other words, its neighbours disagree (`codes`). Words that another of the sources has are not
        lacking.
        """
        if not nearly_equal:
            return frozenset()
        first, others = nearly_equal[0], frozenset().union(*nearly_equal[1:])
        found: set[int] = set()
        for kind, there, behind, start, end in SequenceMatcher(None, first, self.source, autojunk=False).get_opcodes():
            if kind not in ("insert", "delete") or max(behind - there, end - start) > _FEW_SUBWORDS:
                continue
            begins = kind == "insert" and not start and all(map(self._in_word, range(end)))
            told = kind == "insert" and others.issuperset(self.source[start:end])
            if (begins or self._in_word(start - 1)) and not told:
                found.update(self._next_to(start, end))
        return self._codes_of(found)

    def _in_word(self, position: int) -> bool:
        """Whether a subword belongs to a word that is no punctuation."""
        number = self.number_S[position] if 0 <= position < len(self.number_S) else -1
        return number >= 0 and any(map(str.isalnum, self.words[number]))

    def _next_to(self, start: int, end: int) -> Iterator[int]:
        """The words before and behind these subwords; punctuation is passed over."""
        inside = set(self.number_S[start:end])
        for positions in (range(start - 1, -1, -1), range(end, len(self.source))):
            adjacent = (self.number_S[at] for at in positions if self._in_word(at) and self.number_S[at] not in inside)
            yield from islice(adjacent, 1)

    def _codes_of(self, numbers: Iterable[int]) -> frozenset[int]:
        return frozenset().union(*(form_codes(self.words[number]) for number in numbers))


def aligned_codes(weight_BTS: Tensor, number_BS: Tensor, code_BW: Tensor) -> Tensor:
    """The code of the source word that every position is aligned with, [B, T].

    `weight_BTS` is its attention to the source's subwords, `number_BS` the word of each (-1 for one without text),
    `code_BW` the code of each word: a position is aligned with the word whose subwords get most of it. Subwords without
    text get much attention that means nothing. The sums of a sentence do not depend on its batch.
    """
    words = code_BW.shape[1]
    number_BTS = torch.where(number_BS < 0, words, number_BS)[:, None].expand_as(weight_BTS)
    total_BTW = weight_BTS.new_zeros(*weight_BTS.shape[:2], words + 1).scatter_add_(2, number_BTS, weight_BTS)
    return code_BW.gather(1, total_BTW[:, :, :words].argmax(dim=2))


def _code(text: str) -> int:
    return zlib.crc32(text.encode()) % (CODES - 1) + 1
