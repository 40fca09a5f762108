"""nearmt keys"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearmt.serve.key_file import FILE_NAME, KeyFile
from tests.cli.conftest import Nearmt


def test_a_key_is_printed_once_and_works(nearmt: Nearmt, tmp_path: Path) -> None:
    options = ("--memories", "a,b", "--may", "translate,learn", "--default-memory", "b", "--state", tmp_path)
    made = nearmt("keys", "add", "ada", *options)
    assert made.code == 0 and "only time" in made.err
    principal = KeyFile(tmp_path / FILE_NAME).principal(made.out.strip())
    assert (principal.name, principal.memories, principal.default_memory) == ("ada", frozenset("ab"), "b")
    listed = nearmt("keys", "list", "--state", tmp_path)
    assert "ada" in listed.out and made.out.strip() not in listed.out


def test_the_list_as_json(nearmt: Nearmt, tmp_path: Path) -> None:
    made = json.loads(nearmt("keys", "add", "ada", "--memories", "*", "--json", "--state", tmp_path).out)
    (listed,) = json.loads(nearmt("keys", "list", "--json", "--state", tmp_path).out)
    assert listed == {name: value for name, value in made.items() if name != "key"}
    assert (listed["memories"], listed["may"]) == ("*", ["translate"])


def test_a_removed_key_is_gone(nearmt: Nearmt, tmp_path: Path) -> None:
    nearmt("keys", "add", "ada", "--memories", "a", "--state", tmp_path)
    removed = nearmt("keys", "remove", "ada", "--state", tmp_path)
    assert removed.code == 0 and "refuses every request" in removed.err
    assert KeyFile(tmp_path / FILE_NAME).required
    assert nearmt("keys", "remove", "ada", "--state", tmp_path).code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "ada"], "--memories"),
        (["add", "--memories", "a"], "NAME"),
        (["add", "ada", "--memories", "../a"], "memory name"),
        (["add", "ada", "--memories", "a", "--may", "fly"], "'fly'"),
        (["list", "--may", "learn"], "takes no options of a new key"),
        (["remove"], "NAME"),
    ],
)
def test_wrong_use_is_told(nearmt: Nearmt, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = nearmt("keys", *arguments, "--state", tmp_path)
    assert result.code == 2 and message in result.err and len(result.err.splitlines()) == 1
    assert not (tmp_path / FILE_NAME).exists()


def test_names_are_used_once(nearmt: Nearmt, tmp_path: Path) -> None:
    add = ("keys", "add", "ada", "--memories", "a", "--state", tmp_path)
    assert nearmt(*add).code == 0
    before = (tmp_path / FILE_NAME).read_bytes()
    assert nearmt(*add).code == 2
    assert (tmp_path / FILE_NAME).read_bytes() == before
