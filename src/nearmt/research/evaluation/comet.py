"""COMET, by its command line `comet-score` (package unbabel-comet) in a separate environment.

Its dependencies conflict with nearmt's, so it is run as a program and its output is parsed.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmt.config.tuning import COMET_MODEL as MODEL
from nearmt.corpus.lines import one_line
from nearmt.errors import ConfigError, MissingPackageError, ModelError, writing
from nearmt.research.evaluation.metrics import check_lengths

#: Timeout in seconds: for loading (and fetching) the model, and for each translation on a slow CPU.
_SECONDS_TO_LOAD = 1800.0
_SECONDS_A_TRANSLATION = 5.0
#: The line with the score of a file; lines of single segments have one more column.
_SYSTEM_SCORE = re.compile(r"^([^\t]*)\tscore:\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Comet:
    """The program, its model and its timeout; by default that depends on the number of translations."""

    command: tuple[str, ...]
    model: str = MODEL
    timeout: float | None = None

    def scores(
        self, sources: Sequence[str], references: Sequence[str], systems: Sequence[Sequence[str]]
    ) -> list[float]:
        """Score all systems in one run, which loads the model once."""
        for outputs in systems:
            check_lengths(outputs, references)
        check_lengths(sources, references)
        with tempfile.TemporaryDirectory(prefix="nearmt-comet-") as folder:
            source, reference = _lines(folder, "source", sources), _lines(folder, "reference", references)
            files = [_lines(folder, f"system-{number}", outputs) for number, outputs in enumerate(systems)]
            arguments = ["-s", str(source), "-t", *map(str, files), "-r", str(reference)]
            timeout = self.timeout or _SECONDS_TO_LOAD + _SECONDS_A_TRANSLATION * len(sources) * len(systems)
            printed = self._run([*arguments, "--model", self.model, "--quiet", "--only_system", *self._gpus()], timeout)
        return self._read(printed, files)

    def _gpus(self) -> list[str]:
        """Set the number of GPUs, because the default of one is an error on machines without."""
        if any(part.split("=")[0] == "--gpus" for part in self.command):
            return []
        import torch

        return ["--gpus", str(int(torch.cuda.is_available()))]

    def _run(self, arguments: list[str], timeout: float) -> str:
        # Keep nearmt's packages out of its environment.
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        try:
            process = subprocess.Popen(
                [*self.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise ModelError(f"COMET: {self.command[0]} cannot be run ({error.strerror})") from error
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise ModelError(f"COMET: {self.command[0]} was stopped after {timeout:g} seconds") from error
        finally:
            _end(process)
        if process.returncode != 0:
            said = _last_line(err) or "no message"
            raise ModelError(f"COMET: {self.command[0]} failed with exit code {process.returncode}: {said}")
        return out.decode("utf-8", "replace")

    def _read(self, printed: str, files: list[Path]) -> list[float]:
        found = {Path(file).name: value for file, value in _SYSTEM_SCORE.findall(printed)}
        scores = [_number(found.get(file.name)) for file in files]
        if None in scores:
            said = _last_line(printed.encode()) or "nothing"
            raise ModelError(f"COMET: {self.command[0]} printed no score for some translations; its last line: {said}")
        return [score for score in scores if score is not None]


def find_comet(command: str, model: str = MODEL) -> Comet:
    """Find COMET's program by its path, which may be followed by arguments."""
    if whole := shutil.which(command):  # the path may contain blanks
        return Comet((whole,), model)
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"comet = {command!r}: cannot be read as a command ({error})") from error
    program = shutil.which(parts[0]) if parts else None
    if program is None:
        raise MissingPackageError(
            f"comet = {command!r}: no such program; install unbabel-comet in a separate environment "
            "and give the path of its comet-score"
        )
    return Comet((program, *parts[1:]), model)


def _lines(folder: str, name: str, texts: Sequence[str]) -> Path:
    path = Path(folder) / f"{name}.txt"
    with writing(path):
        path.write_text("".join(one_line(text) + "\n" for text in texts), encoding="utf-8", newline="\n")
    return path


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children if they still run, after a timeout or Ctrl-C."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
