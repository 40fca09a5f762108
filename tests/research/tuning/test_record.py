"""The record of trials on disk."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from nearmt.errors import InputError, OutputError
from nearmt.research.tuning.record import Record

POINT = {"lambda": 0.5, "schedule": "every:2"}


def test_records_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    with Record("run", path) as record:
        record.keep(POINT, 0, ["ein", "zwei\u2028drei\n"], score=3.5)
        record.keep(None, 0, ["base"])
        assert record.texts(POINT, 1) is None
    with Record("run", path) as again:
        assert again.texts({"schedule": "every:2", "lambda": 0.5}, 0) == ["ein", "zwei\u2028drei\n"]
        assert again.texts(None, 0) == ["base"] and len(again) == 2
        again.keep(POINT, 1, ["vier"])
    with Record("run", path) as last:
        assert last.texts(POINT, 1) == ["vier"] and len(last) == 3
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert lines[0] == {"signature": "run"} and lines[1]["score"] == 3.5


def test_incomplete_last_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    with Record("run", path) as record:
        record.keep(POINT, 0, ["ä"])
        whole = path.read_bytes()
        record.keep(POINT, 1, ["ü"])
    complete = path.read_bytes()
    for size in range(len(complete) + 1):
        path.write_bytes(complete[:size])
        with Record("run", path) as record:
            known = [record.texts(POINT, number) for number in (0, 1)]
            assert known == [["ä"] if size >= len(whole) else None, ["ü"] if size == len(complete) else None]
            record.keep(POINT, 2, ["ß"])
        with Record("run", path) as record:
            assert record.texts(POINT, 2) == ["ß"]


def test_record_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    with Record("one", path) as record:
        record.keep(POINT, 0, ["x"])
    with path.open("ab") as file:
        file.write(b'{"torn')
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"trials\.jsonl: trials of another model.*--overwrite"):
        Record("two", path)
    assert path.read_bytes() == before
    with Record("two", path, overwrite=True) as record:
        assert len(record) == 0
    with Record("two", path) as record:
        assert len(record) == 0


@pytest.mark.parametrize(
    "content", [b"hello\n", b"[]\n", b"{}\n", b'"x"\n', b"no line end", b'{"signature": "run"}\n{}\n', b"\xff\n"]
)
def test_other_files_are_refused_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trials.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a record of trials"):
        Record("run", path)
    assert path.read_bytes() == content


def test_concurrent_runs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    with Record("run", path), pytest.raises(OutputError, match="another run is writing"):
        Record("run", path)
    with Record("run", path):
        pass


def test_unwritable_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nowhere" / "t.jsonl", tmp_path / "file" / "t.jsonl", tmp_path):
        with pytest.raises(OutputError, match="cannot be written"):
            Record("run", path)


def test_record_without_a_path_stays_in_ram() -> None:
    with Record("run") as record:
        record.keep(POINT, 0, ["x"])
        assert record.texts(POINT, 0) == ["x"]


def test_full_disk_gives_one_line_and_loses_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trials.jsonl"
    with Record("run", path) as record:
        record.keep(POINT, 0, ["x"])
        with monkeypatch.context() as patch:

            def full(handle: int) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(os, "fsync", full)
            with pytest.raises(OutputError, match="the disk is full"):
                record.keep(POINT, 1, ["y"])
    with Record("run", path) as record:
        assert record.texts(POINT, 0) == ["x"]
