"""The official JavaScript client of DeepL, unchanged."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.docs_runner import ADDRESS, DOCS, SAMPLES, blocks
from tests.serve.dialects.clients.conftest import SOURCE, TARGET, RunningServer
from tools.service_clients import NODE

SCRIPT = Path(__file__).with_name("deepl_client.cjs")


pytestmark = pytest.mark.services


def node(*command: object) -> str:
    """The output of a program."""
    environment = {**os.environ, "NODE_PATH": str(NODE / "node_modules")}
    line = ["node", *map(str, command)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_for_node(server: RunningServer, tmp_path: Path) -> None:
    found = json.loads(node(SCRIPT, server.address, server.key, SOURCE, SAMPLES / "memory.tmx", tmp_path))
    (first, language), (second, _) = found["texts"]
    assert (first, language) == (TARGET, "de")
    assert second.count("<b>") == second.count("</b>") == 1
    assert (found["sources"], found["targets"]) == (["de"], ["en-GB", "en-US"])
    assert found["pairs"] == [{"sourceLang": "de", "targetLang": "en"}]
    assert not found["limit"]
    glossaries = found["glossaries"]
    assert "chief valve" in glossaries["text"]
    assert glossaries["stored"] == {"Hauptventil": "chief valve"}
    assert (glossaries["renamed"], glossaries["count"]) == ("terms", 1)
    assert found["memories"]["text"] == TARGET
    assert found["memories"]["segments"] > 1
    assert TARGET in found["memories"]["exported"]
    assert found["document"] == f"<p>{TARGET}</p>"
    assert found["refusal"] == "AuthorizationError"


def test_the_documentation(server: RunningServer, tmp_path: Path) -> None:
    """The tests of pages run everything but JavaScript."""
    (block,) = (found for found in blocks(DOCS / "server" / "dialects.md") if found.language == "javascript")
    program = tmp_path / "example.cjs"
    program.write_text(block.text.replace(ADDRESS, server.address).replace("any, without keys", server.key), "utf-8")
    assert node(program).strip() == TARGET
