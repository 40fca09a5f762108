"""Keys are shown once, stored as hashes, and read again when the file changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.errors import ConfigError, InputError
from nearmt.serve.errors import Forbidden, NotFound, Unauthorized
from nearmt.serve.key_file import FILE_NAME, KeyFile, KeyRecord, changing, digest, make_record, read_keys


def add(folder: Path, name: str = "ada", memories: tuple[str, ...] = ("a", "b"), **more: object) -> str:
    record, key = make_record(name, memories, ("translate",), **more)  # type: ignore[arg-type]
    with changing(folder) as records:
        records.append(record)
    return key


def test_the_file_has_the_hash_and_not_the_key(tmp_path: Path) -> None:
    key = add(tmp_path)
    text = (tmp_path / FILE_NAME).read_text(encoding="utf-8")
    assert key not in text and digest(key) in text
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


def test_a_key_has_its_memories_only(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / FILE_NAME)
    principal = keys.principal(add(tmp_path, default_memory="a", requests=5))
    assert (principal.name, principal.default_memory, principal.requests) == ("ada", "a", 5)
    assert principal.sees("a") and not principal.sees("c")
    with pytest.raises(NotFound):
        principal.check_memory("c")
    with pytest.raises(Forbidden):
        principal.check("learn")


def test_a_star_means_memories_of_the_future_too(tmp_path: Path) -> None:
    assert KeyFile(tmp_path / FILE_NAME).principal(add(tmp_path, memories=("*",))).sees("later")


@pytest.mark.parametrize("key", [None, "", "nearmt_wrong", "\ud800", "a" * 100_000, "ä"])
def test_other_keys_are_refused(tmp_path: Path, key: str | None) -> None:
    add(tmp_path)
    with pytest.raises(Unauthorized):
        KeyFile(tmp_path / FILE_NAME).principal(key)


def test_changes_count_without_a_restart(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / FILE_NAME)
    assert not keys.required and keys.principal(None).memories is None
    key = add(tmp_path)
    assert keys.required and keys.principal(key).name == "ada"
    with changing(tmp_path) as records:
        records.clear()
    with pytest.raises(Unauthorized):
        keys.principal(key)


def test_requests_without_keys_have_a_default_memory(tmp_path: Path) -> None:
    assert KeyFile(tmp_path / FILE_NAME, default_memory="manual").principal(None).default_memory == "manual"


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_file_that_is_lost_does_not_open_the_server(tmp_path: Path, damage: str) -> None:
    key = add(tmp_path)
    keys = KeyFile(tmp_path / FILE_NAME)
    (tmp_path / FILE_NAME).unlink() if damage == "missing" else (tmp_path / FILE_NAME).write_text("{")
    for given in (key, None):
        with pytest.raises(Unauthorized):
            keys.principal(given)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"keys": [{}]}', '{"keys": [{"name": "a", "hash": "00", "memories": []}]}']
)
def test_a_damaged_file_is_an_error_at_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="not a key file"):
        KeyFile(tmp_path / FILE_NAME)


def test_a_failed_change_writes_nothing(tmp_path: Path) -> None:
    add(tmp_path)
    before = read_keys(tmp_path / FILE_NAME)
    with pytest.raises(ZeroDivisionError), changing(tmp_path) as records:
        records[:] = records[: 1 // 0]
    assert read_keys(tmp_path / FILE_NAME) == before


@pytest.mark.parametrize(
    ("name", "memories", "may", "default"),
    [
        ("", ["a"], ["translate"], None),
        ("a/b", ["a"], ["translate"], None),
        ("ada", ["../a"], ["translate"], None),
        ("ada", ["a"], ["everything"], None),
        ("ada", ["a"], ["translate"], "b"),
        ("ada", ["a", "*"], ["translate"], None),
    ],
)
def test_bad_keys_are_not_made(name: str, memories: list[str], may: list[str], default: str | None) -> None:
    with pytest.raises(ConfigError):
        make_record(name, memories, may, default)


def test_a_server_that_only_reads_learns_from_nobody(tmp_path: Path) -> None:
    record, key = make_record("ada", ["*"], ["translate", "learn", "admin"])
    with changing(tmp_path) as records:
        records.append(record)
    assert KeyFile(tmp_path / FILE_NAME, read_only=True).principal(key).may == {"translate"}
    assert KeyFile(tmp_path / "none", read_only=True).principal(None).may == {"translate"}


def test_a_record_survives_the_file(tmp_path: Path) -> None:
    record, _ = make_record("ada", ["a"], ["learn"], "a", 10, 1000)
    with changing(tmp_path) as records:
        records.append(record)
    (read,) = read_keys(tmp_path / FILE_NAME)
    assert read == record and isinstance(read, KeyRecord)
