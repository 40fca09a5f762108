"""DeepL: documents."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serve.dialects.conftest import MakeKey

PO = b"""msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "die pumpe pr\xc3\xbcfen"
msgstr ""
"""
PATH = "/deepl/v2/document"


def upload(client: TestClient, status: int = 200, name: str = "app.po", raw: bytes = PO, **given: Any) -> Any:
    form = {"target_lang": "EN-US", "translation_memory_id": "manual", **given.pop("form", {})}
    response = client.post(PATH, data=form, files={"file": (name, raw)}, **given)
    assert response.status_code == status, response.text
    return response.json()


def finished(client: TestClient, document: dict[str, str], **given: Any) -> Any:
    body = {"document_key": document["document_key"]}
    for _ in range(600):
        found = client.post(f"{PATH}/{document['document_id']}", json=body, **given).json()
        if found["status"] not in ("queued", "translating"):
            return found
        assert found["seconds_remaining"] >= 0
        time.sleep(0.05)
    raise AssertionError("the document is not finished")


def test_a_document_is_translated_downloaded_and_forgotten(client: TestClient) -> None:
    document = upload(client)
    found = finished(client, document)
    assert found["status"] == "done"
    assert found["billed_characters"] >= 0
    body = {"document_key": document["document_key"]}
    response = client.post(f"{PATH}/{document['document_id']}/result", json=body)
    assert response.status_code == 200
    assert 'msgstr "check the pump"' in response.text
    assert client.post(f"{PATH}/{document['document_id']}/result", json=body).status_code == 404


def test_a_form_has_the_key_too(client: TestClient) -> None:
    document = upload(client)
    finished(client, document)
    key = {"document_key": document["document_key"]}
    assert client.post(f"{PATH}/{document['document_id']}/result", data=key).status_code == 200


def test_a_document_needs_its_key(shared: TestClient) -> None:
    document = upload(shared)
    path = f"{PATH}/{document['document_id']}"
    for body in ({}, {"document_key": "x"}):
        assert shared.post(path, json=body).status_code in (400, 404)
        assert shared.post(f"{path}/result", json=body).status_code in (400, 404)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": {"target_lang": "FR"}}, "Value for 'target_lang' not supported."),
        ({"form": {"formality": "more"}}, "'formality' is not supported for given 'target_lang'."),
        ({"form": {"output_format": "pdf"}}, "A document is translated into its own format."),
    ],
)
def test_wrong_requests_have_the_words_of_deepl(shared: TestClient, changes: dict[str, Any], message: str) -> None:
    assert upload(shared, 400, **changes) == {"message": message}


def test_a_file_is_needed(shared: TestClient) -> None:
    response = shared.post(PATH, data={"target_lang": "EN-US"})
    assert (response.status_code, response.json()) == (400, {"message": "Parameter 'file' not specified."})


def test_others_documents_are_not_there(guarded: TestClient, make_key: MakeKey) -> None:
    one, two = ({"Authorization": f"DeepL-Auth-Key {make_key(name)}"} for name in ("one", "two"))
    document = upload(guarded, headers=one)
    body = {"document_key": document["document_key"]}
    assert guarded.post(f"{PATH}/{document['document_id']}", json=body, headers=two).status_code == 404
    assert finished(guarded, document, headers=one)["status"] == "done"
