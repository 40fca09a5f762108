"""Parts of the source that no word of the translation is aligned with: dropped clauses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearmt.documents.checks import CheckedUnit, Finding, Severity
from nearmt.documents.checks.length import deviation
from nearmt.models import TranslationModel
from nearmt.models.alignment import WORD, Link, align

NAME = "dropped"
#: Words in a row that nothing is aligned with, and how many of them have at least this many letters. Of the clauses
#: of 4 to 15 words that were taken out of reference translations this finds about 60 %, in news and in law.
_WORDS, _LONG_WORDS, _LETTERS = 5, 3, 4


#: Shorter than usual: standard deviations of the length, for sources of so many words.
_SHORTER, _FEWEST = -1.0, 8


def dropped_where_short(model: TranslationModel, units: Sequence[CheckedUnit]) -> list[tuple[Finding, ...]]:
    """Find dropped clauses in translations that are shorter than usual: aligning all of them takes long."""
    due = [n for n, unit in enumerate(units) if deviation(unit) < _SHORTER and _words_in(unit) >= _FEWEST]
    found: list[tuple[Finding, ...]] = [()] * len(units)
    for number, findings in zip(due, dropped_clauses(model, [units[n] for n in due]), strict=True):
        found[number] = findings
    return found


def _words_in(unit: CheckedUnit) -> int:
    return len(unit.source_text.split())


def dropped_clauses(model: TranslationModel, units: Sequence[CheckedUnit]) -> list[tuple[Finding, ...]]:
    """Find the dropped clauses of each unit. A pair that is too long for the model has none."""
    texts = [(unit.source_prose, unit.target_prose) for unit in units]
    fits = _fits(model)
    due = [
        n for n, (source, target) in enumerate(texts) if _is_long(source) and target.strip() and fits(source, target)
    ]
    links = align(model, [texts[n][0] for n in due], [texts[n][1] for n in due])
    found: list[tuple[Finding, ...]] = [()] * len(units)
    for number, aligned in zip(due, links, strict=True):
        if clause := unaligned(texts[number][0], aligned):
            finding = Finding(
                NAME, Severity.WARNING, "nothing in the translation stands for a part of the source", clause
            )
            found[number] = (finding,)
    return found


def unaligned(source: str, links: Sequence[Link]) -> str:
    """The longest part of the source without a link, if it is long enough for a clause; else nothing."""
    linked = {link.source for link in links}
    best, start, end, words = (0, 0, ""), 0, 0, list[str]()
    spans = [match.span() for match in WORD.finditer(source) if match.group()[0].isalnum()]
    for span in [*spans, (len(source), len(source))]:
        if span in linked or span[0] == span[1]:
            long_words = sum(len(word) >= _LETTERS for word in words)
            if len(words) >= _WORDS and long_words >= _LONG_WORDS:
                best = max(best, (long_words, len(words), source[start:end]))
            words = []
            continue
        start = span[0] if not words else start
        end = span[1]
        words.append(source[slice(*span)])
    return " ".join(best[2].split())


def _is_long(source: str) -> bool:
    return sum(1 for _ in WORD.finditer(source)) >= _WORDS


def _fits(model: TranslationModel) -> Callable[[str, str], bool]:
    """Whether the model can align a pair; longer ones are aligned along the diagonal, which tells nothing."""
    most = model.seq2seq.positions

    def fits(source: str, target: str) -> bool:
        # A token has one character at least, so short texts need not be tokenised.
        if max(len(source), len(target)) + len(model.seq2seq.prompt) < most:
            return True
        longest = max(len(model.codec.source_ids(source)), len(model.codec.target_ids(target)))
        return longest + len(model.seq2seq.prompt) <= most

    return fits
