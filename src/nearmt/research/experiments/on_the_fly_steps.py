"""The steps of a stream: learn the known pairs, translate a block, learn it, and so on; and their record on disk.

OUT/streams/<domain>.<row>/steps.jsonl   a header line (signature and device), then a line for every finished step
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmt.errors import writing

LEARN, TRANSLATE = "learn", "translate"


@dataclass(frozen=True)
class Step:
    """Learn or translate pairs `start` to `end` of the stream; earlier pairs have been learned."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class Done:
    """A finished step and its cost."""

    step: Step
    seconds: float
    tokens: int = 0
    searches: int = 0
    truncated: int = 0
    #: Whether nothing else ran on the machine, so that the time is valid.
    counts: bool = True
    texts: list[str] = field(default_factory=list)
    #: Details of the training, or of the datastore.
    facts: dict[str, Any] = field(default_factory=dict)


def plan(total: int, at_hand: int, block: int, learn_every: int | None, learns: bool) -> list[Step]:
    """List the steps of a stream: a block is learned after its translation, unless it is the last.

    Without `learn_every` only the known pairs are learned. A block ends wherever a learning step follows.
    """
    steps = [Step(LEARN, 0, at_hand)] if learns else []
    known = start = at_hand
    while start < total:
        end = min(start + block, total)
        if learn_every is not None:
            end = min(end, start + learn_every - (start - at_hand) % learn_every)
        steps.append(Step(TRANSLATE, start, end))
        if learns and learn_every is not None and end < total and (end - at_hand) % learn_every == 0:
            steps.append(Step(LEARN, known, end))
            known = end
        start = end
    return steps


class Journal:
    """The finished steps of a plan, on disk. A journal of another plan is deleted with its folder."""

    def __init__(self, folder: Path, about: dict[str, Any], steps: list[Step], *, only_counting: bool) -> None:
        self.folder = folder
        self._path = folder / "steps.jsonl"
        lines = list(_whole_lines(self._path))
        found = [_done(line) for line in lines[1:]]
        done = [each for each in found if each is not None]
        fits = lines[:1] == [about] and len(done) == len(found) and [each.step for each in done] == steps[: len(done)]
        if not fits or (only_counting and not all(each.counts for each in done)):
            done = []
        self.done: list[Done] = done
        if not done:
            self._begin(about)

    def add(self, done: Done) -> None:
        self._write(dataclasses.asdict(done))
        self.done.append(done)

    def _begin(self, about: dict[str, Any]) -> None:
        with writing(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
        self._write(about)

    def _write(self, value: dict[str, Any]) -> None:
        with writing(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _whole_lines(path: Path) -> Iterator[Any]:
    """Yield the complete lines of a file and truncate it after them."""
    if not path.is_file():
        return
    content, position = path.read_bytes(), 0
    for line in content.splitlines(keepends=True):
        try:
            value = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            value = None
        if value is None:
            break
        position += len(line)
        yield value
    if position < len(content):
        with writing(path):
            os.truncate(path, position)


def _done(value: Any) -> Done | None:
    try:
        return Done(**{**value, "step": Step(**value["step"])})
    except (TypeError, KeyError):
        return None
