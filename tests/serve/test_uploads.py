"""Files that clients upload."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from nearmt.errors import InputError
from nearmt.serve.errors import TooLarge
from nearmt.serve.uploads import safe_name, save


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.tmx", "a.tmx"),
        ("Ä b (2).po.gz", "Ä b (2).po.gz"),
        ("../../etc/passwd", "passwd"),
        ("C:\\files\\a.tmx", "a.tmx"),
        (".hidden.tmx", "_hidden.tmx"),
        ("..", "_"),
        ("", "upload"),
        ("a\x00\n/b\x00.tsv", "b_.tsv"),
        ("x/", "upload"),
    ],
)
def test_names_are_names_of_files(given: str, name: str) -> None:
    assert safe_name(given) == name


def test_long_names_keep_their_suffix() -> None:
    name = safe_name("ü" * 300 + ".tmx.gz")
    assert name.endswith("ü.tmx.gz")
    assert len(name.encode()) <= 100
    assert safe_name("a", ".tmx") == "a.tmx"


def test_an_upload_is_complete_or_not_there(tmp_path: Path) -> None:
    assert save(io.BytesIO(b"abc"), tmp_path / "jobs" / "1" / "a", 3) == 3
    assert (tmp_path / "jobs" / "1" / "a").read_bytes() == b"abc"
    with pytest.raises(TooLarge):
        save(io.BytesIO(b"abcd"), tmp_path / "b", 3)
    with pytest.raises(InputError, match="empty"):
        save(io.BytesIO(b""), tmp_path / "b", 3)
    assert not (tmp_path / "b").exists()
