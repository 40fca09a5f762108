"""A file of records: what was acknowledged is read again, whatever happened to the rest."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nearmt.documents.records import RecordFile
from nearmt.errors import OutputError


def records(path: Path) -> list[dict[str, object]]:
    file = RecordFile(path)
    try:
        return list(file.read())
    finally:
        file.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = RecordFile(tmp_path / "a.records")
    for number in range(3):
        file.append({"number": number, "text": "ü\udc80\n"})
    file.close()
    return tmp_path / "a.records"


def test_records_are_read_in_order(path: Path) -> None:
    assert records(path) == [{"number": number, "text": "ü\udc80\n"} for number in range(3)]


def test_every_cut_keeps_the_records_before_it(path: Path) -> None:
    whole = path.read_bytes()
    ends = [number + 1 for number, byte in enumerate(whole) if byte == 10]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert len(records(path)) == sum(end <= size for end in ends)


def test_what_follows_an_altered_record_is_not_read(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"\n") + 15] ^= 1
    path.write_bytes(data)
    assert len(records(path)) == 1


def test_records_are_appended_after_the_last_valid_one(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])
    file = RecordFile(path)
    assert len(list(file.read())) == 2
    file.truncate()
    file.append({"number": 7})
    file.close()
    assert [record["number"] for record in records(path)] == [0, 1, 7]


def test_a_full_disk_leaves_no_torn_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RecordFile(path)
    list(file.read())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match="disk is full"):
            file.append({"number": 3})
    file.append({"number": 4})
    file.close()
    assert [record["number"] for record in records(path)] == [0, 1, 2, 4]


def test_a_file_has_one_writer(path: Path) -> None:
    file = RecordFile(path)
    with pytest.raises(OutputError, match="another process"):
        RecordFile(path)
    file.close()
    RecordFile(path).close()
