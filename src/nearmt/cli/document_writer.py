"""Writing of a document's parts, and of what is said about its units."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
from collections import Counter
from typing import Any, TextIO

from nearmt.cli.console import explain_run, warn
from nearmt.cli.explain import print_explanation
from nearmt.cli.resuming import FinishedWork
from nearmt.corpus import Part, Report, Unit
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import text_to
from nearmt.documents import FilledUnit, FillSummary
from nearmt.documents.checks import Severity
from nearmt.documents.filled import MISSED
from nearmt.errors import MissedError

_NOTES_SHOWN = 10
#: Counts of units by origin, with the words for them, in the order of a summary.
COUNTED = {
    "machine": "translated",
    "memory": "exact matches",
    "repaired": "repaired matches",
    "copy": "copied",
    "kept": "unchanged",
}


class DocumentWriter:
    """Writes parts as the document, as JSON or as explanations, and collects the summary."""

    def __init__(
        self, work: FinishedWork | None = None, *, as_json: bool = False, as_explanation: bool = False
    ) -> None:
        self.as_json, self.as_explanation = as_json, as_explanation
        self._summary = FillSummary() if work is None else copy.deepcopy(work.summary)
        self._out: TextIO | None = None
        self._parts = 0  # written since the last call of `keep`

    def write(self, out: TextIO, part: Part, found: list[FilledUnit | None]) -> None:
        self._out = out
        self._parts += 1
        for unit, filled in zip(part.units, found, strict=True):
            self._summary.add(unit, filled)
            if self.as_json:
                out.write(json.dumps(_fields(unit, filled), ensure_ascii=False) + "\n")
            elif self.as_explanation and filled is not None:
                print_explanation(out, filled.translation, filled.filling.matches)
        if not self.as_json and not self.as_explanation:
            out.write(part.filled([None if filled is None else filled.filling for filled in found]))
        out.flush()

    def keep(self, work: FinishedWork, encoding: Encoding) -> None:
        """Move the text of finished parts from the buffer to the record."""
        if isinstance(self._out, io.StringIO):
            codec = dataclasses.replace(encoding, container=None)
            with text_to(io.BytesIO(), codec, work.output) as trial:  # an encoding error shows here
                trial.write(self._out.getvalue())
            work.keep(self._out.getvalue(), self._parts, self._summary)
            self._out.seek(0)
            self._out.truncate()
            self._parts = 0

    @property
    def counts(self) -> Counter[str]:
        """Units by origin."""
        return self._summary.counts

    @property
    def missed(self) -> int:
        """Units that lack neighbours, because the server of an index did not answer."""
        return self._summary.findings.counts[MISSED.check, MISSED.severity]

    def notes(self) -> list[str]:
        """What a reviewer should look at: one line for each kind of finding."""
        return self._summary.findings.notes()

    def summarise(self, report: Report, document: bool) -> None:
        """Print findings, problems and counts to stderr."""
        for note in report.notes:
            warn(note)
        findings, notes = self._summary.findings, self.notes()
        tell([*notes, *report.problems])
        for note in findings.notes(Severity.INFO)[len(notes) :]:
            explain_run(note)
        if findings.counts and (document or notes):
            warn(f"checks: {findings.counted()}")
        if document:
            warn(told_counts(self.counts) or "no units")


def check_missed(units: int) -> None:
    """An error where units lack neighbours: everything is written, and the exit code says so."""
    if units:
        raise MissedError(
            f"{units:,} units are translated without neighbours of the memory: the server of its index did not answer"
        )


def tell(notes: list[str]) -> None:
    """Print the first notes; the others with `--verbose`."""
    for note in notes[:_NOTES_SHOWN]:
        warn(note)
    for note in notes[_NOTES_SHOWN:]:
        explain_run(note)
    if len(notes) > _NOTES_SHOWN:
        warn(f"and {len(notes) - _NOTES_SHOWN} more like these (--verbose shows all)")


def told_counts(counts: Counter[str]) -> str:
    """Units by origin in words; those without units are left out."""
    return ", ".join(f"{name}: {counts[key]:,}" for key, name in COUNTED.items() if counts[key])


def _fields(unit: Unit, filled: FilledUnit | None) -> dict[str, Any]:
    """A unit as JSON; source and text with their markup."""
    source = "".join(part if isinstance(part, str) else part.markup for part in unit.source)
    if filled is None:
        return {"line": unit.line, "source": source, "text": unit.target, "origin": "kept"}
    found = [finding.fields() for finding in filled.findings]
    fields = dataclasses.asdict(filled.translation)
    if filled.translation.provenance is None:
        del fields["provenance"]
    fields |= {"source": source, "text": filled.filling.text, "origin": filled.filling.origin.value}
    fields |= {"context": True} if filled.filling.in_context else {}
    fields |= {"review": filled.filling.review} if filled.filling.review else {}
    fields |= {"findings": found} if found else {}
    if filled.filling.matches:
        fields["matches"] = [dataclasses.asdict(match) for match in filled.filling.matches]
    return {"line": unit.line, **fields}
