"""What a store outside this process has to implement: few members, in few lines, and nothing of an engine."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
import torch

from nearmt.retrieval import source
from nearmt.retrieval.source import EntrySource, LiveSource
from tests import toy_store
from tests.random_stores import random_store
from tests.toy_store import ToyStore

#: The largest interface of a store, and the largest size of a client and a server.
MOST_MEMBERS, MOST_LINES = 12, 200
#: Words that only engines use: devices' kernels and their layouts.
ENGINES = ("cpu", "cuda", "triton", "kernel", "reference", "graph", "gathered", "rows", "steady")


def members() -> dict[str, object]:
    """Public members of the protocol, those of its base among them."""
    found = {**vars(LiveSource), **vars(EntrySource)}
    return {name: member for name, member in found.items() if not name.startswith("_")}


def signature(member: object) -> inspect.Signature:
    function = member.fget if isinstance(member, property) else member
    assert callable(function)
    return inspect.signature(function)


def test_an_entry_source_has_few_members() -> None:
    assert len(members()) <= MOST_MEMBERS, sorted(members())


def test_no_member_names_an_engine() -> None:
    for name, member in members().items():
        text = f"{name}{signature(member)}"
        assert not any(word in text.lower() for word in ENGINES), text


def test_annotations_come_from_the_contracts_of_engines_alone() -> None:
    """`engines.base` states them; no module of one engine is imported."""
    imported = set()
    for node in ast.walk(ast.parse(inspect.getsource(source))):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module)
    assert {module for module in imported if module.startswith("nearmt.")} == {
        "nearmt.contracts",
        "nearmt.engines.base",
    }


def test_the_toy_store_is_small() -> None:
    assert len(Path(toy_store.__file__).read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("name", members())
def test_the_toy_store_has_every_member(name: str) -> None:
    assert hasattr(ToyStore, name)


def test_the_toy_store_keeps_its_arrays_behind_one_function() -> None:
    """Everything but the projection of queries is asked of the server, which answers with plain arrays."""
    store, asked = random_store(0, sentences=6, columns=4, vocabulary=9), list[str]()
    server = store.server
    store.server = lambda request, **given: asked.append(request) or server(request, **given)  # type: ignore[assignment, func-returns-value]
    entry_BK = store.search(store.query(torch.zeros(2, 4)), 3).entry_BK
    store.tokens(entry_BK)
    store.weights(entry_BK)
    store.keys(entry_BK.flatten(), 2)
    store.chunks(entry_BK, 5)
    store.similar([[1], [2]], 2)
    assert asked == ["search", "tokens", "weights", "keys", "chunks", "similar"]
