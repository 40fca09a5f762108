"""What can be known before a model is loaded is said before: here loading a model is a failure of the test."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nearmt.cli.shortages import exhausted
from nearmt.corpus.output import check_writable
from nearmt.errors import InputError, OutputError
from nearmt.models import ModelConfig
from nearmt.models.directions import known_direction
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line


@pytest.fixture
def unloaded(nearmt: Nearmt, monkeypatch: pytest.MonkeyPatch) -> Nearmt:
    def load(name: str) -> Any:
        raise AssertionError(f"{name} was loaded")

    monkeypatch.setattr("nearmt.models.load_pretrained", load)
    return nearmt


@pytest.fixture
def damaged(store: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "damaged"
    shutil.copytree(store, copy)
    (copy / "segment-000001" / "token.i32").write_bytes(b"1")
    return copy


@pytest.fixture
def latin(tmp_path: Path) -> Path:
    path = tmp_path / "latin.tsv"
    path.write_bytes(b"gut\tgood\nsch\xf6n\tnice\n")
    return path


def commands(folder: Path, memory: Path, text: Path, tmp_path: Path) -> dict[str, tuple[object, ...]]:
    """Every command that loads a model, with arguments that nothing is wrong with."""
    return {
        "translate": ("translate", text, "--datastore", folder),
        "stream": ("stream", text, "--datastore", folder),
        "evaluate": ("evaluate", "--test", memory, "--datastore", folder),
        "tune": ("tune", folder, "--dev", memory, "--out", tmp_path / "t.toml"),
        "train-adaptive": ("train-adaptive", folder, "--dev", memory, "--general", memory, "--out", tmp_path / "n"),
        "add": ("add", folder, memory),
        "reindex": ("reindex", folder, "--device", "cpu"),
        "compact": ("compact", folder, "--device", "cpu"),
        "build": ("build", memory, "--out", tmp_path / "s"),
        "finetune": ("finetune", memory, "--dev", memory, "--out", tmp_path / "f"),
    }


OF_A_STORE = ["translate", "stream", "evaluate", "tune", "train-adaptive", "add", "reindex", "compact"]


@pytest.mark.parametrize("name", OF_A_STORE)
def test_a_damaged_store(unloaded: Nearmt, damaged: Path, memory: Path, text: Path, tmp_path: Path, name: str) -> None:
    assert_one_line(unloaded(*commands(damaged, memory, text, tmp_path)[name]), 1, "token.i32")
    manifest = damaged / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:100])
    assert_one_line(unloaded(*commands(damaged, memory, text, tmp_path)[name]), 1, "manifest.json")


@pytest.mark.parametrize("name", [*OF_A_STORE, "build", "finetune"])
def test_a_wrong_language(
    unloaded: Nearmt, store: Path, memory: Path, text: Path, tmp_path: Path, tiny_folder: Path, name: str
) -> None:
    model = () if name in OF_A_STORE else ("--model", tiny_folder)
    french = ("--set", "source-lang=fr") if name == "tune" else ("--source-lang", "fr")
    wrong = unloaded(*commands(store, memory, text, tmp_path)[name], *model, *french)
    assert_one_line(wrong, 1, "translates de to en, not fr to en")
    assert_one_line(unloaded("translate", text, "--target-lang", "fr"), 1, "de-en translates de to en, not de to fr")


@pytest.mark.parametrize("name", ["translate", "stream", "evaluate", "tune", "train-adaptive", "finetune", "build"])
def test_a_wrong_encoding(
    unloaded: Nearmt, store: Path, latin: Path, tmp_path: Path, tiny_folder: Path, name: str
) -> None:
    flags = {"build": ("--strict", "--model", tiny_folder), "finetune": ("--model", tiny_folder), "stream": ("--all",)}
    result = unloaded(*commands(store, latin, latin, tmp_path)[name], *flags.get(name, ()))
    assert_one_line(result, 1, "latin.tsv, line 2: not UTF-8")


@pytest.mark.parametrize("name", ["translate", "stream", "evaluate", "tune", "train-adaptive", "export"])
def test_an_output_that_cannot_be_written(
    unloaded: Nearmt, store: Path, memory: Path, text: Path, tmp_path: Path, name: str
) -> None:
    run = {**commands(store, memory, text, tmp_path), "export": ("export", store)}[name]
    option = "--out" if "--out" in run else "--output"
    run = run[: run.index(option)] if option in run else run
    # Not even root can create files there.
    for path, told in (
        (tmp_path / "no" / "f", "there is no folder"),
        (tmp_path, "is a folder"),
        ("/proc/f", "/proc/f"),
    ):
        if name == "translate" and path == tmp_path:
            continue  # the file goes into the folder
        assert_one_line(unloaded(*run, option, path), 1, told)


def test_a_network_that_is_not_there(unloaded: Nearmt, store: Path, text: Path, tmp_path: Path) -> None:
    wanted = ("--datastore", store, "--set", f"adaptive={tmp_path}/none")
    assert_one_line(unloaded("translate", text, *wanted), 1, "none: cannot be read")


def test_a_folder_that_cannot_be_made(unloaded: Nearmt, memory: Path, tmp_path: Path) -> None:
    for folder in ("/proc/s", memory / "s"):
        assert_one_line(unloaded("build", memory, "--out", folder), 1, folder)
        assert_one_line(unloaded("finetune", memory, "--dev", memory, "--out", folder), 1, folder)


def test_checks_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(tmp_path / "f")
    (tmp_path / "g").write_text("old", encoding="utf-8")
    check_writable(tmp_path / "g")
    check_writable(Path("/dev/null"))
    assert [path.name for path in tmp_path.iterdir()] == ["g"]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OutputError, match="Permission denied"):
        check_writable(Path("/dev/null"))


def test_directions_of_files(tmp_path: Path, tiny_folder: Path) -> None:
    assert known_direction(ModelConfig()) == ("de", "en")
    assert known_direction(ModelConfig(target_lang="en-GB")) == ("de", "en-GB")
    assert known_direction(ModelConfig(model="none/such", source_lang="de")) == ("de", None)
    copy = tmp_path / "m"
    shutil.copytree(tiny_folder, copy)
    vocabulary = json.loads((copy / "vocab.json").read_text(encoding="utf-8"))
    (copy / "vocab.json").write_text(json.dumps({**vocabulary, ">>fra<<": 999}), encoding="utf-8")
    # A model of several targets: its codec knows which.
    assert known_direction(ModelConfig(model=str(copy), target_lang="fr")) == (None, "fr")
    (copy / "config.json").write_text("[]", encoding="utf-8")
    assert known_direction(ModelConfig(model=str(copy))) == (None, None)


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "not enough memory; a smaller --batch-size"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate"), "not enough memory"),
        (RuntimeError("std::bad_alloc"), "not enough memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory"),
        (OutOfMemoryError("CUDA out of memory"), "the GPU has too little memory"),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files; raise the limit (`ulimit -n"),
    ],
)
def test_shortages(
    nearmt: Nearmt, text: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def search(*arguments: object, **settings: object) -> None:
        raise error

    monkeypatch.setattr("nearmt.translator.beam_search", search)
    assert_one_line(nearmt("translate", text, "--model", tiny_folder), 1, told)


def test_a_shortage_behind_an_error_of_a_file() -> None:
    error = InputError("a.tsv: cannot be read (Too many open files)")
    error.__cause__ = OSError(errno.EMFILE, "Too many open files")
    assert "ulimit -n" in (exhausted(error) or "")
    assert exhausted(InputError("a.tsv: no such file")) is None


def test_a_real_limit_of_open_files(store: Path) -> None:
    command = f"ulimit -n 5; exec '{sys.executable}' -m nearmt verify '{store}'"
    environment = {**os.environ, "PYTHONPATH": "src"}
    found = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 1 and found.stderr.startswith("nearmt: error: too many open files; raise the limit")
    assert found.stderr.count("\n") == 1
