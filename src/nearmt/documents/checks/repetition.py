"""Words that are repeated at once: slips, and loops of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity

_TOKEN = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")
#: Most words of a phrase that is repeated, and repetitions from which on it is a loop.
_LONGEST, _LOOP = 12, 3
#: Words that are said twice: *I know that that is so*, *die, die es wissen*, *il y en a, nous nous voyons*.
_DOUBLED = frozenset(
    "that had is do der die das den dem sie ihr zu nous vous si que di che se in and very sehr bye so no nein ja"
    " haha ha blah knock one by 's".split()
)


class RepetitionCheck:
    """A word or phrase that stands twice or more in a row, more often than anything does in the source."""

    name = "repetition"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        phrase, count = _most_repeated(_tokens(unit.target_prose))
        if count < 2 or count <= _most_repeated(_tokens(unit.source_prose))[1]:
            return
        if count >= _LOOP:
            yield Finding(self.name, Severity.ERROR, "a phrase is repeated over and over", f"{phrase} ({count} times)")
        elif phrase not in _DOUBLED:
            yield Finding(self.name, Severity.WARNING, "a phrase stands twice in a row", phrase)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.casefold())


def _most_repeated(tokens: Sequence[str]) -> tuple[str, int]:
    """The phrase with the most repetitions in a row and their number; phrases without letters do not count."""
    best, most = "", 1
    for size in range(1, min(_LONGEST, len(tokens) // 2) + 1):
        matching = 0  # tokens in a row that equal the one `size` before them
        for position in range(size, len(tokens)):
            matching = matching + 1 if tokens[position] == tokens[position - size] else 0
            count = matching // size + 1
            if count > most and any(t.isalpha() and len(t) > 1 for t in tokens[position - size + 1 : position + 1]):
                best, most = " ".join(tokens[position - size + 1 : position + 1]), count
    return best, most
