"""Run the commands, the Python code and the configuration files of a documentation page, in order.

A command is a shell line that begins with `nearmt` or `echo ... | nearmt`, and may end in `> file`. It runs in this
process, so that all pages share one loaded model.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmt.cli.main import run

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SAMPLES = DOCS / "samples"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(?:echo .*\| )?nearmt ")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block that call nearmt."""
        return [line for line in self.text.splitlines() if self.language == "bash" and _COMMAND.match(line)]

    @property
    def file_name(self) -> str:
        """The file name of a block of settings, given by the comment in its first line."""
        return self.text.split("\n")[0].removeprefix("# ")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def blocks(page: Path) -> Iterator[Block]:
    for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        yield Block(language, text)


def run_line(line: str) -> Result:
    """Run a command in the current folder."""
    words = shlex.split(line, comments=True)
    given = b""
    if words[0] == "echo":
        bar = words.index("|")
        given, words = (" ".join(words[1:bar]) + "\n").encode(), words[bar + 1 :]
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], Path(words[words.index(">") + 1])
    result = _captured(words[1:], given)
    if target is not None:
        target.write_text(result.out, encoding="utf-8")
    return result


def _captured(arguments: list[str], given: bytes) -> Result:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            code = run(arguments)
    finally:
        sys.stdin = before
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    return Result(code, out, err)
