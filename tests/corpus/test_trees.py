"""Documents below folders, and where their translations go."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.trees import Tree, TreeFile, check_inside, check_outputs, find_documents
from nearmt.errors import ConfigError, InputError, OutputError

RECORD = "record"


def made(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n", encoding="utf-8")
    return folder


def names(tree: Tree) -> list[str]:
    return [file.name.as_posix() for file in tree.files]


def left_alone(tree: Tree, folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): reason for path, reason in tree.left_alone}


def test_a_folder_keeps_its_tree(tmp_path: Path) -> None:
    folder = made(
        tmp_path / "in", "b.po", "a.txt", "de/LC_MESSAGES/x.po", "de/a.XLF", "docs/m.tmx.gz", "z/deep/t.jsonl"
    )
    tree = find_documents([folder])
    assert names(tree) == ["a.txt", "b.po", "de/a.XLF", "de/LC_MESSAGES/x.po", "docs/m.tmx.gz", "z/deep/t.jsonl"]
    assert [file.path for file in tree.files] == [folder / name for name in names(tree)]
    assert not tree.left_alone and not tree.failures


def test_what_is_left_alone(tmp_path: Path) -> None:
    folder = made(tmp_path / "in", "a.po", "logo.png", "a.mo", "a.docx", "README", "main.py", ".hidden.po", ".git/x.po")
    made(tmp_path, "outside/b.po")
    (folder / "link.po").symlink_to(tmp_path / "outside" / "b.po")
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "circle").symlink_to(folder)
    os.mkfifo(folder / "pipe.po")
    tree = find_documents([folder])
    assert names(tree) == ["a.po"]
    other = dict.fromkeys(["logo.png", "a.mo", "a.docx", "README", "main.py"], "not a format that is filled in")
    links = dict.fromkeys(["link.po", "linked", "circle"], "a symbolic link")
    hidden = dict.fromkeys([".hidden.po", ".git"], "hidden")
    assert left_alone(tree, folder) == {**other, **links, **hidden, "pipe.po": "not an ordinary file"}


def test_named_files_keep_their_names_whatever_their_suffix(tmp_path: Path) -> None:
    made(tmp_path, "x/a.po", "x/strings.lng", "y/b.po")
    (tmp_path / "link.po").symlink_to(tmp_path / "y" / "b.po")
    (tmp_path / "linked").symlink_to(tmp_path / "x")
    assert names(find_documents([tmp_path / "x" / "strings.lng", tmp_path / "link.po"])) == ["strings.lng", "link.po"]
    assert names(find_documents([tmp_path / "linked", tmp_path / "y"])) == ["a.po", "b.po"]


@pytest.mark.parametrize("name", ["empty", "others"])
def test_a_folder_without_documents_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    made(tmp_path, "others/a.png", "others/b.png", "full/a.po")
    with pytest.raises(InputError, match=rf"{name}: the folder has no documents") as raised:
        find_documents([tmp_path / "full", tmp_path / name])
    assert ("2 others" in str(raised.value)) == (name == "others")


def test_missing_paths_are_refused(tmp_path: Path) -> None:
    made(tmp_path, "app.po")
    with pytest.raises(InputError, match=r"ap\.po: no such file; did you mean 'app.po'"):
        find_documents([tmp_path / "app.po", tmp_path / "ap.po"])
    with pytest.raises(InputError, match="no such file"):
        find_documents([tmp_path / "none" / "a.po"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not an ordinary file; translate it alone"):
        find_documents([tmp_path / "pipe"])


def test_a_folder_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path / "in", "a.po", "locked/b.po", "z/c.po")
    real = os.scandir

    def scandir(path: Path) -> Any:
        if path == folder / "locked":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    tree = find_documents([folder])
    assert names(tree) == ["a.po", "z/c.po"]
    assert [(path, str(error)) for path, error in tree.failures] == [
        (folder / "locked", f"{folder / 'locked'}: cannot be read (Permission denied)")
    ]
    only = find_documents([folder / "locked"])
    assert only.files == [] and len(only.failures) == 1


def test_a_tree_that_is_deeper_than_the_stack(tmp_path: Path) -> None:
    made(tmp_path, "/".join(["d"] * 200) + "/a.po")
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        tree = find_documents([tmp_path])
    finally:
        sys.setrecursionlimit(before)
    assert [len(file.name.parts) for file in tree.files] == [201]


# Outputs.


def checked(paths: Iterable[Path], output: Path) -> Tree:
    tree = find_documents(list(paths))
    check_outputs(tree, list(paths), output, RECORD)
    return tree


def test_an_output_within_the_input_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "in", "a.po", "sub/b.po")
    (tmp_path / "alias").symlink_to(folder)
    for output in (
        folder,
        folder / "out",
        folder / "sub" / "x" / "y",
        tmp_path / "alias" / "out",
        folder / ".." / "in",
    ):
        with pytest.raises(ConfigError, match=r"is in the input folder .*; name another --output"):
            checked([folder], output)
    assert len(checked([folder], tmp_path / "in2").files) == 2


def test_an_output_that_is_an_input_is_refused(tmp_path: Path) -> None:
    made(tmp_path, "out/sub/a.po", "out/a.po", "out/in/sub/c.po", "out/sub/c.po")
    with pytest.raises(ConfigError, match="is the input file"):
        checked([tmp_path / "out" / "a.po"], tmp_path / "out")
    checked([tmp_path / "out" / "sub" / "a.po"], tmp_path / "out")  # an earlier output is written over
    with pytest.raises(ConfigError, match="is the input file"):
        checked([tmp_path / "out" / "sub" / "a.po", tmp_path / "out" / "a.po"], tmp_path / "out")


def test_two_files_for_one_output_are_refused(tmp_path: Path) -> None:
    made(tmp_path, "x/a.po", "y/a.po", "z/a.po.gz", "z/a.po")
    with pytest.raises(ConfigError, match=r"would both be written to .*a\.po; name the folder that holds both"):
        checked([tmp_path / "x" / "a.po", tmp_path / "y" / "a.po"], tmp_path / "out")
    with pytest.raises(ConfigError, match="would both be written"):
        checked([tmp_path / "x", tmp_path / "y"], tmp_path / "out")
    # Their outputs have different names.
    assert names(checked([tmp_path / "z"], tmp_path / "out")) == ["a.po", "a.po.gz"]


def test_a_file_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    folder = made(tmp_path / "in", "a.po", "b.po")
    same = [folder / "a.po", folder / "a.po", tmp_path / "in" / ".." / "in" / "a.po", folder]
    assert names(checked(same, tmp_path / "out")) == ["a.po", "b.po"]


@pytest.mark.parametrize("other", ["x", "x.po.resume", "x.po.partial", RECORD])
def test_a_file_where_something_else_goes_is_refused(tmp_path: Path, other: str) -> None:
    folder = made(tmp_path / "in", "x/deep/a.po", "x.po")
    with pytest.raises(ConfigError, match="would both be written to"):
        checked([folder, made(tmp_path, f"named/{other}") / "named" / other], tmp_path / "out")


def test_links_do_not_lead_out_of_the_output(tmp_path: Path) -> None:
    out = made(tmp_path / "out", "inner/a.po")
    made(tmp_path, "elsewhere/a.po")
    (out / "away").symlink_to(tmp_path / "elsewhere")
    (out / "near").symlink_to(out / "inner")
    (out / "circle").symlink_to(out / "circle")
    (tmp_path / "typed").symlink_to(out)
    for name in ("away/a.po", "away/new/a.po"):
        with pytest.raises(OutputError, match=r"a symbolic link leads out of .*; replace it"):
            check_inside(out / name, out)
    for name in ("near/a.po", "inner/a.po", "new/deep/a.po"):
        check_inside(out / name, out)
        check_inside(tmp_path / "typed" / name, tmp_path / "typed")
    for target in (out / "inner", Path("/dev/full")):
        with pytest.raises(OutputError, match="is not an ordinary file"):
            check_inside(target, target.parent)


PARTS = st.sampled_from(["a.po", "b.txt", "a.po.gz", "sub", "x.tmx", "x.tmx.resume"])


@given(st.sets(st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: PurePath(*parts)), min_size=1, max_size=8))
def test_outputs_are_apart_or_refused(wanted: set[PurePath]) -> None:
    """After the check no output is a folder of another, and none has a name that unfinished output has."""
    tree = Tree([TreeFile(Path("/none/in") / name, name) for name in sorted(wanted)])
    try:
        check_outputs(tree, [], Path("/none/out"), RECORD)
    except ConfigError:
        refused = True
    else:
        refused = False
    inside = any(parent in wanted for name in wanted for parent in name.parents)
    unfinished = any(name.with_name(name.name + ".resume") in wanted for name in wanted)
    assert refused == (inside or unfinished)
