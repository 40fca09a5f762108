"""A server that is killed under load loses nothing that it acknowledged."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from nearmt.cli.main import run
from tests.serve.process import ServerProcess
from tests.tiny import WORDS

pytestmark = pytest.mark.services

#: `make torture` gives a larger number.
KILLS = int(os.environ.get("NEARMT_SERVER_KILLS", "5"))
MEMORY = "killed"
LINES = 400


class Load:
    """Clients that learn, delete and translate, and remember what was acknowledged."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        #: Source -> target, and sources whose state is not known because the server died before it answered.
        self.kept: dict[str, str] = {}
        self.gone: set[str] = set()
        self.unsure: set[str] = set()
        self.documents: list[str] = []
        self._ids: dict[str, str] = {}
        self._lock = threading.Lock()
        self._number = 0

    @contextmanager
    def on(self, address: str) -> Iterator[None]:
        """Run clients until the block ends and they have noticed that the server is gone."""
        stop = threading.Event()
        tasks: list[Callable[[httpx.Client], None]] = [self._learn, self._learn, self._delete, self._translate]

        def repeat(task: Callable[[httpx.Client], None]) -> None:
            with httpx.Client(base_url=f"{address}/api/v1", timeout=30) as client:
                while not stop.is_set():
                    try:
                        task(client)
                    except httpx.TransportError:
                        return

        threads = [threading.Thread(target=repeat, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def upload(self, address: str) -> None:
        lines = [" ".join(self.random.choices(WORDS, k=6)) for _ in range(LINES)]
        files = {"file": (f"text{len(self.documents)}.txt", "".join(f"{line}\n" for line in lines))}
        answer = httpx.post(f"{address}/api/v1/documents", files=files, timeout=30)
        assert answer.status_code == 202, answer.text
        self.documents.append(answer.json()["id"])

    def _learn(self, client: httpx.Client) -> None:
        with self._lock:
            self._number += 1
            source, target = f"pumpe {self._number}", " ".join(self.random.choices(WORDS, k=4))
            self.unsure.add(source)
        answer = client.post(f"/memories/{MEMORY}/pairs", json={"pairs": [{"source": source, "target": target}]})
        assert answer.status_code == 201, answer.text
        with self._lock:
            self.unsure.remove(source)
            self.kept[source] = target
            self._ids[source] = answer.json()["pairs"][0]["id"]

    def _delete(self, client: httpx.Client) -> None:
        with self._lock:
            source = self.random.choice(list(self.kept)) if len(self.kept) > 20 else None
            if source is not None:
                del self.kept[source]
                self.unsure.add(source)
        if source is None:
            time.sleep(0.05)
            return
        answer = client.delete(f"/memories/{MEMORY}/pairs/{self._ids[source]}")
        assert answer.status_code == 204, answer.text
        with self._lock:
            self.unsure.remove(source)
            self.gone.add(source)

    def _translate(self, client: httpx.Client) -> None:
        texts = [" ".join(self.random.choices(WORDS, k=5))]
        answer = client.post("/translate", json={"texts": texts, "memories": [{"name": MEMORY}]})
        assert answer.status_code == 200, answer.text

    def check(self, address: str) -> None:
        """What was acknowledged is there."""
        text = httpx.get(f"{address}/api/v1/memories/{MEMORY}/export?format=jsonl", timeout=60).text
        stored: dict[str, str] = {pair["source"]: pair["target"] for pair in map(json.loads, text.splitlines())}
        assert {source: stored.get(source) for source in self.kept} == self.kept
        assert not self.gone & stored.keys()
        assert stored.keys() <= self.kept.keys() | self.unsure


def job(address: str, id: str) -> dict[str, Any]:
    answer = httpx.get(f"{address}/api/v1/jobs/{id}", timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_killed_servers_lose_nothing(tiny_folder: Path, tmp_path: Path, campaign_seed: int) -> None:
    memories, load = tmp_path / "memories", Load(campaign_seed)
    arguments = ("--model", tiny_folder, "--memories", memories)
    for kill in range(KILLS):
        with ServerProcess(arguments, tmp_path) as server:
            address = server.wait_until_started()
            if kill == 0:
                assert httpx.post(f"{address}/api/v1/memories", json={"name": MEMORY}).status_code == 201
            load.check(address)
            with load.on(address):
                load.upload(address)
                time.sleep(load.random.uniform(0.2, 2.0))
                server.kill()
        assert run(["verify", str(memories / MEMORY), "--quiet"]) == 0
    assert load.kept
    with ServerProcess(arguments, tmp_path) as server:
        address = server.wait_until_started()
        load.check(address)
        for each in load.documents:
            while (found := job(address, each))["state"] in ("queued", "running"):
                time.sleep(0.2)
            assert found["state"] == "done", found
            result = httpx.get(f"{address}/api/v1/documents/{each}/result", timeout=60)
            assert len(result.text.splitlines()) == LINES
