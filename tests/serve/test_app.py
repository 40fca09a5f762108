"""Endpoints over one service."""

from __future__ import annotations

from fastapi.testclient import TestClient


def test_texts_are_translated(client: TestClient) -> None:
    answer = client.post("/api/v1/translate", json={"texts": ["die pumpe ."]})
    assert answer.status_code == 200
    assert answer.json()["translations"][0]["source"] == "die pumpe ."


def test_errors_are_problem_documents(client: TestClient) -> None:
    answer = client.post("/api/v1/translate", json={"texts": ["die pumpe ."], "source_lang": "xx"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert "xx" in answer.json()["detail"]
