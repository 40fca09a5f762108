"""Word alignment by the model's attention."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nearmt.timing import timed

if TYPE_CHECKING:
    from nearmt.models import TranslationModel

#: Character offsets, end exclusive.
Span = tuple[int, int]

#: A run of letters and digits, or a single other character.
WORD = re.compile(r"\w+|[^\w\s]")
_BATCH = 16
# How many characters a tokenizer may skip before the next subword, and how many more for each subword before it that is
# not found in the text (unknown characters, escapes).
_NEAR, _FURTHER = 4, 16
# Subwords such as `).` hold several words: of two with the same attention, take the identical word.
_SAME_WORD = 1.01


@dataclass(frozen=True)
class Link:
    """A span of the source and the aligned span of the target (character offsets, end exclusive)."""

    source: Span
    target: Span


@dataclass(frozen=True)
class _Side:
    """The source or the target of a pair."""

    text: str
    ids: list[int]
    #: Of each token; empty for tokens without text (tags, end of sentence).
    subwords: list[str]

    @cached_property
    def words(self) -> list[Span]:
        return [match.span() for match in WORD.finditer(self.text)]

    @cached_property
    def positions(self) -> list[int]:
        """Indices of the tokens that have text."""
        return [position for position, subword in enumerate(self.subwords) if subword]

    def spellings(self) -> np.ndarray:
        return np.array([self.text[start:end] for start, end in self.words], dtype=object)


def align(model: TranslationModel, sources: Sequence[str], targets: Sequence[str]) -> list[list[Link]]:
    """Align every word of each target with one word of its source, in the order of the target.

    Words are runs of letters and digits, and single other characters. A pair with a side that is longer
    than the model's positions is aligned along the diagonal.
    """
    with timed("model/align"):
        pairs = [_sides(model, source, target) for source, target in zip(sources, targets, strict=True)]
        choices = [_diagonal(len(source.words), len(target.words)) for source, target in pairs]
        due = [number for number, pair in enumerate(pairs) if _can_attend(model, *pair)]
        due.sort(key=lambda number: len(pairs[number][0].ids))
        for start in range(0, len(due), _BATCH):
            batch = due[start : start + _BATCH]
            weights = model.seq2seq.attention([pairs[n][0].ids for n in batch], [pairs[n][1].ids for n in batch])
            for number, weight_TS in zip(batch, weights, strict=True):
                choices[number] = _best_words(*pairs[number], weight_TS)
        return [
            [Link(source.words[best], word) for best, word in zip(chosen, target.words, strict=False)]
            for (source, target), chosen in zip(pairs, choices, strict=True)
        ]


def _sides(model: TranslationModel, source: str, target: str) -> tuple[_Side, _Side]:
    codec = model.codec
    source_ids, target_ids = codec.source_ids(source), codec.target_ids(target)
    return (
        _Side(source, source_ids, codec.source_subwords(source_ids)),
        _Side(target, target_ids, codec.subwords(target_ids[:-1])),
    )


def _can_attend(model: TranslationModel, source: _Side, target: _Side) -> bool:
    fed = len(model.seq2seq.prompt) + len(target.ids) - 1
    fits = max(len(source.ids), fed) <= model.seq2seq.positions
    return fits and all(side.words and side.positions for side in (source, target))


def _diagonal(source_count: int, target_count: int) -> list[int]:
    """A source word for each target word at the same relative position; none if there is no source word."""
    if not source_count:
        return []
    return [min(round(n * source_count / target_count), source_count - 1) for n in range(target_count)]


def _best_words(source: _Side, target: _Side, weight_TS: Tensor) -> list[int]:
    """For each target word (Y) the source word (X) with most attention of its subwords."""
    share_SX, share_TY = _shares(source), _shares(target)
    weight_YX = (share_TY.T @ weight_TS.cpu()[target.positions][:, source.positions] @ share_SX).numpy()
    same_YX = target.spellings()[:, None] == source.spellings()
    return [int(best) for best in (weight_YX * np.where(same_YX, _SAME_WORD, 1)).argmax(axis=1)]


def _shares(side: _Side) -> Tensor:
    """The share of each subword that belongs to each word, [subwords, words]; every word has a subword."""
    spans = subword_spans(side.text, [side.subwords[position] for position in side.positions])
    share_PW = torch.zeros(len(spans), len(side.words))
    ends = [end for _, end in side.words]
    for subword, (start, end) in enumerate(spans):
        word = min(bisect_right(ends, start), len(ends) - 1)
        share_PW[subword, word] = max(min(end, ends[word]) - start, 1)
        while ends[word] < end and word + 1 < len(ends):
            word += 1
            share_PW[subword, word] = min(end, ends[word]) - side.words[word][0]
    share_PW /= share_PW.sum(dim=1, keepdim=True)
    starts = [start for start, _ in spans]
    for word in (share_PW.sum(dim=0) == 0).nonzero()[:, 0].tolist():
        share_PW[max(bisect_right(starts, side.words[word][0]) - 1, 0), word] = 1
    return share_PW


def subword_spans(text: str, subwords: Sequence[str]) -> list[Span]:
    """Spans of the subwords of a tokenizer in the text; starts and ends never decrease.

    Tokenizers change letters (compatibility forms, case) and drop or escape some, so subwords are looked up in the
    folded text from left to right: a subword that is not found nearby is empty, at the current position.
    """
    folded, origin = _folded_with_origin(text)
    spans: list[Span] = []
    cursor = missed = last_end = 0
    for subword in map(_folded, subwords):
        reach = cursor + len(subword) + _NEAR + _FURTHER * missed
        found = folded.find(subword, cursor, reach) if subword else -1
        if found < 0:
            missed += bool(subword)
            start, end = origin[cursor], max(origin[cursor], last_end)
        else:
            missed, cursor = 0, found + len(subword)
            start, end = origin[found], origin[cursor - 1] + 1
        spans.append((start, end))
        last_end = end
    return spans


def _folded_with_origin(text: str) -> tuple[str, list[int]]:
    """The folded text, and for each of its characters (and its end) the index of its origin in the text."""
    folded = [_folded(character) for character in text]
    origin = [position for position, part in enumerate(folded) for _ in part]
    return "".join(folded), [*origin, len(text)]


def _folded(text: str) -> str:
    """Remove case, blanks and compatibility forms, letter by letter, so that parts fold like the whole."""
    return "".join(map(_folded_letter, text))


@lru_cache(maxsize=4096)
def _folded_letter(letter: str) -> str:
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", letter).casefold())
    return "".join(part for part in decomposed if not part.isspace())
