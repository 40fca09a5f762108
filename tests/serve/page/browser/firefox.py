"""Firefox, driven by WebDriver BiDi: JSON over a web socket, which every Firefox speaks without another program."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

COMMAND = "firefox-esr"
STARTED, ANSWERED = 120, 60
#: Keys of WebDriver that are no characters.
CONTROL, ENTER, SHIFT, ALT, DOWN, TAB, HOME = (chr(0xE000 + number) for number in (9, 7, 8, 10, 21, 4, 17))
#: Firefox asks its own services for updates; a proxy that nobody listens at keeps it to the server of the test.
_PREFERENCES = {
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.proxy.no_proxies_on": "127.0.0.1",
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.enabled": False,
}


class Firefox:
    """One tab. What went wrong on its page is in `problems`, requests to other hosts in `foreign`."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._number = socket, 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        self._tab = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=ANSWERED))
            if message.get("id") == self._number:
                assert message["type"] == "success", message
                return message["result"]
            self._take(message)

    def _take(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        if event.get("method") == "log.entryAdded" and told["level"] in ("error", "warn"):
            self.problems.append(told["text"])
        elif event.get("method") == "network.beforeRequestSent" and told.get("context") == self._tab:
            self.requests.append(told["request"]["url"])

    def foreign(self, address: str) -> list[str]:
        known = urlsplit(address).netloc
        return [url for url in self.requests if url.startswith("http") and urlsplit(url).netloc != known]

    def open(self, address: str) -> None:
        self.call("browsingContext.navigate", context=self._tab, url=address, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression: text, a number, a truth value or null."""
        found = self.call("script.evaluate", expression=expression, target={"context": self._tab}, awaitPromise=True)
        assert found["type"] == "success", found["exceptionDetails"]["text"]
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until an expression is true."""
        end = time.monotonic() + ANSWERED
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < end, expression
            time.sleep(0.05)

    def press(self, *keys: str) -> None:
        """Press keys together, and release them."""
        actions = [{"type": "keyDown", "value": key} for key in keys]
        actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self.call(
            "input.performActions", context=self._tab, actions=[{"type": "key", "id": "keys", "actions": actions}]
        )

    def type(self, text: str) -> None:
        actions = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        self.call(
            "input.performActions", context=self._tab, actions=[{"type": "key", "id": "keys", "actions": actions}]
        )


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """A Firefox with an empty profile, which ends with the block."""
    from websockets.sync.client import connect

    lines = "".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in _PREFERENCES.items())
    (folder / "user.js").write_text(lines, encoding="utf-8")
    log = folder / "log"
    command = [COMMAND, "--headless", "--no-remote", "--profile", str(folder), "--remote-debugging-port", "0"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "HOME": str(folder)})
    try:
        with connect(_socket(process, log), max_size=None, open_timeout=ANSWERED) as socket:
            yield Firefox(socket)
    finally:
        process.terminate()
        process.wait(ANSWERED)


def _socket(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address of the web socket, which Firefox tells when it has started."""
    end = time.monotonic() + STARTED
    while (found := re.search(r"WebDriver BiDi listening on (ws://\S+)", log.read_text(errors="replace"))) is None:
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < end, log.read_text(errors="replace")
        time.sleep(0.05)
    return f"{found[1]}/session"
