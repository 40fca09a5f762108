"""Pairs of memories: adding, correcting, deleting; nothing of a deleted pair is left on disk."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.errors import ConfigError, InputError
from nearmt.serve.errors import Conflict, Forbidden, NotFound
from nearmt.serve.keys import ANONYMOUS, Principal
from nearmt.serve.service import MemoryUse, Service, TranslationRequest
from tests.serve.waiting import finished

SECRET = "die geheime pumpe ."


@pytest.fixture
def filled(service: Service) -> Service:
    service.create_memory(ANONYMOUS, "a")
    return service


def on_disk(folder: Path, text: str) -> list[str]:
    """Files that have a text in any of the usual encodings."""
    spellings = [text.encode(), text.encode("utf-16-le"), text.encode("unicode_escape")]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(spelling in path.read_bytes() for spelling in spellings)]


def test_a_pair_is_on_disk_when_it_is_learnt(filled: Service) -> None:
    pair = filled.learn(ANONYMOUS, " die\u2028pumpe . ", "the pump .", memory="a")
    other = Datastore.open(filled.memories.folder / "a")
    stored = other.snapshot().exact("die pumpe .")
    assert stored == pair
    assert (pair.source, pair.origin) == ("die pumpe .", "server")


def test_a_correction_of_the_same_source_replaces_the_last_one(filled: Service) -> None:
    first = filled.learn(ANONYMOUS, "die pumpe .", "the pump .")
    again = filled.learn(ANONYMOUS, "die pumpe .", "the pump .")
    second = filled.learn(ANONYMOUS, "die pumpe .", "the valve .")
    assert again == first
    assert second.id == first.id
    assert filled.memory_info(ANONYMOUS, "a").pairs == 1
    elsewhere = filled.learn(ANONYMOUS, "die pumpe .", "the shaft .", metadata={"context": "menu"})
    assert elsewhere.id != first.id
    assert filled.memory_info(ANONYMOUS, "a").pairs == 2


def test_what_the_memory_has_already_is_not_learnt_again(filled: Service) -> None:
    (known,) = filled.add_pairs(ANONYMOUS, "a", [Pair("die pumpe .", "the pump .", "7")])
    assert filled.learn(ANONYMOUS, "die pumpe .", "the pump .") == known


def test_it_learns_into_the_memory_of_the_direction(filled: Service) -> None:
    assert filled.learn(ANONYMOUS, "a", "b", source_lang="de", target_lang="en").source == "a"
    filled.create_memory(ANONYMOUS, "b")
    with pytest.raises(Conflict, match="2 memories"):
        filled.learn(ANONYMOUS, "a", "b")
    someone = Principal("someone", None, frozenset(["learn"]), default_memory="b")
    filled.learn(someone, "c", "d")
    assert filled.memory_info(ANONYMOUS, "b").pairs == 1
    with pytest.raises(ConfigError, match="translates de to en"):
        filled.learn(ANONYMOUS, "a", "b", source_lang="en", target_lang="de", memory="a")


def test_adding_again_changes_nothing(filled: Service) -> None:
    pairs = [Pair("die pumpe .", "the pump ."), Pair("die welle .", "the shaft .", "7")]
    first = filled.add_pairs(ANONYMOUS, "a", pairs)
    assert filled.add_pairs(ANONYMOUS, "a", pairs) == first
    assert filled.pairs(ANONYMOUS, "a").total == 2
    filled.add_pairs(ANONYMOUS, "a", [Pair("die welle .", "the wave .", "7")])
    assert filled.pair(ANONYMOUS, "a", "7").target == "the wave ."


@pytest.mark.parametrize(
    "pair",
    [
        Pair("", "b"),
        Pair("a", " \x00 "),
        Pair("a\0a", "b"),
        Pair("a", "b", metadata={"k": "\0"}),
        Pair("\ud800", "b"),
        Pair("a", "b", "\udc80"),
        Pair("a", "b", "x" * 1001),
        Pair("a", "b", metadata={"k": "\ud800"}),
        Pair("a", "b", metadata={str(number): "" for number in range(101)}),
    ],
)
def test_pairs_that_cannot_be_stored_are_refused(filled: Service, pair: Pair) -> None:
    with pytest.raises(InputError):
        filled.add_pairs(ANONYMOUS, "a", [Pair("good", "pair"), pair])
    assert filled.pairs(ANONYMOUS, "a").total == 0


READER = Principal("reader", frozenset(["a"]), frozenset(["translate"]))
STRANGER = Principal("stranger", frozenset(["b"]), frozenset(["translate", "learn", "admin"]))
CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("add_pairs", ([Pair("a", "b")],)),
    ("update_pair", ("7", "x")),
    ("delete_pair", ("7",)),
    ("compact", ()),
    ("delete_memory", ()),
]


@pytest.mark.parametrize(("call", "arguments"), CALLS)
def test_keys_do_what_they_may_in_their_memories(filled: Service, call: str, arguments: tuple[Any, ...]) -> None:
    filled.add_pairs(ANONYMOUS, "a", [Pair("die pumpe .", "the pump .", "7")])
    with pytest.raises(Forbidden):
        getattr(filled, call)(READER, "a", *arguments)
    with pytest.raises(NotFound, match="no memory 'a'"):
        getattr(filled, call)(STRANGER, "a", *arguments)
    with pytest.raises(NotFound, match="no memory 'b'"):
        getattr(filled, call)(STRANGER, "b", *arguments)
    assert filled.pair(ANONYMOUS, "a", "7").target == "the pump ."


@pytest.mark.parametrize("call", ["memory_info", "pairs", "export", "verify"])
def test_others_do_not_see_a_memory(filled: Service, call: str) -> None:
    with pytest.raises(NotFound, match="no memory 'a'"):
        getattr(filled, call)(STRANGER, "a")
    assert [info.name for info in filled.memory_infos(STRANGER)] == []


def test_after_delete_and_compact_no_text_is_left(filled: Service) -> None:
    filled.learn(ANONYMOUS, SECRET, "the secret pump .", memory="a")
    rows = f"die pumpe .\tthe pump .\n{SECRET[:-1]}!\tthe secret pump !\n".encode()
    job = filled.import_file(ANONYMOUS, "a", "pairs.tsv", io.BytesIO(rows))
    assert finished(filled, ANONYMOUS, job).state == "done"
    request = TranslationRequest([SECRET], memories=[MemoryUse("a")], matches=3, explain=True)
    assert filled.translate(ANONYMOUS, request).translations[0].origin == "memory"
    b"".join(filled.export(ANONYMOUS, "a", "tmx"))
    folder = filled.memories.folder
    assert on_disk(folder, "geheime")
    for pair in filled.pairs(ANONYMOUS, "a", "geheime").pairs:
        filled.delete_pair(ANONYMOUS, "a", pair.id)
    assert filled.translate(ANONYMOUS, request).translations[0].origin == "machine"
    assert finished(filled, ANONYMOUS, filled.compact(ANONYMOUS, "a")).state == "done"
    assert on_disk(folder, "geheime") == []
    assert on_disk(folder, "die pumpe .")
    with pytest.raises(NotFound):
        filled.update_pair(ANONYMOUS, "a", "none", "x")


def test_translations_go_on_while_pairs_are_learnt_and_deleted(filled: Service) -> None:
    faults, ended = list[BaseException](), threading.Event()
    request = TranslationRequest(["die pumpe 1 .", "der motor nicht ."], memories=[MemoryUse("a")], matches=1)

    def translate() -> None:
        try:
            while not ended.is_set():
                filled.translate(ANONYMOUS, request)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=translate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(15):
        pair = filled.learn(ANONYMOUS, f"die pumpe {number} .", f"the pump {number} .", memory="a")
        if number % 3:
            filled.delete_pair(ANONYMOUS, "a", pair.id)
        if number == 7:
            assert finished(filled, ANONYMOUS, filled.compact(ANONYMOUS, "a")).state == "done"
    ended.set()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert filled.pairs(ANONYMOUS, "a").total == 5
