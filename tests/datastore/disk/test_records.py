"""Records: what is complete is read, what is torn is cut, what was altered is refused."""

from __future__ import annotations

import os
import struct
import threading
import tracemalloc
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.datastore.disk.file_system import DISK, Disk
from nearmt.datastore.disk.record_format import COMMITTED, PLAIN, frame, header
from nearmt.datastore.disk.records import Records, RecordWriter, read_records, salvage
from nearmt.errors import DatastoreError, OutputError
from tests.datastore.disk.faulty_disk import FaultyDisk, PowerCut

PATH = Path("store/records")
START = len(header())
#: Payloads that look like the file's own bytes are the hard ones.
payloads = st.binary(max_size=60) | st.sampled_from([header(), frame(b"inner", 0), frame(b"", 9)[:-3], b"\xfenmr" * 3])
batches = st.lists(st.lists(payloads, max_size=3), max_size=4)

BATCHES = [[b"one", b"two two"], [b""], [b"three" * 5], [b"four", b"", b"five"]]


def written(path: Path, batches: list[list[bytes]], durable: bool = True) -> list[int]:
    """Write batches; the acknowledged end of each."""
    with RecordWriter(path, durable) as writer:
        return [writer.append(batch) for batch in batches]


def salvaged(path: Path, disk: Disk = DISK) -> list[bytes]:
    return [stretch.data for stretch in salvage(path, disk) if stretch.whole]


def flat(batches: list[list[bytes]]) -> list[bytes]:
    return [payload for batch in batches for payload in batch]


@given(batches, st.booleans(), st.booleans(), st.booleans())
def test_round_trip(batches: list[list[bytes]], durable: bool, short: bool, reopen: bool) -> None:
    disk = FaultyDisk(short_writes=short)
    writer = RecordWriter(PATH, durable, disk)
    seen = 0
    for batch in batches:
        if reopen:
            writer.close()
            writer = RecordWriter(PATH, durable, disk)
        end = writer.append(batch)
        records = read_records(PATH, seen, durable=durable, disk=disk)
        assert (records.payloads, records.end, records.torn) == (batch, end, 0)
        seen = records.end
    everything = read_records(PATH, durable=durable, disk=disk)
    assert everything.payloads == flat(batches) == salvaged(PATH, disk)
    assert everything.ends == sorted(everything.ends)
    assert everything.end == writer.end == disk.open(PATH).size()
    for index, end in enumerate(everything.ends):
        assert read_records(PATH, end, disk=disk).payloads == everything.payloads[index + 1 :]


def test_a_new_file_is_a_header(tmp_path: Path) -> None:
    path = tmp_path / "records"
    assert written(path, [[]]) == [START]
    assert path.read_bytes() == header()
    assert read_records(path) == Records([], [], START, 0)


def test_an_append_is_two_writes_and_two_syncs() -> None:
    """However many records it has; the second pair commits it."""
    disk = FaultyDisk()
    with RecordWriter(PATH, durable=True, disk=disk) as writer:
        disk.calls.clear()
        writer.append([b"a", b"b", b"c"])
        assert disk.calls == {"write": 2, "sync": 2}
        writer.append([])
        assert disk.calls == {"write": 2, "sync": 2}


def test_files_that_are_not_durable_are_never_synced() -> None:
    disk = FaultyDisk()
    for _ in range(2):
        with RecordWriter(PATH, durable=False, disk=disk) as writer:
            writer.append([b"a"])
            writer.append([b"b"])
    assert disk.calls == {"write": 5}


@pytest.mark.parametrize("durable", [True, False])
def test_every_truncation_leaves_the_complete_records(durable: bool, tmp_path: Path) -> None:
    """A log of an older format and live blocks; a log that commits its appends is damaged by it."""
    path = tmp_path / "records"
    written(path, BATCHES, durable)
    whole = read_records(path)
    content = header(PLAIN) + path.read_bytes()[START:]
    for size in range(len(content)):
        path.write_bytes(content[:size])
        complete = sum(end <= size for end in whole.ends)
        records = read_records(path, durable=durable)
        end = whole.ends[complete - 1] if complete else START if size >= START else 0
        assert records == Records(whole.payloads[:complete], whole.ends[:complete], end, size - end)
        with RecordWriter(path, durable) as writer:
            assert writer.cut == size - end
            writer.append([b"next"])
        assert read_records(path).payloads == [*whole.payloads[:complete], b"next"]


def test_every_truncation_of_an_acknowledged_record_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "records"
    written(path, BATCHES)
    whole, content = read_records(path, durable=True), path.read_bytes()
    for size in range(START + 1, len(content)):
        path.write_bytes(content[:size])
        if size in whole.ends:  # as if the rest had never been written
            assert read_records(path, durable=True).end == size
            continue
        for use in (lambda path: read_records(path, durable=True), lambda path: RecordWriter(path, durable=True)):
            with pytest.raises(DatastoreError, match="damaged at byte"):
                use(path)
        assert path.read_bytes() == content[:size]


@pytest.mark.parametrize("version", [PLAIN, COMMITTED])
def test_every_altered_byte_is_seen(version: int, tmp_path: Path) -> None:
    """Also in the last append, which nothing vouches for but its own commit."""
    path = tmp_path / "records"
    written(path, BATCHES)
    whole = read_records(path)
    content = header(version) + path.read_bytes()[START:]
    last = whole.ends[-2]
    for at in range(len(content)):
        for bit in range(8):
            altered = bytearray(content)
            altered[at] ^= 1 << bit
            path.write_bytes(altered)
            begin = max(end for end in [0, START, *whole.ends] if end <= at)
            if version == PLAIN and at >= last:  # logs of an older format: nothing follows, nothing was committed
                records = read_records(path, durable=True)
                assert (records.end, records.torn) == (last, len(content) - last)
                continue
            with pytest.raises(DatastoreError, match=rf"damaged at byte {begin}; .*verify --repair") as caught:
                read_records(path, durable=True)
            assert str(path) in str(caught.value)
            with pytest.raises(DatastoreError, match="damaged"):
                RecordWriter(path, durable=True)
            assert path.read_bytes() == altered
            lost = set() if begin == 0 else {([START, *whole.ends]).index(begin)}
            assert salvaged(path) == [payload for n, payload in enumerate(whole.payloads) if n not in lost]


def test_a_flip_in_the_first_record_of_a_large_append_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "records"
    written(path, [[f"pair {number}".encode() for number in range(900)]])
    content = bytearray(path.read_bytes())
    content[START + 22] ^= 4
    path.write_bytes(content)
    with pytest.raises(DatastoreError, match=f"damaged at byte {START}"):
        read_records(path, durable=True)
    with pytest.raises(DatastoreError, match="damaged"):
        RecordWriter(path, durable=True)
    stretches = salvage(path)
    assert [stretch.whole for stretch in stretches] == [False] + [True] * 899
    assert path.read_bytes() == content


def test_an_append_that_was_not_committed_is_torn_however_much_of_it_arrived(tmp_path: Path) -> None:
    path = tmp_path / "records"
    ends = written(path, BATCHES)
    content = bytearray(path.read_bytes())
    for zeros in (b"\0\0\0\0", b"\xfe\0\0\0", b"\0\0\0r"):
        content[ends[-2] : ends[-2] + 4] = zeros
        for size in range(ends[-2] + 4, len(content) + 1):
            path.write_bytes(content[:size])
            records = read_records(path, durable=True)
            assert (records.payloads, records.end) == (flat(BATCHES[:-1]), ends[-2])
    with RecordWriter(path, durable=True) as writer:
        assert writer.cut and writer.append([b"next"])
    assert read_records(path, durable=True).payloads == [*flat(BATCHES[:-1]), b"next"]


def test_missing_bytes_are_seen() -> None:
    """Also where what is left consists of valid records."""
    disk = FaultyDisk()
    with RecordWriter(PATH, durable=True, disk=disk) as writer:
        ends = [writer.append(batch) for batch in BATCHES]
    content = disk.names[PATH].content
    for begin in range(START, ends[-2]):
        for end in range(begin + 1, ends[-2] + 1):
            disk.names[PATH].content = content[:begin] + content[end:]
            with pytest.raises(DatastoreError, match="damaged"):
                read_records(PATH, durable=True, disk=disk)


def test_a_durable_file_without_its_beginning_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(START))  # a power cut while it was made can leave this
    with RecordWriter(path, durable=True) as writer:
        assert writer.cut == START
    path.write_bytes(bytes(START + 1))  # but not this
    with pytest.raises(DatastoreError, match="damaged at byte 0"):
        RecordWriter(path, durable=True)
    with pytest.raises(DatastoreError, match="damaged at byte 0"):
        read_records(path, durable=True)
    assert read_records(path).torn == START + 1
    assert written(path, [[]], durable=False) == [START]


def test_what_is_not_durable_is_cut_where_it_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "records"
    written(path, BATCHES, durable=False)
    content = bytearray(path.read_bytes())
    ends = read_records(path).ends
    content[ends[2]] ^= 1
    path.write_bytes(content)
    assert read_records(path).payloads == flat(BATCHES)[:3]
    with RecordWriter(path, durable=False) as writer:
        assert writer.cut == len(content) - ends[2]
    content[0] ^= 1
    path.write_bytes(content)
    assert read_records(path) == Records([], [], 0, len(content))


@pytest.mark.parametrize("version", [0, 3, 1 << 31])
def test_another_format_is_refused(version: int, tmp_path: Path) -> None:
    path = tmp_path / "records"
    start = header()[:4] + struct.pack("<I", version)
    path.write_bytes(start + struct.pack("<I", crc32(start)) + frame(b"a", START))
    for use in (read_records, salvage, lambda path: RecordWriter(path, durable=False)):
        with pytest.raises(DatastoreError, match=f"has format {version}.*update nearmt"):
            use(path)


def test_lengths_that_cannot_be_are_torn(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(header() + frame(b"a", START)[:4] + b"\xff" * 16 + b"payload")
    assert read_records(path).torn == 27


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for read in (read_records, salvage):
        with pytest.raises(DatastoreError, match="missing"):
            read(tmp_path / "none")
        with pytest.raises(DatastoreError, match="not an ordinary file"):
            read(tmp_path)
    with pytest.raises(OutputError, match="cannot be written"):
        RecordWriter(tmp_path / "none" / "records", durable=True)


def test_a_file_that_became_shorter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records"
    end = written(path, BATCHES)[-1]
    assert read_records(path, end).payloads == []
    with pytest.raises(DatastoreError, match="open the datastore again"):
        read_records(path, end + 1)


@pytest.mark.parametrize("failing", ["write", "sync", "commit"])
@pytest.mark.parametrize("stuck", [True, False])
def test_after_a_failure_nothing_is_written(failing: str, stuck: bool) -> None:
    # The header, two of the first append, then the second append: its content, its commit.
    fault = {"write": ("write", 3), "sync": ("sync", 3), "commit": ("sync", 4)}[failing]
    disk = FaultyDisk(failures={fault} | ({("truncate", 0)} if stuck else set()))
    writer = RecordWriter(PATH, durable=True, disk=disk)
    acknowledged = writer.append([b"a"])
    with pytest.raises(OutputError, match=r"records: cannot be written \(Input/output error\)"):
        writer.append([b"b", b"c"])
    with pytest.raises(OutputError, match="an earlier write failed; open it again"):
        writer.append([b"d"])
    assert writer.end == acknowledged
    there = [b"a", b"b", b"c"] if failing == "commit" and stuck else [b"a"]
    assert read_records(PATH, durable=True, disk=disk).payloads == there
    with RecordWriter(PATH, durable=True, disk=disk) as writer:
        writer.append([b"e"])
    # The content is on disk, although the system lost some of it at the first sync.
    assert read_records(PATH, disk=disk.after_power_cut()).payloads == [*there, b"e"]


def test_an_interrupt_within_an_append_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records"
    real = os.pwrite

    def interrupted(handle: int, data: memoryview, offset: int) -> int:
        if offset > START + 30:
            raise KeyboardInterrupt
        return real(handle, data[:5], offset)

    with RecordWriter(path, durable=True) as writer:
        writer.append([b"a"])
        monkeypatch.setattr(os, "pwrite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.append([b"b" * 30])
        with pytest.raises(OutputError, match="an earlier write failed"):
            writer.append([b"c"])
    assert read_records(path) == Records([b"a"], [START + 21], START + 21, 0)


def test_a_disk_that_takes_no_byte_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordWriter(tmp_path / "records", durable=True) as writer:
        monkeypatch.setattr(os, "pwrite", lambda *_: 0)
        with pytest.raises(OutputError, match="takes no more bytes"):
            writer.append([b"a"])


def test_a_writer_that_was_closed_writes_no_more(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "records", durable=True)
    writer.close()
    writer.close()
    with pytest.raises(OutputError):
        writer.append([b"a"])


def test_live_blocks_after_a_power_cut_are_a_prefix() -> None:
    for seed in range(200):
        disk = FaultyDisk(Random(seed), sector=16, power=6)
        try:
            with RecordWriter(PATH, durable=False, disk=disk) as writer:
                for batch in BATCHES * 3:
                    writer.append(batch)
        except PowerCut:
            pass
        disk = disk.after_power_cut()
        if PATH in disk.names:
            there = read_records(PATH, disk=disk).payloads
            assert there == flat(BATCHES * 3)[: len(there)]
            RecordWriter(PATH, durable=False, disk=disk)


def test_reading_during_writes(tmp_path: Path) -> None:
    path = tmp_path / "records"
    expected = [bytes([number % 256]) * (number * 37 % 5000) for number in range(600)]
    writer = RecordWriter(path, durable=False)
    thread = threading.Thread(target=lambda: [writer.append(expected[at : at + 3]) for at in range(0, 600, 3)])
    thread.start()
    read: list[bytes] = []
    end = 0
    while len(read) < len(expected):
        finished = not thread.is_alive()
        records = read_records(path, end)
        read, end = read + records.payloads, records.end
        assert read == expected[: len(read)]
        assert not finished or len(read) == len(expected)
    thread.join()
    writer.close()


def test_a_tail_that_is_written_anew_while_it_is_read_is_no_damage(tmp_path: Path) -> None:
    """The reader saw the beginning of an append that failed, then what was acknowledged in its place."""
    path = tmp_path / "records"
    ends = written(path, BATCHES)
    good = path.read_bytes()
    looks = 0

    class Disk:
        def open(self, path: Path, write: bool = False) -> object:
            nonlocal looks
            looks += 1
            mixed = bytearray(good)
            mixed[ends[0] + 20] ^= looks == 1
            path.write_bytes(mixed)
            return DISK.open(path)

    assert read_records(path, disk=Disk()).payloads == flat(BATCHES)  # type: ignore[arg-type]
    assert looks == 2


def test_reading_holds_little_more_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "records"
    payload = os.urandom(1 << 16)
    written(path, [[payload] * 100], durable=False)
    with path.open("r+b") as file:  # half of it is searched for later records
        file.seek(path.stat().st_size // 2)
        file.write(b"\0")
    tracemalloc.start()
    try:
        records = read_records(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 40 < len(records.payloads) < 60
    assert peak < 0.6 * path.stat().st_size
