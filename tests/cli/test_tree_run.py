"""Several files and folders: the tree is kept, one broken file stops no other, and an interrupted run goes on."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import lzma
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmt.cli import tree_run
from nearmt.cli.resuming import FinishedFiles
from nearmt.cli.setup import Loader
from nearmt.contracts import Progress
from nearmt.documents import Filler, document
from nearmt.translator import Translator
from tests.cli.conftest import Nearmt, Result
from tests.cli.test_checking import unloaded  # noqa: F401
from tests.cli.test_errors import assert_one_line
from tests.cli.test_resuming import FAST, jsonl, lines, po, tsv, xliff
from tests.cli.test_stopping import SOON, started, until
from tests.tiny import WORDS

#: Units to fill in: 4, 12, 12, 3, 20.
TREE = {
    "a.txt": lines(6),
    "b.po": po(12),
    "de/c.xliff": xliff(12),
    "de/deep/d.tsv": tsv(5),
    "de/e.jsonl": jsonl(20),
}
OTHERS = {"logo.png": "\x00", "de/tool.py": "print()\n", ".git/a.po": "x"}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_WINDOW_BATCHES", 1)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return written(tmp_path / "in", TREE | OTHERS)


@pytest.fixture
def run(tree: Path, store: Path, tmp_path: Path) -> tuple[object, ...]:
    return ("translate", tree, "--datastore", store, *FAST, "--output", tmp_path / "out")


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of all units that were filled in."""
    found: list[str] = []
    real = Filler.fill

    def fill(self: Filler, units: Any, *arguments: Any) -> Any:
        found.extend(str(unit.source) for unit in units)
        return real(self, units, *arguments)

    monkeypatch.setattr(Filler, "fill", fill)
    return found


@contextmanager
def failing(after: int, error: BaseException) -> Iterator[None]:
    """The window after this many units of all files fails."""
    real, done = Filler.fill, 0

    def fill(self: Filler, units: Any, *arguments: Any) -> Any:
        nonlocal done
        if done >= after:
            raise error
        done += len(units)
        return real(self, units, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Filler, "fill", fill)
        yield


def written(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_tree_is_kept(nearmt: Nearmt, run: tuple[object, ...], tree: Path, store: Path, tmp_path: Path) -> None:
    before = contents(tree)
    result = nearmt(*run)
    assert (result.code, result.out) == (0, "")
    out = contents(tmp_path / "out")
    for name in TREE:
        alone = nearmt("translate", tree / name, "--datastore", store, *FAST, "--output", tmp_path / "alone")
        assert alone.code == 0 and out.pop(name) == (tmp_path / "alone").read_bytes() != before[name]
    assert out == {} and contents(tree) == before
    assert "nearmt: files: 5, units: 55, translated: 51, unchanged: 4, problems: " in result.err
    assert result.err.endswith(", left alone: 3 (--verbose names them)\n")
    told = nearmt(*run, "--verbose").err
    assert f"{tree / '.git'}: left alone (hidden)\n" in told
    assert f"{tree / 'de/tool.py'}: left alone (not a format that is filled in)\n" in told


def test_the_summary_as_json(nearmt: Nearmt, run: tuple[object, ...], tree: Path, tmp_path: Path) -> None:
    text = nearmt(*run)
    written(tree, {"bad.po": "msgid"})
    result = nearmt(*run, "--json")
    found = json.loads(result.out)
    assert result.code == 1 and found["output"] == str(tmp_path / "out")
    assert found["files"] == len(found["documents"]) == 5
    for key in ("units", "machine", "memory", "copy", "kept"):
        assert found[key] == sum(each[key] for each in found["documents"])
    assert found["units"] == found["machine"] + found["memory"] + found["copy"] + found["kept"]
    assert f"translated: {found['machine']}, " in text.err and found["kept"] == 4
    first = found["documents"][0]
    assert first["file"] == str(tree / "a.txt") and first["output"] == str(tmp_path / "out" / "a.txt")
    assert [each["file"] for each in found["not_translated"]] == [str(tree / "bad.po")]
    assert {each["reason"] for each in found["left_alone"]} == {"hidden", "not a format that is filled in"}


def test_several_files_and_folders(nearmt: Nearmt, run: tuple[object, ...], tmp_path: Path) -> None:
    written(tmp_path, {"more/f.po.gz": gzip.compress(po(2).encode()), "g.lng": lines(2)})
    result = nearmt(*run[:2], tmp_path / "more", tmp_path / "g.lng", *run[2:])
    assert result.code == 0 and "files: 7" in result.err
    out = contents(tmp_path / "out")
    assert set(out) == {*TREE, "f.po.gz", "g.lng"}
    assert b"fuzzy" in gzip.decompress(out["f.po.gz"]) and out["g.lng"].count(b"\n") == 2


def test_the_format_of_named_files(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path, tree: Path) -> None:
    folder = written(tmp_path, {"x.lng": po(1), "y.lng": po(1)})
    translate = ("translate", folder / "x.lng", folder / "y.lng", "--model", tiny_folder, *FAST)
    result = nearmt(*translate, "--output", tmp_path / "out", "--format", "po")
    assert result.code == 0 and "fuzzy" in (tmp_path / "out" / "y.lng").read_text(encoding="utf-8")


def test_a_file_into_a_folder(nearmt: Nearmt, tree: Path, tiny_folder: Path, tmp_path: Path) -> None:
    """As into a file with its name there."""
    (tmp_path / "out").mkdir()
    translate = ("translate", tree / "b.po", "--model", tiny_folder, *FAST, "--output")
    into = nearmt(*translate, tmp_path / "out")
    alone = nearmt(*translate, tmp_path / "alone.po")
    assert (into.code, into.out, into.err) == (0, alone.out, alone.err)
    assert contents(tmp_path / "out") == {"b.po": (tmp_path / "alone.po").read_bytes()}
    assert_one_line(nearmt(*translate, tree), 2, "b.po: is an input file")
    assert_one_line(nearmt("translate", "--model", tiny_folder, "--output", tmp_path / "out"), 1, "is a folder")


def test_a_model_is_loaded_once(
    nearmt: Nearmt, run: tuple[object, ...], monkeypatch: pytest.MonkeyPatch, filled: list[str]
) -> None:
    loads: list[object] = []
    real = Loader.translator

    def translator(self: Any, plan: Any) -> Translator:
        loads.append(plan)
        return real(self, plan)

    monkeypatch.setattr(Loader, "translator", translator)
    assert nearmt(*run).code == 0
    assert len(loads) == 1 and len(filled) == 51


def test_one_bar_over_all_units(nearmt: Nearmt, run: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[str, list[tuple[int, int]]] = {}

    @contextmanager
    def bar(label: str, total: int = 0, done: int = 0) -> Iterator[Progress]:
        assert label not in shown
        shown[label] = [(done, total)]
        yield lambda count, of: shown[label].append((count, of))

    monkeypatch.setattr(tree_run, "progress_bar", bar)
    assert nearmt(*run).code == 0
    assert shown["files"][-1] == (5, 5)
    counts = [count for count, _ in shown["units"]]
    assert {total for _, total in shown["units"]} == {51}
    assert counts == sorted(counts) and counts[-1] == 51


# Files that cannot be translated.


BAD: dict[str, str | bytes] = {
    "bad/cut.po": po(3)[:-6],
    "bad/cut.xliff": xliff(3)[:-20],
    "bad/empty.tmx": "",
    "bad/latin.txt": b"gut\nsch\xf6n\n",
    "bad/nul.xliff": "\x00" * 100,
    "bad/huge.txt": "a" * (5 << 20),
    "bad/torn.po.gz": gzip.compress(po(3).encode())[:-10],
    "bad/bomb.txt.xz": lzma.compress((b"a" * 1023 + b"\n") * 3072, preset=0),
    "bad/entities.tmx": '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx><body/></tmx>',
}


def test_broken_files_do_not_stop_the_others(
    nearmt: Nearmt, run: tuple[object, ...], tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.corpus.unpacking.FREE_BYTES", 1 << 20)
    assert nearmt(*run).code == 0
    good = contents(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    written(tree, BAD)
    result = nearmt(*run, "--quiet")
    told = result.err.splitlines()
    assert result.code == 1 and len(told) == 10
    for name, line in zip(sorted(BAD), told, strict=False):
        assert line.startswith(f"nearmt: error: {tree / name}"), line
    assert told[-1] == (
        "nearmt: error: 9 of 14 files could not be translated; the same command with --resume leaves out the others"
    )
    out = contents(tmp_path / "out")
    del out["nearmt.resume"]
    assert out == good


def test_strict_stops_at_the_first(unloaded: Nearmt, run: tuple[object, ...], tree: Path, tmp_path: Path) -> None:  # noqa: F811
    written(tree, {"bad/cut.po": BAD["bad/cut.po"], "bad/empty.tmx": ""})
    assert_one_line(unloaded(*run, "--strict"), 1, "bad/cut.po")
    assert not (tmp_path / "out").exists()


def test_where_nothing_can_be_read_no_model_is_loaded(unloaded: Nearmt, tmp_path: Path, store: Path) -> None:  # noqa: F811
    folder = written(tmp_path / "bad", {"a.tmx": "", "b.po": ""})
    result = unloaded("translate", folder, "--datastore", store, "--output", tmp_path / "out")
    assert result.code == 1 and result.err.count("is empty\n") == 2
    assert result.err.endswith("nearmt: error: 2 of 2 files could not be translated\n")
    assert not (tmp_path / "out").exists()


def test_a_broken_unit_is_a_problem_of_its_file(nearmt: Nearmt, run: tuple[object, ...], tree: Path) -> None:
    written(tree, {"f.jsonl": '{"source": "pumpe"}\n{"target": "valve"}\n'})
    result = nearmt(*run, "--verbose")
    assert result.code == 0 and f'nearmt: {tree / "f.jsonl"}, line 2: no "source"\n' in result.err
    assert_one_line(nearmt(*run, "--strict"), 1, "f.jsonl, line 2")


def test_a_folder_that_cannot_be_read(
    nearmt: Nearmt, run: tuple[object, ...], tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(path: Any) -> Any:
        if path == tree / "de":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = nearmt(*run)
    assert result.code == 1 and f"error: {tree / 'de'}: cannot be read (Permission denied)\n" in result.err
    assert set(contents(tmp_path / "out")) == {"a.txt", "b.po", "nearmt.resume"}


def test_an_output_that_cannot_be_written_does_not_stop_the_others(
    nearmt: Nearmt, run: tuple[object, ...], tree: Path, tmp_path: Path
) -> None:
    """A file in the place of a folder, a folder in the place of a file, a link to another place."""
    written(tmp_path, {"out/de/deep": "a file", "out/b.po/x": "a folder", "elsewhere/x": ""})
    (tmp_path / "out" / "far").symlink_to(tmp_path / "elsewhere")
    written(tree, {"far/y.txt": "pumpe\n"})
    result = nearmt(*run)
    assert result.code == 1 and "3 of 6 files could not be translated" in result.err
    assert "b.po: is not an ordinary file" in result.err and "deep" in result.err
    assert "far/y.txt: a symbolic link leads out of" in result.err
    assert contents(tmp_path / "elsewhere") == {"x": b""}
    assert {"a.txt", "de/c.xliff", "de/e.jsonl"} <= set(contents(tmp_path / "out"))


def test_letters_that_a_document_cannot_hold(
    nearmt: Nearmt, run: tuple[object, ...], tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tree, {"b.po": po(20).replace("UTF-8", "ISO-8859-1").encode("latin-1")})
    real = Translator.translate

    def translate(self: Translator, text: Any, **settings: Any) -> Any:
        return [replace(found, text=found.text + " Ω") for found in real(self, text, **settings)]

    monkeypatch.setattr(Translator, "translate", translate)
    result = nearmt(*run)
    assert result.code == 1 and result.err.count("'Ω' cannot be written in iso8859-1") == 1
    assert set(contents(tmp_path / "out")) == {*TREE, "nearmt.resume"} - {"b.po"}


# Interruption.


@pytest.mark.parametrize("after", range(0, 43, 6))
def test_the_output_is_that_of_an_undisturbed_run(
    nearmt: Nearmt, run: tuple[object, ...], tmp_path: Path, filled: list[str], after: int
) -> None:
    whole = nearmt(*run[:-1], tmp_path / "whole")
    wanted = Counter(filled)
    filled.clear()
    with failing(after, KeyboardInterrupt()):
        first = nearmt(*run)
    assert first.code == 130 and first.err.count("\n") == 1 and (after == 0) == ("nothing is kept" in first.err)
    assert (tmp_path / "out" / "nearmt.resume").exists() == (after > 0)
    with failing(1, KeyboardInterrupt()):
        nearmt(*run, "--resume")
    last = nearmt(*run, "--resume")
    assert (last.code, last.err) == (0, whole.err)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert Counter(filled) == wanted, "each unit is translated once"


def test_what_an_interrupted_run_tells(nearmt: Nearmt, run: tuple[object, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with failing(17, KeyboardInterrupt()):
        told = nearmt(*run).err
    about = rf"2 finished files and \d finished units of {out}/de/c.xliff are kept in {out}"
    again = "the same command with --resume continues there"
    assert re.fullmatch(f"nearmt: error: interrupted; {about}; {again}\n", told), told


@pytest.fixture
def begun(nearmt: Nearmt, run: tuple[object, ...], filled: list[str]) -> tuple[object, ...]:
    """A run that was interrupted in the third file; the units of it that are finished are in `filled`."""
    with failing(17, KeyboardInterrupt()):
        assert nearmt(*run).code == 130
    del filled[:16]
    assert 0 < len(filled) < 12
    return run


def test_files_that_changed_are_translated_again(
    nearmt: Nearmt, begun: tuple[object, ...], tree: Path, tmp_path: Path, filled: list[str]
) -> None:
    filled.clear()
    written(tree, {"a.txt": "die welle\n", "de/c.xliff": xliff(2), "new.txt": "ventil\n"})
    written(tmp_path, {"out/b.po": "edited by a reviewer"})
    assert nearmt(*begun, "--resume").code == 0
    counts = Counter("ventil" in source or "welle" in source for source in filled)
    assert counts == {True: 2, False: 2 + 3 + 20}
    out = contents(tmp_path / "out")
    assert out["b.po"] == b"edited by a reviewer" and set(out) == {*TREE, "new.txt"}
    assert nearmt(*begun[:-1], tmp_path / "whole").code == 0
    assert out == contents(tmp_path / "whole") | {"b.po": out["b.po"]}


def test_an_output_that_has_gone_is_made_again(
    nearmt: Nearmt, begun: tuple[object, ...], tmp_path: Path, filled: list[str]
) -> None:
    (tmp_path / "out" / "a.txt").unlink()
    assert nearmt(*begun, "--resume").code == 0
    assert len(filled) == 4 + 12 + 3 + 20 and set(contents(tmp_path / "out")) == set(TREE)


def test_other_settings_are_refused(nearmt: Nearmt, begun: tuple[object, ...], tmp_path: Path) -> None:
    kept = contents(tmp_path / "out")
    assert_one_line(nearmt(*begun, "--resume", "--set", "length-penalty=2"), 2, "was begun with other settings")
    assert_one_line(nearmt(*begun, "--resume", "--all"), 2, "was begun with other options", "leave out --resume")
    assert contents(tmp_path / "out") == kept
    anew = nearmt(*begun, "--set", "length-penalty=2")
    assert anew.code == 0 and "nearmt.resume: names files of an interrupted run and will be replaced" in anew.err
    assert set(contents(tmp_path / "out")) == set(TREE)


@pytest.mark.parametrize("damage", ["torn", "altered"])
def test_only_whole_records_count(
    nearmt: Nearmt, begun: tuple[object, ...], tmp_path: Path, filled: list[str], damage: str
) -> None:
    path = tmp_path / "out" / "nearmt.resume"
    data = bytearray(path.read_bytes())
    assert data.count(b"\n") == 3
    data[data.rindex(b'"digest"') + 12] ^= 1
    path.write_bytes(path.read_bytes()[:-5] if damage == "torn" else data)
    assert nearmt(*begun, "--resume").code == 0
    assert len(filled) == 12 + 12 + 3 + 20 and set(contents(tmp_path / "out")) == set(TREE)


def test_a_mended_file_is_all_that_is_left(
    nearmt: Nearmt, run: tuple[object, ...], tree: Path, tmp_path: Path, filled: list[str]
) -> None:
    written(tree, {"b.po": BAD["bad/cut.po"]})
    assert nearmt(*run).code == 1
    written(tree, {"b.po": po(2)})
    filled.clear()
    result = nearmt(*run, "--resume")
    assert result.code == 0 and "files: 5, units: 45" in result.err and len(filled) == 2
    assert set(contents(tmp_path / "out")) == set(TREE)


def test_one_process_at_a_time(nearmt: Nearmt, begun: tuple[object, ...], tmp_path: Path) -> None:
    with (tmp_path / "out" / "nearmt.resume").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for flags in ((), ("--resume",)):
            result = nearmt(*begun, *flags)
            assert result.code == 1 and "another process is writing this output" in result.err


def test_records_are_not_followed_elsewhere(nearmt: Nearmt, run: tuple[object, ...], tmp_path: Path) -> None:
    written(tmp_path, {"precious": "precious"})
    for name in ("nearmt.resume", "de/e.jsonl.resume"):
        (tmp_path / "out" / "de").mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).symlink_to(tmp_path / "precious")
        assert nearmt(*run).code == 1
        (tmp_path / "out" / name).unlink()
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_stops_the_run_and_loses_nothing(
    nearmt: Nearmt, run: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real, calls = os.fsync, iter(range(1000))

    def fsync(handle: int) -> None:
        if next(calls) == 5:
            raise OSError(number, os.strerror(number))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        full = nearmt(*run)
    assert full.code == 1 and full.err.count("nearmt: error:") == 1
    assert "the same command with --resume continues there" in full.err
    assert nearmt(*run, "--resume").code == 0
    assert nearmt(*run[:-1], tmp_path / "whole").code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_shortage_of_memory_stops_the_run(nearmt: Nearmt, run: tuple[object, ...], tmp_path: Path) -> None:
    with failing(5, MemoryError()):
        result = nearmt(*run)
    assert result.code == 1 and "not enough memory" in result.err and "1 finished files" in result.err
    assert nearmt(*run, "--resume").code == 0 and set(contents(tmp_path / "out")) == set(TREE)


def test_a_signal_between_files_is_not_lost(
    nearmt: Nearmt, run: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while a finished file is noted: that one counts, and the next one is not begun."""
    real = FinishedFiles.add

    def add(self: FinishedFiles, *arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        real(self, *arguments)

    monkeypatch.setattr(FinishedFiles, "add", add)
    result = nearmt(*run)
    assert result.code == 130 and "interrupted; 1 finished files are kept in" in result.err
    assert set(contents(tmp_path / "out")) == {"a.txt", "nearmt.resume"}


def test_a_signal_ends_a_folder(tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    written(tmp_path / "in", {"a.txt": "die pumpe\n" * 4, "b.txt": (" ".join(WORDS * 20) + "\n") * 640})
    translate = ("translate", tmp_path / "in", "--model", tiny_folder, "--output", out, "--batch-size", 1)
    with started("-m", "nearmt", *translate, threads=2) as process:
        until((out / "a.txt").exists, process)
        process.send_signal(signal.SIGTERM)
        shown, err = process.communicate(timeout=SOON)
    assert (process.returncode, shown) == (143, "") and "nearmt: error: interrupted" in err
    assert set(contents(out)) <= {"a.txt", "nearmt.resume", "b.txt.resume"}


# Wrong usage.


def test_wrong_usage(unloaded: Nearmt, tree: Path, tmp_path: Path, text: Path, store: Path) -> None:  # noqa: F811
    def refused(code: int, *parts: str | Path, paths: tuple[object, ...] = (tree,), **options: object) -> None:
        flags = [word for name, value in options.items() for word in (f"--{name}", value)]
        assert_one_line(unloaded("translate", *paths, "--datastore", store, *flags), code, *parts)

    written(tmp_path, {"other/b.po": po(1)})
    refused(2, "give --output FOLDER")
    refused(2, "give --output FOLDER", output="-")
    refused(2, "give --output FOLDER", paths=(text, tree / "b.po"))
    refused(2, "standard input", paths=(text, "-"), output=tmp_path / "out")
    refused(2, "--format goes with files", output=tmp_path / "out", format="po")
    refused(2, "is in the input folder", output=tree / "out")
    refused(2, "is in the input folder", output=tree)
    refused(2, "is the input file", paths=(text, tree), output=tmp_path)
    refused(2, "would both be written to", paths=(tree / "b.po", tmp_path / "other"), output=tmp_path / "out")
    refused(1, "is not a folder; name a folder", output=text)
    refused(1, "cannot be written", output=text / "out")
    refused(1, "no such file", paths=(tree, tmp_path / "none.po"), output=tmp_path / "out")
    (tmp_path / "empty").mkdir()
    refused(1, "empty: the folder has no documents", paths=(tmp_path / "empty",), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_are_harmless_on_a_terminal(nearmt: Nearmt, tmp_path: Path, store: Path) -> None:
    folder = written(
        tmp_path / "in", {"a\x1b[31m.po": "", "b\x1b]0;x\x07.jsonl": '{"source": "pumpe"}\n{}\n', "\x1b.png": ""}
    )
    written(folder, {os.fsdecode(b"c\xff.txt"): "ventil\n"})
    run = ("translate", folder, "--datastore", store, *FAST, "--output", tmp_path / "out", "--verbose")
    shown: list[Result] = [nearmt(*run), nearmt(*run, "--resume", "--json")]
    assert all(result.code == 1 and "\x1b" not in result.err + result.out for result in shown)
    assert len(json.loads(shown[1].out)["documents"]) == 2
