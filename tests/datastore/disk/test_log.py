"""The log keeps its word: what it acknowledged is there, in order, whatever the disk does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.datastore.disk.file_names import log_name
from nearmt.datastore.disk.log import Added, Deleted, Log, Operation, read_log, salvage_log
from nearmt.datastore.disk.records import RecordWriter
from nearmt.errors import DatastoreError, InputError, OutputError
from tests.datastore.disk.faulty_disk import FaultyDisk, PowerCut

PATH = Path("store") / log_name(1)

# Torn tails are what these tests make; that they are told is seen elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::nearmt.errors.NearmtWarning")

#: Everything that a str can hold and UTF-8 can write.
texts = st.text(st.characters(exclude_categories=["Cs"]))
pairs = st.builds(Pair, texts, texts, texts, texts, st.dictionaries(texts, texts, max_size=2))
operations = st.builds(Added, pairs) | st.builds(Deleted, st.lists(texts).map(tuple))
batches = st.lists(st.lists(operations, max_size=3), max_size=3)


@given(batches)
def test_what_is_logged_is_read(batches: list[list[Operation]]) -> None:
    disk = FaultyDisk()
    end, read = 0, []
    for batch in batches:
        with Log(PATH, disk) as log:
            acknowledged = log.append(batch)
        operations, end, torn = read_log(PATH, end, disk)
        assert (operations, torn, end) == (batch, 0, acknowledged)
        read += operations
    if batches:
        assert read_log(PATH, 0, disk).operations == read == salvage_log(PATH, disk).operations


def test_it_is_a_file_of_utf8(tmp_path: Path) -> None:
    with Log(tmp_path / log_name(12)) as log:
        end = log.append([Added(Pair("größer", "bigger", "7")), Deleted(("7",))])
        assert log.path == tmp_path / "log-000012.log"
    content = log.path.read_bytes()
    assert len(content) == end == log.end
    assert "größer".encode() in content
    assert content.endswith(b'{"op":"delete","ids":["7"]}')


@pytest.mark.parametrize(
    "operation",
    [
        Added(Pair("a\ud800", "b", "x")),
        Added(Pair("a", "\udcff", "x")),
        Added(Pair("a", "b", "\udfff")),
        Added(Pair("a", "b", "x", "\ud801")),
        Added(Pair("a", "b", "x", metadata={"\ud800": "c"})),
        Added(Pair("a", "b", "x", metadata={"c": "\ud800"})),
        Added(Pair("a", "b", "x", metadata={"c": 3})),  # type: ignore[dict-item]
        Added(Pair("a", None, "x")),  # type: ignore[arg-type]
        Deleted(("x", "\ud800")),
        Deleted((3,)),  # type: ignore[arg-type]
    ],
)
def test_what_no_file_can_hold_is_refused_before_anything_is_written(operation: Operation) -> None:
    disk = FaultyDisk()
    with Log(PATH, disk) as log:
        with pytest.raises(InputError, match=r"half a character|where text belongs") as caught:
            log.append([Added(Pair("before", "it")), operation])
        assert "\n" not in str(caught.value)
        str(caught.value).encode()
        log.append([Deleted(("fine",))])
    assert read_log(PATH, 0, disk).operations == [Deleted(("fine",))]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"\xff",
        b"3",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"op":"merge"}',
        b'{"op":"add"}',
        b'{"op":"add","pair":3}',
        b'{"op":"add","pair":{"source":"a"}}',
        b'{"op":"add","pair":{"source":"a","target":3}}',
        b'{"op":"add","pair":{"source":"a","target":"\\ud800"}}',
        b'{"op":"add","pair":{"source":"a","target":"b","metadata":["c"]}}',
        b'{"op":"add","pair":{"source":"a","target":"b","colour":"red"}}',
        b'{"op":"delete"}',
        b'{"op":"delete","ids":"7"}',
        b'{"op":"delete","ids":[7]}',
        b'{"op":"delete","ids":{"7":"8"}}',
    ],
)
def test_operations_of_a_newer_nearmt_are_refused(payload: bytes, tmp_path: Path) -> None:
    path = tmp_path / log_name(1)
    with RecordWriter(path, durable=True) as writer:
        writer.append([b'{"op":"delete","ids":[]}', payload])
    for read in (read_log, salvage_log):
        with pytest.raises(DatastoreError, match="a newer nearmt wrote it") as caught:
            read(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_logging_needs_no_model() -> None:
    script = "import sys, json, nearmt.datastore.disk.log; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert "nearmt.datastore.disk.log" in loaded
    assert not loaded & {"torch", "transformers", "faiss", "sentencepiece", "click"}


# --- faults ---


def operation(number: int) -> Operation:
    """Every third deletes; each is known by its number."""
    if number % 3 == 2:
        return Deleted((str(number),) * (1 + number % 2))
    return Added(Pair(f"größer {number}", "x" * (number % 7), str(number)))


def number_of(done: Operation) -> int:
    return int(done.ids[0] if isinstance(done, Deleted) else done.pair.id)


class Story:
    """A machine on which a log is written, with faults, through several power cuts."""

    def __init__(self, seed: int, lies: frozenset[str] = frozenset()) -> None:
        self.random = Random(seed)
        self.disk = FaultyDisk(self.random, sector=self.random.choice([1, 4, 16, 512]), lies=lies)
        self.acknowledged: set[int] = set()
        self.next = 0

    def play(self) -> None:
        for _ in range(3):
            self._plan_faults()
            try:
                for _ in range(3):
                    self._write_for_a_while()
            except PowerCut:
                pass
            self.disk = self.disk.after_power_cut()
            self._check()

    def _plan_faults(self) -> None:
        random, disk = self.random, self.disk
        disk.power = random.choice([None, random.randint(0, 25)])
        disk.free = random.choice([None, random.randint(0, 400)])
        disk.short_writes = random.random() < 0.5
        disk.failures = {
            (name, random.randint(0, 8)) for name in ("write", "sync", "truncate") if random.random() < 0.4
        }

    def _write_for_a_while(self) -> None:
        try:
            log = Log(PATH, self.disk)
        except OutputError:
            return
        # What a writer found when it opened the log is there to stay.
        self.acknowledged.update(map(number_of, read_log(PATH, 0, self.disk).operations))
        with log:
            for _ in range(self.random.randint(1, 4)):
                batch = range(self.next, self.next + self.random.randint(1, 3))
                self.next = batch.stop
                try:
                    assert log.append([operation(number) for number in batch]) == log.end
                except OutputError:
                    # Refused, for the same reason, until it is opened again.
                    with pytest.raises(OutputError, match="an earlier write failed"):
                        log.append([operation(self.next)])
                    return
                self.acknowledged.update(batch)

    def _check(self) -> None:
        if PATH not in self.disk.names:
            assert not self.acknowledged, "the file is gone"
            return
        before = read_log(PATH, 0, self.disk)
        numbers = [number_of(done) for done in before.operations]
        assert [operation(number) for number in numbers] == before.operations, "half an operation"
        assert numbers == sorted(set(numbers)), "not in order"
        assert self.acknowledged <= set(numbers), "lost"
        with Log(PATH, self.disk) as log:
            assert log.cut == before.torn
        assert read_log(PATH, 0, self.disk).operations == before.operations
        assert self.disk.names[PATH].stable == self.disk.names[PATH].content


SEEDS = range(1000)


def test_nothing_acknowledged_is_lost() -> None:
    acknowledged = 0
    for seed in SEEDS:
        story = Story(seed)
        story.play()
        acknowledged += len(story.acknowledged)
    assert acknowledged > 5 * len(SEEDS), "the faults left nothing to lose"


def losses(make: Callable[[int], Story]) -> int:
    """How many stories end badly."""
    count = 0
    for seed in SEEDS[:300]:
        try:
            make(seed).play()
        except (AssertionError, DatastoreError):
            count += 1
    return count


@pytest.mark.parametrize("lie", ["sync", "sync_folder"])
def test_a_missing_sync_would_be_seen(lie: str) -> None:
    assert losses(lambda seed: Story(seed, frozenset([lie]))) > 10


def test_pages_that_were_dropped_by_a_failing_sync_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant that syncs what it finds when it opens the log, instead of writing it again."""

    def settle(self: RecordWriter, trusted: int) -> None:
        original(self, self.end)

    original = RecordWriter._settle
    monkeypatch.setattr(RecordWriter, "_settle", settle)
    assert losses(Story) > 0


def test_power_cut_at_every_call() -> None:
    """One story, cut at each of its calls, with every draw of what is kept."""
    for power in range(30):
        for seed in range(20):
            disk = FaultyDisk(Random(seed), power=power)
            acknowledged = 0
            try:
                with Log(PATH, disk) as log:
                    for number in range(5):
                        log.append([operation(number)])
                        acknowledged = number + 1
            except PowerCut:
                pass
            disk = disk.after_power_cut()
            there = read_log(PATH, 0, disk).operations if PATH in disk.names else []
            assert there == [operation(number) for number in range(len(there))]
            assert acknowledged <= len(there) <= acknowledged + 1


@pytest.mark.parametrize("free", range(0, 300, 7))
def test_a_full_disk(free: int) -> None:
    disk = FaultyDisk(free=free)
    acknowledged = 0

    def fill() -> None:
        nonlocal acknowledged
        with Log(PATH, disk) as log:
            for number in range(100):
                log.append([operation(number)])
                acknowledged = number + 1

    with pytest.raises(OutputError, match="the disk is full"):
        fill()
    disk.free = None
    with Log(PATH, disk) as log:
        log.append([operation(acknowledged)])
    assert read_log(PATH, 0, disk).operations == [operation(number) for number in range(acknowledged + 1)]
