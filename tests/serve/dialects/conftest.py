"""A server with a tiny model, a memory, and keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nearmt.contracts import Pair
from nearmt.models import TranslationModel
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.key_file import KeyFile, changing, make_record
from nearmt.serve.keys import ANONYMOUS, RIGHTS, Principal
from nearmt.serve.models import Models
from nearmt.serve.service import Service
from nearmt.serve.values import TranslationRequest, TranslationResult
from tests.serve.conftest import BASE_URL

#: Pairs of the memory `manual`.
PAIRS = [
    Pair("die pumpe prüfen", "check the pump", "p1"),
    Pair("die welle reinigen", "clean the shaft", "p2"),
    Pair("den deckel öffnen", "open the cover", "p3"),
]
MakeKey = Callable[..., str]


@pytest.fixture(scope="session")
def filled_memories(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the memory `manual`, to be copied."""
    folder = tmp_path_factory.mktemp("dialects") / "memories"
    service = Service(ServeConfig(memories=str(folder)), Models([tiny]))
    service.create_memory(ANONYMOUS, "manual")
    service.add_pairs(ANONYMOUS, "manual", PAIRS)
    service.close()
    return folder


@pytest.fixture
def service(tiny: TranslationModel, filled_memories: Path, tmp_path: Path) -> Iterator[Service]:
    shutil.copytree(filled_memories, tmp_path / "memories")
    service = Service(ServeConfig(memories=str(tmp_path / "memories")), Models([tiny]))
    yield service
    service.close()


@pytest.fixture
def make_key(service: Service) -> MakeKey:
    """Adds a key to the server's file, by default one that may do everything with the memory `manual` as default."""

    def make(
        name: str = "all", memories: str = "*", may: str = ",".join(RIGHTS), default: str | None = "manual"
    ) -> str:
        record, key = make_record(name, memories.split(","), may.split(","), default)
        with changing(service.config.state_folder) as records:
            records.append(record)
        return key

    return make


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    """Without keys: all requests may do everything."""
    with TestClient(create_app(service), base_url=BASE_URL) as client:
        yield client


@contextmanager
def served(model: TranslationModel, memories: Path, folder: Path) -> Iterator[TestClient]:
    """A server without keys, with a copy of memories."""
    shutil.copytree(memories, folder / "memories")
    service = Service(ServeConfig(memories=str(folder / "memories")), Models([model]))
    with TestClient(create_app(service), base_url=BASE_URL) as client:
        yield client
    service.close()


@pytest.fixture(scope="session")
def shared(
    tiny: TranslationModel, filled_memories: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    """One server for all tests that change no memory."""
    with served(tiny, filled_memories, tmp_path_factory.mktemp("shared")) as client:
        yield client


@pytest.fixture
def guarded(service: Service) -> Iterator[TestClient]:
    """With a key file, as soon as a key is made."""
    keyring = KeyFile(service.config.state_folder / "keys.json")
    with TestClient(create_app(service, keyring), base_url=BASE_URL) as client:
        yield client


@pytest.fixture
def asked(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[TranslationRequest]:
    """The requests that the service gets."""
    requests: list[TranslationRequest] = []
    translate = service.translate

    def noting(principal: Principal, request: TranslationRequest, ticket: Any = None) -> TranslationResult:
        requests.append(request)
        return translate(principal, request, ticket)

    monkeypatch.setattr(service, "translate", noting)
    return requests


def targets(request: TranslationRequest) -> dict[str, str]:
    """The terms of a request."""
    return {term.source: term.target for term in request.terms or ()}
