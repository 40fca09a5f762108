"""nearmt check, and the checks of nearmt translate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polib
import pytest

from tests.cli.conftest import Nearmt

PO = (
    'msgid ""\nmsgstr "Language: de\\n"\n\n'
    'msgid "Check the pump."\nmsgstr "Prüfen Sie die Pumpe."\n\n'
    '#, python-format\nmsgid "%d of 250 files"\nmsgstr "%d von 25 Dateien"\n\n'
    'msgid "Do not open!"\nmsgstr "Öffnen!"\n\n'
    'msgid "Close"\nmsgstr ""\n\n'
    'msgid "Ready."\nmsgstr "Bereit"\n'
)
XLIFF = (
    '<xliff version="1.2"><file source-language="de" target-language="en" original="x"><body>\n'
    '<trans-unit id="1"><source>die <g id="1">Pumpe</g></source><target>the pump</target></trans-unit>\n'
    '<trans-unit id="2"><source>das <x id="1"/> Ventil</source><target>the <x id="1"/> valve</target></trans-unit>\n'
    "</body></file></xliff>\n"
)
TMX = (
    '<tmx version="1.4"><header srclang="de"/><body>\n'
    '<tu><tuv xml:lang="de"><seg>die <hi>Pumpe</hi></seg></tuv><tuv xml:lang="fr"><seg>x</seg></tuv>'
    '<tuv xml:lang="en"><seg>the pump</seg></tuv></tu>\n'
    "</body></tmx>\n"
)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_catalogue(nearmt: Nearmt, tmp_path: Path) -> None:
    result = nearmt("check", written(tmp_path / "a.po", PO))
    assert result.code == 1 and result.err == ""
    assert "line 8" in result.out and "numbers: numbers of the source are missing: 250" in result.out
    assert "negation: the source is negated, the translation is not: not" in result.out
    assert "punctuation" not in result.out.rpartition("\n4 units")[0]
    assert result.out.splitlines()[-1] == (
        "4 units checked, 1 without a translation: 1 error (numbers 1), 1 warning (negation 1), 1 info (punctuation 1)"
    )


APPS = {
    "app.de.json": ('{"a": "%s Dateien", "b": ["Ja"]}', '{"a": "%d files", "b": ["Yes"]}', "%s, +%d"),
    "app_de.arb": (
        '{"@@locale": "de", "n": "{n, plural, one{Eine Datei} other{{n} Dateien}}"}',
        '{"@@locale": "en", "n": "{n, plural, one{A file} other{files}}"}',
        "{n}",
    ),
    "de/app.ftl": ("a = { $x } Dateien\n    .b = Ja\n", "a = Files\n    .b = Yes\n", "{ $x }"),
    "de.lproj/a.strings": ('"a" = "%@ Dateien";\n"b" = "Ja";\n', '"a" = "Files";\n"b" = "Yes";\n', "%@"),
    "values-de/strings.xml": (
        '<resources><string name="a">%1$s Dateien</string></resources>',
        '<resources><string name="a">Files</string></resources>',
        "%1$s",
    ),
    "de/a.html": ("<p>{x} Dateien</p><p>Ja</p>", "<p>Files</p><p>Yes</p>", "{x}"),
    "de/a.md": ('![Bild](a.png "b") {x} Dateien\n', '![Image](a.png "c") Files\n', "{x}"),
}


@pytest.mark.parametrize("name", APPS)
def test_two_documents_in_one_language(nearmt: Nearmt, tmp_path: Path, name: str) -> None:
    source, target, found = APPS[name]
    paths = [tmp_path / name, tmp_path / name.replace("de", "en")]
    for path, content in zip(paths, (source, target), strict=True):
        path.parent.mkdir(exist_ok=True)
        written(path, content)
    result = nearmt("check", *paths, "--json", "--without", "dropped")
    *units, last = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 1 and result.err == "" and last["summary"]["languages"] == ["de", "en"]
    errors = [(each["check"], each["detail"]) for each in units[0]["findings"] if each["severity"] == "error"]
    assert len(units) == 1 and errors == [("placeholders", found)]


def test_two_documents_with_other_units_are_refused(nearmt: Nearmt, tmp_path: Path) -> None:
    source = written(tmp_path / "de.json", '{"a": "Ja",\n "b": "Nein"}')
    target = written(tmp_path / "en.json", '{"a": "Yes"}')
    result = nearmt("check", source, target, "--without", "dropped")
    assert result.code == 1
    assert "the source has more texts than the other file, from line 2 on" in result.err
    result = nearmt("check", target, source, "--without", "dropped")
    assert "the target has more texts than the other file, from line 2 on" in result.err


def test_json_has_an_object_for_each_unit_and_a_summary(nearmt: Nearmt, tmp_path: Path) -> None:
    result = nearmt("check", written(tmp_path / "a.po", PO), "--json", "--least", "info")
    *units, last = [json.loads(line) for line in result.out.splitlines()]
    assert [unit["line"] for unit in units] == [8, 11, 17]
    assert units[0] == {
        "line": 8,
        "source": "%d of 250 files",
        "target": "%d von 25 Dateien",
        "findings": [
            {
                "check": "numbers",
                "severity": "error",
                "message": "numbers of the source are missing",
                "detail": "250",
            }
        ],
    }
    assert last["summary"]["findings"] == {"error": 1, "warning": 1, "info": 1}
    assert last["summary"]["languages"] == ["en", "de"] and last["summary"]["untranslated"] == 1
    assert last["summary"]["units_with"] == {"error": 1, "warning": 1, "info": 1}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--fail-on", "never"), 0),
        (("--without", "numbers"), 0),
        (("--without", "numbers", "--fail-on", "warning"), 1),
        (("--without", "numbers", "--without", "negation", "--fail-on", "warning"), 0),
    ],
)
def test_exit_code(nearmt: Nearmt, tmp_path: Path, options: tuple[str, ...], code: int) -> None:
    assert nearmt("check", written(tmp_path / "a.po", PO), *options).code == code


def test_tags_of_xliff_and_tmx(nearmt: Nearmt, tmp_path: Path) -> None:
    xliff = nearmt("check", written(tmp_path / "a.xlf", XLIFF), "--without", "dropped", "--json")
    units = [json.loads(line) for line in xliff.out.splitlines()][:-1]
    assert [unit["line"] for unit in units] == [2] and units[0]["source"] == 'die <g id="1">Pumpe</g>'
    assert units[0]["findings"][0]["detail"] == "<g 1>"
    tmx = nearmt("check", written(tmp_path / "a.tmx", TMX), "--target-lang", "en", "--without", "dropped", "--json")
    assert json.loads(tmx.out.splitlines()[0])["target"] == "the pump"


def test_two_texts(nearmt: Nearmt, tmp_path: Path) -> None:
    source = written(tmp_path / "a.de", "Die Pumpe 17\n\nDer Motor\n")
    target = written(tmp_path / "a.en", "The pump 17\n\n\n")
    result = nearmt("check", source, target, "--without", "dropped")
    assert result.code == 1 and "line 3" in result.out and "there is no translation" in result.out
    assert "2 units checked" in result.out
    shorter = nearmt("check", source, written(tmp_path / "b.en", "The pump 17\n"), "--without", "dropped")
    assert shorter.code == 1 and "ends before line 2" in shorter.err


def test_a_glossary(nearmt: Nearmt, tmp_path: Path) -> None:
    glossary = written(tmp_path / "terms.csv", "pump,Förderpumpe\nbroken\n")
    result = nearmt("check", written(tmp_path / "a.po", PO), "--glossary", glossary)
    assert "terms of the glossary are missing: pump → Förderpumpe" in result.out
    assert "terms.csv, line 2: no target term" in result.err


def test_dropped_clauses_with_a_model(nearmt: Nearmt, tiny_folder: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "die pumpe und der motor prüfen und reinigen das ventil " * 3 + "\tpump\n")
    model = ("--model", tiny_folder, "--source-lang", "de", "--target-lang", "en", "--device", "cpu")
    result = nearmt("check", path, *model, "--json", "--without", "length")
    unit, last = [json.loads(line) for line in result.out.splitlines()]
    assert last["summary"]["aligned"] and "dropped" in {finding["check"] for finding in unit["findings"]}
    refused = nearmt("check", path, *model, "--without", "dropped")
    assert refused.code == 2 and "--model is for the check 'dropped'" in refused.err


def test_unknown_languages_are_said(nearmt: Nearmt, tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "die Pumpe 17\tthe pump 18\n")
    result = nearmt("check", path)
    assert "the files do not name their languages" in result.err and "numbers 1" in result.out
    assert nearmt("check", path, "--source-lang", "de", "--target-lang", "fr").err == ""


@pytest.mark.parametrize(
    ("names", "code", "message"),
    [
        (("missing.po",), 1, "missing.po: no such file"),
        (("a.txt",), 2, "give SOURCE and TARGET"),
        (("a.txt", "a.po"), 2, "give one document, or SOURCE and TARGET"),
        (("a.txt", "a.txt", "a.txt"), 2, "give one document, or SOURCE and TARGET"),
        (("empty.po",), 1, "is empty"),
        (("a.docx",), 1, "save it as XLIFF"),
        (("broken.xlf",), 1, "broken XML"),
    ],
)
def test_wrong_files(nearmt: Nearmt, tmp_path: Path, names: tuple[str, ...], code: int, message: str) -> None:
    contents = {"a.txt": "a\n", "a.po": PO, "empty.po": "", "a.docx": "x", "broken.xlf": XLIFF[:200]}
    paths = [tmp_path / name for name in names]
    for path in paths:
        if path.name in contents:
            written(path, contents[path.name])
    result = nearmt("check", *paths)
    assert result.code == code and message in result.err and result.err.count("\n") == 1


def test_findings_in_the_notes_of_a_document(nearmt: Nearmt, tmp_path: Path) -> None:
    path, out, again = written(tmp_path / "a.po", PO), tmp_path / "b.po", tmp_path / "c.po"
    result = nearmt("check", path, "--output", out)
    assert result.code == 1 and result.out == nearmt("check", path).out
    entry = "#, python-format\nmsgid"
    numbers = f"# nearmt check: error: numbers of the source are missing: 250\n{entry}"
    negation = "# nearmt check: warning: the source is negated, the translation is not: not\nmsgid"
    expected = PO.replace(entry, numbers).replace('msgid "Do not', f'{negation} "Do not')
    assert out.read_text() == expected
    assert nearmt("check", out, "--output", again).code == 1 and again.read_bytes() == out.read_bytes()
    fixed = written(tmp_path / "d.po", expected.replace("25 D", "250 D"))
    result = nearmt("check", fixed, "--output", again, "--without", "negation", "--least", "error")
    assert result.code == 0 and again.read_text() == PO.replace("25 D", "250 D")


def test_xliff_and_tmx_with_findings(nearmt: Nearmt, tmp_path: Path) -> None:
    for name, content in (("a.xlf", XLIFF), ("a.tmx", TMX)):
        path, out = written(tmp_path / name, content), tmp_path / f"out-{name}"
        nearmt("check", path, "--target-lang", "en", "--without", "dropped", "--output", out)
        note = "nearmt check: error: inline tags differ from the source: "
        assert note in out.read_text()


@pytest.mark.parametrize(
    ("names", "output", "message"),
    [
        (("a.csv",), "b.csv", "--output: documents in the format csv have no notes; those in jsonl, po, tmx, xliff"),
        (("a.json", "a.json"), "b.json", "--output: documents in the format json have no notes"),
        (("a.txt", "a.txt"), "b.txt", "--output: two texts have no notes"),
        (("a.po",), "-", "--output: name a file"),
        (("a.po",), "a.po", "is an input file; name another --output"),
        (("a.po",), "missing/b.po", "cannot be written"),
    ],
)
def test_outputs_that_are_refused(
    nearmt: Nearmt, tmp_path: Path, names: tuple[str, ...], output: str, message: str
) -> None:
    contents = {"a.po": PO, "a.csv": "de,en\nPumpe,pump\n", "a.json": '{"a": "Pumpe"}', "a.txt": "Pumpe\n"}
    paths = [written(tmp_path / name, contents[name]) for name in names]
    result = nearmt("check", *paths, "--output", output if output == "-" else tmp_path / output)
    assert result.code in (1, 2) and message in result.err and result.err.count("\n") == 1
    assert result.out == "" and sorted(tmp_path.iterdir()) == sorted(set(paths))


def test_control_characters_do_not_reach_the_terminal(nearmt: Nearmt, tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "Pumpe 17\x1b]0;x\x07\tpump\x1b[2J\n")
    assert "\x1b" not in nearmt("check", path).out


def test_texts_are_checked_without_torch(tmp_path: Path) -> None:
    path = written(tmp_path / "a.po", PO)
    program = (
        "import sys; from nearmt.cli.main import run\n"
        f"assert run(['check', {str(path)!r}]) == 1 and 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_translate_counts_and_notes_findings(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    content = 'msgid ""\nmsgstr "Language: en\\n"\n\nmsgid "die pumpe 4711 und der motor"\nmsgstr ""\n'
    path, out = written(tmp_path / "a.po", content), tmp_path / "b.po"
    fast = ("--datastore", store, "--beams", "2", "--device", "cpu")
    result = nearmt("translate", path, "--output", out, *fast)
    assert "line 4: numbers of the source are missing: 4711" in result.err
    counts = next(line for line in result.err.splitlines() if line.startswith("nearmt: checks: "))
    assert "numbers 1" in counts
    assert "; numbers of the source are missing: 4711" in polib.pofile(str(out))[0].tcomment
    shown = json.loads(nearmt("translate", path, "--json", *fast).out)
    assert ("numbers", "error") in {(finding["check"], finding["severity"]) for finding in shown["findings"]}
    off = nearmt("translate", path, "--set", "checks=false", *fast)
    assert "4711" not in off.err and "numbers" not in off.err
