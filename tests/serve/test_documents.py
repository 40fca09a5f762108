"""Documents: units, corrections, and the result in the document's own format."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nearmt.contracts import Pair
from nearmt.corpus import FillingOrigin, Tag, TagKind
from nearmt.corpus.glossary import Term, TermStatus
from nearmt.datastore import Datastore
from nearmt.documents import FillConfig, fill_document
from nearmt.errors import InputError
from nearmt.models import TranslationModel
from nearmt.serve import documents as documents_module
from nearmt.serve.config import ServeConfig
from nearmt.serve.documents import request_from_json, request_to_json
from nearmt.serve.errors import Conflict, Forbidden, NotFound
from nearmt.serve.jobs import Job
from nearmt.serve.keys import ANONYMOUS, Principal
from nearmt.serve.models import Models
from nearmt.serve.open_documents import OpenDocument
from nearmt.serve.service import MemoryUse, Service, TranslationRequest
from nearmt.serve.unit_records import UnitRecord, segment_of
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.corpus.files import write_file
from tests.serve.waiting import finished

PLAIN = TranslationRequest([], memories=())
MINE = TranslationRequest([], memories=[MemoryUse("a")], settings={"k": 4, "lambda": 0.7, "temperature": 2.0})
LINES = [pair.source for pair in make_pairs(12, 3)]
PO = 'msgid ""\nmsgstr "Language: en\\nContent-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "die pumpe"\nmsgstr ""\n'
TMX = """<tmx version="1.4"><header srclang="de"/><body>
<tu><tuv xml:lang="de"><seg>die <ph>x</ph> pumpe</seg></tuv></tu></body></tmx>"""
XLIFF = """<xliff version="1.2"><file source-language="de" target-language="en" original="a"><body>
<trans-unit id="1"><source>die <g id="1">pumpe</g></source></trans-unit></body></file></xliff>"""
HTML = """<html lang='de'><p title='die welle'>die <b>pumpe</b> öffnen . nicht schließen .</p>
<ul><li>12</li></ul>"""
FILES = {
    "a.txt": "\n".join(LINES) + "\n",
    "a.html": HTML,
    "a.md": "# die pumpe\n\ndie *welle* **nicht** öffnen .\n\n```\nkein text\n```\n",
    "a.tsv": "die pumpe\t\nder motor\tthe motor\n",
    "a.csv": "source,target\ndie pumpe,\n",
    "a.json": '{"a": "die pumpe", "b": {"c": "der motor %s"}}',
    "a.arb": '{"@@locale": "de", "a": "die pumpe"}',
    "a.jsonl": '{"source": "die pumpe"}\n',
    "a.po": PO,
    "a.xml": "<resources><string name='a'>die pumpe</string></resources>",
    "a.strings": '"a" = "die pumpe";\n',
    "a.xcstrings": '{"sourceLanguage": "de", "strings": {"die pumpe": {}}, "version": "1.0"}',
    "a.tmx": TMX,
    "a.xlf": XLIFF,
}


@pytest.fixture
def filled(service: Service) -> Service:
    service.create_memory(ANONYMOUS, "a")
    service.add_pairs(ANONYMOUS, "a", [*make_pairs(20, 1), Pair("die welle", "the shaft")])
    return service


def submit(service: Service, name: str, content: str | bytes, request: TranslationRequest = MINE, **more: Any) -> Job:
    data = content.encode() if isinstance(content, str) else content
    return service.documents.submit(ANONYMOUS, name, io.BytesIO(data), request, **more)


def done(service: Service, name: str, content: str | bytes, request: TranslationRequest = MINE, **more: Any) -> str:
    job = finished(service, ANONYMOUS, submit(service, name, content, request, **more))
    assert (job.state, job.message) == ("done", "")
    return job.id


def result(service: Service, identity: str) -> str:
    return service.documents.result(ANONYMOUS, identity).path.read_text(encoding="utf-8")


def targets(service: Service, identity: str) -> list[str]:
    return [unit.target for unit in service.documents.units(ANONYMOUS, identity, 0, 1000).units]


@pytest.mark.parametrize("name", FILES)
def test_the_result_is_that_of_the_command(filled: Service, tiny: TranslationModel, tmp_path: Path, name: str) -> None:
    path = write_file(tmp_path, FILES[name], name)
    store = Datastore.open(filled.memories.folder / "a")
    translator = Translator(tiny, store, "chunk", MINE.settings)
    fill_document(path, tmp_path / f"out-{name}", translator, FillConfig())
    expected = (tmp_path / f"out-{name}").read_bytes()
    found = filled.documents.result(ANONYMOUS, done(filled, name, FILES[name]))
    assert found.path.read_bytes() == expected
    assert found.filename == name


def test_a_workbook_comes_back_as_one(filled: Service) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["source", "target"])
    book.active.append(["die welle", None])
    data = io.BytesIO()
    book.save(data)
    found = filled.documents.result(ANONYMOUS, done(filled, "a.xlsx", data.getvalue()))
    assert openpyxl.load_workbook(found.path).active["B2"].value == "the shaft"
    assert found.media_type.endswith("spreadsheetml.sheet")


def test_progress_and_a_summary_are_told(filled: Service) -> None:
    job = filled.documents.get(ANONYMOUS, done(filled, "a.txt", FILES["a.txt"]))
    assert (job.kind, job.done, job.total) == ("document", 12, 12)
    assert job.result == {"units": 12, "filled": 12, "problems": [], "problem_count": 0}


def test_units_have_their_translations_and_origins(filled: Service) -> None:
    content = "die pumpe\t\nder motor\tthe engine\ndie welle\t\n12\t\n"
    page = filled.documents.units(ANONYMOUS, done(filled, "a.tsv", content), 0, 10)
    assert page.total == 4
    found = [(unit.number, unit.source, unit.origin, unit.confirmed) for unit in page.units]
    assert found == [
        (0, "die pumpe", "machine", False),
        (1, "der motor", "kept", False),
        (2, "die welle", "memory", False),
        (3, "12", "copied", False),
    ]
    assert page.units[1].target == "the engine"
    some = filled.documents.units(ANONYMOUS, filled.jobs.all(ANONYMOUS)[0].id, 2, 1)
    assert ([unit.number for unit in some.units], some.total) == ([2], 4)


def test_everything_is_translated_if_asked_for(filled: Service) -> None:
    identity = done(filled, "a.tsv", "die welle\tthe wave\n", everything=True)
    assert result(filled, identity) == "die welle\tthe shaft\n"


def test_corrections_are_in_the_result(filled: Service) -> None:
    identity = done(filled, "a.html", "<p>die <b>welle</b> &amp; 1</p><p>der motor</p>")
    unit = filled.documents.edit(ANONYMOUS, identity, 0, "1 < 2 <b>shafts</b>", True)
    assert (unit.origin, unit.confirmed, unit.target) == ("edited", True, "1 < 2 <b>shafts</b>")
    second = filled.documents.units(ANONYMOUS, identity, 1, 1).units[0]
    assert result(filled, identity) == f"<p>1 &lt; 2 <b>shafts</b></p><p>{second.target}</p>"
    unit = filled.documents.edit(ANONYMOUS, identity, 0, "the shaft", False)
    assert any("<b>" in warning for warning in unit.warnings)


def test_confirmed_units_are_no_machine_translations(filled: Service) -> None:
    identity = done(filled, "a.po", FILES["a.po"], PLAIN)
    assert "#, fuzzy" in result(filled, identity)
    (unit,) = filled.documents.units(ANONYMOUS, identity).units
    assert filled.documents.edit(ANONYMOUS, identity, 0, unit.target, False).origin == "machine"
    assert "#, fuzzy" in result(filled, identity)
    assert filled.documents.edit(ANONYMOUS, identity, 0, unit.target, True).origin == "machine"
    assert "#, fuzzy" not in result(filled, identity)


def test_a_corrected_unit_is_learnt_and_others_are_translated_again(filled: Service) -> None:
    identity = done(filled, "a.html", "<p>die <i>pumpe</i> 7</p><p>die pumpe 7</p><p>der motor</p><p>ein motor</p>")
    before = targets(filled, identity)
    filled.documents.edit(ANONYMOUS, identity, 0, "the <i>pump</i> 7", True, learn="a")
    assert filled.pairs(ANONYMOUS, "a", "die pumpe 7").pairs[0].target == "the pump 7"
    filled.documents.edit(ANONYMOUS, identity, 2, "my draft", False)
    job = filled.documents.retranslate(ANONYMOUS, identity)
    assert finished(filled, ANONYMOUS, job).state == "done"
    assert targets(filled, identity) == ["the <i>pump</i> 7", "the pump 7", "my draft", before[3]]
    assert filled.documents.retranslate(ANONYMOUS, identity, [0]).state == "done"  # it is confirmed
    job = filled.documents.retranslate(ANONYMOUS, identity, [2, 2])
    finished(filled, ANONYMOUS, job)
    assert targets(filled, identity)[2] == before[2]


def test_a_unit_that_is_edited_meanwhile_stays_as_it_was_edited(
    filled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, let_go = threading.Event(), threading.Event()
    keep = OpenDocument.keep

    def held(self: OpenDocument, *given: Any) -> None:
        reached.set()
        assert let_go.wait(30)
        keep(self, *given)

    monkeypatch.setattr(OpenDocument, "keep", held)
    job = submit(filled, "a.txt", "die pumpe\nder motor\n")
    assert reached.wait(30)
    filled.documents.edit(ANONYMOUS, job.id, 0, "mine", True)
    with pytest.raises(Conflict, match="running"):
        filled.documents.result(ANONYMOUS, job.id)
    let_go.set()
    assert finished(filled, ANONYMOUS, job).state == "done"
    assert result(filled, job.id).startswith("mine\n")


@pytest.fixture
def restart(tiny: TranslationModel, tmp_path: Path) -> Iterator[Callable[[], Service]]:
    made = list[Service]()

    def begin() -> Service:
        made.append(Service(ServeConfig(memories=str(tmp_path / "memories")), Models([tiny])))
        return made[-1]

    yield begin
    for service in made:
        service.close()


def test_a_document_goes_on_after_a_restart(restart: Callable[[], Service], monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished units and edits are kept; only the others are translated."""
    monkeypatch.setattr(documents_module, "_FIRST_WINDOW", 3)
    before = restart()
    before.create_memory(ANONYMOUS, "a")
    reached, let_go = threading.Event(), threading.Event()
    keep, kept = OpenDocument.keep, list[int]()

    def held(self: OpenDocument, records: list[UnitRecord], version: list[int]) -> None:
        keep(self, records, version)
        kept.extend(record.number for record in records)
        reached.set()
        assert let_go.wait(30)

    monkeypatch.setattr(OpenDocument, "keep", held)
    job = submit(before, "a.txt", FILES["a.txt"], TranslationRequest([], memories=[MemoryUse("a")], beams=2))
    assert reached.wait(30)
    before.documents.edit(ANONYMOUS, job.id, 1, "mine", True)
    before.documents.edit(ANONYMOUS, job.id, 9, "ahead", True)
    before.jobs.stop()
    let_go.set()
    before.jobs.close(30)
    assert kept == [0, 1, 2]
    done_before = targets(before, job.id)[:3]
    before.close()
    after = restart()
    assert finished(after, ANONYMOUS, job).state == "done"
    assert kept == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11]
    assert targets(after, job.id)[:3] == done_before
    assert (targets(after, job.id)[1], targets(after, job.id)[9]) == ("mine", "ahead")


def test_a_document_is_cancelled(filled: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, let_go = threading.Event(), threading.Event()
    keep = OpenDocument.keep

    def held(self: OpenDocument, *given: Any) -> None:
        keep(self, *given)
        reached.set()
        assert let_go.wait(30)

    monkeypatch.setattr(OpenDocument, "keep", held)
    job = submit(filled, "a.txt", FILES["a.txt"])
    assert reached.wait(30)
    filled.jobs.cancel(ANONYMOUS, job.id)
    let_go.set()
    assert finished(filled, ANONYMOUS, job).state == "cancelled"
    origins = [unit.origin for unit in filled.documents.units(ANONYMOUS, job.id).units]
    assert "" in origins
    assert origins[0] != ""
    with pytest.raises(Conflict, match="cancelled"):
        filled.documents.result(ANONYMOUS, job.id)


def test_a_deleted_document_leaves_nothing(filled: Service) -> None:
    identity = done(filled, "a.html", FILES["a.html"])
    filled.documents.result(ANONYMOUS, identity)
    filled.documents.delete(ANONYMOUS, identity)
    assert list(filled.jobs.files.folder.iterdir()) == []
    with pytest.raises(NotFound):
        filled.documents.units(ANONYMOUS, identity)


READER = Principal("anonymous", frozenset(["b"]), frozenset(["translate"]))
OTHER = Principal("other", None, frozenset(["translate", "learn"]))


def test_a_document_belongs_to_its_key(filled: Service) -> None:
    identity = done(filled, "a.txt", "die pumpe")
    calls: list[Callable[[], object]] = [
        lambda: filled.documents.get(OTHER, identity),
        lambda: filled.documents.units(OTHER, identity),
        lambda: filled.documents.edit(OTHER, identity, 0, "x", True),
        lambda: filled.documents.retranslate(OTHER, identity),
        lambda: filled.documents.result(OTHER, identity),
        lambda: filled.documents.delete(OTHER, identity),
        lambda: filled.documents.edit(ANONYMOUS, identity, 9, "x", True),
        lambda: filled.documents.retranslate(ANONYMOUS, identity, [9]),
        lambda: filled.documents.edit(ANONYMOUS, identity, 0, "x", True, learn="none"),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            call()
    with pytest.raises(Forbidden):
        filled.documents.edit(READER, identity, 0, "x", True, learn="b")
    job = filled.compact(ANONYMOUS, "a")
    with pytest.raises(NotFound, match="no document"):
        filled.documents.units(ANONYMOUS, job.id)
    assert targets(filled, identity) != ["x"]


@pytest.mark.parametrize(
    ("name", "content", "more", "told"),
    [
        ("a.docx", "x", {}, "not a text file"),
        ("a.json", "{", {}, "a.json"),
        ("a.xlsx", "no zip", {}, "a.xlsx"),
        ("a.txt", "", {}, "empty"),
        ("a", "x", {"format": "htm"}, "did you mean 'html'"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(
    filled: Service, name: str, content: str, more: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told) as error:
        submit(filled, name, content, **more)
    assert str(filled.memories.folder) not in str(error.value)
    assert not filled.jobs.files.folder.exists() or list(filled.jobs.files.folder.iterdir()) == []


def test_the_format_can_be_given(filled: Service) -> None:
    assert result(filled, done(filled, "page", "<p>die welle</p>", format="html")) == "<p>the shaft</p>"


def test_a_wrong_request_is_refused_before_anything_is_stored(filled: Service) -> None:
    with pytest.raises(NotFound):
        submit(filled, "a.txt", "x", TranslationRequest([], memories=[MemoryUse("none")]))
    with pytest.raises(Forbidden):
        filled.documents.submit(Principal("x", None, frozenset()), "a.txt", io.BytesIO(b"x"), PLAIN)


def test_a_failed_document_goes_on_when_the_reason_is_gone(filled: Service) -> None:
    filled.create_memory(ANONYMOUS, "b")
    request = TranslationRequest([], memories=[MemoryUse("b")])
    identity = done(filled, "a.txt", "die welle\nder motor\n", request)
    filled.delete_memory(ANONYMOUS, "b")
    job = finished(filled, ANONYMOUS, filled.documents.retranslate(ANONYMOUS, identity))
    assert (job.state, job.message) == ("failed", "no memory 'b'")
    filled.create_memory(ANONYMOUS, "b")
    filled.learn(ANONYMOUS, "die welle", "the shaft", memory="b")
    assert finished(filled, ANONYMOUS, filled.documents.retranslate(ANONYMOUS, identity)).state == "done"
    assert result(filled, identity).startswith("the shaft\n")


def test_requests_are_kept_on_disk() -> None:
    request = TranslationRequest(
        [],
        memories=(MemoryUse("a", 0.5),),
        settings={"k": 4},
        filter=["a=b"],
        terms=(Term("a", "b"), Term("c", "c", TermStatus.KEEP)),
    )
    assert request_from_json(request_to_json(request)) == request.__class__(**{**vars(request), "texts": ()})


B, END, BREAK = Tag("<b>", TagKind.OPEN, "1"), Tag("</b>", TagKind.CLOSE, "1"), Tag("<br>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <b>b</b><br>", ("a ", B, "b", END, BREAK)),
        ("<br></b>x<b>", (BREAK, END, "x", B)),
        ("<b><b>", (B, "<b>")),
        ("a < b", ("a < b",)),
        ("", ()),
    ],
)
def test_tags_of_the_source_are_tags_again(text: str, expected: tuple[str | Tag, ...]) -> None:
    assert segment_of(text, ("x ", B, "y", END, " z ", BREAK)) == expected


def test_records_of_units_are_the_same_after_reading(filled: Service) -> None:
    record = UnitRecord(3, ("a ", B, "b", END), "memory", True, 0.5, ("7",), True, "why", ("f",), ("w",))
    assert UnitRecord.from_json(record.to_json()) == record
    assert record.filling().origin is FillingOrigin.CONFIRMED
