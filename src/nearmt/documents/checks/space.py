"""White space at the ends."""

from __future__ import annotations

from collections.abc import Iterator

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity


class SpaceCheck:
    """White space at the beginning or the end that differs from the source."""

    name = "space"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        source, target = unit.source_text, unit.target_text
        if not source.strip() or not target.strip():
            return
        for place, before, after in (
            ("beginning", source[: len(source) - len(source.lstrip())], target[: len(target) - len(target.lstrip())]),
            ("end", source[len(source.rstrip()) :], target[len(target.rstrip()) :]),
        ):
            if before != after:
                # gettext refuses a catalogue in which only one side begins or ends with a line break.
                severity = Severity.ERROR if ("\n" in before) != ("\n" in after) else Severity.WARNING
                detail = f"{_shown(before)} became {_shown(after)}"
                yield Finding(self.name, severity, f"the white space at the {place} differs from the source", detail)


def _shown(space: str) -> str:
    return ascii(space) if space else "nothing"
