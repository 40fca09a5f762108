"""The file of confirmed pairs: there at once, cut on undo, continued."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.errors import ConfigError, OutputError
from nearmt.stream import ConfirmedFile


def test_pairs_are_there_at_once_and_go_when_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    with ConfirmedFile(path) as out:
        out.write(Pair("gut", "good", origin="somewhere"))
        assert path.read_text(encoding="utf-8") == "gut\tgood\n"
        out.write(Pair("schön\tund\ngut", "nice"))
        assert path.read_text(encoding="utf-8") == "gut\tgood\nschön und gut\tnice\n"
        out.undo()
        out.write(Pair("böse", "evil"))
        out.undo()
        out.undo()
        out.undo()
        assert path.read_bytes() == b""
        out.write(Pair("alt", "old"))
    assert [(pair.source, pair.target) for pair in read_pairs(path)] == [("alt", "old")]


def test_it_goes_on_behind_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    path.write_text("gut\tgood", encoding="utf-8")
    with ConfirmedFile(path) as out:
        out.write(Pair("alt", "old"))
        out.undo()
        out.undo()
        out.write(Pair("neu", "new"))
    assert path.read_text(encoding="utf-8") == "gut\tgood\nneu\tnew\n"


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        ConfirmedFile(tmp_path)
    with pytest.raises(OutputError, match="cannot be written"):
        ConfirmedFile(tmp_path / "no" / "out.tsv")
    with pytest.raises(ConfigError, match=r"without \.gz"):
        ConfirmedFile(tmp_path / "out.tsv.gz")
    with pytest.raises(OutputError, match="the disk is full"), ConfirmedFile(Path("/dev/full")) as out:
        out.write(Pair("gut", "good"))
