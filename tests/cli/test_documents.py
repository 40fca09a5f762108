"""Documents in and out, memories in and out, from the command line."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from pathlib import Path

import polib
import pytest

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.models import TranslationModel
from tests.cli.conftest import Nearmt
from tests.conftest import make_pairs
from tests.tiny import tiny_marian_folder

FAST = ("--beams", "2", "--device", "cpu")
PO = (
    'msgid ""\nmsgstr "Language: en\\n"\n\n'
    '#: a.c:1\nmsgid "die pumpe"\nmsgstr ""\n\nmsgid "der motor"\nmsgstr "engine"\n'
)
XLIFF = (
    '<xliff version="1.2"><file source-language="de" target-language="en" original="x"><body>\n'
    '<trans-unit id="1"><source>die <g id="1">pumpe</g> und der motor</source></trans-unit>\n'
    '<trans-unit id="2"><source>ventil</source><target state="final">valve</target></trans-unit>\n'
    "</body></file></xliff>\n"
)
TMX = (
    '<tmx version="1.4"><header srclang="de"/><body>\n'
    '<tu tuid="1"><tuv xml:lang="de-AT"><seg>die pumpe</seg></tuv><tuv xml:lang="en"><seg>the pump</seg></tuv></tu>\n'
    '<tu tuid="2"><tuv xml:lang="de"><seg>der <hi>motor</hi></seg></tuv></tu>\n'
    "</body></tmx>\n"
)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def another_model(folder: Path) -> Path:
    folder.mkdir()
    return tiny_marian_folder(folder, seed=3)


def test_a_catalogue_is_filled_in(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path, out = written(tmp_path / "a.po", PO), tmp_path / "b.po"
    result = nearmt("translate", path, "--datastore", store, "--output", out, *FAST)
    assert result.code == 0, result.err
    assert "translated: 1, unchanged: 1" in result.err
    entries = polib.pofile(str(out))
    assert entries[0].msgstr and entries[0].fuzzy and entries[0].occurrences == [("a.c", "1")]
    assert entries[1].msgstr == "engine" and not entries[1].fuzzy
    # Nothing is left to do: the file comes back as it is.
    again = nearmt("translate", out, "--datastore", store, *FAST)
    assert again.out == out.read_text(encoding="utf-8")
    everything = nearmt("translate", path, "--datastore", store, "--all", "--quiet", *FAST)
    assert polib.pofile(everything.out)[1].fuzzy and everything.err == ""


def test_tags_stay_in_an_xliff(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a.xlf", XLIFF)
    result = nearmt("translate", path, "--datastore", store, *FAST)
    assert result.code == 0, result.err
    assert result.out.count('<g id="1">') == result.out.count("</g>") == 2
    assert 'state-qualifier="mt-suggestion"' in result.out and '<target state="final">valve</target>' in result.out


def test_a_target_that_is_still_the_source_is_filled_in(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    """Tools put the source there, with the state new."""
    new = '<source>ventil</source><target state="new">ventil</target>'
    path = written(
        tmp_path / "a.xlf", XLIFF.replace('<source>ventil</source><target state="final">valve</target>', new)
    )
    result = nearmt("translate", path, "--datastore", store, *FAST)
    assert "translated: 2" in result.err and 'state="new"' not in result.out


def test_a_document_of_other_languages_is_refused(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a.xlf", XLIFF.replace('source-language="de"', 'source-language="fr"'))
    result = nearmt("translate", path, "--datastore", store, *FAST)
    assert result.code == 1 and "is fr to en, the model translates" in result.err


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings_come_back(nearmt: Nearmt, store: Path, tmp_path: Path, encoding: str) -> None:
    path, out = written(tmp_path / "a.tmx", TMX.encode(encoding)), tmp_path / "b.tmx"
    result = nearmt("translate", path, "--datastore", store, "--output", out, *FAST)
    assert result.code == 0, result.err
    text = out.read_bytes().decode(encoding)
    assert text.startswith(TMX[:150]) and text.count("</tuv>") == 4 and text.count("<hi>") == 2
    assert out.read_bytes()[:2] == path.read_bytes()[:2]
    shown = nearmt("translate", path, "--datastore", store, "--json", *FAST)
    assert [json.loads(line)["origin"] for line in shown.out.splitlines()] == ["kept", "machine"]


def test_a_memory_of_a_packed_tmx(nearmt: Nearmt, tiny_folder: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a.tmx.gz", gzip.compress(TMX.encode()))
    build = ("build", path, "--model", tiny_folder, "--source-lang", "de", "--target-lang", "en", "--device", "cpu")
    result = nearmt(*build, "--out", tmp_path / "s", "--json")
    assert result.code == 0, result.err
    reading = json.loads(result.out)["reading"]
    assert reading["pairs"] == 1 and reading["skipped"] == {"without both languages": 1}
    assert "left out: 1 without both languages" in result.err


def test_packed_output(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path, out = written(tmp_path / "a.txt", "die pumpe\r\nventil"), tmp_path / "b.txt.gz"
    assert nearmt("translate", path, "--datastore", store, "--output", out, *FAST).code == 0
    text = gzip.decompress(out.read_bytes()).decode()
    assert text == nearmt("translate", path, "--datastore", store, *FAST).out
    assert text.count("\r\n") == text.count("\n") == 1


def test_standard_input_of_a_format(
    nearmt: Nearmt, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PO.encode())))
    piped = nearmt("translate", "-", "--format", "po", "--datastore", store, *FAST)
    assert piped.code == 0, piped.err
    assert piped.out == nearmt("translate", written(tmp_path / "a.po", PO), "--datastore", store, *FAST).out


def test_exact_and_fuzzy_matches(nearmt: Nearmt, tiny_store: Datastore, tmp_path: Path) -> None:
    pair = next(tiny_store.pairs())
    path = written(tmp_path / "a.jsonl", json.dumps({"source": pair.source}) + "\n")
    exact = nearmt("translate", path, "--datastore", tiny_store.path, "--matches", *FAST)
    entry = json.loads(exact.out)
    assert entry["target"] == pair.target and entry["nearmt"]["origin"] == "memory"
    assert entry["nearmt"]["matches"][0]["similarity"] == 1.0
    machine = nearmt("translate", path, "--datastore", tiny_store.path, "--set", "exact=false", *FAST)
    assert json.loads(machine.out)["nearmt"]["origin"] == "machine"
    text = written(tmp_path / "a.txt", pair.source + "\n")
    shown = nearmt("translate", text, "--datastore", tiny_store.path, "--matches", *FAST)
    assert "100%" in shown.out and pair.target in shown.out


def test_similar_and_ambiguous_matches_are_marked(nearmt: Nearmt, tiny_folder: Path, tmp_path: Path) -> None:
    memory = written(
        tmp_path / "m.jsonl",
        '{"source": "pumpe 5 prüfen", "target": "check pump 5", "id": "1"}\n'
        '{"source": "start", "target": "home", "id": "2", "context": "menu"}\n'
        '{"source": "start", "target": "begin", "id": "3", "context": "race"}\n',
    )
    store = tmp_path / "matches"
    built = nearmt("build", memory, "--out", store, "--model", tiny_folder, "--device", "cpu")
    assert built.code == 0, built.err
    entry = 'msgctxt "%s"\nmsgid "start"\nmsgstr ""\n\n'
    head = 'msgid ""\nmsgstr "Language: en\\n"\n\n'
    text = head + entry % "menu" + entry % "tab" + 'msgid "pumpe 7 prüfen"\nmsgstr ""\n'
    path, out = written(tmp_path / "a.po", text), tmp_path / "b.po"
    result = nearmt("translate", path, "--datastore", store, "--output", out, "--set", "fuzzy=0.8", *FAST)
    assert result.code == 0 and "exact matches: 2, repaired matches: 1" in result.err, result.err
    entries = list(polib.pofile(str(out)))
    assert [(entry.msgstr, entry.fuzzy) for entry in entries] == [
        ("home", False),
        ("begin", True),
        ("check pump 7", True),
    ]
    assert "to review (92% match, 5 -> 7): similar match from the memory, pair 1" in entries[2].tcomment
    printed = nearmt("translate", path, "--datastore", store, "--set", "fuzzy=0.8", "--json", *FAST).out.splitlines()
    fields = [json.loads(line) for line in printed]
    assert [field["origin"] for field in fields] == ["memory", "memory", "repaired"]
    assert fields[0]["context"] and "review" not in fields[0] and "other translations" in fields[1]["review"]


def test_languages_of_files_are_given(nearmt: Nearmt, tiny_folder: Path, store: Path, tmp_path: Path) -> None:
    """A catalogue that names no language is refused in one line, and read the way round that is given."""
    path = written(tmp_path / "a.po", 'msgid ""\nmsgstr "X: y\\n"\n\nmsgid "pump"\nmsgstr "pumpe"\n')
    build = ("build", path, "--out", tmp_path / "new", "--model", tiny_folder, "--device", "cpu")
    refused = nearmt(*build)
    assert refused.code == 1 and "its texts do not tell" in refused.err and "file-languages" in refused.err
    built = nearmt(*build, "--file-languages", "en:de")
    assert built.code == 0, built.err
    assert [(pair.source, pair.target) for pair in Datastore.open(tmp_path / "new").pairs()] == [("pumpe", "pump")]
    wrong = written(tmp_path / "a.xlf", XLIFF.replace('"de" target-language="en"', '"en" target-language="de"'))
    assert "give the setting file-languages" in nearmt("translate", wrong, "--datastore", store, *FAST).err
    given = nearmt("translate", wrong, "--datastore", store, "--set", "file-languages=de:en", *FAST)
    assert given.code == 0 and 'source-language="en" target-language="de"' in given.out, given.err
    bad = nearmt("inspect", path, "--file-languages", "de")
    assert bad.code == 2 and "such as en:de" in bad.err


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.mo", "compiled catalogue"), ("a.docx", "save it as XLIFF"), ("missing.po", "no such file")],
)
def test_what_is_no_document(nearmt: Nearmt, tmp_path: Path, store: Path, name: str, message: str) -> None:
    if not name.startswith("missing"):
        written(tmp_path / name, b"\xde\x12\x04\x95")
    result = nearmt("translate", tmp_path / name, "--datastore", store)
    assert result.code == 1 and message in result.err and result.err.count("\n") == 1


def test_a_document_is_not_written_over_itself(nearmt: Nearmt, tmp_path: Path, store: Path) -> None:
    path = written(tmp_path / "a.po", PO)
    result = nearmt("translate", path, "--datastore", store, "--output", path)
    assert result.code == 2 and "name another --output" in result.err
    assert path.read_text(encoding="utf-8") == PO


def test_a_broken_unit_does_not_lose_the_rest(nearmt: Nearmt, tmp_path: Path, store: Path) -> None:
    path = written(tmp_path / "a.tmx", TMX.replace("<seg>die pumpe</seg>", "<seg>die <b pumpe</seg>"))
    result = nearmt("translate", path, "--datastore", store, *FAST)
    assert result.code == 0 and "a.tmx, line 2: broken XML" in result.err
    assert "die <b pumpe" in result.out and result.out.count("</tuv>") == 4
    strict = nearmt("translate", path, "--datastore", store, "--strict", *FAST)
    assert strict.code == 1 and "a.tmx, line 2: broken XML" in strict.err


@pytest.mark.parametrize("format_name", ["tmx", "tsv", "po", "jsonl"])
def test_what_goes_in_comes_out(nearmt: Nearmt, tiny_store: Datastore, tmp_path: Path, format_name: str) -> None:
    out = tmp_path / f"m.{format_name}"
    result = nearmt("export", tiny_store.path, "--format", format_name, "--output", out)
    assert result.code == 0 and result.err == ""
    manifest = tiny_store.manifest
    found = list(read_pairs(out, source_lang=manifest.source_lang, target_lang=manifest.target_lang))
    stored = list(tiny_store.pairs())
    assert [(pair.source, pair.target) for pair in found] == [(pair.source, pair.target) for pair in stored]
    if format_name in ("tmx", "jsonl"):
        assert found == stored


def test_a_memory_moves_to_another_model(nearmt: Nearmt, tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(12), tiny)
    other = another_model(tmp_path / "other")
    result = nearmt("reindex", store.path, "--model", other, "--device", "cpu")
    assert result.code == 0, result.err
    moved = Datastore.open(store.path)
    assert moved.manifest.model == str(other) and moved.manifest.fingerprint != store.manifest.fingerprint
    assert list(moved.pairs()) == list(store.pairs()) and len(moved) == len(store)
    assert nearmt("translate", written(tmp_path / "t.txt", "pumpe\n"), "--datastore", store.path, *FAST).code == 0


def test_inspect(nearmt: Nearmt, tmp_path: Path) -> None:
    pairs = [*make_pairs(5), Pair("gleich", "gleich"), Pair("zu  viel\x07", "too much"), Pair("leer", "")]
    path = written(tmp_path / "m.tsv", "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    found = json.loads(nearmt("inspect", path, "--json").out)
    assert found["units"] == 8 and found["pairs"] == 7 and found["skipped"] == {"empty": 1}
    counts = {rule["rule"]: rule["count"] for rule in found["rules"]}
    assert counts["drop-identical"] == counts["control-characters"] == counts["whitespace"] == 1
    shown = nearmt("inspect", path)
    assert shown.code == 0 and "--drop-identical" in shown.out and "\x07" not in shown.out


def test_build_says_what_it_drops(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    path = written(tmp_path / "m.tsv", "motor\tengine\nmotor\tengine\npumpe\tpumpe\nventil\tvalve\n")
    rules = ("--drop-duplicates", "--drop-identical")
    result = nearmt("build", path, "--out", tmp_path / "s", "--model", tiny_folder, "--device", "cpu", *rules, "--json")
    assert result.code == 0, result.err
    assert "dropped: 1 drop-duplicates, 1 drop-identical" in result.err
    assert "drop-duplicates:True" in json.loads(result.out)["cleaning"]
    verbose = nearmt("translate", path, "--datastore", tmp_path / "s", "--verbose", *FAST)
    assert "drop-duplicates:True" in verbose.err


def test_nothing_to_build_from_says_why(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    bomb = '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx><body/></tmx>'
    for name, content, reason in (("a.tmx", bomb, "declares the entity"), ("b.tsv", "x\t\n", "1 empty")):
        result = nearmt("build", written(tmp_path / name, content), "--out", tmp_path / "s", "--model", tiny_folder)
        assert result.code == 1 and reason in result.err and not (tmp_path / "s").exists()


def test_timings(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "die pumpe\n")
    result = nearmt("translate", path, "--datastore", store, "--timings", *FAST)
    assert result.code == 0
    for name in (
        "model/layers",
        "model/output",
        "index/search",
        "cache/search",
        "mix",
        "model/load",
        "other",
    ):
        assert name in result.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(nearmt: Nearmt, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "_NEARMT_COMPLETE" in nearmt("completion", shell).out
    monkeypatch.setenv("_NEARMT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "nearmt ins")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "inspect" in nearmt().out


def test_unknown_options_suggest_the_near_one(nearmt: Nearmt) -> None:
    result = nearmt("translate", "x", "--lamda", "0.5")
    assert result.code == 2 and "write --set lambda=VALUE" in result.err


def test_an_interrupted_move_keeps_the_store(
    nearmt: Nearmt, tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(5), tiny)
    before = store.manifest.identity

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearmt.datastore.edit.build.encode_blocks", interrupt)
    other = another_model(tmp_path / "other")
    assert nearmt("reindex", store.path, "--model", other, "--device", "cpu").code == 130
    assert Datastore.open(store.path).manifest.identity == before
    shutil.rmtree(tmp_path / "store.building", ignore_errors=True)


def test_an_explained_document_is_a_document(nearmt: Nearmt, tiny_store: Datastore, tmp_path: Path) -> None:
    """With --output its notes name the pairs; the explanation for people goes to standard output only."""
    path, out = tmp_path / "a.po", tmp_path / "a.en.po"
    path.write_text('msgid ""\nmsgstr ""\n\nmsgid "die pumpe prüfen"\nmsgstr ""\n', encoding="utf-8")
    explain = (
        "translate",
        path,
        "--datastore",
        tiny_store.path,
        "--explain",
        "--device",
        "cpu",
        "--set",
        "exact=false",
    )
    assert nearmt(*explain, "--output", out).code == 0
    written = out.read_text(encoding="utf-8")
    assert 'msgid "die pumpe prüfen"' in written and "memory pairs" in written and "step 1" not in written
    assert "step 1" in nearmt(*explain).out
