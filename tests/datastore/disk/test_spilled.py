"""Large arrays in files without names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nearmt.datastore.disk import spilled as module
from nearmt.datastore.disk.spilled import spilled


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_LEAST", 64)
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.mark.parametrize("kind", ["<i4", "<i8", "<f4"])
def test_a_large_array_is_mapped(kind: str, tmp_path: Path) -> None:
    array = np.arange(60, dtype=kind)[::2]
    found = spilled(array)
    assert isinstance(found, np.memmap) and found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    assert list(tmp_path.iterdir()) == []
    found[0] = 7  # private to this process
    assert array[0] == 0


def test_a_small_one_stays(tmp_path: Path) -> None:
    array = np.arange(8, dtype="<i4")
    assert spilled(array) is array


def test_where_no_file_can_be_written_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nearmt.datastore.disk.spilled.tempfile.TemporaryFile", full)
    array = np.arange(60)
    assert spilled(array) is array
