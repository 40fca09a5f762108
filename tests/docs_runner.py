"""Run the commands, the Python code and the configuration files of a documentation page, in order.

A command is a shell line that begins with `nearmt` or `echo ... | nearmt`, and may end in `> file`. It runs in this
process, so that all pages share one loaded model. `NAME=$(nearmt ...)` keeps its output for later lines.

`nearmt serve` runs in the background until the page ends or starts another server. Lines that begin with `curl`, and
Python code, reach it at the address of the page: the port is another one each time.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmt.cli.main import run
from tests.serve.process import ServerProcess

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SAMPLES = DOCS / "samples"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(?:(?:echo .*\| )?nearmt|curl) |\w+=\$\(nearmt .*\)$")
_KEPT = re.compile(r"(\w+)=\$\((.*)\)")
#: The address of the server in the documentation.
ADDRESS = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block that call nearmt or curl; lines that end in a backslash go on in the next."""
        lines = self.text.replace("\\\n", "").splitlines()
        return [line for line in lines if self.language == "bash" and _COMMAND.match(line)]

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


class Page:
    """The state of a page that is run: its server and its variables."""

    def __init__(self) -> None:
        self._variables: dict[str, str] = {}
        self._server: ServerProcess | None = None
        self._address = ADDRESS

    def run(self, line: str) -> Result:
        """Run a command in the current folder."""
        if kept := _KEPT.fullmatch(line):
            result = run_line(kept[2])
            self._variables[kept[1]] = result.out.strip()
            return result
        if line.startswith("curl "):
            return self._curl(line)
        words = shlex.split(line, comments=True)
        return self._serve(words[2:]) if words[:2] == ["nearmt", "serve"] else run_line(line)

    def located(self, text: str) -> str:
        """A text with the address of the running server."""
        return text.replace(ADDRESS, self._address)

    def close(self) -> None:
        """Stop the server, which has to end well."""
        if self._server is not None:
            with self._server:
                pass
        self._server, self._address = None, ADDRESS

    def _serve(self, arguments: list[str]) -> Result:
        self.close()
        if "--port" in arguments:
            place = arguments.index("--port")
            del arguments[place : place + 2]
        self._server = ServerProcess(arguments, Path.cwd(), {"OMP_NUM_THREADS": "1"})
        self._address = re.sub(r"//0\.0\.0\.0:", "//127.0.0.1:", self._server.wait_until_started())
        return Result(0, self._server.out.read_text(encoding="utf-8"), "")

    def _curl(self, line: str) -> Result:
        command = self.located(line).replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
        environment = {**os.environ, **self._variables}
        done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
        out = Path(line.rpartition(" > ")[2]).read_text(encoding="utf-8") if " > " in line else done.stdout
        return Result(done.returncode, out, done.stderr + done.stdout)


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
