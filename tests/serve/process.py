"""A real server: `nearmt serve` in a process of its own, on a free port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SOURCES = Path(__file__).parent.parent.parent / "src"
#: Generous: importing and loading take a few seconds, more on a busy machine.
STARTED = 120
ENDED = 60
_ADDRESS = re.compile(r" at (http://\S+)$", re.MULTILINE)


class ServerProcess:
    """Starts at once; as a context it ends by SIGTERM, and by SIGKILL after an error."""

    def __init__(self, arguments: Sequence[object], folder: Path, environment: dict[str, str] | None = None) -> None:
        self.out, self.err = (Path(tempfile.mkstemp(suffix=name)[1]) for name in (".out", ".err"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nearmt", "serve", "--port", "0", *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(SOURCES), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=self.out.open("wb"),
            stderr=self.err.open("wb"),
        )
        self.pid = self._process.pid

    def wait_until_started(self) -> str:
        """The address of the server, once it takes requests."""
        end = time.monotonic() + STARTED
        while (found := _ADDRESS.search(self.out.read_text())) is None:
            code = self._process.poll()
            assert code is None, (code, self.err.read_text())
            assert time.monotonic() < end, self.err.read_text()
            time.sleep(0.05)
        return found[1]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        return self._process.wait(ENDED)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(ENDED)

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """The lines of the log so far; a killed server may leave half a line."""
        lines = self.err.read_text(encoding="utf-8").split("\n")[:-1]
        return [line for line in map(json.loads, lines) if event in (None, line["event"])]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._process.poll() is None:
                assert self.stop() == 0, self.err.read_text()
        finally:
            self._process.kill()
            self._process.wait(ENDED)
            for path in (self.out, self.err):
                path.unlink()
