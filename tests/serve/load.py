"""Clients of a server that is killed: what was acknowledged to them, and whether the next server still has it."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.tiny import WORDS

MEMORY = "killed"
#: Of a document.
LINES = 400
#: Unfinished documents from which on no further one is uploaded.
_MOST_UNFINISHED = 8
#: Pairs from which some are updated and deleted.
_ENOUGH = 20
#: The targets that a source may have now; None: the memory need not have it.
_Targets = frozenset[str | None]


class Load:
    """Clients that learn, update, delete, compact, translate, upload and edit."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.documents: list[str] = []
        #: Those that were not finished when the latest server started, and those that a killed server left unfinished.
        self.unfinished: list[str] = []
        self.interrupted: set[str] = set()
        self.compactions = 0
        #: More than one target: the server died before it answered.
        self._targets: dict[str, _Targets] = {}
        self._ids: dict[str, str] = {}
        #: Translations of units that a server has shown, and edits that it has acknowledged, by document and number.
        self._units: dict[tuple[str, int], str] = {}
        self._errors: list[Exception] = []
        self._lock = threading.Lock()

    @contextmanager
    def on(self, address: str) -> Iterator[None]:
        """Run clients until the block ends and they have noticed that the server is gone; fail if one had an error."""
        stop = threading.Event()
        tasks = [self._learn, self._learn, self._update, self._delete, self._compact, self._translate, self._edit]

        def repeat(task: Any) -> None:
            with httpx.Client(base_url=f"{address}/api/v1", timeout=60) as client:
                try:
                    while not stop.is_set():
                        task(client)
                except httpx.TransportError:
                    return
                except Exception as error:
                    self._errors.append(error)

        threads = [threading.Thread(target=repeat, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        if self._errors:
            raise self._errors[0]

    def upload(self, address: str) -> None:
        if len(self.unfinished) >= _MOST_UNFINISHED:
            return
        lines = [" ".join(self.random.choices(WORDS, k=6)) for _ in range(LINES)]
        files = {"file": (f"text{len(self.documents)}.txt", "".join(f"{line}\n" for line in lines))}
        with httpx.Client(base_url=f"{address}/api/v1", timeout=30) as client:
            self.documents.append(_answer(client, 202, "POST", "/documents", files=files)["id"])
        self.unfinished.append(self.documents[-1])

    def check(self, address: str) -> None:
        """What was acknowledged is there, and nothing else."""
        with httpx.Client(base_url=f"{address}/api/v1", timeout=60) as client:
            self._check_documents(client)
            self._translate(client)  # encodes what is in the log only
            text = client.get(f"/memories/{MEMORY}/export?format=jsonl").raise_for_status().text
        stored: dict[str, str] = {pair["source"]: pair["target"] for pair in map(json.loads, text.splitlines())}
        wrong = {source: may for source, may in self._targets.items() if stored.get(source) not in may}
        assert not wrong, {source: (stored.get(source), may) for source, may in wrong.items()}
        assert stored.keys() <= self._targets.keys()
        self._targets = {source: frozenset([stored.get(source)]) for source in self._targets}

    def _check_documents(self, client: httpx.Client) -> None:
        """Unfinished ones go on, and have all units that they had."""
        states = {each: _answer(client, 200, "GET", f"/jobs/{each}")["state"] for each in self.unfinished}
        assert set(states.values()) <= {"queued", "running", "done"}, states
        for each in self.unfinished:
            shown = self._shown(client, each)
            kept = {number: target for (document, number), target in self._units.items() if document == each}
            assert {number: shown.get(number) for number in kept} == kept
        self.unfinished = [each for each, state in states.items() if state != "done"]
        self.interrupted |= set(self.unfinished)

    @property
    def pairs(self) -> int:
        """Pairs that the memory has for certain."""
        return sum(None not in targets for targets in self._targets.values())

    # Clients: each raises `httpx.TransportError` when the server is gone.

    def _learn(self, client: httpx.Client) -> None:
        target = self._target()
        with self._lock:
            source = f"pumpe {len(self._targets)}"
            self._targets[source] = frozenset([None, target])
        body = {"pairs": [{"source": source, "target": target}]}
        answer = _answer(client, 201, "POST", f"/memories/{MEMORY}/pairs", json=body)
        self._ids[source] = answer["pairs"][0]["id"]
        self._targets[source] = frozenset([target])

    def _update(self, client: httpx.Client) -> None:
        self._change(client, self._target())

    def _delete(self, client: httpx.Client) -> None:
        self._change(client, None)

    def _change(self, client: httpx.Client, target: str | None) -> None:
        """Give a pair another target, or none: delete it."""
        with self._lock:
            settled = [s for s, targets in self._targets.items() if len(targets) == 1 and None not in targets]
            if len(settled) <= _ENOUGH:
                source = None
            else:
                source = self.random.choice(settled)
                self._targets[source] |= {target}
                if len(self._targets[source]) == 1:
                    source = None  # it has this target
        if source is None:
            time.sleep(0.05)
            return
        path = f"/memories/{MEMORY}/pairs/{self._id(client, source)}"
        if target is None:
            _answer(client, 204, "DELETE", path)
        else:
            _answer(client, 200, "PUT", path, json={"target": target})
        self._targets[source] = frozenset([target])

    def _id(self, client: httpx.Client, source: str) -> str:
        """The id of a pair, which is not known if the server died before it told it."""
        if source not in self._ids:
            found = _answer(client, 200, "GET", f"/memories/{MEMORY}/pairs", params={"query": source, "limit": 1000})
            self._ids[source] = next(pair["id"] for pair in found["pairs"] if pair["source"] == source)
        return self._ids[source]

    def _compact(self, client: httpx.Client) -> None:
        job = _answer(client, 202, "POST", f"/memories/{MEMORY}/compact")
        while (state := _answer(client, 200, "GET", f"/jobs/{job['id']}")["state"]) in ("queued", "running"):
            time.sleep(0.05)
        assert state == "done", job
        self.compactions += 1
        time.sleep(0.2)

    def _translate(self, client: httpx.Client) -> None:
        body = {"texts": [" ".join(self.random.choices(WORDS, k=5))], "memories": [{"name": MEMORY}]}
        _answer(client, 200, "POST", "/translate", json=body)

    def _edit(self, client: httpx.Client) -> None:
        """Confirm a unit of the latest document, and look at what is translated."""
        if not self.documents:
            time.sleep(0.05)
            return
        document, number, target = self.documents[-1], self.random.randrange(LINES), self._target()
        self._units.pop((document, number), None)  # either is right if the server dies now
        _answer(client, 200, "PUT", f"/documents/{document}/units/{number}", json={"target": target, "confirmed": True})
        self._units |= {(document, shown): text for shown, text in self._shown(client, document).items()}
        assert self._units[document, number] == target

    def _shown(self, client: httpx.Client, id: str) -> dict[int, str]:
        """Units of a document that are translated."""
        page = _answer(client, 200, "GET", f"/documents/{id}/units", params={"limit": LINES})
        return {unit["number"]: unit["target"] for unit in page["units"] if unit["origin"]}

    def _target(self) -> str:
        return " ".join(self.random.choices(WORDS, k=4))


def _answer(client: httpx.Client, status: int, method: str, path: str, **request: Any) -> Any:
    answer = client.request(method, path, **request)
    assert answer.status_code == status, (method, path, answer.status_code, answer.text)
    return answer.json() if answer.content else None
