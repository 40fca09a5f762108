"""Ctrl-C and SIGTERM end a command soon, with one line, the right code, and nothing left that is not said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import writer_lock
from tests.cli.conftest import Nearmt
from tests.conftest import make_pairs
from tests.tiny import WORDS

#: Generous: a command that does not stop would take minutes.
SOON = 20


@contextmanager
def started(*command: object, threads: int = 1) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": "src", "OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(happened: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.01)


SCRIPT = """
import os, signal, sys, time
from nearmt.cli.stopping import exit_code, noting, patient, stopping
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
def work():
{body}
try:
    with stopping():
        try:
            work()
        except KeyboardInterrupt as error:
            os._exit(exit_code(error))
finally:
    print("left", flush=True)
"""


def scripted(body: str) -> str:
    return SCRIPT.format(body=textwrap.indent(textwrap.dedent(body), "    "))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_unwinds(number: signal.Signals, code: int) -> None:
    body = """
    try:
        print("begun", flush=True)
        time.sleep(600)
    finally:
        print("cleaned", flush=True)
    """
    with started("-c", scripted(body)) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.communicate(timeout=SOON) == ("cleaned\n", "") and process.returncode == code


SWALLOW = """
word = "begun"
while True:
    try:
        print(word, flush=True)
        word = "again"
        time.sleep(600)
    except KeyboardInterrupt:
        print("swallowed", flush=True)
"""


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_what_does_not_listen_is_ended(times: int) -> None:
    """After the grace period, or by a second signal; the exception itself comes once."""
    with started("-c", scripted(SWALLOW)) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "swallowed\n"
        if times == 2:
            process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=SOON)[1]
        assert (err, process.returncode) == ("nearmt: error: interrupted\n", 130)


def test_an_ignored_signal_stays_ignored() -> None:
    body = """
    os.kill(os.getpid(), signal.SIGINT)
    print("here", flush=True)
    """
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + scripted(body)
    with started("-c", script) as process:
        assert process.communicate(timeout=SOON)[0] == "here\nleft\n" and process.returncode == 0


def test_noted_signals_end_nothing() -> None:
    body = """
    noted = []
    with noting(noted):
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.6)  # longer than the watch waits before it wakes the main thread
    time.sleep(0.6)
    print(noted, flush=True)
    """
    with started("-c", scripted(body)) as process:
        assert process.communicate(timeout=SOON)[0] == "[2, 2, 2]\nleft\n" and process.returncode == 0


def test_translate_with_threads(tiny_folder: Path, tmp_path: Path) -> None:
    """Threads that compute are not waited for to the end of their tasks, and what is finished is kept."""
    text, out = tmp_path / "long.txt", tmp_path / "out.txt"
    # A first window of short units, then units of many times as many words as the model has positions.
    text.write_text("die pumpe\n" * 64 + (" ".join(WORDS * 20) + "\n") * 640, encoding="utf-8")
    translate = ("translate", text, "--model", tiny_folder, "--output", out, "--batch-size", 1)
    with started("-m", "nearmt", *translate, threads=2) as process:
        until((tmp_path / "out.txt.resume").exists, process)
        process.send_signal(signal.SIGTERM)
        shown, err = process.communicate(timeout=SOON)
    kept = f"64 finished units are kept in {out}.resume; the same command with --resume continues there"
    assert (process.returncode, shown, err) == (143, "", f"nearmt: error: interrupted; {kept}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.txt", "out.txt.resume"]


def test_build_goes_on(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    memory = tmp_path / "memory.tsv"
    memory.write_text("".join(f"{p.source}\t{p.target}\n" for p in make_pairs(8_000)), encoding="utf-8")
    build = ("build", memory, "--out", tmp_path / "s", "--model", tiny_folder)
    with started("-m", "nearmt", *build) as process:
        until(lambda: _size(tmp_path / "s" / "building") > 0, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SOON)
    assert process.returncode == 130 and out == ""
    assert err == "nearmt: error: interrupted; finished work is kept if the command can continue\n"
    assert not (tmp_path / "s" / "manifest.json").exists() and (tmp_path / "s" / "building").is_dir()
    with writer_lock(tmp_path / "s"):
        pass
    memory.write_text("".join(f"{p.source}\t{p.target}\n" for p in make_pairs(100)), encoding="utf-8")
    assert nearmt(*build).code == 0
    assert Datastore.open(tmp_path / "s", verify=True).snapshot().pair_count == 100


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("segment-*/*")) if folder.is_dir() else 0
