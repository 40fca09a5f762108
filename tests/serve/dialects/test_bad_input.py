"""Whatever is sent, the answer is a translation or an error of the client, in the form of the dialect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from nearmt.models import TranslationModel
from tests.serve.dialects.conftest import served

POSTS: dict[str, dict[str, Any]] = {
    "/translate": {"q": "eins", "source": "de", "target": "en", "format": "text", "alternatives": 0},
    "/suggest": {"q": "eins", "s": "one", "source": "de", "target": "en"},
    "/detect": {"q": "eins"},
    "/deepl/v2/translate": {
        **{"text": ["eins"], "target_lang": "EN-US", "source_lang": "DE", "tag_handling": "xml", "ignore_tags": ["x"]},
        **{"glossary_ids": [], "translation_memory_id": "manual", "translation_memory_threshold": 50},
    },
    "/deepl/v2/glossaries": {"name": "n", "source_lang": "de", "target_lang": "en", "entries": "a\tb"},
    "/deepl/v3/glossaries": {
        "name": "n",
        "dictionaries": [{"source_lang": "de", "target_lang": "en", "entries": "a,b", "entries_format": "csv"}],
    },
    "/deepl/v3/translation_memories/import": {
        "source_file": {"file_name": "a.tmx", "content_length": 5},
        "parameters": {"display_name": "n"},
    },
    "/deepl/v2/document": {"target_lang": "EN", "file": "x"},
    "/deepl/v2/document/x": {"document_key": "x"},
    "/mmt/memories": {"name": "a:b"},
    "/mmt/memories/manual/content": {
        **{"source": "de", "target": "en", "sentence": "eins", "translation": "one", "tuid": "t"},
    },
    "/mmt/memories/manual/glossary": {"terms": [{"term": "a", "language": "de"}], "type": "unidirectional"},
    "/MTRestService/BatchTranslate": {"input": ["eins"], "srcLangCode": "de", "trgLangCode": "en"},
    "/MTRestService/PreOrderBatch": {"input": ["eins"]},
    "/apertium/translate": {"q": "eins", "langpair": "de|en"},
}
GETS: dict[str, dict[str, str]] = {
    "/mmt/translate": {
        **{"q": "eins", "source": "de", "target": "en", "hints": "manual", "context_vector": "manual:1"},
        **{"format": "text/plain", "alt_translations": "0", "glossaries": ""},
    },
    "/MTRestService/TranslateJson": {"input": "eins", "srcLangCode": "de", "trgLangCode": "en", "modelTag": "manual"},
    "/MTRestService/StoreTranslation": {"source": "a", "target": "b", "modelTag": "manual"},
    "/apertium/translate": {"q": "eins", "langpair": "de|en"},
    "/tmserver/de/en/unit/eins": {"min_similarity": "50", "max_candidates": "5"},
    "/deepl/v3/translation_memories/manual/segments": {"page_size": "5", "page_cursor": "0", "filter_text": "a"},
}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["\x00", "\ud800", "../x", "<b>", "a" * 5000, "nan", "-1", "1e999", "x=1", "de|"]),
    st.lists(st.one_of(st.text(max_size=5), st.integers(), st.none()), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)
#: Fields with texts of users.
TEXTS = {"q", "text", "s"}
SOME = settings(max_examples=20)


@pytest.fixture(scope="module")
def client(
    tiny: TranslationModel, filled_memories: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    """One server for all: what it has learnt does not matter."""
    with served(tiny, filled_memories, tmp_path_factory.mktemp("bad-input")) as client:
        yield client


def check(response: Any) -> None:
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert isinstance(response.json(), dict)


@pytest.mark.parametrize("path", POSTS)
@SOME
@given(data=st.data())
def test_json_with_an_odd_value(client: TestClient, path: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(POSTS[path])))
    body = {**POSTS[path], name: data.draw(ODD)}
    raw = json.dumps(body).encode()
    check(client.post(path, content=raw, headers={"Content-Type": "application/json"}))


@pytest.mark.parametrize("path", GETS)
@SOME
@given(data=st.data())
def test_queries_with_an_odd_value(client: TestClient, path: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(GETS[path])))
    odd = str(data.draw(ODD)).encode("utf-8", "replace").decode()
    check(client.get(path, params={**GETS[path], name: odd}))


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"q": "eins"'),
        ("application/json", b"\xff\xfe"),
        ("application/x-www-form-urlencoded", b"q=%ff%fe&source=%00"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"--x\r\nx\r\n"),
        ("", b"eins"),
    ],
)
def test_bodies_that_are_no_parameters(client: TestClient, path: str, kind: str, body: bytes) -> None:
    check(client.post(path, content=body, headers={"Content-Type": kind}))


@pytest.mark.parametrize("name", ["manual=x", "manual=nan", "manual=-1", "manual=1e999", "../x", "=", "manual,manual"])
def test_odd_names_of_memories(client: TestClient, name: str) -> None:
    body = {"q": "eins", "source": "de", "target": "en"}
    check(client.post("/translate", json=body, headers={"X-Nearmt-Memory": name}))


@pytest.mark.parametrize("text", ["eins\0zwei", "eins\ud800zwei"])
@pytest.mark.parametrize("path", ["/translate", "/suggest", "/deepl/v2/translate", "/apertium/translate"])
def test_what_is_in_no_text_is_refused(client: TestClient, path: str, text: str) -> None:
    given = {name: [text] if isinstance(value, list) else text for name, value in POSTS[path].items() if name in TEXTS}
    raw = json.dumps(POSTS[path] | given).encode()
    headers = {"Content-Type": "application/json", "X-Nearmt-Memory": "manual"}
    answer = client.post(path, content=raw, headers=headers)
    assert answer.status_code == 400, answer.text
