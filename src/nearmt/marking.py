"""Marked texts around the beam: the marks that a translation has to have, the forms of terms, and the spans again."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from nearmt.contracts import Translation
from nearmt.corpus.marks import MARK, MarkedText, marks_in
from nearmt.models import TranslationModel
from nearmt.models.marks import Marks

#: Largest probability of a doubtful token.
_DOUBTFUL = 0.2
_SPECIAL = ("</s>", "<pad>", "<unk>", "<s>")
_PUNCTUATION = re.compile(r"^\W+|\W+$")
#: Texts that are scored at a time.
_BATCH = 32


def marks_of(unit: MarkedText, text: str) -> Marks | None:
    """The marks that the translation of a part of a unit has to have; None if it has none."""
    numbers = frozenset(marks_in(text)) if unit.spans else frozenset()
    if not numbers:
        return None
    pairs = ((number, opener) for number, opener in enumerate(unit.opened_by, 1) if opener)
    return Marks(numbers, tuple(pair for pair in pairs if numbers.issuperset(pair)))


def with_chosen_forms(model: TranslationModel, units: Sequence[MarkedText], texts: Sequence[str]) -> list[MarkedText]:
    """Leave one form of each term of marked units, given their translations with marks; the first where the model
    cannot tell."""
    ways = [(number, *way) for number, unit in enumerate(units) for way in unit.choices(texts[number])]
    sources = {number: model.codec.source_ids(units[number].source_with_terms()) for number, _, _ in ways}
    longest = model.seq2seq.positions - len(model.seq2seq.prompt)
    encoded = [(sources[number], model.codec.target_ids(text)) for number, _, text in ways]
    fitting = [n for n, sides in enumerate(encoded) if max(map(len, sides)) <= longest]
    fitting.sort(key=lambda n: len(encoded[n][1]))
    best: dict[int, tuple[float, MarkedText]] = {}
    for start in range(0, len(fitting), _BATCH):
        batch = fitting[start : start + _BATCH]
        scores = model.seq2seq.score([encoded[n][0] for n in batch], [encoded[n][1] for n in batch])
        for n, score_T in zip(batch, scores, strict=True):
            number, unit, _ = ways[n]
            score = float(score_T.sum())
            if number not in best or score > best[number][0]:
                best[number] = score, unit
    return [best[number][1] if number in best else unit for number, unit in enumerate(units)]


def restored(translation: Translation, unit: MarkedText, language: str) -> Translation:
    """A translation with the spans of its source in place of marks, in its text and in its provenance."""
    if not unit.spans:
        return translation
    tokens = translation.provenance
    if tokens is not None:
        shown = unit.restored_tokens([token.token for token in tokens])
        tokens = tuple(
            replace(token, token=text, protected=protected)
            for token, (text, protected) in zip(tokens, shown, strict=True)
        )
    text, *others = (unit.restored(text, language) for text in (translation.text, *translation.alternatives))
    return replace(translation, text=text, alternatives=tuple(others), provenance=tokens)


def unsure_words(subwords: Sequence[str], log_probs: Sequence[float]) -> tuple[str, ...]:
    """The words of a translation with a token that is improbable; marks are no words."""
    text = "".join(subwords)
    in_marks = {place for mark in MARK.finditer(text) for place in range(*mark.span())}
    words: list[tuple[str, bool]] = []
    offset = 0
    for subword, log_prob in zip(subwords, log_probs, strict=True):
        places, offset = range(offset, offset + len(subword)), offset + len(subword)
        if subword in _SPECIAL or not in_marks.isdisjoint(places):
            continue
        is_doubtful = math.exp(log_prob) < _DOUBTFUL
        if subword.startswith(" ") or not words:
            words.append((subword.strip(), is_doubtful))
        else:
            word, was_doubtful = words[-1]
            words[-1] = word + subword, was_doubtful or is_doubtful
    found = (_PUNCTUATION.sub("", word) for word, is_doubtful in words if is_doubtful)
    return tuple(word for word in found if any(map(str.isalnum, word)))


def joined(source: str, parts: Sequence[Translation]) -> Translation:
    """The translation of a unit from those of its parts."""
    if not parts:
        return Translation(source=source, text="", score=0.0)
    provenance = None
    if parts[0].provenance is not None:
        provenance = tuple(token for part in parts for token in part.provenance or ())
    return Translation(
        source=source,
        text=" ".join(part.text for part in parts),
        score=sum(part.score for part in parts) / len(parts),
        tokens=sum(part.tokens for part in parts),
        searches=sum(part.searches for part in parts),
        missed=sum(part.missed for part in parts),
        compared=sum(part.compared for part in parts),
        steps=sum(part.steps for part in parts),
        truncated=any(part.truncated for part in parts),
        source_parts=sum(part.source_parts for part in parts),
        provenance=provenance,
        unsure=tuple(word for part in parts for word in part.unsure),
        alternatives=parts[0].alternatives if len(parts) == 1 else (),
    )
