"""A writer that is killed: it says what it is about to do, does it, and says that it is done.

As a program it needs no model: `python crash_writer.py DIR` reads one seed a line from its standard input, and for
each forks a process that changes the store until it is killed from outside or, at the first of some moments, by
itself. Its standard output has a line of JSON for each thing said, and {"end": true} when the process is no more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from nearmt.contracts import Pair
from nearmt.datastore.disk import file_system as disk
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.pairs import pair_to_json

Say = Callable[[dict[str, Any]], None]
#: What is done before the file system changes; fsync is not among them, writing is below.
_EVENTS = {"open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", "shutil.rmtree"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Fuse:
    """Ends this process at a moment of its file operations: before one, or in the middle of a write."""

    def __init__(self, folder: Path, moments: int, random: Random) -> None:
        self._folder, self._left, self._random = str(folder), moments, random

    def light(self) -> None:
        real = disk.OsFile.write
        fuse = self

        def write(self: disk.OsFile, offset: int, data: bytes | memoryview) -> int:
            if fuse._burns():
                real(self, offset, data[: fuse._random.randrange(len(data))])
                die()
            return real(self, offset, data)

        disk.OsFile.write = write  # type: ignore[method-assign]
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _EVENTS and self._folder in str(args[0]) and self._burns():
            die()

    def _burns(self) -> bool:
        self._left -= 1
        return self._left == 0


def changes(random: Random, known: list[str], name: str) -> Iterator[dict[str, Any]]:
    """Operations on pairs of any size, some of them on existing pairs; `known` is kept up to date."""
    for number in range(10_000):
        kind = random.choice(["add", "add", "add", "update", "delete"])
        if kind == "add" or len(known) < 3:
            pairs = [_pair(random, f"{name}-{number}-{place}") for place in range(random.choice([1, 1, 1, 2, 12]))]
            if known and random.random() < 0.3:
                pairs[0] = Pair(pairs[0].source, pairs[0].target, random.choice(known))
            known.extend(pair.id for pair in pairs if pair.id not in known)
            yield {"add": [pair_to_json(pair) for pair in pairs]}
        elif kind == "update":
            yield {"update": random.choice(known), "target": _text(random)}
        else:
            # The store stays small.
            gone = random.sample(known, random.randint(1, 2) if len(known) < 50 else 20)
            known[:] = [identity for identity in known if identity not in gone]
            yield {"delete": gone}


WORDS = "pumpe welle motor ventil schraube deckel öffnen prüfen pump shaft valve screw cover close check".split()


def _text(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(2, 9)))


def _pair(random: Random, identity: str) -> Pair:
    # Mostly small, sometimes more than a page of memory.
    note = "x" * random.choice([0] * 10 + [10, 9000])
    return Pair(_text(random), _text(random), identity, metadata={"note": note})


def apply_to(pairs: dict[str, dict[str, Any]], operation: dict[str, Any]) -> None:
    """What an operation does to a dictionary of pairs by id, as JSON."""
    if "add" in operation:
        for pair in operation["add"]:
            pairs.pop(pair["id"], None)
            pairs[pair["id"]] = pair
    elif "update" in operation:
        pair = pairs.pop(operation["update"])
        pairs[pair["id"]] = {**pair, "target": operation["target"]}
    elif "delete" in operation:
        for identity in operation["delete"]:
            del pairs[identity]


def log_changes(folder: Path, seed: int, say: Say) -> None:
    """Change a store until the process is killed."""
    random = Random(seed)
    if random.random() < 0.7:
        Fuse(folder, random.randint(1, 120), random).light()
    with Ledger.changing(folder) as ledger:
        known = [pair["id"] for pair in held_by(ledger)]
        for operation in changes(random, known, str(seed)):
            say({"try": operation})
            if "add" in operation:
                ledger.add(Pair(**pair) for pair in operation["add"])
            elif "update" in operation:
                ledger.update(operation["update"], operation["target"])
            else:
                ledger.delete(operation["delete"])
            say({"done": True})


def held_by(ledger: Ledger) -> list[dict[str, Any]]:
    """All pairs, including those that are not encoded yet, in order."""
    return [pair_to_json(pair) for pair in ledger.content.pairs()]


def _say(message: dict[str, Any]) -> None:
    line = json.dumps(message).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def main(folder: Path) -> None:
    for seed in sys.stdin:
        child = os.fork()
        if not child:
            try:
                _say({"pid": os.getpid()})
                log_changes(folder, int(seed), _say)
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        os.write(1, b"\n")  # behind a word that was cut off
        _say({"end": True})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
