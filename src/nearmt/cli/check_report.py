"""Findings on a terminal and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from nearmt.corpus import Segment
from nearmt.documents.checking import LineUnit
from nearmt.documents.checks import Finding, Severity
from nearmt.documents.checks.summary import FindingSummary

#: Width if the report does not go to a terminal.
_WIDTH = 110
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
#: Longer texts are shortened in the report; JSON has them whole.
_LONGEST = 400


def as_fields(each: LineUnit, findings: Sequence[Finding]) -> dict[str, Any]:
    """A unit as plain values; source and target with their markup."""
    found = [finding.fields() for finding in findings]
    source, target = written(each.unit.source), written(each.unit.target)
    return {"line": each.line, "source": source, "target": target, "findings": found}


def written(segment: Segment) -> str:
    return "".join(part if isinstance(part, str) else part.markup for part in segment)


class TextReport:
    """Prints units with their findings, and a summary."""

    def __init__(self) -> None:
        from nearmt.cli.safe_console import SafeConsole

        self._console = SafeConsole(width=None if sys.stdout.isatty() else _WIDTH)

    def print_unit(self, each: LineUnit, findings: Sequence[Finding]) -> None:
        from rich.table import Table
        from rich.text import Text

        self._console.print(Text(f"line {each.line}", style="bold"))
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
        table.add_column(min_width=8)
        table.add_column(overflow="fold")
        for name, segment in (("source", each.unit.source), ("target", each.unit.target)):
            table.add_row(Text(f"  {name}", style="dim"), Text(_shortened(written(segment))))
        for finding in findings:
            label = Text(f"  {finding.severity.label}", style=_STYLES[finding.severity])
            table.add_row(label, Text(f"{finding.check}: {_shortened(str(finding))}"))
        self._console.print(table)

    def print_summary(self, summary: FindingSummary, untranslated: int) -> None:
        left = f", {untranslated:,} without a translation" if untranslated else ""
        found = summary.counted() or "nothing found"
        self._console.print(f"{summary.units:,} units checked{left}: {found}")


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
