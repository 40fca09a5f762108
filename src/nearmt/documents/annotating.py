"""Writing of findings into the notes of the document that was checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nearmt.corpus import Document
from nearmt.corpus.output import open_file
from nearmt.documents.checks import Finding


def write_annotated(document: Document, findings: Mapping[int, Sequence[Finding]], output: Path) -> None:
    """Write a document with findings, by the number of their unit, in notes; notes of an earlier check are removed.

    All else is written back byte for byte.
    """
    first = 0
    with open_file(output, document.encoding) as out:
        for part in document.parts:
            numbers = range(first, first + len(part.units))
            out.write(part.annotated([[_remark(each) for each in findings.get(n, ())] for n in numbers]))
            first = numbers.stop


def _remark(finding: Finding) -> str:
    return f"{finding.severity.label}: {finding}"
