"""Fixtures for the command line: a memory, texts and a built store, all with the tiny model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nearmt.cli.main import run
from nearmt.datastore import Datastore
from tests.conftest import make_pairs


@dataclass
class Result:
    code: int
    out: str
    err: str


Nearmt = Callable[..., Result]


@pytest.fixture
def nearmt(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Nearmt:
    """Run the command line in this process."""
    # A bug shows its traceback in the test, and not as one line.
    monkeypatch.setenv("NEARMT_DEBUG", "1")

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.tsv"
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in make_pairs(30)), encoding="utf-8")
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("die pumpe prüfen\n\nder motor und die welle\n   \nventil\n", encoding="utf-8")
    return path


@pytest.fixture
def store(tiny_store: Datastore) -> Path:
    """A finished store that tests read and must not change."""
    return tiny_store.path
