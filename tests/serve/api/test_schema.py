"""Requests that schemathesis makes from the schema, good ones and bad ones, over real connections."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.models import TranslationModel
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.models import Models
from nearmt.serve.service import Service
from tests.serve.live import live

pytestmark = pytest.mark.services

#: 400 tells what no schema can (a language that no model has), 503 that the memory is being changed, 504 that a
#: deadline of no time at all has passed.
_SETTINGS = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "403", "404", "409", "503", "504"]
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503", "504"]
"""


@pytest.fixture
def address(tiny: TranslationModel, tmp_path: Path) -> Iterator[str]:
    """A running server with a memory."""
    service = Service(ServeConfig(memories=str(tmp_path / "memories")), Models([tiny]))
    service.create_memory(ANONYMOUS, "mine")
    service.add_pairs(ANONYMOUS, "mine", [Pair("die pumpe .", "the pump .", id="7")])
    with live(create_app(service)) as running:
        yield running.address
    service.close()


def test_schemathesis_finds_nothing(address: str, tmp_path: Path) -> None:
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(_SETTINGS)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "run"]
    limits = ["--seed", "25", "--generation-deterministic", "--max-examples", "10", "--no-color"]
    phases = ["--phases", "examples,coverage,fuzzing,stateful"]
    done = subprocess.run(
        [*command, f"{address}/api/v1/openapi.json", *limits, *phases],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert "Tested: 37" in done.stdout
