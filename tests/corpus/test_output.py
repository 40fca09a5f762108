"""Files that get their name when they are complete."""

from __future__ import annotations

from pathlib import Path

from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import open_file


def test_unfinished_content_does_not_follow_a_link(tmp_path: Path) -> None:
    """A folder of others may hold links with the names of files that nearmt writes."""
    (tmp_path / "precious").write_text("precious", encoding="utf-8")
    (tmp_path / "a.po.partial").symlink_to(tmp_path / "precious")
    (tmp_path / "a.po").symlink_to(tmp_path / "precious")
    with open_file(tmp_path / "a.po", Encoding()) as out:
        out.write("new")
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "precious"
    assert (tmp_path / "a.po").read_text(encoding="utf-8") == "new" and not (tmp_path / "a.po").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.po", "precious"]


def test_what_is_left_of_an_interrupted_run_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.txt.partial").write_text("longer than what is written now", encoding="utf-8")
    with open_file(tmp_path / "a.txt", Encoding()) as out:
        out.write("new")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "new"
