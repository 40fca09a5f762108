"""An interrupted translation goes on behind what is finished, and its output is that of an undisturbed one."""

from __future__ import annotations

import fcntl
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from nearmt.documents import Filler, document
from nearmt.translator import Translator
from tests.cli.conftest import Nearmt, Result
from tests.cli.test_errors import assert_one_line

FAST = ("--beams", "1", "--set", "max-new-tokens=6", "--device", "cpu")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_WINDOW_BATCHES", 1)  # eight parts


@pytest.fixture
def interrupted(nearmt: Nearmt, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command whose window number n, counted from 0, is interrupted, or fails with another error."""
    real = Filler.fill

    def call(window: int, *arguments: object, error: BaseException | None = None) -> Result:
        windows = iter(range(1000))

        def fill(self: Filler, *arguments: Any) -> Any:
            if next(windows) == window:
                raise error or KeyboardInterrupt
            return real(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Filler, "fill", fill)
            return nearmt(*arguments)

    return call


def lines(count: int) -> str:
    return "".join(f"die pumpe {number} prüfen\n" if number % 5 else "\n" for number in range(count))


def po(count: int) -> str:
    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    return head + "".join(f'msgid "die pumpe %d {n}"\nmsgstr ""\n\n' for n in range(count))


def xliff(count: int) -> str:
    head = '<xliff version="1.2"><file source-language="de" target-language="en" original="a" datatype="x"><body>'
    units = "".join(
        f'<trans-unit id="{n}"><source>die <g id="1">pumpe</g> {n}</source></trans-unit>\n' for n in range(count)
    )
    return f"{head}\n{units}</body></file></xliff>\n"


def tsv(count: int) -> str:
    return "".join(f"der motor {n}\t{'the motor' if n % 3 == 0 else ''}\n" for n in range(count))


def jsonl(count: int) -> str:
    return "".join(f'{{"source": "der motor {n}", "x": [1]}}\n' for n in range(count))


def csv(count: int) -> str:
    return "x;de;en\r\n" + "".join(f'{n};"der motor; {n}";\r\n' for n in range(count))


def strings(count: int) -> str:
    return "".join(f'/* {n} */\n"k{n}" = "der motor {n}";\n' for n in range(count))


def i18n(count: int) -> str:
    return json.dumps({f"k{n}": {"text": f"der motor {n}", "n": n} for n in range(count)}, indent=1)


def xcstrings(count: int) -> str:
    entries: dict[str, object] = {f"der motor {n}": {} for n in range(count)}
    return json.dumps({"sourceLanguage": "de", "strings": entries, "version": "1.0"}, indent=2)


MADE = {"a.txt": lines, "a.po": po, "a.xliff": xliff, "a.tsv": tsv, "a.jsonl": jsonl}
MADE |= {"a.csv": csv, "a.strings": strings, "a.json": i18n, "a.xcstrings": xcstrings}


@pytest.mark.parametrize("name", [*MADE, "json", "explain", "gz"])
def test_the_output_is_that_of_an_undisturbed_run(
    nearmt: Nearmt, interrupted: Any, store: Path, tmp_path: Path, name: str
) -> None:
    flags = {"json": ["--json"], "explain": ["--explain"]}.get(name, [])
    text = tmp_path / (name if name in MADE else "a.txt")
    text.write_text(MADE.get(name, lines)(30), encoding="utf-8")
    out = tmp_path / ("out.gz" if name == "gz" else "out")
    run = ("translate", text, "--datastore", store, *flags, *FAST, "--output")
    whole = nearmt(*run, tmp_path / "whole")
    assert whole.code == 0 and not list(tmp_path.glob("*.resume"))
    first = interrupted(2, *run, out)
    assert first.code == 130 and first.err.count("\n") == 1 and f"kept in {out}.resume" in first.err
    assert not out.exists()
    assert interrupted(1, *run, out, "--resume").code == 130
    last = nearmt(*run, out, "--resume")
    assert last.code == 0, last.err
    data = gzip.decompress(out.read_bytes()) if name == "gz" else out.read_bytes()
    assert data == (tmp_path / "whole").read_bytes()
    # What people are told is about all units, not only about the last ones.
    assert last.err == whole.err
    assert not list(tmp_path.glob("*.resume")) and not list(tmp_path.glob("*.partial"))


@pytest.fixture
def begun(interrupted: Any, tiny_folder: Path, tmp_path: Path) -> tuple[object, ...]:
    """A command that was interrupted in its third window."""
    text = tmp_path / "text.txt"
    text.write_text(lines(40), encoding="utf-8")
    run = ("translate", text, "--model", tiny_folder, *FAST, "--output", tmp_path / "out.txt")
    assert interrupted(2, *run).code == 130
    return run


def test_another_input_or_other_settings_are_refused(nearmt: Nearmt, begun: tuple[object, ...], tmp_path: Path) -> None:
    kept = (tmp_path / "out.txt.resume").read_bytes()
    assert_one_line(nearmt(*begun, "--resume", "--set", "length-penalty=2"), 2, "was begun with other settings")
    assert_one_line(nearmt(*begun, "--resume", "--json"), 2, "was begun with other options")
    text = tmp_path / "text.txt"
    text.write_text(text.read_text(encoding="utf-8") + "mehr\n", encoding="utf-8")
    assert_one_line(nearmt(*begun, "--resume"), 2, "was begun with another input", "leave out --resume")
    assert (tmp_path / "out.txt.resume").read_bytes() == kept
    # Without --resume it begins anew, and says so.
    anew = nearmt(*begun)
    assert anew.code == 0 and "will be replaced" in anew.err and not (tmp_path / "out.txt.resume").exists()


def test_a_short_document_replaces_the_record_of_a_long_one(
    nearmt: Nearmt, begun: tuple[object, ...], tmp_path: Path
) -> None:
    """It is finished in one window, and so keeps nothing itself."""
    (tmp_path / "text.txt").write_text("ventil\n", encoding="utf-8")
    assert nearmt(*begun).code == 0
    assert not (tmp_path / "out.txt.resume").exists()


@pytest.mark.parametrize("damage", ["torn", "altered", "emptied"])
def test_only_whole_records_count(nearmt: Nearmt, begun: tuple[object, ...], tmp_path: Path, damage: str) -> None:
    path = tmp_path / "out.txt.resume"
    data = bytearray(path.read_bytes())
    assert data.count(b"\n") == 3
    if damage == "altered":
        data[data.rindex(b'"text"') + 12] ^= 1
    path.write_bytes(b"" if damage == "emptied" else data[:-5] if damage == "torn" else data)
    result = nearmt(*begun, "--resume")
    if damage == "emptied":
        assert_one_line(result, 2, "was begun with another version")
        return
    assert result.code == 0, result.err
    assert nearmt(*begun[:-1], tmp_path / "whole.txt").code == 0
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()


def test_one_process_at_a_time(nearmt: Nearmt, begun: tuple[object, ...], tmp_path: Path) -> None:
    with (tmp_path / "out.txt.resume").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert_one_line(nearmt(*begun, "--resume"), 1, "another process is writing this output")


def test_what_is_kept_of_other_failures(
    interrupted: Any, begun: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = interrupted(1, *begun, "--resume", error=MemoryError())
    assert failed.code == 1 and "finished units are kept in" in failed.err and "not enough memory" in failed.err
    text = tmp_path / "bad.txt"
    text.write_bytes(lines(30).encode() + b"\xff\n")
    monkeypatch.setattr("nearmt.cli.checking._CHARACTERS", 100)  # it lies behind what is looked at before
    bad = interrupted(-1, "translate", text, *begun[2:4], *FAST, "--output", tmp_path / "bad.out")
    assert_one_line(bad, 1, "bad.txt, line 31")
    assert not (tmp_path / "bad.out.resume").exists()


def test_where_nothing_is_kept(interrupted: Any, nearmt: Nearmt, tiny_folder: Path, text: Path, tmp_path: Path) -> None:
    run = ("translate", text, "--model", tiny_folder, *FAST)
    assert_one_line(interrupted(0, *run), 130, "what is not printed is not kept")
    told = "interrupted; nothing was finished, and nothing is kept"
    assert_one_line(interrupted(0, *run, "--output", tmp_path / "o"), 130, told)
    for arguments in (
        (text,),
        (text, "--output", "-"),
        (text, "--output", "/dev/null"),
        ("-", "--output", tmp_path / "o"),
    ):
        assert_one_line(nearmt("translate", *arguments, "--resume"), 2, "--resume needs a FILE")


def test_the_file_is_not_followed_elsewhere(interrupted: Any, tiny_folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious", encoding="utf-8")
    (tmp_path / "out.txt.resume").symlink_to(precious)
    text = tmp_path / "text.txt"
    text.write_text(lines(40), encoding="utf-8")
    run = ("translate", text, "--model", tiny_folder, *FAST, "--output", tmp_path / "out.txt")
    assert interrupted(2, *run).code == 1 and precious.read_text(encoding="utf-8") == "precious"


def test_letters_that_a_document_cannot_hold_are_found_in_their_window(
    nearmt: Nearmt, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "a.po"
    text.write_bytes(po(40).replace("UTF-8", "ISO-8859-1").encode("latin-1"))
    calls: list[int] = []
    real = Translator.translate

    def translate(self: Translator, text: Any, **settings: Any) -> Any:
        calls.append(1)
        from dataclasses import replace

        return [replace(found, text=found.text + " ½ Ω") for found in real(self, text, **settings)]

    monkeypatch.setattr(Translator, "translate", translate)
    result = nearmt("translate", text, "--datastore", store, *FAST, "--output", tmp_path / "out.po")
    assert_one_line(result, 1, "'Ω' cannot be written in iso8859-1")
    assert len(calls) <= 2
