"""Killed at any moment, a writer has lost nothing that it had acknowledged, and left nothing half done."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import IO, Any

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import file_system as disk
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.pairs import pair_to_json
from nearmt.engines.devices import DEVICES
from nearmt.errors import OutputError
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore import crash_writer
from tests.datastore.crash_writer import apply_to, held_by
from tests.datastore.editing_helpers import assert_same, built_alike, named, translations
from tests.datastore.helpers import assert_no_strays

PAIRS = named(make_pairs(30, seed=71))
Held = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair is encoded by itself: the same pair has the same keys to the last bit."""
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], forced_tokens=1))


@pytest.fixture
def store(tiny: TranslationModel, tmp_path: Path) -> Datastore:
    return Datastore.build(tmp_path / "store", PAIRS[:8], tiny)


def by_id(pairs: list[dict[str, Any]]) -> Held:
    return {pair["id"]: pair for pair in pairs}


class Witness:
    """Knows what was acknowledged, and that what was begun last may have been done or not."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.begun: dict[str, Any] | None = None
        self.acknowledged = 0

    def hear(self, message: dict[str, Any]) -> None:
        if "try" in message:
            self.begun = message["try"]
        elif "done" in message:
            assert self.begun is not None
            apply_to(self.held, self.begun)
            self.begun, self.acknowledged = None, self.acknowledged + 1

    def check(self, found: list[dict[str, Any]]) -> None:
        """All of what was acknowledged, in order; of what was begun whole pairs, from the first one on."""
        assert len(by_id(found)) == len(found)
        possible = [self.held]
        for part in _parts(self.begun or {}):
            possible.append(dict(possible[-1]))
            apply_to(possible[-1], part)
        (self.held,) = [held for held in possible if list(held.values()) == found][:1]
        self.begun = None


def _parts(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """An operation as the log has it: a record for every pair, one for all that is deleted."""
    return [{"add": [pair]} for pair in operation["add"]] if "add" in operation else [operation]


def messages(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """What was said, the last word too if it was not cut off."""
    for line in stream:
        with suppress(ValueError):
            yield json.loads(line)


def kill_loggers(folder: Path, kills: int, seed: int) -> Witness:
    """Let writers without a model change a store, each until it is killed; look at the store every time."""
    random, witness = Random(seed), Witness(by_id(held_by(Ledger(folder))))
    command = [sys.executable, crash_writer.__file__, str(folder)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    ) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        for number in range(kills):
            writer.stdin.write(f"{seed}{number:05d}\n".encode())
            writer.stdin.flush()
            pid, left = 0, random.randint(1, 8)
            for message in messages(writer.stdout):
                witness.hear(message)
                pid = message.get("pid", pid)
                left -= "done" in message
                if left == 0:
                    time.sleep(random.random() * 0.002)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                if "end" in message:
                    break
            witness.check(held_by(Ledger(folder)))
            if number % 40 == 39:
                # A new log, which begins with what waits for a model.
                Datastore.open(folder).compact()
                witness.check(held_by(Ledger(folder)))
        writer.stdin.close()
    assert writer.returncode == 0
    return witness


def assert_learnt(folder: Path, witness: Witness, model: TranslationModel, tmp_path: Path) -> None:
    """With a model, the store is one built of what was acknowledged."""
    store = Datastore.open(folder, verify=True)
    store.catch_up(model)
    pairs = [Pair(**raw) for raw in witness.held.values()]
    fresh = built_alike(tmp_path / "fresh", pairs, model, store)
    assert_same(store, fresh, model, k=1000)
    store.compact(model)
    assert store.manifest.calibration == fresh.manifest.calibration
    assert_same(Datastore.open(folder, verify=True), fresh, model, k=1000)
    assert_no_strays(folder)


def test_a_killed_logger_loses_nothing(tiny: TranslationModel, store: Datastore, tmp_path: Path) -> None:
    witness = kill_loggers(store.path, 220, seed=1)
    assert witness.acknowledged > 220
    assert_learnt(store.path, witness, tiny, tmp_path)


@pytest.mark.slow
def test_loggers_killed_thousands_of_times_lose_nothing(
    tiny: TranslationModel, store: Datastore, tmp_path: Path, campaign_seed: int
) -> None:
    witness = kill_loggers(store.path, 4000, campaign_seed)
    assert witness.acknowledged > 4000
    assert_learnt(store.path, witness, tiny, tmp_path)


def test_the_logger_loads_no_tensors() -> None:
    script = (
        "import sys, tests.datastore.crash_writer; print(sorted({'torch', 'transformers', 'faiss'} & set(sys.modules)))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, env=env)
    assert done.stdout.strip() == "[]"


# With a model: sealing, merging and compaction are interrupted too.


def learn_changes(folder: Path, seed: int, model: TranslationModel, say: crash_writer.Say) -> None:
    """Changes of a store with a model, and compactions, up to one of their file operations."""
    random = Random(seed)
    crash_writer.Fuse(folder, random.randint(1, 800), random).light()
    store = Datastore.open(folder)
    known = [pair.id for pair in store.pairs()]
    for operation in crash_writer.changes(random, known, f"m{seed}"):
        operation.get("add", [])[3:] = []
        known[:] = [identity for identity in known if not identity.startswith(f"m{seed}") or _kept(identity)]
        say({"try": operation})
        if "add" in operation:
            store.add((Pair(**pair) for pair in operation["add"]), random.choice([model, model, None]))
        elif "update" in operation:
            store.update(operation["update"], operation["target"], model)
        else:
            store.delete(operation["delete"])
        say({"done": True})
        if random.random() < 0.15:
            say({"try": {}})
            store.compact(random.choice([model, None]))
            say({"done": True})


def _kept(identity: str) -> bool:
    """Whether it is among the first three of an addition."""
    return int(identity.rsplit("-", 1)[1]) < 3


def forked(work: Callable[[crash_writer.Say], None]) -> list[dict[str, Any]]:
    """Do something in a process of its own until it is dead; what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            work(lambda message: (os.write(writing, json.dumps(message).encode() + b"\n"), None)[1])
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = list(messages(stream))
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return said


def kill_learners(
    store: Datastore, model: TranslationModel, kills: int, seed: int, tmp_path: Path, patch: pytest.MonkeyPatch
) -> set[str]:
    """The names of segments that were seen on the way."""
    patch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 30)
    witness = Witness(by_id([pair_to_json(pair) for pair in store.pairs()]))
    seen: set[str] = set()
    for number in range(kills):
        for message in forked(lambda say, now=number: learn_changes(store.path, 1000 * seed + now, model, say)):  # type: ignore[misc]
            witness.hear(message)
        ledger = Ledger(store.path)
        witness.check(held_by(ledger))
        again = Datastore.open(store.path, verify=True)
        assert again.total_pairs == ledger.pairs == len(witness.held)
        translations(model, again)
        seen |= {record.name for record in again.manifest.segments}
    assert witness.acknowledged > 2 * kills
    assert_learnt(store.path, witness, model, tmp_path)
    return seen


def test_a_killed_learner_loses_nothing(
    tiny: TranslationModel, store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = kill_learners(store, tiny, 25, 3, tmp_path, monkeypatch)
    assert len(seen) > 5  # sealed, merged and compacted


@pytest.mark.slow
def test_learners_killed_hundreds_of_times_lose_nothing(
    tiny: TranslationModel, store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, campaign_seed: int
) -> None:
    assert len(kill_learners(store, tiny, 1500, campaign_seed, tmp_path, monkeypatch)) > 50


# Disks that are full or broken.


@contextmanager
def failing(first: int, error: int, only_once: bool) -> Iterator[list[int]]:
    """From the operation of that number on (or only then) nothing reaches the disk; how many there were."""
    calls: list[int] = []
    real_sync, real_write = os.fsync, disk.OsFile.write

    def fails() -> bool:
        calls.append(1)
        return len(calls) - 1 == first if only_once else len(calls) > first

    def fsync(handle: int) -> None:
        if fails():
            raise OSError(error, os.strerror(error))
        real_sync(handle)

    def write(self: disk.OsFile, offset: int, data: bytes | memoryview) -> int:
        if fails():
            real_write(self, offset, data[: len(data) // 2])
            raise OSError(error, os.strerror(error))
        return real_write(self, offset, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", fsync)
        patch.setattr(disk.OsFile, "write", write)
        yield calls


CHANGES: dict[str, Callable[[Datastore, TranslationModel], object]] = {
    "add": lambda store, model: store.add(PAIRS[14:16], model),
    "log": lambda store, model: store.add(PAIRS[14:16]),
    "update": lambda store, model: store.update(PAIRS[3].id, "the pump", model),
    "compact": lambda store, model: store.compact(model),
}


@pytest.mark.parametrize(
    ("change", "sealing"), [("add", False), ("add", True), ("log", False), ("update", True), ("compact", True)]
)
def test_a_disk_that_fails_loses_nothing(
    change: str,
    sealing: bool,
    tiny: TranslationModel,
    store: Datastore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever operation fails: one line, all acknowledged changes are kept, and changes work again afterwards."""
    store.add(PAIRS[8:14], tiny)
    store.delete([PAIRS[1].id])
    before = list(store.pairs())
    if sealing:
        monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
    after: dict[str, list[Pair]] = {
        "add": [*before, *PAIRS[14:16]],
        "log": before,
        "update": [*(p for p in before if p.id != PAIRS[3].id), replace(PAIRS[3], target="the pump")],
        "compact": before,
    }
    said: list[str] = []
    for first in range(200):
        path = tmp_path / f"copy-{first}"
        shutil.copytree(store.path, path)
        handle, only_once = Datastore.open(path), bool(first % 2)
        try:
            with failing(first, errno.EIO if first % 3 else errno.ENOSPC, only_once) as calls:
                CHANGES[change](handle, tiny)
        except OutputError as error:
            said.append(str(error))
        again = Datastore.open(path, verify=True)
        acknowledged = by_id([pair_to_json(pair) for pair in [*before, *after[change]]])
        held = by_id(held_by(Ledger(path)))
        assert held.keys() <= {**acknowledged, **by_id([pair_to_json(p) for p in PAIRS[14:16]])}.keys()
        assert {pair.id for pair in before} <= held.keys()
        assert list(handle.pairs()) in (before, after[change]) or handle.pending
        assert again.total_pairs == len(held)
        # Space is free again: a change that is repeated is applied once, by any process.
        for other in (handle, again):
            CHANGES[change](other, tiny)
            other.catch_up(tiny)
        handle.refresh()
        expected = [*before, *PAIRS[14:16]] if change == "log" else after[change]
        for other in (handle, again, Datastore.open(path, verify=True)):
            assert list(other.pairs()) == expected and other.pending == 0
        assert_no_strays(path)
        if len(calls) <= first:
            break
        shutil.rmtree(path)
    assert len(said) > 2 and len(calls) <= first
    assert all("\n" not in message and str(tmp_path) in message for message in said)
    assert_same(handle, built_alike(tmp_path / "fresh", expected, tiny, store), tiny)
