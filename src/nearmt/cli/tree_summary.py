"""What became of the files of a folder: text for people, JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmt.cli.console import echo, warn
from nearmt.cli.document_writer import COUNTED, tell, told_counts
from nearmt.cli.resuming import FinishedFile
from nearmt.corpus.trees import TreeFile


@dataclass
class TreeSummary:
    """Collects the results of files."""

    output: Path
    documents: list[tuple[TreeFile, Path, FinishedFile]] = field(default_factory=list)
    #: Files and folders that could not be translated, and why.
    failures: list[tuple[Path, str]] = field(default_factory=list)
    left_alone: list[tuple[Path, str]] = field(default_factory=list)

    def add(self, file: TreeFile, target: Path, finished: FinishedFile) -> None:
        self.documents.append((file, target, finished))

    @property
    def named(self) -> int:
        """Files that were to be translated."""
        return len(self.documents) + len(self.failures)

    @property
    def counts(self) -> Counter[str]:
        """Units of all files, by origin."""
        return sum((finished.counts for _, _, finished in self.documents), Counter())

    @property
    def notes(self) -> list[str]:
        return [note for _, _, finished in self.documents for note in finished.notes]

    def show(self, as_json: bool) -> None:
        """Print what a reviewer should look at, and the counts: to stderr, or as JSON to standard output."""
        if as_json:
            echo(json.dumps(self._fields(), ensure_ascii=False))
            return
        tell(self.notes)
        problems = {"problems": len(self.notes), "not translated": len(self.failures)}
        told = [f"files: {len(self.documents):,}", f"units: {self.counts.total():,}", told_counts(self.counts)]
        told += [f"{name}: {count:,}" for name, count in problems.items() if count]
        if self.left_alone:
            told.append(f"left alone: {len(self.left_alone):,} (--verbose names them)")
        warn(", ".join(part for part in told if part))

    def _fields(self) -> dict[str, Any]:
        return {
            "output": str(self.output),
            "files": len(self.documents),
            **_counted(self.counts),
            "problems": len(self.notes),
            "documents": [
                {"file": str(file.path), "output": str(target), "format": finished.format_name}
                | _counted(finished.counts)
                | {"problems": finished.notes}
                for file, target, finished in self.documents
            ],
            "not_translated": [{"file": str(path), "error": error} for path, error in self.failures],
            "left_alone": [{"file": str(path), "reason": reason} for path, reason in self.left_alone],
        }


def _counted(counts: Counter[str]) -> dict[str, int]:
    return {"units": counts.total(), **{key: counts[key] for key in COUNTED}}
