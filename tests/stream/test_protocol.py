"""Programs: one answer per request, whatever the request."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearmt.datastore import Datastore
from nearmt.errors import OutputError
from nearmt.stream import Session, answer, serve
from nearmt.stream.protocol import OPERATIONS


def ask(session: Session, **request: Any) -> dict[str, Any]:
    return answer(session, json.dumps(request))


def test_a_dialogue(session: Session, folder: Path) -> None:
    first = ask(session, op="translate", source="die pumpe", id=7)
    assert first["op"] == "translate" and first["id"] == 7 and first["origin"] == "machine"
    assert isinstance(first["score"], float) and first["tokens"] > 0 and "provenance" not in first
    confirmed = ask(session, op="confirm", source="die pumpe", target="the pump", metadata={"n": 3, "ok": True})
    assert confirmed == {"op": "confirm", "ok": True, "id": confirmed["id"], "pending": 0}
    again = ask(session, op="translate", source="die pumpe")
    assert again["target"] == "the pump" and again["origin"] == "memory" and "id" not in again
    assert next(p for p in Datastore.open(folder).pairs() if p.target == "the pump").metadata == {
        "n": "3",
        "ok": "true",
    }
    replaced = ask(session, op="confirm", source="die pumpe", target="a pump", id=confirmed["id"])
    assert replaced["id"] == confirmed["id"]
    assert ask(session, op="undo") == {"op": "undo", "ok": True, "id": confirmed["id"]}
    assert ask(session, op="translate", source="die pumpe")["target"] == "the pump"
    assert "'nobody'; nothing was changed" in ask(session, op="delete", ids=["old-1"], id="nobody")["error"]
    assert ask(session, op="delete", ids=["old-1"]) == {"op": "delete", "ok": True, "deleted": 1}
    assert ask(session, op="flush") == {"op": "flush", "ok": True, "learnt": 0}
    counts = ask(session, op="statistics")
    assert (counts["translated"], counts["confirmed"], counts["edited"]) == (3, 1, 1)
    assert [pair.target for pair in Datastore.open(folder).pairs()] == ["the pump"]


def test_an_explained_translation_names_its_witnesses(session: Session) -> None:
    found = ask(session, op="translate", source="das ventil prüfen", explain=True)
    assert any(witness["pair_id"] == "old-1" for token in found["provenance"] for witness in token["witnesses"])
    json.dumps(found)


BAD = [
    ("{", "not JSON"),
    ("nonsense", "not JSON"),
    ("[1, 2]", "not a JSON object"),
    ("null", "not a JSON object"),
    ("[" * 100_000, "not JSON that can be read"),
    ('{"op": "translate", "source": "a", "id": ' + "9" * 5000 + "}", "not JSON that can be read"),
    ('{"op": "translate", "source": "a", "id": NaN}', "NaN is no number"),
    ('{"op": "translate", "source": "\\ud800"}', "half a character"),
    ("{}", '"op" must be one of translate, confirm'),
    ('{"op": "transalte"}', "did you mean 'translate'?"),
    ('{"op": ["translate"]}', '"op" must be one of'),
    ('{"op": "translate"}', 'no "source"'),
    ('{"op": "translate", "source": 3}', '"source" is not a string'),
    ('{"op": "translate", "source": null}', '"source" is not a string'),
    ('{"op": "translate", "source": "a", "id": true}', '"id" is not a string or a whole number'),
    ('{"op": "translate", "source": "a", "id": {}}', '"id" is not a string or a whole number'),
    ('{"op": "translate", "source": "a", "explain": 1}', '"explain" is not true or false'),
    ('{"op": "translate", "soruce": "a"}', "did you mean 'source'?"),
    ('{"op": "confirm", "source": "a"}', 'no "target"'),
    ('{"op": "confirm", "source": "a", "target": ""}', "not empty"),
    ('{"op": "confirm", "source": "\\u0000", "target": "a"}', "not empty"),
    ('{"op": "confirm", "source": "a", "target": ["b"]}', '"target" is not a string'),
    ('{"op": "confirm", "source": "a", "target": "b", "id": 3}', '"id" is not a string'),
    ('{"op": "confirm", "source": "a", "target": "b", "id": ""}', '"id" is empty'),
    ('{"op": "confirm", "source": "a", "target": "b", "metadata": []}', '"metadata" is not an object'),
    ('{"op": "confirm", "source": "a", "target": "b", "metadata": {"c": {}}}', '"metadata" is not an object'),
    ('{"op": "delete"}', 'no "id" and no "ids"'),
    ('{"op": "delete", "ids": "a"}', '"ids" is not a list of strings'),
    ('{"op": "delete", "ids": [1]}', '"ids" is not a list of strings'),
    ('{"op": "undo"}', "nothing to undo"),
    ('{"op": "undo", "id": "a"}', 'unknown field "id"'),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_bad_requests_get_one_line_and_change_nothing(session: Session, folder: Path, line: str, reason: str) -> None:
    found = answer(session, line)
    assert reason in found["error"] and "\n" not in found["error"] and set(found) <= {"op", "error"}
    assert [pair.target for pair in Datastore.open(folder).pairs()] == ["the valve"]
    assert session.statistics.translated == session.statistics.confirmed == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(["op", "source", "target", "id", "ids", "metadata", "explain", "other"])


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(FIELDS, JSON | st.sampled_from(list(OPERATIONS)), max_size=6))
def test_any_object_gets_an_answer_that_is_json(session: Session, request_: dict[str, Any]) -> None:
    found = answer(session, json.dumps(request_))
    assert "error" in found or found["op"] == request_["op"]
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()


class Flushed(io.StringIO):
    """Knows what a reader at the other end has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue())


def test_every_line_is_answered_at_once(session: Session, tmp_path: Path) -> None:
    long = " ".join(["pumpe"] * 10_000)
    lines = [
        json.dumps({"op": "confirm", "source": "die welle", "target": "the shaft"}).encode(),
        b"\xff\xfe",
        b"   ",
        b"{",
        json.dumps({"op": "confirm", "source": long, "target": "the pump"}).encode(),
        json.dumps({"op": "translate", "source": long, "id": "l"}).encode(),
        json.dumps({"op": "translate", "source": "\0 die welle \0"}).encode(),
        json.dumps({"op": "translate", "source": ""}).encode(),
    ]
    path = tmp_path / "requests.jsonl"
    path.write_bytes(b"\r\n".join(lines))
    out = Flushed()
    serve(session, path, out)
    assert [seen.count("\n") for seen in out.seen] == list(range(1, 8))
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [answer.get("op") for answer in found] == ["confirm", None, None, "confirm", *["translate"] * 3]
    assert [answer.get("line") for answer in found] == [None, 2, 4, None, None, None, None]
    assert "not UTF-8" in found[1]["error"] and "not JSON" in found[2]["error"]
    assert [answer["target"] for answer in found[4:]] == ["the pump", "the shaft", ""]


def test_a_long_source_is_translated_in_parts(session: Session) -> None:
    found = ask(session, op="translate", source=" ".join(["pumpe"] * 300))
    assert found["source_parts"] == found["pieces"] > 1 and any("segments" in warning for warning in found["warnings"])


def test_a_full_disk_is_an_answer_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> int:
        raise OutputError("memory: the disk is full;\nfree some space and run the command again")

    with monkeypatch.context() as patch:
        patch.setattr(session.datastore, "add", full)
        found = ask(session, op="confirm", source="die welle", target="the shaft")
        assert found["op"] == "confirm" and "the disk is full; free" in found["error"]
    assert ask(session, op="undo")["error"] == "nothing to undo"
    assert ask(session, op="confirm", source="die welle", target="the shaft")["ok"] is True
