"""Translation through the service, compared with the translation of documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nearmt.contracts import Pair
from nearmt.corpus.glossary import Term
from nearmt.datastore import Datastore, FilteredStore, JoinedStore, LiveStore
from nearmt.decoding import BeamConfig
from nearmt.documents import FillConfig, fill_document
from nearmt.errors import ConfigError, InputError
from nearmt.models import TranslationModel
from nearmt.scheduler import Cancelled, DeadlineExceeded, Ticket
from nearmt.serve.config import ServeConfig
from nearmt.serve.errors import Conflict, Forbidden, NotFound
from nearmt.serve.keys import ANONYMOUS, Principal
from nearmt.serve.models import Models
from nearmt.serve.service import MemoryUse, Service, TranslationRequest
from nearmt.translator import Translator
from tests.conftest import make_pairs

TEXTS = [
    *(pair.source for pair in make_pairs(5, seed=7)),
    "die pumpe 12 .",
    "öffnen %s nicht .",
    "",
    "  die welle  ",
    "123",
    "die %d pumpe {name} .",
]
SETTINGS: dict[str, Any] = {"k": 4, "lambda": 0.7, "temperature": 2.0}


@pytest.fixture
def filled(service: Service) -> Service:
    """A service with two memories."""
    for name, seed in (("a", 1), ("b", 2)):
        service.create_memory(ANONYMOUS, name)
        metadata = {"project": name}
        pairs = [Pair(p.source, p.target, f"{n}", "made", metadata) for n, p in enumerate(make_pairs(30, seed))]
        service.add_pairs(ANONYMOUS, name, pairs)
    service.learn(ANONYMOUS, "die welle", "the shaft", memory="a")
    return service


def texts_of(service: Service, **given: Any) -> list[str]:
    result = service.translate(ANONYMOUS, TranslationRequest(TEXTS, **given))
    return [found.text for found in result.translations]


def as_document(folder: Path, translator: Translator, texts: list[str], name: str = "a.txt") -> list[str]:
    """What `nearmt translate` writes for a file with these lines."""
    path, output = folder / name, folder / f"out-{name}"
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    fill_document(path, output, translator, FillConfig())
    return output.read_text(encoding="utf-8").split("\n")[:-1]


def stores_of(service: Service, *names: str) -> list[Datastore]:
    return [Datastore.open(service.memories.folder / name) for name in names]


def test_the_model_alone_writes_what_the_command_writes(
    filled: Service, tiny: TranslationModel, tmp_path: Path
) -> None:
    assert texts_of(filled) == as_document(tmp_path, Translator(tiny), TEXTS)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_a_memory_writes_what_the_command_writes(
    filled: Service, tiny: TranslationModel, tmp_path: Path, method: str
) -> None:
    (store,) = stores_of(filled, "a")
    translator = Translator(tiny, store, method, SETTINGS, BeamConfig(beams=3))
    expected = as_document(tmp_path, translator, TEXTS)
    found = texts_of(filled, memories=[MemoryUse("a")], method=method, settings=SETTINGS, beams=3)
    assert found == expected
    assert "  the shaft  " in found
    assert found != texts_of(filled)


def test_joined_and_filtered_memories_write_what_the_command_writes(
    filled: Service, tiny: TranslationModel, tmp_path: Path
) -> None:
    first, second = stores_of(filled, "a", "b")
    joined: LiveStore = JoinedStore([(first, 0.5), (second, 2.0)])
    uses = [MemoryUse("a", 0.5), MemoryUse("b", 2.0)]
    expected = as_document(tmp_path, Translator(tiny, joined, "chunk", SETTINGS), TEXTS)
    assert texts_of(filled, memories=uses, settings=SETTINGS) == expected
    filtered = FilteredStore(joined, ["project=b"])
    expected = as_document(tmp_path, Translator(tiny, filtered, "chunk", SETTINGS), TEXTS)
    assert texts_of(filled, memories=uses, settings=SETTINGS, filter="project=b") == expected


def test_html_is_filled_like_a_document(filled: Service, tiny: TranslationModel, tmp_path: Path) -> None:
    text = "<p>die <b>pumpe</b> öffnen . nicht schließen .</p><p title='die welle'>12</p>"
    (store,) = stores_of(filled, "a")
    expected = as_document(tmp_path, Translator(tiny, store, "chunk", SETTINGS), [text], "a.html")
    request = TranslationRequest([text], memories=[MemoryUse("a")], settings=SETTINGS, format="html")
    (found,) = filled.translate(ANONYMOUS, request).translations
    assert [found.text] == expected
    assert "title='the shaft'" in found.text


def test_xml_keeps_its_tags(filled: Service) -> None:
    text = "die <x id='1'/> pumpe <g>öffnen</g> &amp; nicht ."
    (found,) = filled.translate(ANONYMOUS, TranslationRequest([text], format="xml")).translations
    for tag in ("<x id='1'/>", "<g>", "</g>"):
        assert found.text.count(tag) == 1


def test_origins_and_warnings_are_told(filled: Service) -> None:
    request = TranslationRequest(["die welle", "12 %", "die pumpe", "die welle\n12"], memories=[MemoryUse("a")])
    origins = [found.origin for found in filled.translate(ANONYMOUS, request).translations]
    assert origins == ["memory", "copied", "machine", "memory"]
    request = TranslationRequest(["die welle"], memories=[MemoryUse("a")], exact=False)
    assert filled.translate(ANONYMOUS, request).translations[0].origin == "machine"


def test_a_text_of_several_lines_may_be_in_the_memory(filled: Service) -> None:
    filled.learn(ANONYMOUS, "die welle\nder motor", "the shaft and the motor", memory="a")
    request = TranslationRequest(["die welle\nder motor"], memories=[MemoryUse("a")])
    assert filled.translate(ANONYMOUS, request).translations[0].text == "the shaft and the motor"


def test_matches_words_and_alternatives_are_told_when_asked_for(filled: Service) -> None:
    source = make_pairs(30, 1)[3].source
    request = TranslationRequest(
        [source], memories=[MemoryUse("a")], matches=2, explain=True, alternatives=2, exact=False, settings=SETTINGS
    )
    (found,) = filled.translate(ANONYMOUS, request).translations
    assert (found.matches[0].id, found.matches[0].memory, found.matches[0].score) == ("3", "a", 1.0)
    assert all(found.text[word.start : word.end] == word.text for word in found.words)
    witnesses = [witness for word in found.words for witness in word.witnesses]
    assert witnesses
    assert {witness.memory for witness in witnesses} == {"a"}
    assert 0 < len(found.alternatives) <= 2
    assert found.text not in found.alternatives
    short = filled.translate(ANONYMOUS, TranslationRequest([source])).translations[0]
    assert (short.matches, short.words, short.alternatives) == ((), (), ())


def test_terms_are_checked(filled: Service) -> None:
    request = TranslationRequest(["die pumpe ."], terms=[Term("pumpe", "qqq")])
    (found,) = filled.translate(ANONYMOUS, request).translations
    assert "qqq" in found.text or any("qqq" in warning for warning in found.warnings)


def test_the_result_names_what_made_it(filled: Service, tiny: TranslationModel) -> None:
    result = filled.translate(ANONYMOUS, TranslationRequest(["die pumpe"], memories=[MemoryUse("a")], beams=2))
    assert (result.model, result.source_lang, result.target_lang) == (tiny.name, "de", "en")
    assert "beams:2" in result.signature
    assert result.timing.seconds >= 0


def test_the_default_memory_is_used_where_its_direction_is_asked_for(filled: Service) -> None:
    someone = Principal("someone", frozenset(["a"]), frozenset(["translate"]), default_memory="a")

    def origin(**given: Any) -> str:
        return filled.translate(someone, TranslationRequest(["die welle"], **given)).translations[0].origin

    assert origin() == "memory"
    assert origin(source_lang="de-AT", target_lang="EN_us") == "memory"
    assert origin(memories=()) == "machine"
    assert origin(method="plain") == "machine"
    filled.delete_memory(ANONYMOUS, "a")
    assert origin() == "machine"


NOBODY = Principal("nobody", frozenset(["b"]), frozenset())
READER = Principal("reader", frozenset(["b"]), frozenset(["translate"]))


@pytest.mark.parametrize(
    ("principal", "given", "error"),
    [
        (NOBODY, {}, Forbidden),
        (READER, {"memories": [MemoryUse("a")]}, NotFound),
        (ANONYMOUS, {"memories": [MemoryUse("none")]}, NotFound),
        (ANONYMOUS, {"memories": [MemoryUse("../a")]}, NotFound),
        (ANONYMOUS, {"memories": [MemoryUse("a")], "source_lang": "fr"}, ConfigError),
        (ANONYMOUS, {"target_lang": "fr"}, ConfigError),
        (ANONYMOUS, {"alternatives": -1}, ConfigError),
        (ANONYMOUS, {"alternatives": 16}, ConfigError),
        (ANONYMOUS, {"matches": 51}, ConfigError),
        (ANONYMOUS, {"texts": ["a"] * 51, "explain": True}, ConfigError),
        (ANONYMOUS, {"deadline": 0.0}, ConfigError),
        (ANONYMOUS, {"memories": [MemoryUse("a")], "filter": "project=none"}, ConfigError),
        (ANONYMOUS, {"texts": ["\udc80"]}, InputError),
        (ANONYMOUS, {"texts": ["<b>"], "format": "xml"}, InputError),
    ],
)
def test_requests_that_cannot_be_done_are_refused(
    filled: Service, principal: Principal, given: dict[str, Any], error: type[Exception]
) -> None:
    request = TranslationRequest(**{"texts": ["die pumpe"], **given})
    with pytest.raises(error):
        filled.translate(principal, request)


def test_memories_with_other_reductions_cannot_be_joined(filled: Service, tiny: TranslationModel) -> None:
    Datastore.build(filled.memories.folder / "c", make_pairs(300, 5), tiny)
    request = TranslationRequest(["die pumpe"], memories=[MemoryUse("a"), MemoryUse("c")])
    with pytest.raises(ConfigError, match="cannot be searched together") as told:
        filled.translate(ANONYMOUS, request)
    assert str(filled.memories.folder) not in str(told.value)


def test_a_request_that_nobody_waits_for_ends(filled: Service) -> None:
    ticket = Ticket("someone")
    ticket.cancel()
    with pytest.raises(Cancelled):
        filled.translate(ANONYMOUS, TranslationRequest(TEXTS), ticket)
    with pytest.raises(DeadlineExceeded):
        filled.translate(ANONYMOUS, TranslationRequest(TEXTS, deadline=1e-9))


def test_a_memory_that_is_damaged_while_it_is_closed_is_refused(filled: Service) -> None:
    filled.memories.close()
    (key,) = (filled.memories.folder / "a").glob("log-*.log")
    key.write_bytes(key.read_bytes()[: key.stat().st_size // 2])
    with pytest.raises(Conflict, match="memory 'a'"):
        filled.translate(ANONYMOUS, TranslationRequest(["die pumpe"], memories=[MemoryUse("a")]))


def test_the_same_request_has_the_same_translator_until_its_memory_is_closed(filled: Service) -> None:
    request = TranslationRequest(["die pumpe"], memories=[MemoryUse("a")])
    entries = filled.translation._translators._entries
    for _ in range(2):
        filled.translate(ANONYMOUS, request)
    assert len(entries) == 1
    (first,) = (entry.translator for entry in entries.values())
    filled.translate(ANONYMOUS, TranslationRequest(["die pumpe"], memories=[MemoryUse("a")], beams=2))
    assert len(entries) == 2
    filled.memories.close()
    assert not entries
    filled.translate(ANONYMOUS, request)
    (second,) = (entry.translator for entry in entries.values())
    assert second is not first


def test_a_server_that_only_reads_leaves_pending_pairs_alone(
    filled: Service, tiny: TranslationModel, tmp_path: Path
) -> None:
    Datastore.open(filled.memories.folder / "a").add([Pair("neu", "new")])
    reading = Service(ServeConfig(memories=str(filled.memories.folder), read_only=True), Models([tiny]))
    request = TranslationRequest(["die welle", "neu"], memories=[MemoryUse("a")])
    found = reading.translate(ANONYMOUS, request).translations
    assert [translated.origin for translated in found] == ["memory", "machine"]
    assert Datastore.open(filled.memories.folder / "a").pending == 1
    reading.close()
    assert filled.translate(ANONYMOUS, request).translations[1].origin == "memory"
    assert Datastore.open(filled.memories.folder / "a").pending == 0
