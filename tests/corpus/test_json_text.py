"""JSON with positions: the grammar of the json module, and edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.json_text import JsonObject, check_json, spliced, tokens
from nearmt.errors import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
PIECES = [*'{}[]:," \n\x00\\', '"a"', '"b\\n"', "1", "-0.5e3", "01", "true", "nul"]
SOUP = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


def strings_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in strings_of(item)]


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_strings_are_those_of_the_json_module(value: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    check_json(Path("a"), text)
    found = [json.loads(text[token.start : token.end]) for token in tokens(text) if token.kind == "string"]
    assert found == strings_of(value)


@given(SOUP)
def test_what_is_json_is_what_the_json_module_takes(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(InputError, match=r"a, line \d+: not JSON \(.*, column \d+\)"):
            check_json(Path("a"), text)
    else:
        check_json(Path("a"), text)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_members_are_found_by_key(value: dict[str, Any]) -> None:
    whole = JsonObject.whole(" " + json.dumps(value) + "\n")
    assert list(whole.members) == list(value)
    for key, item in value.items():
        member = whole.member(key)
        assert member is not None and json.loads(member.raw) == item
        assert whole.string(key) == (item if isinstance(item, str) else None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1', "ends in the middle; get a complete one"),
        ('{"a": "b', "ends in the middle; get a complete one"),
        ('{"a": "b\\', "ends in the middle; get a complete one"),
        ("", "ends in the middle; get a complete one"),
        ('{"a": tru', "ends in the middle; get a complete one"),
        ('{\n"a" 1}', "line 2: not JSON (1 is out of place, column 5)"),
        ('{"a": 1} x', "text after the end"),
        ('{"a": NaN, "b": 1}', "missing or wrong, column 7"),
        ("// note\n{}", "missing or wrong, column 1"),
        ("[" * 65, "nested more than 64 deep"),
        ("[" * 1_000_000, "nested more than 64 deep"),
    ],
)
def test_errors_name_the_place(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        check_json(Path("a"), text)
    assert reason in str(caught.value)


def test_a_value_without_members() -> None:
    assert JsonObject.whole('["a", {"b": 1}]').members == {}
    assert JsonObject.whole('"a"').members == {}


def test_edits() -> None:
    assert spliced("abcdef", 1, 5, [(4, 4, "X"), (2, 3, "")]) == "bdXe"
