"""A server that is killed under load loses nothing that it acknowledged."""

from __future__ import annotations

import os
import time
from pathlib import Path

import httpx
import pytest

from nearmt.cli.main import run
from tests.serve.load import LINES, MEMORY, Load
from tests.serve.process import ServerProcess

pytestmark = pytest.mark.services

#: `make torture-server` gives a larger number.
KILLS = int(os.environ.get("NEARMT_SERVER_KILLS", "5"))


def check_document(address: str, id: str) -> None:
    """It is finished, and every line of it is translated."""
    while (job := httpx.get(f"{address}/api/v1/jobs/{id}", timeout=30).raise_for_status().json())["state"] != "done":
        assert job["state"] in ("queued", "running"), job
        time.sleep(0.2)
    result = httpx.get(f"{address}/api/v1/documents/{id}/result", timeout=60).raise_for_status()
    assert len(result.text.splitlines()) == LINES
    units = httpx.get(f"{address}/api/v1/documents/{id}/units?limit={LINES}", timeout=60).json()["units"]
    assert all(unit["origin"] for unit in units)


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
    assert load.pairs and load.compactions and load.interrupted
    print(
        f"{KILLS} kills: {load.pairs} pairs, {load.compactions} compactions, {len(load.interrupted)} documents went on"
    )
