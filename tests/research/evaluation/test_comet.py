"""COMET is run as a program; it yields scores or an error of one line."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from nearmt.errors import ConfigError, MissingPackageError, ModelError
from nearmt.research.evaluation import Comet, find_comet
from tests.research.evaluation.outputs import fake_comet

SOURCES, REFERENCES = ["eins", "zwei", "drei", "vier"], ["one", "two", "three", "four"]
SYSTEMS = [["one", "two", "", "vier"], ["one", "too", "three\nor so", "five"]]


def comet(tmp_path: Path, extra: str = "") -> Comet:
    return find_comet(str(fake_comet(tmp_path / "bin", extra)))


def test_scores_keep_the_order_of_the_systems(tmp_path: Path) -> None:
    assert comet(tmp_path).scores(SOURCES, REFERENCES, SYSTEMS) == [0.5, 0.25]
    assert comet(tmp_path).scores(SOURCES, REFERENCES, SYSTEMS[::-1]) == [0.25, 0.5]


def test_segment_scores_and_other_output_are_ignored(tmp_path: Path) -> None:
    talkative = "given.only_system = False; print('Fetching 5 files\\tscore: 100%'); print('system-9.txt\\tscore: 0.9')"
    assert comet(tmp_path, talkative).scores(SOURCES, REFERENCES, SYSTEMS) == [0.5, 0.25]


def test_arguments_of_the_command_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_arguments = (
        "print(sys.argv, given.model, given.gpus, 'PYTHONPATH' in os.environ, file=open(sys.argv[0] + '.log', 'w'))"
    )
    program = fake_comet(tmp_path / "with blank", log_arguments)
    monkeypatch.setenv("PYTHONPATH", "src")
    find_comet(str(program), "a/model").scores(SOURCES, REFERENCES, SYSTEMS)
    log = program.with_name("comet-score.log").read_text(encoding="utf-8")
    assert log.endswith("a/model 0 False\n") and "--only_system" in log and "--quiet" in log
    with pytest.raises(ModelError, match="No supported gpu backend"):
        find_comet(f"'{program}' --gpus 2").scores(SOURCES, REFERENCES, SYSTEMS)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("sys.exit('ValueError: no such model')", "failed with exit code 1: ValueError: no such model"),
        ("sys.exit(3)", "failed with exit code 3: Seed set to 1"),
        ("os.abort()", "failed with exit code -6"),
        ("print('Traceback?'); sys.exit(0)", "printed no score for some translations; its last line: Traceback?"),
        ("sys.exit(0)", "its last line: nothing"),
        ("print('system-0.txt\\tscore: nan'); sys.exit(0)", "printed no score"),
        ("systems = systems[:1]", "printed no score"),
        ("sys.stdout.buffer.write(b'\\xff\\xfe\\tscore: many\\n'); sys.exit(0)", "printed no score"),
    ],
)
def test_errors_of_the_program_are_reported(tmp_path: Path, extra: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        comet(tmp_path, extra).scores(SOURCES, REFERENCES, SYSTEMS)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_hanging_program_is_killed_with_its_children(tmp_path: Path) -> None:
    program = tmp_path / "comet-score"  # a shell starts fast even on a busy machine
    program.write_text('#!/bin/sh\nsleep 60 &\necho $! > "$0.pid"\nsleep 60\n', encoding="utf-8")
    program.chmod(0o755)
    hanging = find_comet(str(program))
    pid = Path(hanging.command[0] + ".pid")
    with pytest.raises(ModelError, match="was stopped after 3 seconds"):
        replace(hanging, timeout=3).scores(SOURCES, REFERENCES, SYSTEMS)
    assert not _runs(int(pid.read_text(encoding="utf-8")))


def _runs(pid: int) -> bool:
    """Whether a process still exists after a moment."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("command", ["/no/where/comet-score", "comet-score-that-is-not-there --gpus 0", " "])
def test_missing_program_is_refused(command: str) -> None:
    with pytest.raises(MissingPackageError, match="install unbabel-comet in a separate environment"):
        find_comet(command)


def test_malformed_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read as a command"):
        find_comet("comet-score 'oh")
    nothing = tmp_path / "comet-score"
    nothing.write_text("no program\n", encoding="utf-8")
    nothing.chmod(0o755)
    with pytest.raises(ModelError, match="cannot be run"):
        find_comet(str(nothing)).scores(SOURCES, REFERENCES, SYSTEMS)
