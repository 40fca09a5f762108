"""DeepL: translation memories."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient

from nearmt.serve.app import create_app
from nearmt.serve.dialects.deepl.transfers import LIFETIME, Transfers
from nearmt.serve.errors import NotFound
from nearmt.serve.key_file import KeyFile
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.service import Service
from tests.serve.conftest import BASE_URL
from tests.serve.dialects.conftest import MakeKey

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="de" segtype="sentence" datatype="plaintext" o-tmf="x" adminlang="en"
 creationtool="x" creationtoolversion="1"/><body>
<tu><tuv xml:lang="de"><seg>der motor</seg></tuv><tuv xml:lang="en"><seg>the engine</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>die schraube</seg></tuv><tuv xml:lang="en"><seg>the bolt</seg></tuv></tu>
</body></tmx>
"""
PATH = "/v3/translation_memories"


def send(client: TestClient, method: str, path: str, status: int = 200, **request: Any) -> Any:
    response = client.request(method, f"/deepl{path}", **request)
    assert response.status_code == status, response.text
    return response.json() if response.content else None


def test_memories_are_listed(client: TestClient) -> None:
    found = send(client, "GET", PATH)
    manual = {
        "translation_memory_id": "manual",
        "name": "manual",
        "source_language": "de",
        "target_languages": ["en"],
        "segment_count": 3,
    }
    assert found == {"translation_memories": [manual], "total_count": 1}
    assert send(client, "GET", f"{PATH}?page=1&page_size=5")["translation_memories"] == []
    assert send(client, "GET", f"{PATH}/manual") == manual
    assert "message" in send(client, "GET", f"{PATH}/other", 404)


def test_segments_come_in_pages(client: TestClient) -> None:
    first = send(client, "GET", f"{PATH}/manual/segments?page_size=2")
    assert [each["source_text"] for each in first["segments"]] == ["die pumpe prüfen", "die welle reinigen"]
    assert first["segments"][0]["targets"][0]["target_text"] == "check the pump"
    last = send(client, "GET", f"{PATH}/manual/segments?page_size=2&page_cursor={first['next_page_cursor']}")
    assert [each["source_text"] for each in last["segments"]] == ["den deckel öffnen"]
    assert "next_page_cursor" not in last
    assert first["segment_count"] == last["segment_count"] == 3


def test_segments_can_be_filtered(client: TestClient) -> None:
    def found(query: str) -> list[str]:
        return [each["source_text"] for each in send(client, "GET", f"{PATH}/manual/segments?{query}")["segments"]]

    assert found("filter_text=PUMPE") == found("filter_text=the%20pump") == ["die pumpe prüfen"]
    assert found("filter_text=PUMPE&filter_case_sensitive=true") == []
    send(client, "GET", f"{PATH}/manual/segments?page_cursor=x", 400)


def done(client: TestClient, id: str) -> dict[str, Any]:
    """The result of a job that has finished."""
    for _ in range(600):
        (result,) = send(client, "GET", f"{PATH}/jobs/{id}")["results"]
        if result["status"] not in ("awaiting_input", "processing"):
            return dict(result)
        time.sleep(0.05)
    raise AssertionError("the job does not end")


def announce(client: TestClient, name: str = "parts") -> dict[str, Any]:
    file = {"file_name": "parts.tmx", "content_length": len(TMX)}
    body = {"source_file": file, "parameters": {"display_name": name}}
    return dict(send(client, "POST", f"{PATH}/import", 201, json=body))


def path_of(address: str) -> str:
    return urlsplit(address).path.removeprefix("/deepl")


def test_a_file_becomes_a_memory(client: TestClient) -> None:
    begun = announce(client, "Teile & mehr")
    job = send(client, "GET", f"{PATH}/jobs/{begun['job_id']}")
    assert (job["operation"], job["results"][0]["status"]) == ("import", "awaiting_input")
    send(client, "PUT", path_of(begun["upload_url"]), content=TMX.encode(), headers={"Content-Type": "application/xml"})
    result = done(client, begun["job_id"])
    assert (result["status"], result["translation_memory_id"]) == ("completed", "Teile-mehr")
    assert result["skipped_segment_count"] == 0
    assert send(client, "GET", f"{PATH}/Teile-mehr")["segment_count"] == 2
    send(client, "PUT", path_of(begun["upload_url"]), 409, content=TMX.encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_files_have_encodings_and_names_are_not_taken_twice(client: TestClient, encoding: str) -> None:
    begun = announce(client, "manual")
    text = TMX.replace("UTF-8", encoding).encode(encoding)
    send(client, "PUT", path_of(begun["upload_url"]), content=text)
    assert done(client, begun["job_id"])["translation_memory_id"] == "manual-2"


def test_a_file_in_other_languages_is_refused(client: TestClient) -> None:
    address = path_of(announce(client)["upload_url"])
    assert "message" in send(client, "PUT", address, 400, content=TMX.replace('"de"', '"fi"').encode())
    assert send(client, "GET", PATH)["total_count"] == 1


def test_a_file_without_pairs_fails(client: TestClient) -> None:
    begun = announce(client)
    send(client, "PUT", path_of(begun["upload_url"]), content=TMX.replace("tu>", "unit>").encode())
    result = done(client, begun["job_id"])
    assert result["status"] == "failed"
    assert result["error"]["message"]


def test_a_memory_becomes_a_file(client: TestClient) -> None:
    begun = send(client, "POST", f"{PATH}/manual/export", 202)
    assert begun["parameters"] == {"translation_memory_id": "manual"}
    result = done(client, begun["job_id"])
    response = client.get(urlsplit(result["download_url"]).path)
    assert response.status_code == 200
    assert "check the pump" in response.text and response.text.startswith("<?xml")
    send(client, "POST", f"{PATH}/other/export", 404)


def test_a_memory_is_deleted(client: TestClient) -> None:
    send(client, "DELETE", f"{PATH}/manual", 204)
    assert send(client, "GET", PATH)["total_count"] == 0


def test_an_announced_file_may_be_large(service: Service, make_key: MakeKey) -> None:
    """It is sent without a key; other bodies without one are limited to those of texts."""
    key = {"Authorization": f"DeepL-Auth-Key {make_key()}"}
    service.config = replace(service.config, max_body=1)
    keyring = KeyFile(service.config.state_folder / "keys.json")
    large = TMX.replace("</body>", f"<!--{'x' * (1 << 20)}--></body>").encode()
    headers = {"Content-Type": "application/xml"}
    with TestClient(create_app(service, keyring), base_url=BASE_URL) as client:
        body = {"source_file": {"file_name": "a.tmx", "content_length": len(large)}}
        begun = send(client, "POST", f"{PATH}/import", 201, json=body, headers=key)
        assert client.post("/translate", content=large, headers=headers).status_code == 413
        send(client, "PUT", path_of(begun["upload_url"]), content=large, headers=headers)


def test_importing_needs_the_right(guarded: TestClient, make_key: MakeKey) -> None:
    headers = {"Authorization": f"DeepL-Auth-Key {make_key(may='translate,learn')}"}
    body = {"source_file": {"file_name": "a.tmx", "content_length": 10}}
    send(guarded, "POST", f"{PATH}/import", 403, json=body, headers=headers)


def test_others_jobs_are_not_there(guarded: TestClient, make_key: MakeKey) -> None:
    one, two = ({"Authorization": f"DeepL-Auth-Key {make_key(name)}"} for name in ("one", "two"))
    begun = send(guarded, "POST", f"{PATH}/manual/export", 202, headers=one)
    send(guarded, "GET", f"{PATH}/jobs/{begun['job_id']}", headers=one)
    send(guarded, "GET", f"{PATH}/jobs/{begun['job_id']}", 404, headers=two)


def test_addresses_end() -> None:
    now = 0.0
    transfers = Transfers(clock=lambda: now)
    transfer = transfers.add("import", ANONYMOUS, "parts")
    assert transfers.by_token(transfer.token, "import") == transfer
    with pytest.raises(NotFound):
        transfers.by_token(transfer.token, "export")
    now = LIFETIME + 1
    assert transfers.has_expired(transfer)
    with pytest.raises(NotFound):
        transfers.by_token(transfer.token, "import")
