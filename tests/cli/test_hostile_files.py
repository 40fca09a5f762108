"""Files that are cut off, empty, too large or in another script, from the command line."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Nearmt
from tests.cli.test_documents import FAST, PO, TMX, XLIFF

JSONL = '{"source": "die pumpe"}\n{"source": "der motor"}\n'
CUT = {
    "a.xliff": XLIFF[:-20],
    "b.xliff": XLIFF[: XLIFF.index("</trans-unit>")],
    "a.tmx": TMX[:-12],
    "a.po": PO[: PO.rindex("msgstr")],
    "b.po": PO[:-4],
    "a.jsonl": JSONL[:-5],
    "a.csv": 'de,en\nMotor,engine\n"die Pumpe,\n',
    "a.json": '{"a": "die Pumpe", "b": "der',
    "a.arb": '{"@@locale": "de", "a": "die Pumpe"',
    "a.strings": '"a" = "die Pumpe";\n"b" = "der',
    "a.xcstrings": '{"sourceLanguage": "de", "strings": {"die Pumpe": {',
}


def written(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize("name", CUT)
def test_a_document_that_is_cut_off_is_refused_before_the_model_is_loaded(
    name: str, nearmt: Nearmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.cli.setup.load_model", None)
    path, out = written(tmp_path / name, CUT[name]), tmp_path / "out"
    result = nearmt("translate", path, "--output", out, *FAST)
    assert result.code == 1 and not out.exists() and result.out == ""
    assert result.err.count("\n") == 1 and "; get a complete" in result.err
    assert nearmt("stream", path, "--datastore", tmp_path, *FAST).code == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["a.xliff", "a.tmx", "a.po", "a.pot", "a.jsonl", "a.tsv", "a.csv", "a.xlsx", "a.json"])
def test_an_empty_document_is_refused(name: str, packed: bool, nearmt: Nearmt, tmp_path: Path) -> None:
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(b"") if packed else b"")
    result = nearmt("translate", path, *FAST)
    assert (result.code, result.out) == (1, "")
    assert result.err == f"nearmt: error: {path}: is empty\n"


@pytest.mark.parametrize(("name", "content"), [("a.xliff", "\n \n"), ("a.po", "# only a comment\n\n")])
def test_a_document_without_content_is_refused(name: str, content: str, nearmt: Nearmt, tmp_path: Path) -> None:
    result = nearmt("translate", written(tmp_path / name, content), *FAST)
    assert result.code == 1 and result.out == "" and "empty" in result.err


def test_a_document_from_standard_input_that_is_cut_off(
    nearmt: Nearmt, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CUT["a.xliff"].encode())))
    result = nearmt("translate", "--format", "xliff", "--model", tiny_folder, *FAST)
    assert result.code == 1 and result.out == "" and "; get a complete" in result.err


def test_an_empty_text_is_a_text_without_lines(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    result = nearmt("translate", written(tmp_path / "a.txt", ""), "--model", tiny_folder, *FAST)
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize("as_json", [False, True])
def test_looking_at_files_that_cannot_be_read(as_json: bool, nearmt: Nearmt, tmp_path: Path) -> None:
    bad = [
        written(tmp_path / "a.tmx", "no tmx"),
        written(tmp_path / "b.mo", "no mo"),
        written(tmp_path / "c.tsv", "a\n"),
    ]
    flags = ["--json"] if as_json else []
    result = nearmt("inspect", *bad, *flags)
    assert result.code == 1
    assert result.err.startswith(f"nearmt: error: nothing could be read: {bad[0]}, line 1: broken XML")
    if as_json:
        assert json.loads(result.out)["problem_count"] == 3
    assert nearmt("inspect", *bad, written(tmp_path / "d.tsv", "a\tb\n"), *flags).code == 0


def test_looking_at_a_file_without_pairs_is_no_error(nearmt: Nearmt, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", JSONL)
    assert nearmt("inspect", path).code == 0


@pytest.mark.parametrize("command", ["build", "add", "inspect"])
def test_limits_of_commands_that_read_memories(
    command: str, nearmt: Nearmt, tmp_path: Path, tiny_folder: Path, store: Path
) -> None:
    path = written(tmp_path / "a.tsv", f"{'a' * (5 << 20)}\tb\nder motor\tthe motor\n")
    arguments = {
        "build": (path, "--out", tmp_path / "new", "--model", tiny_folder, "--device", "cpu"),
        "add": (shutil.copytree(store, tmp_path / "copy"), path, "--log-only"),
        "inspect": (path,),
    }[command]
    refused = nearmt(command, *arguments)
    assert refused.code == 0
    assert "line 1: a line of more than 4 MiB (see the setting max-unit)" in " ".join(
        (refused.err + refused.out).split()
    )
    wrong = nearmt(command, *arguments, "--max-unit", 0)
    assert wrong.code == 2 and "max-unit = 0: must be between 1 and 1024" in wrong.err


def test_limits_of_documents(nearmt: Nearmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.corpus.unpacking.FREE_BYTES", 1 << 20)
    path = tmp_path / "a.txt.xz"
    path.write_bytes(lzma.compress((b"a" * 1023 + b"\n") * 3072, preset=0))
    result = nearmt("translate", path, *FAST)
    assert result.code == 1 and "unpacks to more than 200 times its size (see the setting max-unpacked)" in result.err
    long = written(tmp_path / "a.txt", "a" * (5 << 20))
    assert "line 1: a line of more than 4 MiB (see the setting max-unit)" in nearmt("translate", long, *FAST).err


def test_limits_in_a_configuration_file(nearmt: Nearmt, tmp_path: Path) -> None:
    config = written(tmp_path / "a.toml", "max-unit = 1\n")
    long = written(tmp_path / "a.txt", "a" * (2 << 20))
    assert "more than 1 MiB" in nearmt("translate", long, "--config", config, *FAST).err


def test_text_in_another_script_is_named(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    path = written(tmp_path / "a.txt", "die pumpe\nнасос не работает\n" * 20)
    result = nearmt("translate", path, "--model", tiny_folder, *FAST)
    assert result.code == 0 and result.out.count("\n") == 40
    assert "nearmt: lines 2, 4, 6, 8, 10 and 15 more: not in a script of the source language\n" in result.err
