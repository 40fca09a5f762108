"""A server whose memory has its index in Milvus, which stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from nearmt.config.building import BuildConfig
from nearmt.datastore import Datastore
from nearmt.models import TranslationModel
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.models import Models
from nearmt.serve.service import Service
from tests.conftest import make_pairs
from tests.index.toy_milvus import ADDRESS, ToyMilvus
from tests.serve.conftest import BASE_URL

BODY = {"texts": ["die pumpe 12 .", "der motor"], "memories": [{"name": "manuals"}], "exact": False, "method": "knn"}
Connect = Callable[[str], TestClient]


@pytest.fixture
def connect(toy: ToyMilvus, tiny: TranslationModel, tmp_path: Path) -> Iterator[Connect]:
    """A client of a server with this fallback."""
    Datastore.build(tmp_path / "memories" / "manuals", make_pairs(30), tiny, BuildConfig(index=ADDRESS))
    services: list[Service] = []

    def made(fallback: str) -> TestClient:
        config = ServeConfig(memories=str(tmp_path / "memories"), index_fallback=fallback, index_timeout=0.5)
        services.append(Service(config, Models([tiny])))
        return TestClient(create_app(services[-1]), base_url=BASE_URL)

    yield made
    for service in services:
        service.close()


def missed(client: TestClient) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("nearmt_searches_missed_total "))


def test_translations_go_on_and_say_what_they_lack(toy: ToyMilvus, connect: Connect) -> None:
    with connect("model") as client:
        whole = client.post("/api/v1/translate", json=BODY).json()["translations"]
        assert all(found["missed"] == 0 < found["searches"] for found in whole) and "without neighbours" not in str(
            whole
        )
        assert missed(client) == 0
        toy.is_down = True
        lacking = client.post("/api/v1/translate", json=BODY).json()["translations"]
        assert all(found["missed"] == found["searches"] > 0 for found in lacking)
        assert all("without neighbours" in str(found["warnings"]) for found in lacking)
        plain = client.post("/api/v1/translate", json=BODY | {"memories": [], "method": "plain"}).json()
        assert [found["text"] for found in lacking] == [found["text"] for found in plain["translations"]]
        assert missed(client) == sum(found["missed"] for found in lacking)
        toy.is_down = False
        assert client.post("/api/v1/translate", json=BODY).json()["translations"] == whole


def test_where_neighbours_are_needed_the_answer_is_to_come_again(toy: ToyMilvus, connect: Connect) -> None:
    with connect("none") as client:
        toy.is_down = True
        answer = client.post("/api/v1/translate", json=BODY)
        assert answer.status_code == 503 and "Retry-After" in answer.headers
        assert "does not answer" in answer.json()["detail"] and "milvus" not in answer.text
        toy.is_down = False
        assert client.post("/api/v1/translate", json=BODY).status_code == 200
