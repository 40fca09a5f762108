"""A server that is killed under load loses nothing that it acknowledged."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from nearmt.cli.main import run
from tests.serve.load import LINES, MEMORY, Load
from tests.serve.process import ServerProcess

pytestmark = pytest.mark.services

#: `make torture-server` gives a larger number.
KILLS = int(os.environ.get("NEARMT_SERVER_KILLS", "5"))
#: Kills that are sure to meet everything that the load does.
MANY = 100


def job(address: str, id: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{address}/api/v1/jobs/{id}", timeout=30).raise_for_status().json()
    return found


def answers(address: str) -> bool:
    try:
        httpx.get(f"{address}/health", timeout=30)
    except httpx.TransportError:
        return False
    return True


def check_document(address: str, id: str, lines: int = LINES) -> None:
    """It is finished, and every line of it is translated."""
    while (now := job(address, id))["state"] != "done":
        assert now["state"] in ("queued", "running"), now
        time.sleep(0.2)
    assert now["result"]["filled"] == lines
    result = httpx.get(f"{address}/api/v1/documents/{id}/result", timeout=60).raise_for_status()
    assert len(result.text.splitlines()) == lines


def test_killed_servers_lose_nothing(tiny_folder: Path, tmp_path: Path, campaign_seed: int) -> None:
    """No acknowledged pair, no edit of a document, no translated unit; and the memory is not damaged."""
    memories, load = tmp_path / "memories", Load(campaign_seed)
    arguments = ("--model", tiny_folder, "--memories", memories)
    for kill in range(KILLS):
        with ServerProcess(arguments, tmp_path) as server:
            address = server.wait_until_started()
            if kill == 0:
                assert httpx.post(f"{address}/api/v1/memories", json={"name": MEMORY}).status_code == 201
            load.check(address)
            load.upload(address)
            with load.on(address):
                time.sleep(load.random.uniform(0.2, 2.0))
                server.kill()
        assert run(["verify", str(memories / MEMORY), "--quiet"]) == 0
    with ServerProcess(arguments, tmp_path) as server:
        address = server.wait_until_started()
        load.check(address)
        for document in load.documents:
            check_document(address, document)
        assert not server.log("error")
    assert load.pairs
    # A few kills may meet no compaction that a client saw end, and no unfinished document.
    assert KILLS < MANY or (load.compactions and load.interrupted)
    resumed = f"{len(load.interrupted)} of {len(load.documents)} documents"
    print(f"{KILLS} kills: {load.pairs} pairs, {load.compactions} compactions; {resumed} went on after a kill")


def test_a_stopped_server_goes_on_with_its_documents(tiny_folder: Path, tmp_path: Path) -> None:
    """SIGTERM: no new connections, exit code 0; the next server translates the rest."""
    arguments, lines = ("--model", tiny_folder, "--memories", tmp_path / "memories"), 5000
    with ServerProcess(arguments, tmp_path) as server:
        address = server.wait_until_started()
        file = ("long.txt", "".join(f"die pumpe {number} öffnen .\n" for number in range(lines)))
        answer = httpx.post(f"{address}/api/v1/documents", files={"file": file}, timeout=60)
        document = answer.raise_for_status().json()["id"]
        while not job(address, document)["done"]:
            time.sleep(0.05)
        server.signal(signal.SIGTERM)
        while answers(address):
            time.sleep(0.01)
        assert server.wait() == 0
        assert not server.log("error")
    with ServerProcess(arguments, tmp_path) as server:
        address = server.wait_until_started()
        shown = httpx.get(f"{address}/api/v1/documents/{document}/units?limit=1000", timeout=60).json()["units"]
        assert shown[0]["origin"], "what was translated is kept"
        assert job(address, document)["state"] in ("queued", "running")
        check_document(address, document, lines)
