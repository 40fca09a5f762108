"""Findings in the notes of documents: what they look like, and that all else is kept byte for byte."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import polib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearmt.corpus import Filling, FillingOrigin, PairStream, Report, Request, open_document
from nearmt.documents.annotating import write_annotated
from nearmt.documents.checks import Finding, Severity
from tests.corpus.generated import Outline, outline, tmx_documents, xliff_1_documents, xliff_2_documents
from tests.corpus.po_catalogues import catalogues

REQUEST = Request("de", "en")
FINDING = Finding("numbers", Severity.ERROR, "numbers are missing", "2 < 5\n& 7")
OTHER = Finding("space", Severity.WARNING, "white space differs")
NOTE = "nearmt check: error: numbers are missing: 2 < 5 & 7; warning: white space differs"
LIST = ["error: numbers are missing: 2 < 5\n& 7", "warning: white space differs"]
#: Invalid, and not restored when a note is taken out of it.
EMPTY_NOTES = re.compile(r"notes\b[^>]*(/>|>\s*</)")
SLOW_TO_DRAW = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
PO = 'msgid ""\nmsgstr "Language: en\\n"\n\n# by hand\n#: a.c:1\nmsgid "Hund"\nmsgstr "dog"\n\nmsgid "b"\nmsgstr "c"'
XLIFF_1 = """<xliff version="1.2"><file source-language="de" target-language="en" original="x"><body>
  <trans-unit id="1">
    <source>Hund</source>
    <target state="final">dog</target>
    <note from="Anna">kept</note>
  </trans-unit>
  <trans-unit id="2" approved="yes"><source>b</source><target>c</target></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = """<xliff version="2.0" srcLang="de" trgLang="en"><file id="f">
  <unit id="1">
    <segment state="final"><source>Hund</source><target>dog</target></segment>
  </unit>
  <unit id="2"><notes><note>kept</note></notes><segment><source>b</source><target>c</target></segment></unit>
</file></xliff>
"""
TMX = """<tmx version="1.4"><header srclang="de"/><body>
  <tu><tuv xml:lang="de"><seg>Hund</seg></tuv>
    <tuv xml:lang="en">
      <prop type="x">kept</prop>
      <seg>dog</seg>
    </tuv></tu>
  <tu><tuv xml:lang="de"><seg>b</seg></tuv> <tuv xml:lang="en"> <seg>c</seg></tuv></tu>
</body></tmx>
"""
JSONL = (
    '{"source":"Hund","target":"d\\u006fg", "n":1.50}\n{"nearmt":{"origin": "machine"},"source":"b","target":"c"} \r\n'
)
DOCUMENTS = {"a.po": PO, "1.xlf": XLIFF_1, "2.xlf": XLIFF_2, "a.tmx": TMX, "a.jsonl": JSONL}
#: What is inserted for `FINDING` and `OTHER` of the first unit, and before what.
ESCAPED = NOTE.replace(" & ", " &amp; ").replace("<", "&lt;")
INSERTED = {
    "a.po": (f"# {NOTE}\n", "# by hand"),
    "1.xlf": (f'\n    <note from="nearmt-check">{ESCAPED}</note>', '\n    <note from="Anna">'),
    "2.xlf": (f'<notes><note category="nearmt-check">{ESCAPED}</note></notes>\n    ', '<segment state="final">'),
    "a.tmx": (f'<prop type="x-nearmt-check">{ESCAPED}</prop>\n      ', "<seg>dog"),
    "a.jsonl": (', "nearmt": ' + json.dumps({"check": LIST}), "}\n{"),
}


def annotated(path: Path, findings: dict[int, list[Finding]]) -> Path:
    output = path.with_name(f"annotated-{path.name}")
    write_annotated(open_document(path, REQUEST, Report()), findings, output)
    return output


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", DOCUMENTS)
def test_findings_are_inserted_and_nothing_else_changes(tmp_path: Path, name: str) -> None:
    path, (new, before) = written(tmp_path, name, DOCUMENTS[name]), INSERTED[name]
    found = annotated(path, {0: [FINDING, OTHER]}).read_bytes().decode()
    assert DOCUMENTS[name].count(before) == 1
    assert found == DOCUMENTS[name].replace(before, new + before)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_notes_of_an_earlier_check_are_replaced(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, DOCUMENTS[name])
    first = annotated(path, {0: [FINDING], 1: [OTHER]})
    again = annotated(first, {0: [FINDING], 1: [OTHER]})
    assert again.read_bytes() == first.read_bytes() != path.read_bytes()
    assert annotated(first, {1: [OTHER]}).read_bytes() == annotated(path, {1: [OTHER]}).read_bytes()
    assert annotated(first, {}).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_translations_stay_unconfirmed(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, DOCUMENTS[name])
    assert list(PairStream([annotated(path, {0: [FINDING]})], REQUEST, strict=True))
    document = open_document(path, REQUEST, Report())
    filling = Filling(("machine",), FillingOrigin.MACHINE, score=-1.0)
    filled = "".join(part.filled([filling for _ in part.units]) for part in document.parts)
    path = annotated(written(tmp_path, name, filled), {0: [FINDING], 1: [FINDING]})
    assert "nearmt: machine translation" in filled or name == "a.jsonl"
    assert list(PairStream([path], REQUEST, strict=True)) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_translation_removes_the_notes_of_a_check(tmp_path: Path, name: str) -> None:
    path = annotated(written(tmp_path, name, DOCUMENTS[name]), {0: [FINDING], 1: [OTHER]})
    document = open_document(path, REQUEST, Report())
    filling = Filling(("new",), FillingOrigin.MACHINE)
    filled = "".join(part.filled([filling for _ in part.units]) for part in document.parts)
    assert "check" in path.read_text() and "check" not in filled


def test_other_facts_of_json_lines_are_kept(tmp_path: Path) -> None:
    path = annotated(written(tmp_path, "a.jsonl", JSONL), {1: [OTHER]})
    assert json.loads(path.read_text().splitlines()[1])["nearmt"] == {"origin": "machine", "check": LIST[1:]}
    beyond = written(tmp_path, "b.jsonl", '{"source":"a","target":"b","x":NaN}\r\n')
    found = annotated(beyond, {0: [OTHER]}).read_bytes()
    assert found.endswith(b', "x": NaN, "nearmt": {"check": ["warning: white space differs"]}}\r\n')


def test_a_format_without_notes_is_unchanged(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "Hund\tdog\n")
    assert annotated(path, {0: [FINDING]}).read_bytes() == path.read_bytes()


def with_findings(data: st.DataObject, path: Path) -> dict[int, list[Finding]]:
    count = sum(len(part.units) for part in open_document(path, REQUEST, Report()).parts)
    return {n: data.draw(st.lists(st.sampled_from([FINDING, OTHER]), unique=True)) for n in range(count)}


@given(
    st.sampled_from([("a.tmx", tmx_documents), ("1.xlf", xliff_1_documents), ("2.xlf", xliff_2_documents)]), st.data()
)
@SLOW_TO_DRAW
def test_generated_xml(tmp_path_factory: pytest.TempPathFactory, kind: tuple[str, object], data: st.DataObject) -> None:
    name, documents = kind
    path = written(tmp_path_factory.getbasetemp(), name, data.draw(documents()).text)  # type: ignore[operator]
    assert annotated(path, {}).read_bytes() == path.read_bytes()
    result = annotated(path, with_findings(data, path))
    if not EMPTY_NOTES.search(path.read_text()):
        assert annotated(result, {}).read_bytes() == path.read_bytes()
    old, new = (ElementTree.fromstring(each.read_bytes()) for each in (path, result))
    assert _texts(new) == _texts(old)


def _texts(root: ElementTree.Element) -> list[Outline]:
    """The texts of all elements but the notes of the check."""
    exact = frozenset({"seg", "source", "target", "prop", "note"})
    nodes = [node for node in root.iter() if node.tag.rpartition("}")[2] in exact]
    return [outline(node, exact) for node in nodes if not {"nearmt-check", "x-nearmt-check"} & {*node.attrib.values()}]


@given(catalogue=catalogues(), data=st.data())
@SLOW_TO_DRAW
def test_generated_catalogues(tmp_path_factory: pytest.TempPathFactory, catalogue: object, data: st.DataObject) -> None:
    path = written(tmp_path_factory.getbasetemp(), "a.po", catalogue.data)  # type: ignore[attr-defined]
    document = open_document(path, Request(), Report())
    count = sum(len(part.units) for part in document.parts)
    found = {n: data.draw(st.sampled_from([[], [OTHER], [FINDING, OTHER]])) for n in range(count)}
    result = path.with_name("annotated.po")
    write_annotated(open_document(path, Request(), Report()), found, result)
    before, after = polib.pofile(str(path)), polib.pofile(str(result))
    assert [(e.msgid, e.msgstr, e.msgstr_plural, e.flags) for e in after] == [
        (e.msgid, e.msgstr, e.msgstr_plural, e.flags) for e in before
    ]
    back = path.with_name("back.po")
    write_annotated(open_document(result, Request(), Report()), {}, back)
    assert back.read_bytes() == path.read_bytes()
