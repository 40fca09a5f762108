"""Sealed files are compared with their records, large ones in threads while the store is opened."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nearmt.datastore.disk import FileRecord
from nearmt.datastore.disk.file_checks import checking, damage_of
from nearmt.errors import DatastoreError


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, FileRecord]:
    monkeypatch.setattr("nearmt.datastore.disk.file_checks._SMALL", 100)
    for number in range(6):
        (tmp_path / f"{number}").write_bytes(bytes([number]) * 10**number)
    return {path: FileRecord.of(path) for path in sorted(tmp_path.iterdir())}


def flip(path: Path, offset: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_files_as_they_were(files: dict[Path, FileRecord]) -> None:
    for thorough in (False, True):
        with checking(files, thorough):
            pass
    before = threading.active_count()
    with checking(files, thorough=False):
        assert threading.active_count() == before


@pytest.mark.parametrize("number", range(6))
def test_an_altered_file_is_named(number: int, files: dict[Path, FileRecord]) -> None:
    path = list(files)[number]
    flip(path)
    with pytest.raises(DatastoreError, match=rf"{path}: altered"), checking(files, thorough=True):
        pass
    with checking(files, thorough=False):
        pass
    path.unlink()
    with pytest.raises(DatastoreError, match=rf"{path}: missing"), checking(files, thorough=False):
        raise AssertionError("sizes are checked first")


def test_damage_explains_a_failure(files: dict[Path, FileRecord]) -> None:
    with pytest.raises(KeyError), checking(files, thorough=True):
        raise KeyError("no damage")
    flip(list(files)[5])
    with pytest.raises(DatastoreError, match="altered"), checking(files, thorough=True):
        raise KeyError("follows from the damage")


def test_an_interruption_does_not_wait(files: dict[Path, FileRecord]) -> None:
    stop = threading.Event()
    stop.set()
    path, record = list(files.items())[5]
    assert damage_of(path, record, stop=stop) is not None  # nothing was read
    flip(path)
    with pytest.raises(KeyboardInterrupt), checking(files, thorough=True):
        raise KeyboardInterrupt
    assert not [thread for thread in threading.enumerate() if "nearmt-checks" in thread.name]
