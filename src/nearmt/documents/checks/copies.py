"""Text that was not translated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity

#: Words of a copied text, or of a copied part of it, from which on it is no title or list of names.
_FEWEST, _RUN = 4, 6
#: Shorter words say little about the language.
_SHORT = 3


class UntranslatedCheck:
    """A translation that equals its source, or has a long part of it."""

    name = "untranslated"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        source, target = unit.source_words, unit.target_words
        if not source or unit.source_lang == unit.target_lang != "":
            return
        if not unit.target_text.strip():
            yield Finding(self.name, Severity.ERROR, "there is no translation")
        elif _is_prose(source) and " ".join(source).casefold() == " ".join(target).casefold():
            severity = Severity.ERROR if len(source) >= _FEWEST else Severity.INFO
            yield Finding(self.name, severity, "equals the source")
        elif run := _longest_run(source, target):
            yield Finding(self.name, Severity.WARNING, "a part was copied from the source", " ".join(run))


def _is_prose(words: Sequence[str]) -> bool:
    """Whether some words are written in lower case, unlike names and titles."""
    return any(word.islower() and len(word) > _SHORT for word in words)


def _longest_run(source: Sequence[str], target: Sequence[str]) -> Sequence[str]:
    """The longest run of prose that both have, if it is long."""
    if len(source) < _RUN or len(target) < _RUN:
        return ()
    starts: dict[tuple[str, ...], int] = {}
    for start in range(len(source) - _RUN + 1):
        starts.setdefault(tuple(source[start : start + _RUN]), start)
    best: Sequence[str] = ()
    position = 0
    while position + _RUN <= len(target):
        start = starts.get(tuple(target[position : position + _RUN]))
        if start is None:
            position += 1
            continue
        size = _RUN
        while start + size < len(source) and source[start + size : start + size + 1] == target[position + size :][:1]:
            size += 1
        run = source[start : start + size]
        best = run if len(run) > len(best) and sum(map(str.islower, run)) * 2 > len(run) else best
        position += size
    return best
