"""`nearmt stream`: at a terminal, with references, for programs."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmt.datastore import Datastore
from nearmt.models import TranslationModel
from tests.cli.conftest import Nearmt, Result
from tests.cli.test_errors import assert_one_line

FAST = ("--beams", "1", "--set", "max-new-tokens=8", "--device", "cpu")
Stream = Callable[..., Result]


@pytest.fixture
def memory_folder(tmp_path: Path, tiny: TranslationModel) -> Path:
    path = tmp_path / "memory"
    Datastore.build(path, [], tiny)
    return path


@pytest.fixture
def stream(nearmt: Nearmt, memory_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Run the command on the new memory, with lines typed on standard input."""

    def call(*arguments: object, typed: str | bytes = "") -> Result:
        raw = typed.encode() if isinstance(typed, str) else typed
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        return nearmt("stream", *arguments, "--datastore", memory_folder, *FAST)

    return call


def stored(folder: Path) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in Datastore.open(folder).pairs()]


def test_accept_edit_skip_and_quit(stream: Stream, text: Path, memory_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    # Three units: blank lines are none.
    result = stream(text, "--output", out, typed="\nwhat?\ns\ne\nthe valve\n")
    assert result.code == 0, result.err
    assert "1/3 · line 1" in result.out and "3/3 · line 5" in result.out and "die pumpe prüfen" in result.out
    (first, second) = stored(memory_folder)
    assert first[0] == "die pumpe prüfen" and f"output  {first[1]}\n" in result.out
    assert second == ("ventil", "the valve")
    assert out.read_text(encoding="utf-8").splitlines() == ["\t".join(pair) for pair in (first, second)]
    assert "2 confirmed: 1 unchanged, 1 edited" in result.out and "1 skipped" in result.out
    assert next(iter(Datastore.open(memory_folder).pairs())).origin == "text.txt"


def test_it_goes_on_where_it_stopped(stream: Stream, text: Path, memory_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    stopped = stream(text, "--output", out, typed="e\ncheck the pump\nq\n")
    assert stopped.code == 0 and "2 of 3 units left" in stopped.out
    # The end of the input stops as well, also in the middle of an edit.
    again = stream(text, "--output", out, typed="e\n")
    assert again.code == 0 and "2/3 · line 3" in again.out and "1/3" not in again.out
    assert "0 confirmed" in again.out and "1 passed over" in again.out
    last = stream(text, "--output", out, typed="e\nthe motor\ne\nvalve\n")
    assert "units left" not in last.out
    expected = [("die pumpe prüfen", "check the pump"), ("der motor und die welle", "the motor"), ("ventil", "valve")]
    assert stored(memory_folder) == expected
    assert out.read_text(encoding="utf-8") == "".join(f"{a}\t{b}\n" for a, b in expected)
    assert "3 passed over" in stream(text).out
    everything = stream(text, "--all", typed="\n")
    assert "word for word in the memory" in everything.out and "1 unchanged" in everything.out
    assert stored(memory_folder) == expected


def test_undo_returns_to_the_unit(stream: Stream, text: Path, memory_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    result = stream(text, "--output", out, typed="u\ne\nwrong\ns\nu\ne\ncheck the pump\n")
    assert "nothing to take back" in result.out and "took back  wrong" in result.out
    assert result.out.count("1/3 · line 1") == 2
    assert stored(memory_folder) == [("die pumpe prüfen", "check the pump")]
    assert out.read_text(encoding="utf-8") == "die pumpe prüfen\tcheck the pump\n"
    assert "1 confirmed: 0 unchanged, 1 edited" in result.out


def test_an_empty_edit_is_asked_again(stream: Stream, text: Path, memory_folder: Path) -> None:
    result = stream(text, typed="e\n \ne\ncheck\nq\n")
    assert "nothing was learnt" in result.out and stored(memory_folder) == [("die pumpe prüfen", "check")]


def test_a_correction_is_used_in_the_next_unit(stream: Stream, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("die pumpe\nund die pumpe\n", encoding="utf-8")
    parrot = ("--method", "knn", "--set", "k=1", "--set", "lambda=1", "--set", "guard=false")
    result = stream(path, *parrot, "--set", "min-match=0.6", typed="e\nthe pump always\nq\n")
    after = result.out.partition("2/2")[2]
    assert "output  the pump always" in after
    assert " 69%  die pumpe  ->  the pump always" in after  # the fuzzy match: 4 of 13 characters differ
    assert "backed by a search" in stream(path, *parrot, "--explain").out


def test_references_are_confirmed_without_asking(stream: Stream, memory: Path, memory_folder: Path) -> None:
    result = stream(memory, "--references", "--learn-every", 7)
    assert result.code == 0, result.err
    expected: dict[str, str] = {}
    for line in memory.read_text(encoding="utf-8").splitlines():
        expected.setdefault(*line.split("\t"))
    assert stored(memory_folder) == list(expected.items())
    assert Datastore.open(memory_folder).pending == 0
    nothing = stream(memory)
    assert nothing.code == 1 and "none of its 30 units needs a translation" in nothing.err


def test_documents_are_worked_through_too(stream: Stream, memory_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "app.po"
    path.write_text(
        'msgid ""\nmsgstr ""\n\nmsgid "pumpe"\nmsgstr "pump"\n\nmsgid "welle"\nmsgstr ""\n', encoding="utf-8"
    )
    result = stream(path, typed="e\nshaft\n")
    assert result.code == 0, result.err
    assert stored(memory_folder) == [("welle", "shaft")]


def test_programs_get_an_answer_a_line(stream: Stream, memory_folder: Path) -> None:
    requests = [
        {"op": "confirm", "source": "die pumpe", "target": "the pump", "id": "p"},
        {"op": "translate", "source": "die pumpe", "id": 1},
    ]
    typed = "".join(json.dumps(request) + "\n" for request in requests).encode() + b"{\n\xff\n\n"
    result = stream("-", "--jsonl", "--matches", "--learn-every", 10, typed=typed)
    assert result.code == 0, result.err
    first, second, *bad = [json.loads(line) for line in result.out.splitlines()]
    assert first == {"op": "confirm", "ok": True, "id": "p", "pending": 1}
    assert second["id"] == 1 and "matches" not in second  # not learnt yet
    assert [answer["line"] for answer in bad] == [3, 4]
    assert stored(memory_folder) == [("die pumpe", "the pump")]
    again = stream("-", "--jsonl", "--matches", typed=json.dumps(requests[1]))
    assert json.loads(again.out)["matches"][0]["pair_id"] == "p"


def test_programs_can_use_a_file(stream: Stream, tmp_path: Path) -> None:
    path = tmp_path / "requests"
    path.write_text('{"op": "statistics"}\n', encoding="utf-8")
    assert json.loads(stream(path, "--jsonl").out)["translated"] == 0


def test_create_makes_an_empty_memory(
    nearmt: Nearmt, text: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    folder = tmp_path / "new"
    command = ("stream", text, "--datastore", folder, "--model", tiny_folder, *FAST)
    assert_one_line(nearmt(*command), 1, "no such datastore")
    assert not folder.exists()
    for _ in range(2):  # the second finds what the first made
        result = nearmt(*command, "--create", "--no-matches")
        assert result.code == 0 and "0 confirmed" in result.out, result.err
    assert stored(folder) == []
    folder.joinpath("manifest.json").unlink()
    assert_one_line(nearmt(*command, "--create"), 1, "a damaged datastore")


def test_of_several_memories_the_last_one_learns(
    nearmt: Nearmt, text: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one on top is made with the model of those below."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("e\ncheck the pump\n"))
    before, top = stored(store), tmp_path / "top"
    result = nearmt("stream", text, "--datastore", store, "--datastore", f"{top}=0.5", "--create", *FAST)
    assert result.code == 0 and "1 confirmed" in result.out, result.err
    assert stored(top) == [("die pumpe prüfen", "check the pump")] and stored(store) == before


def test_what_is_learnt_passes_the_filters(stream: Stream, text: Path, memory_folder: Path) -> None:
    filters = ("--filter", "project=x", "--filter", "origin=desk", "--filter", "year=20*")
    assert stream(text, *filters[:4], typed="e\ncheck the pump\nq\n").code == 0
    (pair,) = Datastore.open(memory_folder).pairs()
    assert pair.metadata == {"project": "x"} and pair.origin == "desk"
    assert "1 passed over" in stream(text, *filters[:4]).out


def test_what_does_not_go_together(nearmt: Nearmt, stream: Stream, text: Path, tmp_path: Path) -> None:
    assert_one_line(nearmt("stream", text), 2, "give --datastore DIR")
    assert_one_line(stream(text, "--method", "plain"), 2, "'plain' uses no memory")
    assert_one_line(stream("-"), 2, "give --jsonl")
    assert_one_line(stream("-", "--jsonl", "--references"), 2, "--jsonl does not go with")
    assert_one_line(stream(tmp_path / "none.txt"), 1, "none.txt: no such file")
    assert_one_line(stream(text, "--output", text), 2, "is an input file")
    assert_one_line(stream(text, "--output", "-"), 2, "name a file")
    assert_one_line(stream(text, "--output", tmp_path), 1, "is a folder")
    assert_one_line(stream(text, "--references"), 1, "none of its")
    empty = tmp_path / "empty.txt"
    empty.write_text("\n", encoding="utf-8")
    assert_one_line(stream(empty), 1, "none of its")
    empty.write_bytes(b"gut\n\xff\n")
    assert_one_line(stream(empty), 1, "empty.txt, line 2: not UTF-8")


def test_answers_that_are_not_text(stream: Stream, text: Path, memory_folder: Path) -> None:
    result = stream(text, typed=b"e\ncheck\n" + b"\xff\n")
    assert result.code == 1 and "standard input is not UTF-8" in result.err
    assert stored(memory_folder) in ([], [("die pumpe prüfen", "check")])


def test_an_interrupt_keeps_what_was_confirmed(
    stream: Stream, text: Path, memory_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["e", "check the pump"])

    def typed(prompt: str) -> str:
        for answer in answers:
            return answer
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", typed)
    result = stream(text, "--learn-every", 5)
    assert result.code == 0 and "interrupted; 2 of 3 units left" in result.out
    assert Datastore.open(memory_folder).pending == 1
    assert "1 passed over" in stream(text).out
    assert stored(memory_folder) == [("die pumpe prüfen", "check the pump")]


def test_a_terminated_session_says_so(
    stream: Stream, text: Path, memory_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is a way to quit; SIGTERM is not, though as much is kept."""

    def typed(prompt: str) -> str:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("not reached")

    monkeypatch.setattr("builtins.input", typed)
    result = stream(text)
    assert result.code == 143 and "interrupted; 3 of 3 units left" in result.out
    assert result.err == "nearmt: error: interrupted; confirmed pairs are on disk\n"


def test_at_a_real_terminal(text: Path, memory_folder: Path) -> None:
    """Editing begins with the translation; Ctrl-C ends the work and not the memory."""
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "nearmt", "stream", str(text), "--datastore", str(memory_folder), *FAST]
    environment = {**os.environ, "TERM": "dumb", "OMP_NUM_THREADS": "1", "PYTHONPATH": "src"}
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True
    )
    os.close(terminal)
    screen = ""

    def until(text: str, times: int = 1) -> None:
        nonlocal screen
        end = time.monotonic() + 60
        while screen.count(text) < times:
            assert select.select([master], [], [], max(0.0, end - time.monotonic()))[0], screen
            try:
                screen += os.read(master, 4096).decode(errors="replace")
            except OSError:  # the program has gone
                break
        assert screen.count(text) >= times, screen

    try:
        until("quits: ")
        os.write(master, b"e\n")
        until("> ")
        os.write(master, b" indeed\n")
        until("quits: ", 2)
        for _ in range(5):  # a signal that comes just before readline waits is noticed with the next one
            os.kill(process.pid, signal.SIGINT)
            if select.select([master], [], [], 5)[0]:
                break
        until("interrupted; 2 of 3 units left")
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        os.close(master)
    ((source, target),) = stored(memory_folder)
    assert source == "die pumpe prüfen" and target.endswith(" indeed") and len(target) > len("indeed")
