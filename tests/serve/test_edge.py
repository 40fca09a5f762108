"""What happens to every request, whatever its endpoint."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.serve.api.dependencies import ThePrincipal
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.key_file import FILE_NAME, KeyFile, changing, make_record
from nearmt.serve.logs import start_logging
from nearmt.serve.models import Models
from nearmt.serve.security import HEADERS
from nearmt.serve.service import Service
from tests.serve.conftest import BASE_URL

SECRET = "Geheimnisvoll"


@pytest.fixture
def log_lines(unchanged_logging: None) -> io.StringIO:
    stream = io.StringIO()
    start_logging(stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def app_with(service: Service, folder: Path | None = None, **changes: Any) -> FastAPI:
    service.config = dataclasses.replace(service.config, **changes)
    return create_app(service, None if folder is None else KeyFile(folder / FILE_NAME))


def client_of(app: FastAPI) -> TestClient:
    return TestClient(app, base_url=BASE_URL, raise_server_exceptions=False)


def key(folder: Path, *memories: str, may: tuple[str, ...] = ("translate", "learn", "admin"), **more: Any) -> str:
    record, made = make_record(f"key{len(list(folder.iterdir()))}", memories, may, **more)
    with changing(folder) as records:
        records.append(record)
    return made


@pytest.mark.parametrize("path", ["/health", "/nothing", "/api/v1/translate", "/metrics"])
def test_every_answer_has_the_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert headers["cache-control"] == "no-store"
    assert "'unsafe" not in headers["content-security-policy"]
    assert len(headers["x-request-id"]) == 32


def test_the_id_of_a_request_comes_back_if_it_is_harmless(client: TestClient) -> None:
    assert client.get("/nothing", headers={"x-request-id": "a-1"}).json()["request_id"] == "a-1"
    for other in ("a b", "x" * 65, '"'):
        assert client.get("/health", headers={"x-request-id": other}).headers["x-request-id"] != other


def test_rebound_names_and_foreign_pages_are_refused(client: TestClient) -> None:
    body = {"texts": ["die pumpe ."]}
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = client.post("/api/v1/translate", json=body, headers=headers)
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:nearmt:problem:forbidden"
    # A form of another page, which a browser sends without asking.
    form = client.post("/suggest", data={"q": "a", "s": "b"}, headers={"origin": "null"})
    assert form.status_code == 403


def test_other_origins_only_if_they_are_allowed(service: Service, client: TestClient) -> None:
    asking = {"origin": "https://tool.example.com", "access-control-request-method": "POST"}
    refused = client.options("/api/v1/translate", headers=asking)
    assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers
    allowing = client_of(app_with(service, cors_origin=("https://tool.example.com/",)))
    asked = allowing.options("/api/v1/translate", headers={**asking, "access-control-request-headers": "authorization"})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, "https://tool.example.com")
    assert "access-control-allow-credentials" not in asked.headers
    assert allowing.get("/health", headers={"origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize("path", ["/health%00", "/health?a=%00", "/a/%00/b"])
def test_a_nul_in_the_address_is_refused(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 400


@pytest.mark.parametrize("announced", [True, False])
def test_a_large_body_is_refused(service: Service, announced: bool) -> None:
    client = client_of(app_with(service, max_body=1))
    text = json.dumps({"texts": ["a" * (50 << 20)]}).encode()
    content = text if announced else (text[place : place + 65536] for place in range(0, len(text), 65536))
    answer = client.post("/api/v1/translate", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert "1 MiB" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"texts": "die pumpe"}',
        b'{"texts": [1]}',
        b'{"texts": ["\xff"]}',
        b'{"texts": ["die pumpe"], "source_lang": "xx"}',
        b'{"texts": ["die pumpe"], "beams": 1' + b"0" * 5000 + b"}",
    ],
)
def test_bad_bodies_get_a_clear_answer(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/v1/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_faults_are_named_without_the_text(client: TestClient) -> None:
    answer = client.post("/api/v1/translate", json={"texts": [SECRET, {"a": SECRET}]})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith("texts")
    assert SECRET not in answer.text


def test_an_unexpected_error_tells_nothing(service: Service, log_lines: io.StringIO) -> None:
    app = app_with(service)

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError(SECRET)

    answer = client_of(app).get("/broken")
    assert (answer.status_code, answer.json()["title"]) == (500, "Internal Server Error")
    assert answer.headers["x-frame-options"] == "DENY"
    assert SECRET not in answer.text + log_lines.getvalue()
    error, request = lines(log_lines)
    assert (error["error"], error["id"]) == ("RuntimeError", answer.json()["request_id"])
    assert "test_edge.py" in error["places"][-1]
    assert (request["status"], request["problem"]) == (500, "RuntimeError")


def test_damage_is_told_to_administrators_only(service: Service, tmp_path: Path) -> None:
    app = app_with(service, tmp_path)

    @app.get("/damaged")
    async def damaged(principal: ThePrincipal) -> None:
        raise DatastoreError("/srv/memories/a: is damaged")

    for made, told in ((key(tmp_path, "a"), False), (key(tmp_path, "*"), True)):
        answer = client_of(app).get("/damaged", headers={"authorization": f"Bearer {made}"})
        assert answer.status_code == 500
        assert ("/srv" in answer.text) == told


def test_log_lines_hold_no_text(client: TestClient, log_lines: io.StringIO) -> None:
    client.post("/api/v1/translate", json={"texts": [SECRET]})
    client.get(f"/{SECRET}?q={SECRET}")
    client.post("/api/v1/translate", json={"texts": [SECRET], "source_lang": SECRET})
    client.post(f"/api/v1/translate?{SECRET}", json={"texts": SECRET})
    assert SECRET not in log_lines.getvalue()
    found = [
        (line["dialect"], line["route"], line["status"]) for line in lines(log_lines) if line["event"] == "request"
    ]
    translated = ("api", "/api/v1/translate")
    assert found == [(*translated, 200), ("none", "-", 404), (*translated, 400), (*translated, 422)]


def test_texts_are_logged_if_asked_for(service: Service, unchanged_logging: None) -> None:
    stream = io.StringIO()
    start_logging(True, stream=stream)
    client_of(app_with(service, log_text=True)).get(f"/{SECRET}?q={SECRET}")
    (line,) = lines(stream)
    assert (line["path"], line["query"]) == (f"/{SECRET}", f"q={SECRET}")


def test_metrics_count_by_route(client: TestClient) -> None:
    client.post("/api/v1/translate", json={"texts": ["die pumpe ."]})
    client.get("/nothing")
    text = client.get("/metrics").text
    for sample in (
        'nearmt_requests_total{dialect="api",route="/api/v1/translate",status="200"} 1.0',
        'nearmt_request_seconds_count{dialect="none",route="-"} 1.0',
        'nearmt_errors_total{type="HTTPException"} 1.0',
        'nearmt_requests_now{state="waiting"} 0.0',
    ):
        assert sample in text, text


def test_metrics_are_for_keys_that_may_do_everything(service: Service, tmp_path: Path) -> None:
    client = client_of(app_with(service, tmp_path))
    keys = [key(tmp_path, "a"), key(tmp_path, "*", may=("translate",)), key(tmp_path, "*")]
    statuses = [client.get("/metrics", headers={"authorization": f"Bearer {each}"}).status_code for each in keys]
    assert statuses == [403, 403, 200]
    assert client.get("/metrics").status_code == 401


def test_a_server_that_stops_is_not_ready(service: Service) -> None:
    app = app_with(service)
    client = client_of(app)
    assert client.get("/ready").status_code == 200
    app.state.stopping.set()
    assert (client.get("/ready").status_code, client.get("/health").status_code) == (503, 200)


def test_too_many_requests_are_told_when_to_come_back(tiny: TranslationModel, tmp_path: Path) -> None:
    service = Service(ServeConfig(memories=str(tmp_path / "memories")), Models([tiny]))
    service.limits.patience = 0
    client = client_of(app_with(service, tmp_path))
    headers = {"authorization": f"Bearer {key(tmp_path, '*', requests=2)}"}
    answers = [client.post("/api/v1/translate", json={"texts": ["ventil"]}, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    service.close()


def test_a_body_that_nobody_may_send_is_not_read(service: Service, tmp_path: Path) -> None:
    """Without a valid key the limit of uploads is that of other bodies."""
    app = app_with(service, tmp_path, max_body=1)

    @app.post("/upload")
    async def upload(request: Request) -> int:
        return len(await request.body())

    client = client_of(app)
    kind, body = {"content-type": "application/octet-stream"}, b"a" * (2 << 20)
    good = {**kind, "authorization": f"Bearer {key(tmp_path, '*')}"}
    assert client.post("/upload", content=body, headers=good).json() == len(body)
    for bad in (kind, {**kind, "authorization": "Bearer wrong"}):
        assert client.post("/upload", content=body, headers=bad).status_code == 413
