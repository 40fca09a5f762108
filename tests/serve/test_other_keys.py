"""No endpoint of any dialect shows a key what belongs to another one, or lets it change that.

All endpoints of the app are asked for another's memory, document, job and glossary, by every name these have and
wherever a dialect may look for it, so that a new endpoint is tested from its first day. The owner asks the same: what
it gets shows that the requests are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from nearmt.models import TranslationModel
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.dialects.modernmt.ids import number_of
from nearmt.serve.key_file import FILE_NAME, KeyFile, changing, make_record
from nearmt.serve.models import Models
from nearmt.serve.service import Service
from tests.serve.conftest import BASE_URL
from tests.serve.test_wrong_keys import endpoints, filled
from tests.serve.waiting import ended

#: In another's memory, document and glossary, and nowhere else.
SECRET, SOURCE = "confidential", "geheimnis ."
#: Endpoints that show the owner the secret: at least these, or the requests are wrong.
SHOWING = {
    "GET /api/v1/documents/{id}/result",
    "GET /api/v1/documents/{id}/units",
    "GET /api/v1/glossaries",
    "GET /api/v1/glossaries/{id}",
    "GET /api/v1/memories/{name}/export",
    "GET /api/v1/memories/{name}/pairs",
    "POST /api/v1/translate",
    "POST /translate",
    "GET /apertium/translate",
    "GET /tmserver/{source}/{target}/unit/{text:path}",
    "GET /MTRestService/TranslateJson",
    "POST /MTRestService/BatchTranslate",
    "POST /deepl/v2/translate",
    "GET /mmt/translate",
}
#: Ways in which dialects take the name of something.
WAYS = ("native", "json", "form", "query", "header")
Ask = Callable[[str, str, str, str], Any]


@pytest.fixture
def service(tiny: TranslationModel, tmp_path: Path) -> Iterator[Service]:
    service = Service(ServeConfig(memories=str(tmp_path / "memories")), Models([tiny]))
    yield service
    service.close()


@pytest.fixture
def app(service: Service, tmp_path: Path) -> FastAPI:
    return create_app(service, KeyFile(tmp_path / FILE_NAME))


def key_of(folder: Path, name: str, *memories: str) -> str:
    record, made = make_record(name, memories, ["translate", "learn", "admin"], memories[0])
    with changing(folder) as records:
        records.append(record)
    return made


@pytest.fixture
def keys(app: FastAPI, service: Service, tmp_path: Path) -> dict[str, str]:
    """The keys of the owner, whose things hold the secret, and of another."""
    return {"owner": key_of(tmp_path, "owner", "theirs"), "other": key_of(tmp_path, "other", "mine")}


@pytest.fixture
def ids(app: FastAPI, keys: dict[str, str]) -> list[str]:
    """All names of what the owner has."""
    client, other = (client_of(app, keys[name]) for name in ("owner", "other"))
    for name, each in (("theirs", client), ("mine", other)):
        made = each.post("/api/v1/memories", json={"name": name})
        assert made.status_code == 201, made.text
    pair = {"source": SOURCE, "target": SECRET, "id": "pair"}
    added = client.post("/api/v1/memories/theirs/pairs", json={"pairs": [pair]})
    assert added.status_code == 201, added.text
    entry = {"source": "geheimnis", "target": SECRET}
    terms = [{"source_lang": "de", "target_lang": "en", "entries": [entry]}]
    glossary = client.post("/api/v1/glossaries", json={"name": "terms", "terms": terms}).json()["id"]
    file = {"file": ("text.txt", f"{SOURCE}\n")}
    document = client.post("/api/v1/documents", files=file).json()
    assert ended(client, document)["state"] == "done"
    return ["theirs", str(number_of("theirs")), document["id"], glossary, str(number_of("terms"))]


def client_of(app: FastAPI, key: str) -> TestClient:
    return TestClient(app, base_url=BASE_URL, headers={"authorization": f"Bearer {key}"}, raise_server_exceptions=False)


def asking(app: FastAPI, key: str) -> Ask:
    """Sends a request with all that endpoints understand, which names one thing everywhere."""
    client, of_deepl = client_of(app, key), {"authorization": f"DeepL-Auth-Key {key}"}
    own = {"api_key": key, "tokenCode": key, "key": key, "auth_key": key}
    own |= {"source": "de", "target": "en", "source_lang": "de", "target_lang": "en", "langpair": "de|en"}
    own |= {"srcLangCode": "de", "trgLangCode": "en", "q": SOURCE, "input": SOURCE, "sentence": SOURCE}
    texts: dict[str, Any] = {"texts": [SOURCE], "text": [SOURCE]}

    def ask(method: str, path: str, name: str, way: str) -> Any:
        named = ("hints", "translation_memory_id", "modelTag", "glossary_id", "glossary", "document_key", "name")
        values = own | dict.fromkeys(named, name)
        at = path.replace("{source}", "de").replace("{target}", "en").replace("{text:path}", SOURCE)
        headers = of_deepl if path.startswith("/deepl") else {"mmt-apikey": key}
        given: dict[str, Any]
        if way == "native":
            translating = {"texts": [SOURCE], "memories": [{"name": name}]}
            given = {"json": translating if path.endswith("/translate") else {"pairs": [], "target": "x"}}
        elif way == "header":
            given, headers = {"params": own, "json": own | texts}, headers | {"x-nearmt-memory": name}
        else:
            given = {{"json": "json", "form": "data", "query": "params"}[way]: values | texts}
        return client.request(method, filled(at, name), headers=headers, **given)

    return ask


def asked_everywhere(app: FastAPI, ids: list[str], ask: Ask) -> dict[str, list[Any]]:
    """The answers of every endpoint."""
    found: dict[str, list[Any]] = {}
    for method, path in endpoints(app):
        found[f"{method} {path}"] = [ask(method, path, name, way) for name in ids for way in WAYS]
    return found


def test_others_see_and_change_nothing(app: FastAPI, keys: dict[str, str], ids: list[str]) -> None:
    owner = client_of(app, keys["owner"])

    def state() -> list[str]:
        paths = ["memories/theirs/pairs", "memories/theirs", "glossaries", "jobs", f"documents/{ids[2]}/result"]
        return [owner.get(f"/api/v1/{path}").text for path in paths]

    before = state()
    assert SECRET in "".join(before)
    for endpoint, answers in asked_everywhere(app, ids, asking(app, keys["other"])).items():
        for answer in answers:
            assert SECRET not in answer.text + str(answer.headers), (endpoint, answer.text)
            assert answer.status_code < 500, (endpoint, answer.text)
    assert state() == before


def test_the_owner_sees_it_all(app: FastAPI, keys: dict[str, str], ids: list[str]) -> None:
    ask = asking(app, keys["owner"])
    assert {f"{method} {path}" for method, path in endpoints(app)} >= SHOWING
    for endpoint in SHOWING:
        method, path = endpoint.split(" ")
        assert any(SECRET in ask(method, path, name, way).text for name in ids for way in WAYS), endpoint
