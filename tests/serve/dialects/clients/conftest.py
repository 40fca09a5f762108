"""One server in a process of its own, with the embedded model, a memory, and keys."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs_runner import SAMPLES
from tests.serve.process import ServerProcess

#: A pair of the memory, whose translation the model alone does not find.
SOURCE = "Jeder Gießkreis hat einen eigenen Feuchtefühler."
TARGET = "Every watering zone has its own moisture probe."


@dataclass(frozen=True)
class RunningServer:
    """The address of a server, and keys that it knows."""

    address: str
    #: May do everything, and uses the memory where a client names none.
    key: str
    #: May translate with the model alone.
    plain_key: str


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("clients")
    _nearmt(folder, "build", SAMPLES / "memory.tmx", "--out", folder / "memories" / "garden")
    rights = ("--memories", "*", "--may", "translate,learn,admin", "--default-memory", "garden")
    key = _nearmt(folder, "keys", "add", "all", *rights)
    plain_key = _nearmt(folder, "keys", "add", "plain", "--memories", "none")
    with ServerProcess([], folder, {"OMP_NUM_THREADS": "1"}) as process:
        yield RunningServer(process.wait_until_started(), key, plain_key)


def _nearmt(folder: Path, *arguments: object) -> str:
    """Run a command and return its last line."""
    command = [sys.executable, "-m", "nearmt", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (done.stdout.strip().splitlines() or [""])[-1]
