"""The native API: the whole way from a memory to a corrected document."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from nearmt.corpus import unpacking
from tests.corpus.test_xlsx import package
from tests.serve.waiting import ended

V1 = "/api/v1"


@pytest.fixture
def memory(client: TestClient) -> str:
    answer = client.post(f"{V1}/memories", json={"name": "mine"})
    assert answer.status_code == 201
    return f"{V1}/memories/mine"


def add(client: TestClient, memory: str, *pairs: tuple[str, str], **more: Any) -> list[dict[str, Any]]:
    body = {"pairs": [{"source": source, "target": target, **more} for source, target in pairs]}
    answer = client.post(f"{memory}/pairs", json=body)
    assert answer.status_code == 201
    found: list[dict[str, Any]] = answer.json()["pairs"]
    return found


def test_a_memory_is_made_listed_and_deleted(client: TestClient, memory: str) -> None:
    info = client.get(memory).json()
    assert (info["name"], info["source_lang"], info["target_lang"], info["pairs"]) == ("mine", "de", "en", 0)
    assert client.get(f"{V1}/memories").json()["memories"] == [info]
    assert client.post(f"{V1}/memories", json={"name": "mine"}).status_code == 409
    assert client.delete(memory).status_code == 204
    assert client.get(memory).status_code == 404
    assert client.get(f"{V1}/memories").json() == {"memories": []}


@pytest.mark.parametrize("identity", ["7", "a/b", "ü #?&", "a%2Fb", "..", "x/../y"])
def test_pairs_have_any_id(client: TestClient, memory: str, identity: str) -> None:
    add(client, memory, ("die pumpe .", "the pump ."), id=identity)
    answer = client.put(f"{memory}/pairs", params={"id": identity}, json={"target": "the valve ."})
    assert (answer.json()["id"], answer.json()["target"]) == (identity, "the valve .")
    if ".." not in identity and "%" not in identity:  # clients resolve the one, the test client decodes the other
        path = f"{memory}/pairs/{quote(identity, safe='')}"
        assert client.put(path, json={"target": "the shaft ."}).json()["target"] == "the shaft ."
    assert client.delete(f"{memory}/pairs", params={"id": identity}).status_code == 204
    assert client.get(f"{memory}/pairs").json() == {"pairs": [], "total": 0, "complete": True}


def test_pairs_are_searched_and_paged(client: TestClient, memory: str) -> None:
    add(client, memory, ("die pumpe .", "the pump ."), ("die welle .", "the shaft ."), metadata={"project": "a"})
    found = client.get(f"{memory}/pairs", params={"query": "SHAFT"}).json()
    assert ([pair["source"] for pair in found["pairs"]], found["total"]) == (["die welle ."], 1)
    assert found["pairs"][0]["metadata"] == {"project": "a"}
    page = client.get(f"{memory}/pairs", params={"offset": 1, "limit": 5}).json()
    assert ([pair["source"] for pair in page["pairs"]], page["total"]) == (["die welle ."], 2)


def test_a_correction_changes_the_next_translation(client: TestClient, memory: str) -> None:
    body = {"texts": ["die pumpe ."], "memories": [{"name": "mine"}], "matches": 2}
    assert client.post(f"{V1}/translate", json=body).json()["translations"][0]["origin"] == "machine"
    (pair,) = add(client, memory, ("die pumpe .", "the pump ."))
    (found,) = client.post(f"{V1}/translate", json=body).json()["translations"]
    assert (found["text"], found["origin"]) == ("the pump .", "memory")
    assert found["matches"] == [
        {
            "id": pair["id"],
            "memory": "mine",
            "source": "die pumpe .",
            "target": "the pump .",
            "score": 1.0,
            "origin": "server",
            "context": False,
            "differences": [],
        }
    ]


def test_an_import_is_followed_to_its_end(client: TestClient, memory: str) -> None:
    rows = "".join(f"die pumpe {number} .\tthe pump {number} .\n" for number in range(5))
    answer = client.post(f"{memory}/import", files={"file": ("pairs.tsv", rows)})
    assert answer.status_code == 202
    with client.stream("GET", f"{V1}/jobs/{answer.json()['id']}/events") as events:
        told = [json.loads(line.removeprefix("data: ")) for line in events.iter_lines() if line.startswith("data:")]
    assert told[-1]["state"] == "done"
    assert told[-1]["result"]["pairs"] == 5
    assert client.get(memory).json()["pairs"] == 5
    assert client.get(f"{V1}/jobs").json()["jobs"][0] == told[-1]


@pytest.mark.parametrize("format", ["tmx", "tsv", "jsonl", "po"])
def test_a_memory_is_exported(client: TestClient, memory: str, format: str) -> None:
    add(client, memory, ("die <b> pumpe & .", "the pump ."))
    answer = client.get(f"{memory}/export", params={"format": format})
    assert f'filename="mine.{format}"' in answer.headers["content-disposition"]
    assert "the pump ." in answer.text
    client.post(f"{V1}/memories", json={"name": "other"})
    job = client.post(f"{V1}/memories/other/import", files={"file": (f"mine.{format}", answer.content)}).json()
    assert ended(client, job)["state"] == "done"
    assert client.get(f"{V1}/memories/other/pairs").json()["pairs"][0]["source"] == "die <b> pumpe & ."


@pytest.mark.parametrize("what", ["compact", "verify"])
def test_memories_are_maintained(client: TestClient, memory: str, what: str) -> None:
    add(client, memory, ("die pumpe .", "the pump ."))
    job = client.post(f"{memory}/{what}").json()
    assert ended(client, job)["state"] == "done"


def test_a_document_is_translated_corrected_and_returned(client: TestClient, memory: str) -> None:
    form = {"memories": json.dumps([{"name": "mine"}]), "settings": json.dumps({"k": 4})}
    answer = client.post(f"{V1}/documents", files={"file": ("a b.html", "<p>die <b>pumpe</b></p><p>12</p>")}, data=form)
    assert answer.status_code == 202
    job = ended(client, answer.json())
    assert (job["state"], job["filename"], job["result"]["units"]) == ("done", "a b.html", 1)
    document = f"{V1}/documents/{job['id']}"
    (unit,) = client.get(f"{document}/units").json()["units"]
    assert (unit["source"], unit["origin"], unit["confirmed"]) == ("die <b>pumpe</b>", "machine", False)
    edit = {"target": "the <b>pump</b>", "confirmed": True, "learn": "mine"}
    assert client.put(f"{document}/units/0", json=edit).json()["confirmed"] is True
    result = client.get(f"{document}/result")
    assert result.text == "<p>the <b>pump</b></p><p>12</p>"
    assert 'filename="a_b.html"' in result.headers["content-disposition"]
    assert client.get(f"{memory}/pairs").json()["pairs"][0]["target"] == "the pump"
    assert client.delete(document).status_code == 204
    assert client.get(document).status_code == 404
    assert client.get(f"{V1}/jobs").json() == {"jobs": []}


def test_what_is_learnt_of_a_unit_can_be_taken_back(client: TestClient, memory: str) -> None:
    job = ended(client, client.post(f"{V1}/documents", files={"file": ("a.txt", "die pumpe .\n")}).json())
    unit = f"{V1}/documents/{job['id']}/units/0"
    learnt = []
    for target in ("the pump .", "one pump .", "one pump ."):
        answer = client.put(unit, json={"target": target, "confirmed": True, "learn": "mine"}).json()
        learnt.append(answer["learnt"])
    assert [one["before"] for one in learnt] == [None, "the pump .", "one pump ."]
    (pair,) = client.get(f"{memory}/pairs?query=die pumpe .").json()["pairs"]
    assert {(one["memory"], one["id"]) for one in learnt} == {("mine", pair["id"])}
    assert client.put(unit, json={"target": "the pump .", "confirmed": False}).json()["learnt"] is None


def test_a_glossary_is_stored_and_used(client: TestClient) -> None:
    terms = [{"source_lang": "de", "target_lang": "en", "entries": [{"source": "pumpe", "target": "qqq"}]}]
    glossary = client.post(f"{V1}/glossaries", json={"name": "mine", "terms": terms}).json()
    assert client.get(f"{V1}/glossaries/{glossary['id']}").json() == glossary
    body = {"texts": ["die pumpe ."], "glossary": glossary["id"]}
    (found,) = client.post(f"{V1}/translate", json=body).json()["translations"]
    assert any("qqq" in warning for warning in found["warnings"]) or "qqq" in found["text"]
    changed = {"name": "new", "terms": [{**terms[0], "source_lang": "fr"}]}
    assert client.put(f"{V1}/glossaries/{glossary['id']}", json=changed).json()["terms"][0]["source_lang"] == "fr"
    assert client.post(f"{V1}/translate", json=body).status_code == 400
    assert client.delete(f"{V1}/glossaries/{glossary['id']}").status_code == 204
    assert client.get(f"{V1}/glossaries").json() == {"glossaries": []}


def test_the_server_is_described(client: TestClient) -> None:
    assert client.get(f"{V1}/me").json() == {
        "name": "anonymous",
        "memories": None,
        "may": ["admin", "learn", "translate"],
        "default_memory": None,
    }
    assert client.get(f"{V1}/languages").json() == {"languages": [{"code": "de", "name": "German", "targets": ["en"]}]}
    (model,) = client.get(f"{V1}/models").json()["models"]
    assert (model["source_lang"], model["target_lang"], model["precision"]) == ("de", "en", "fp32")
    client.post(f"{V1}/translate", json={"texts": ["die pumpe .", ""]})
    told = client.get(f"{V1}/statistics").json()
    assert told["by_origin"] == {"machine": 1, "memory": 0, "repaired": 0, "copied": 1}
    assert told["slots"] > 0


def test_sentences_and_languages_are_told(client: TestClient) -> None:
    answer = client.post(f"{V1}/sentences", json={"text": "Eins. Zwei!\nDrei", "language": "de"})
    assert answer.json() == {"sentences": [{"start": 0, "end": 5}, {"start": 6, "end": 11}, {"start": 12, "end": 16}]}
    assert client.post(f"{V1}/detect", json={"text": "der Motor ist"}).json()["languages"][0]["language"] == "de"


BAD: list[tuple[str, str, Any, int]] = [
    ("POST", "/translate", {"texts": "no list"}, 422),
    ("POST", "/translate", {"texts": ["a"], "unknown": 1}, 422),
    ("POST", "/translate", {"texts": [1]}, 422),
    ("POST", "/translate", {"texts": ["a"], "beams": "2"}, 422),
    ("POST", "/translate", {"texts": ["a"], "beams": 17}, 422),
    ("POST", "/translate", {"texts": ["\ud800"]}, 400),
    ("POST", "/translate", {"texts": ["a"] * 1001}, 400),
    ("POST", "/translate", {"texts": ["a"], "target_lang": "xx"}, 400),
    ("POST", "/translate", {"texts": ["a"], "memories": [{"name": "../other"}]}, 404),
    ("POST", "/translate", {"texts": ["a"], "method": "chunk"}, 400),
    ("POST", "/translate", {"texts": ["a"], "settings": {"adaptive": "/etc/passwd"}}, 400),
    ("POST", "/translate", {"texts": ["a"], "settings": {"scope": "batch"}}, 400),
    ("POST", "/translate", {"texts": ["a"], "settings": {"glossary": "/etc/passwd"}}, 400),
    ("POST", "/translate", {"texts": ["a"], "settings": {"preset": "paper"}}, 400),
    ("POST", "/translate", {"texts": ["<b>"], "format": "xml"}, 400),
    ("POST", "/translate", {"texts": ["a\0b"]}, 400),
    ("POST", "/translate", {"texts": ["\ud800"]}, 400),
    ("POST", "/sentences", {"text": "a\0b"}, 400),
    ("POST", "/memories/mine/pairs", {"pairs": [{"source": "a\0", "target": "a"}]}, 400),
    ("POST", "/translate", {"texts": ["a"], "glossary": "no"}, 404),
    ("POST", "/translate", {"texts": ["a"], "filter": "project=x"}, 400),
    ("POST", "/memories", {"name": "../other"}, 422),
    ("POST", "/memories", {"name": "a", "source_lang": "xx"}, 400),
    ("GET", "/memories/..%2Fother", None, 404),
    ("DELETE", "/memories/.server", None, 404),
    ("POST", "/memories/mine/pairs", {"pairs": [{"source": " ", "target": "a"}]}, 400),
    ("PUT", "/memories/mine/pairs?id=none", {"target": "a"}, 404),
    ("GET", "/memories/mine/pairs?limit=-1", None, 422),
    ("GET", "/memories/mine/export?format=exe", None, 422),
    ("GET", "/jobs/none", None, 404),
    ("GET", "/documents/none/units", None, 404),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), BAD)
def test_wrong_requests_get_problem_documents(
    client: TestClient, memory: str, method: str, path: str, body: Any, status: int
) -> None:
    content = None if body is None else json.dumps(body)
    answer = client.request(method, V1 + path, content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.docx", b"PK", "not a text file"),
        ("a.xlsx", b"no zip", "a.xlsx"),
        ("a.json", b"{", "a.json"),
        ("a.po.gz", b"no gzip", "a.po.gz"),
        ("a.txt", b"", "empty"),
    ],
)
def test_documents_that_cannot_be_read_are_refused(client: TestClient, name: str, content: bytes, told: str) -> None:
    answer = client.post(f"{V1}/documents", files={"file": (name, content)})
    assert answer.status_code == 400
    assert told in answer.json()["detail"]
    assert "/tmp" not in answer.json()["detail"]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.xlsx"])
def test_zip_bombs_are_refused(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1 << 20)
    bomb = b" " * (4 << 20)
    content = gzip.compress(bomb) if name.endswith(".gz") else package(tmp_path, "<row/>", sheet=bomb).read_bytes()
    answer = client.post(f"{V1}/documents", files={"file": (name, content)})
    assert answer.status_code == 400
    assert "unpacks to more than 200 times its size" in answer.json()["detail"]
    assert client.get(f"{V1}/jobs").json()["jobs"] == []


@pytest.mark.parametrize("field", [{"memories": "{"}, {"memories": '{"a": 1}'}, {"settings": "[]"}, {"beams": "99"}])
def test_fields_of_forms_are_checked(client: TestClient, field: dict[str, str]) -> None:
    answer = client.post(f"{V1}/documents", files={"file": ("a.txt", "die pumpe")}, data=field)
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_schema_has_the_native_api_only(client: TestClient) -> None:
    schema = client.get(f"{V1}/openapi.json").json()
    assert schema["openapi"].startswith("3.1")
    assert all(path.startswith(V1) for path in schema["paths"])
    assert "HTTPValidationError" not in schema["components"]["schemas"]
    operations = [operation for path in schema["paths"].values() for operation in path.values()]
    for operation in operations:
        assert "application/problem+json" in operation["responses"]["422"]["content"]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
