"""Placeholders have to be in the translation as often as in the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nearmt.corpus.icu.syntax import has_choice
from nearmt.documents.checks.base import CheckedUnit, Finding, Severity, listed
from nearmt.documents.checks.spans import placeholders

MESSAGE = "placeholders differ from the source"


class PlaceholderCheck:
    """Missing placeholders, and with a plus those in excess."""

    name = "placeholders"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        before, after = (placeholders(text, unit.printf) for text in (unit.source_text, unit.target_text))
        if has_choice(unit.source_text) and has_choice(unit.target_text):
            # Languages differ in the number of branches, and what is around a choice may be in all of them.
            before, after = Counter(set(before)), Counter(set(after))
        if before == after:
            return
        different = [*(before - after), *(f"+{extra}" for extra in after - before)]
        if different:
            yield Finding(self.name, Severity.ERROR, MESSAGE, listed(different))
