"""Every endpoint of every dialect refuses wrong keys before it does anything, and hides what belongs to others.

The endpoints are those of the app, so that a new one is tested from its first day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from nearmt.models import TranslationModel
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.key_file import FILE_NAME, KeyFile, changing, make_record
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.models import Models
from nearmt.serve.service import Service
from tests.serve.conftest import BASE_URL

#: Open to everybody: they show that there is a server, its page, and which languages it translates.
PUBLIC = {
    "GET /health",
    "GET /ready",
    "GET /",
    "HEAD /",
    "GET /api/v1/openapi.json",
    "HEAD /api/v1/openapi.json",
    "GET /languages",
    "POST /languages",
    "GET /frontend/settings",
}
#: What endpoints may look at before they know who asks.
HARMLESS = {"config", "limits", "directions", "models"}
#: Where clients put keys.
MEANS: dict[str, Callable[[str], dict[str, Any]]] = {
    "nothing": lambda key: {},
    "bearer": lambda key: {"headers": {"authorization": f"Bearer {key}"}},
    "deepl": lambda key: {"headers": {"authorization": f"DeepL-Auth-Key {key}"}},
    "modernmt": lambda key: {"headers": {"mmt-apikey": key}},
    "query": lambda key: {"params": {"api_key": key, "tokenCode": key, "key": key, "auth_key": key}},
}
#: A body that many endpoints understand; query parameters of others.
BODY = {
    **{"texts": ["ventil"], "text": ["ventil"], "q": "ventil", "s": "valve", "source": "de", "target": "en"},
    **{"target_lang": "EN", "source_lang": "DE", "name": "other", "pairs": [{"source": "a", "target": "b"}]},
    **{"sentence": "ventil", "translation": "valve", "confirmed": True},
}


class Watched:
    """Passes everything on, and notes what is used."""

    def __init__(self, inner: object, used: list[str]) -> None:
        self._inner, self._used = inner, used

    def __getattr__(self, name: str) -> Any:
        if name not in HARMLESS:
            self._used.append(name)
        return getattr(self._inner, name)


def endpoints(app: FastAPI) -> Iterator[tuple[str, str]]:
    for route in iter_route_contexts(app.routes):
        for method in sorted(route.methods or ()):
            assert route.path is not None
            yield method, route.path


@pytest.fixture
def service(tiny: TranslationModel, tmp_path: Path) -> Iterator[Service]:
    """A service with the memories `mine` and `other`."""
    service = Service(ServeConfig(memories=str(tmp_path / "memories")), Models([tiny]))
    for name in ("mine", "other"):
        service.create_memory(ANONYMOUS, name)
    service.learn(ANONYMOUS, "geheim .", "secret .", memory="other")
    yield service
    service.close()


@pytest.fixture
def key(tmp_path: Path) -> str:
    """A key for everything, of the memory `mine`."""
    record, made = make_record("mine", ["mine"], ["translate", "learn", "admin"])
    with changing(tmp_path) as records:
        records.append(record)
    return made


@pytest.fixture
def app(service: Service, key: str, tmp_path: Path) -> FastAPI:
    return create_app(service, KeyFile(tmp_path / FILE_NAME))


def filled(path: str, value: str) -> str:
    """A path with a value instead of each parameter."""
    return re.sub(r"\{[^}]*\}", lambda _: quote(value, safe=""), path)


def client_of(app: FastAPI) -> TestClient:
    return TestClient(app, base_url=BASE_URL, raise_server_exceptions=False)


@pytest.mark.parametrize("means", MEANS)
def test_a_wrong_key_does_nothing_anywhere(app: FastAPI, service: Service, means: str) -> None:
    used: list[str] = []
    app.state.service = Watched(service, used)
    client, found = client_of(app), list(endpoints(app))
    assert len(found) > 10
    for method, path in found:
        if f"{method} {path}" in PUBLIC or path.startswith("/static"):
            continue
        for arguments in ({"json": BODY}, {"data": {name: str(value) for name, value in BODY.items()}}, {}):
            given = MEANS[means]("nearmt_wrong") | arguments
            if method == "GET":
                given = {name: value for name, value in given.items() if name in ("headers", "params")}
                given["params"] = {**{name: str(value) for name, value in BODY.items()}, **given.get("params", {})}
            answer = client.request(method, filled(path, "mine"), **given)
            assert 400 <= answer.status_code < 500, (method, path, arguments, answer.status_code, answer.text)
            assert used == [], (method, path, used)


def test_public_endpoints_are_public(app: FastAPI) -> None:
    """The list above has no endpoint that needs a key."""
    client = client_of(app)
    there = {f"{method} {path}" for method, path in endpoints(app)}
    for name in sorted(PUBLIC & there):
        assert client.request(*name.split(" ")).status_code == 200, name


@pytest.mark.parametrize(
    "name", ["../other", "..", ".server", "other/../other", "mine/../other", "other", "\u0000", "a" * 300]
)
def test_names_of_others_are_not_found(app: FastAPI, key: str, name: str) -> None:
    """Another's memory, one that does not exist, and what is no name get the same answer."""
    client, headers = client_of(app), {"authorization": f"Bearer {key}"}
    paths = [(method, path) for method, path in endpoints(app) if path.startswith("/api/v1/memories/{")]
    for method, path in paths:
        answers = [
            client.request(method, filled(path, value), headers=headers, json={"pairs": [], "target": "x"})
            for value in (name, "none")
        ]
        expected = {400} if "\0" in name else {404, 405, 422}
        assert answers[0].status_code in expected, (method, path, answers[0].text)
        if name == "other":
            texts = [answer.text.replace("other", "none") for answer in answers]
            texts = [re.sub(r'"request_id":"\w+"', "", text) for text in texts]
            assert texts[0] == texts[1] and answers[0].status_code == answers[1].status_code


def test_memories_of_others_are_no_help(app: FastAPI, key: str) -> None:
    client, headers = client_of(app), {"authorization": f"Bearer {key}"}
    listed = client.get("/api/v1/memories", headers=headers)
    assert [memory["name"] for memory in listed.json()["memories"]] == ["mine"]
    answer = client.post(
        "/api/v1/translate", headers=headers, json={"texts": ["geheim ."], "memories": [{"name": "other"}]}
    )
    assert answer.status_code == 404 and "secret" not in answer.text
    made = client.post("/api/v1/memories", headers=headers, json={"name": "third"})
    assert made.status_code == 404
