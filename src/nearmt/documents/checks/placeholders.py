"""Placeholders have to be in the translation as often as in the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nearmt.corpus.icu import MessageError, parse_message
from nearmt.documents.checks.base import CheckedUnit, Finding, Severity, listed
from nearmt.documents.checks.spans import placeholders

MESSAGE = "placeholders differ from the source"


class PlaceholderCheck:
    """Missing placeholders, and with a plus those in excess."""

    name = "placeholders"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        before, after = (placeholders(text, unit.printf) for text in (unit.source_text, unit.target_text))
        if before == after:
            return
        source = _in_branches(unit.source_text, unit.source_lang, unit.printf)
        target = _in_branches(unit.target_text, unit.target_lang, unit.printf)
        if source is not None and target is not None:
            before, after = source, target
        different = [*(before - after), *(f"+{extra}" for extra in after - before)]
        if different:
            yield Finding(self.name, Severity.ERROR, MESSAGE, listed(different))


def _in_branches(text: str, language: str, printf: bool | None) -> Counter[str] | None:
    """The placeholders of a plural or select message, each once, because languages differ in the number of branches;
    None for other texts."""
    try:
        message = parse_message(text, language, language)
    except MessageError:
        return None
    if message is None:
        return None
    return Counter({found for branch in message.branches for found in placeholders(branch.text, printf)})
