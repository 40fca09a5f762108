"""Clients of `soak.py`: what they send, and what they have seen."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

#: Other requests by name, in parts of a hundred.
MIX = {
    "health": 30,
    "memories": 10,
    "search": 15,
    "exact": 16,
    "languages": 10,
    "wrong": 5,
    "missing": 4,
    "metrics": 3,
    "disconnect": 3,
    "learn": 2,
    "delete": 2,
}
#: Statuses that are expected.
EXPECTED = {"wrong": {400, 422}, "missing": {404}, "learn": {201}, "delete": {204}, "compact": {202, 409}}
MEMORIES = 4
#: Pairs of a client before it deletes some, and deleted pairs after which it compacts.
KEPT, COMPACTED = 20, 25
WORDS = "Pumpe Ventil Motor Welle Deckel Schraube öffnen schließen prüfen reinigen vorher danach immer".split()


@dataclass(frozen=True)
class Plan:
    """How much is sent in how long."""

    seconds: float
    translations: int
    others: int
    clients: int


@dataclass
class Tally:
    """What clients have seen."""

    answers: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    unexpected: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, status: int, seconds: float) -> None:
        with self.lock:
            self.answers[f"{name} {status}"] += 1
            self.seconds.setdefault(name, []).append(seconds)
            if status not in EXPECTED.get(name, {200}):
                self.unexpected[f"{name} {status}"] += 1


class Client:
    """Sends its share of the requests."""

    def __init__(self, port: int, number: int, tally: Tally) -> None:
        self._port, self._tally = port, tally
        self._random = random.Random(number)
        self._memory = f"soak{number % MEMORIES}"
        self._learnt: list[str] = []
        self._deleted = 0
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._others = [name for name, parts in MIX.items() for _ in range(parts)]

    def run(self, plan: Plan) -> None:
        translations, others = plan.translations // plan.clients, plan.others // plan.clients
        work = ["translate"] * translations + self._random.choices(self._others, k=others)
        self._random.shuffle(work)
        start = time.monotonic()
        for number, name in enumerate(work):
            wait = start + plan.seconds * number / len(work) - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            getattr(self, f"_{name}")()
        self._connection.close()

    def _translate(self) -> None:
        body = {"texts": [self._sentence()], "beams": 1, "memories": [{"name": self._memory}], "exact": False}
        self._send("translate", "POST", "/api/v1/translate", body)

    def _exact(self) -> None:
        self._send("exact", "POST", "/api/v1/translate", {"texts": ["Pumpe"], "memories": [{"name": self._memory}]})

    def _health(self) -> None:
        self._send("health", "GET", "/health")

    def _memories(self) -> None:
        self._send("memories", "GET", "/api/v1/memories")

    def _search(self) -> None:
        self._send("search", "GET", f"/api/v1/memories/{self._memory}/pairs?query={self._random.choice(WORDS[:4])}")

    def _languages(self) -> None:
        self._send("languages", "GET", "/api/v1/languages")

    def _metrics(self) -> None:
        self._send("metrics", "GET", "/metrics")

    def _wrong(self) -> None:
        self._send("wrong", "POST", "/api/v1/translate", self._random.choice([{"texts": 1}, "x", {}]))

    def _missing(self) -> None:
        self._send("missing", "GET", f"/api/v1/memories/none{self._random.random()}")

    def _learn(self) -> None:
        pair = {"source": self._sentence(), "target": self._sentence()}
        found = self._send("learn", "POST", f"/api/v1/memories/{self._memory}/pairs", {"pairs": [pair]})
        self._learnt += [each["id"] for each in (found or {}).get("pairs", ())]

    def _delete(self) -> None:
        if len(self._learnt) <= KEPT:
            self._learn()
            return
        self._send("delete", "DELETE", f"/api/v1/memories/{self._memory}/pairs/{self._learnt.pop(0)}")
        self._deleted += 1
        if self._deleted % COMPACTED == 0:
            self._send("compact", "POST", f"/api/v1/memories/{self._memory}/compact")

    def _disconnect(self) -> None:
        """Go away while a translation runs."""
        body = json.dumps({"texts": [self._sentence() for _ in range(20)], "exact": False})
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("POST", "/api/v1/translate", body, {"Content-Type": "application/json"})
        time.sleep(0.05)
        connection.close()
        self._tally.add("disconnect", 200, 0.05)

    def _send(self, name: str, method: str, path: str, body: Any = None) -> Any:
        headers = {} if body is None else {"Content-Type": "application/json"}
        start = time.monotonic()
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            text, status = response.read(), response.status
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            self._tally.unexpected[f"{name} {type(error).__name__}"] += 1
            return None
        self._tally.add(name, status, time.monotonic() - start)
        return json.loads(text) if text and status in (200, 201) and name == "learn" else None

    def _sentence(self) -> str:
        return " ".join(self._random.choices(WORDS, k=self._random.randint(2, 6))) + "."
