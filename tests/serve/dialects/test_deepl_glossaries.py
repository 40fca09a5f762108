"""DeepL: glossaries of both versions."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from nearmt.serve.values import TranslationRequest
from tests.serve.dialects.conftest import targets

TERMS = {"source_lang": "de", "target_lang": "en", "entries": "schraube\tbolt\nmotor\tengine", "entries_format": "tsv"}


def send(client: TestClient, method: str, path: str, status: int = 200, **request: Any) -> Any:
    response = client.request(method, f"/deepl{path}", **request)
    assert response.status_code == status, response.text
    return response.json() if status not in (204,) else None


def translate(client: TestClient, **given: Any) -> None:
    body = {"text": ["motor"], "source_lang": "DE", "target_lang": "EN-US", **given}
    send(client, "POST", "/v2/translate", json=body)


def test_a_glossary_of_version_2(client: TestClient, asked: list[TranslationRequest]) -> None:
    made = send(client, "POST", "/v2/glossaries", 201, json={"name": "parts", **TERMS})
    assert (made["name"], made["source_lang"], made["entry_count"], made["ready"]) == ("parts", "de", 2, True)
    path = f"/v2/glossaries/{made['glossary_id']}"
    assert send(client, "GET", path) == made
    assert send(client, "GET", "/v2/glossaries")["glossaries"] == [made]
    entries = client.get(f"/deepl{path}/entries", headers={"Accept": "text/tab-separated-values"})
    assert entries.text == TERMS["entries"]
    assert entries.headers["content-type"].startswith("text/tab-separated-values")
    translate(client, glossary_id=made["glossary_id"])
    assert targets(asked[-1]) == {"schraube": "bolt", "motor": "engine"}
    send(client, "DELETE", path, 204)
    assert "message" in send(client, "GET", path, 404)


@pytest.mark.parametrize("entries", ["schraube,bolt\nmotor,engine\n", '"schraube","bolt"\nmotor,engine,de,en'])
def test_entries_can_be_csv(shared: TestClient, entries: str) -> None:
    body = {"name": "parts", **TERMS, "entries": entries, "entries_format": "csv"}
    made = send(shared, "POST", "/v2/glossaries", 201, json=body)
    found = shared.get(f"/deepl/v2/glossaries/{made['glossary_id']}/entries").text
    assert found == TERMS["entries"]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": None},
        {"entries": ""},
        {"entries": "schraube"},
        {"entries": "a\tb\na\tc"},
        {"entries": "a\t"},
        {"entries_format": "xlsx"},
        {"entries": '"a', "entries_format": "csv"},
        {"target_lang": "fr"},
    ],
)
def test_wrong_glossaries_are_refused(shared: TestClient, changes: dict[str, Any]) -> None:
    assert "message" in send(shared, "POST", "/v2/glossaries", 400, json={"name": "parts", **TERMS, **changes})


@pytest.fixture
def glossary(client: TestClient) -> str:
    """The path of a glossary of version 3."""
    made = send(client, "POST", "/v3/glossaries", 201, json={"name": "parts", "dictionaries": [TERMS]})
    return f"/v3/glossaries/{made['glossary_id']}"


def test_a_glossary_of_version_3(client: TestClient, glossary: str) -> None:
    found = send(client, "GET", glossary)
    assert found["dictionaries"] == [{"source_lang": "de", "target_lang": "en", "entry_count": 2}]
    assert send(client, "GET", "/v3/glossaries")["glossaries"] == [found]
    (entries,) = send(client, "GET", f"{glossary}/entries?source_lang=DE&target_lang=EN")["dictionaries"]
    assert entries == TERMS
    send(client, "DELETE", glossary, 204)
    send(client, "GET", glossary, 404)


def test_forms_have_dictionaries_by_number(shared: TestClient) -> None:
    form = {"name": "parts"} | {f"dictionaries[0].{name}": value for name, value in TERMS.items()}
    made = send(shared, "POST", "/v3/glossaries", 201, data=form)
    assert made["dictionaries"][0]["entry_count"] == 2


def test_a_glossary_is_edited(client: TestClient, glossary: str) -> None:
    changed = {**TERMS, "entries": "motor\tmotor\nwelle\taxle"}
    found = send(client, "PATCH", glossary, json={"name": "pieces", "dictionaries": [changed]})
    assert (found["name"], found["dictionaries"][0]["entry_count"]) == ("pieces", 3)
    (entries,) = send(client, "GET", f"{glossary}/entries?source_lang=de&target_lang=en")["dictionaries"]
    assert entries["entries"] == "schraube\tbolt\nmotor\tmotor\nwelle\taxle"


def test_a_dictionary_is_replaced_and_deleted(client: TestClient, glossary: str) -> None:
    changed = {**TERMS, "entries": "motor\tmotor"}
    assert send(client, "PUT", f"{glossary}/dictionaries", json=changed)["entry_count"] == 1
    send(client, "DELETE", f"{glossary}/dictionaries?source_lang=de&target_lang=en", 204)
    assert send(client, "GET", glossary)["dictionaries"] == []
    send(client, "DELETE", f"{glossary}/dictionaries?source_lang=de&target_lang=en", 404)
    send(client, "GET", f"{glossary}/entries?source_lang=de&target_lang=en", 404)


def test_several_glossaries_are_used_in_order(
    client: TestClient, glossary: str, asked: list[TranslationRequest]
) -> None:
    other = send(client, "POST", "/v2/glossaries", 201, json={"name": "other", **TERMS, "entries": "welle\taxle"})
    ids = [glossary.rpartition("/")[2], other["glossary_id"]]
    for given in (ids, ",".join(ids)):
        translate(client, glossary_ids=given)
        assert list(targets(asked[-1])) == ["schraube", "motor", "welle"]


def test_a_glossary_without_the_direction_is_refused(client: TestClient, glossary: str) -> None:
    send(client, "DELETE", f"{glossary}/dictionaries?source_lang=de&target_lang=en", 204)
    body = {"text": ["motor"], "source_lang": "DE", "target_lang": "EN-US", "glossary_id": glossary.rpartition("/")[2]}
    assert "no dictionary" in send(client, "POST", "/v2/translate", 400, json=body)["message"]
    send(client, "POST", "/v2/translate", 404, json=body | {"glossary_id": "x"})
