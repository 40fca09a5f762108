"""tmserver of the Translate Toolkit."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serve.dialects.conftest import MakeKey


def test_matches_have_their_similarity_in_percent(shared: TestClient) -> None:
    found = shared.get("/tmserver/de/en/unit/die pumpe prüfen").json()
    assert found[0] == {"source": "die pumpe prüfen", "target": "check the pump", "quality": 100.0, "rank": 100.0}
    (similar,) = shared.get("/tmserver/de/en/unit/die pumpe prüfen/?min_similarity=80").json()
    assert similar["source"] == "die pumpe prüfen"


def test_candidates_can_be_limited(shared: TestClient) -> None:
    assert len(shared.get("/tmserver/de/en/unit/die pumpe reinigen?min_similarity=30").json()) > 1
    (best,) = shared.get("/tmserver/de/en/unit/die pumpe reinigen?min_similarity=30&max_candidates=1").json()
    assert 30 <= best["quality"] < 100
    assert shared.get("/tmserver/de/en/unit/ganz anders").json() == []


@pytest.mark.parametrize("query", ["min_similarity=101", "max_candidates=0", "max_candidates=x"])
def test_wrong_options_are_refused(shared: TestClient, query: str) -> None:
    response = shared.get(f"/tmserver/de/en/unit/eins?{query}")
    assert response.status_code == 400
    assert query.partition("=")[0] in response.json()["error"]


def test_languages(shared: TestClient) -> None:
    assert shared.get("/tmserver/languages/").json() == {"sourceLanguages": ["de"], "targetLanguages": ["en"]}
    response = shared.get("/tmserver/de/fr/unit/eins")
    assert (response.status_code, response.json()) == (404, {"error": "no memory from 'de' to 'fr'"})
    assert shared.get("/tmserver/en/de/unit/test").json() == []  # Weblate tries a server with this


def matches(client: TestClient, **request: Any) -> Any:
    response = client.get("/tmserver/de/en/unit/die pumpe prüfen", **request)
    return response.json() if response.status_code == 200 else response.status_code


def test_the_key_is_a_password(guarded: TestClient, make_key: MakeKey) -> None:
    key, other = make_key("one"), make_key("two", memories="another", default=None)
    assert len(matches(guarded, auth=("key", key))) == 1
    assert len(matches(guarded, headers={"Authorization": f"Bearer {key}"})) == 1
    assert matches(guarded, auth=("key", other)) == []
    assert matches(guarded) == 401
    assert matches(guarded, auth=("key", "wrong")) == 401
    assert matches(guarded, headers={"Authorization": "Basic !"}) == 401


def test_a_header_names_memories(guarded: TestClient, make_key: MakeKey) -> None:
    bearer = {"Authorization": f"Bearer {make_key()}"}
    assert len(matches(guarded, headers=bearer | {"X-Nearmt-Memory": "manual"})) == 1
    assert matches(guarded, headers=bearer | {"X-Nearmt-Memory": "none"}) == []
    assert matches(guarded, headers=bearer | {"X-Nearmt-Memory": "other"}) == 404
