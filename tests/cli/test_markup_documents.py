"""HTML, Markdown and Android's string resources, from the command line."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Nearmt
from tests.cli.test_documents import FAST, written

HTML = (
    '<!DOCTYPE html>\r\n<html lang="de"><title>die pumpe</title>\r\n<!-- bleibt -->\r\n'
    '<p>die <b class="x">pumpe</b> und der motor<br>\r\n<pre>bleibt so</pre><img src="a.png" alt="der motor">\r\n'
)
MARKDOWN = "---\na: bleibt\n---\n\n# die pumpe\n\n- der [motor](x.md) und `bleibt`\n\n```sh\nbleibt so\n```\n"
ANDROID = (
    '<?xml version="1.0" encoding="utf-8"?>\n<resources>\n  <string name="a" translatable="false">bleibt</string>\n'
    '  <string name="b">die <b>pumpe</b></string>\n  <string-array name="c"><item>der motor</item></string-array>\n'
    "</resources>\n"
)
DOCUMENTS = {"page.html": HTML, "page.md": MARKDOWN, "strings.xml": ANDROID}
#: What has to stay in each, and the number of units.
STAYS = {
    "page.html": (
        ['<html lang="en"><title>', "<!-- bleibt -->\r\n<p>", "<br>\r\n<pre>bleibt so</pre><img src=", '">\r\n'],
        3,
    ),
    "page.md": (["---\na: bleibt\n---\n\n# ", "\n\n- ", "](x.md)", "`bleibt`", "\n\n```sh\nbleibt so\n```\n"], 2),
    "strings.xml": (['translatable="false">bleibt</string>', '<string name="b">', "<b>", "</b>", "<item>"], 2),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_translated(nearmt: Nearmt, store: Path, tmp_path: Path, name: str) -> None:
    path, out = written(tmp_path / name, DOCUMENTS[name]), tmp_path / f"en-{name}"
    result = nearmt("translate", path, "--datastore", store, "--output", out, *FAST)
    assert result.code == 0, result.err
    stays, count = STAYS[name]
    assert result.err.endswith(f"translated: {count}\n")
    text = out.read_bytes().decode()
    assert [part for part in stays if part not in text] == []
    assert "der motor" not in text and text != DOCUMENTS[name]
    piped = nearmt("translate", path, "--datastore", store, *FAST)
    assert piped.out.encode() == out.read_bytes()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_units_of_a_document(nearmt: Nearmt, store: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(DOCUMENTS[name].encode()))
    result = nearmt("translate", path, "--datastore", store, "--json", *FAST)
    assert result.code == 0, result.err
    units = [json.loads(line) for line in result.out.splitlines()]
    assert len(units) == STAYS[name][1] and {unit["origin"] for unit in units} <= {"machine", "memory"}
    assert all(unit["line"] > 1 for unit in units)


def test_the_stored_translation_of_a_text(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    pair = json.loads(nearmt("export", store, "--format", "jsonl").out.splitlines()[0])
    path = written(tmp_path / "a.html", f"<ul>\n<li><a href='x'><b>{pair['source']}</b></a>\n</ul>")
    result = nearmt("translate", path, "--datastore", store, *FAST)
    assert result.out == f"<ul>\n<li><a href='x'><b>{pair['target']}</b></a>\n</ul>"


def test_an_interrupted_page_is_continued(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path, out = written(tmp_path / "a.html", HTML), tmp_path / "b.html"
    assert nearmt("translate", path, "--datastore", store, "--output", out, *FAST).code == 0
    again = tmp_path / "c.html"
    assert nearmt("translate", path, "--datastore", store, "--output", again, "--resume", *FAST).code == 0
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize("name", [*DOCUMENTS, "a.htm", "a.pot"])
@pytest.mark.parametrize("command", ["build", "inspect", "add"])
def test_a_document_is_no_memory(nearmt: Nearmt, store: Path, tmp_path: Path, name: str, command: str) -> None:
    path = written(tmp_path / name, DOCUMENTS.get(name, "x"))
    arguments = {"build": (path, "--out", tmp_path / "s"), "inspect": (path,)}
    result = nearmt(command, *(arguments.get(command) or (shutil.copytree(store, tmp_path / "copy"), path)))
    assert result.code == 1 and result.err.count("\n") == 1
    assert f"{path}: is a document to translate and has no translations; a memory is one of .csv" in result.err


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_empty_document_is_refused(nearmt: Nearmt, tmp_path: Path, name: str) -> None:
    result = nearmt("translate", written(tmp_path / name, ""), *FAST)
    assert (result.code, result.err) == (1, f"nearmt: error: {tmp_path / name}: is empty\n")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xml", "<a>b</a>", "is XML without the <resources> of Android; name its format with --format"),
        ("a.xml", ANDROID[:-15], "get a complete file"),
        ("a.xml", "nichts", "broken XML"),
        ("a.html", b"\xff\xfe<\x00p", "line 1: not utf-16-le"),
        ("a.html", "<meta charset=nichts>", "declares the encoding 'nichts'"),
        ("a.md", b"\xfe\xff\x00", "line 1: not utf-16-be"),
    ],
)
def test_documents_that_cannot_be_read(
    nearmt: Nearmt, tmp_path: Path, name: str, content: str | bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.cli.setup.load_model", None)
    result = nearmt("translate", written(tmp_path / name, content), *FAST)
    assert result.code == 1 and message in result.err and result.out == ""


@pytest.mark.parametrize("name", ["a.html", "a.md"])
def test_a_document_that_is_too_large(nearmt: Nearmt, tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, b"a\n" * (9 << 20))
    result = nearmt("translate", path, "--set", "max-unit=1", *FAST)
    assert result.code == 1 and "is a file of more than 16 MiB (see the setting max-unit)" in result.err


def test_what_cannot_be_translated_is_named_and_kept(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a.html", b"<p>die pumpe\n<p>schlecht \xff\n<p>der motor <a")
    result = nearmt("translate", path, "--datastore", store, "--output", tmp_path / "b.html", *FAST)
    assert (
        result.code == 0 and "line 2: undecodable bytes" in result.err and "line 3: a tag without an end" in result.err
    )
    assert b"<p>schlecht \xff\n<p>" in (tmp_path / "b.html").read_bytes()
    strict = nearmt("translate", path, "--datastore", store, "--strict", *FAST)
    assert strict.code == 1 and "line 3: a tag without an end" in strict.err


def test_matches_are_shown_where_a_document_has_no_notes(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a.md", "die pumpe prüfen\n")
    result = nearmt("translate", path, "--datastore", store, "--matches", *FAST)
    assert result.code == 0 and "%" in result.out
    named = nearmt("translate", path, "--datastore", store, "--matches", "--output", tmp_path / "b.md", *FAST)
    assert named.code == 0 and "%" not in (tmp_path / "b.md").read_text(encoding="utf-8")
