"""A page of a browser that keeps what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: What the browser itself logs when the server refuses something; tests say which statuses they expect.
_REFUSED = "Failed to load resource: "
_TARGETS = """rows => rows.map((row) => {
    const isText = (one) => !one.classList?.contains("row-problem");
    const parts = [...row.querySelector(".row-text").childNodes].filter(isText);
    return row.querySelector(".row-field")?.value ?? parts.map((one) => one.textContent).join("");
})"""
#: Nothing is translated or stored.
_SETTLED = """() => document.querySelector(".row")
    && !document.querySelector(".row[data-state=waiting], .row.is-busy, .row .ring")"""


class WatchedPage:
    """Wraps a page of Playwright; everything that is not here is found there."""

    def __init__(self, page: Any, address: str, folder: Path) -> None:
        self.inner, self.address, self.folder = page, address, folder
        #: Statuses of refusals that the test provokes, such as 404; `0` is no answer.
        self.expected: set[int] = set()
        self.problems: list[str] = []
        self.foreign: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", self._see)
        page.on("dialog", self._dismiss)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def goto(self, path: str = "", wait: str = "main h1") -> None:
        self.inner.goto(f"{self.address}/{path}")
        self.inner.wait_for_selector(wait, state="attached")

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the server beside the page."""
        answer = self.inner.request.fetch(f"{self.address}/api/v1/{path}", method=method, data=body)
        assert answer.ok, answer.text()
        return answer.json() if answer.body() else None

    def memory(self, name: str, pairs: list[tuple[str, str]]) -> None:
        """Make a memory, and let the page use only this one."""
        self.api("POST", "memories", {"name": name})
        if pairs:
            listed = [{"source": source, "target": target} for source, target in pairs]
            self.api("POST", f"memories/{name}/pairs", {"pairs": listed})
        self.choose(name)

    def choose(self, *names: str) -> None:
        choice = {"source_lang": "de", "target_lang": "en", "weights": [[name, 1] for name in names], "learns": ""}
        self.inner.evaluate("choice => localStorage.setItem('nearmt.choice', JSON.stringify(choice))", choice)
        self.inner.reload()
        self.inner.wait_for_selector("main h1", state="attached")

    def translate(self, text: str) -> None:
        """Type a text and wait until all of it is translated."""
        self.inner.fill(".composer-field", text)
        self.inner.keyboard.press("Control+Enter")
        self.inner.wait_for_selector(".row")
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is translated or stored."""
        self.inner.wait_for_function(_SETTLED)

    def targets(self) -> list[str]:
        found = self.inner.eval_on_selector_all(
            ".row",
            _TARGETS,
        )
        return [str(text).replace("\u200b", "") for text in found]

    def assert_clean(self) -> None:
        assert self.problems == []
        assert self.foreign == []

    def _hear(self, message: Any) -> None:
        text = str(message.text)
        if message.type not in ("error", "warning"):
            return
        if text.startswith(_REFUSED) and any(f" {status} " in text for status in self.expected if status):
            return
        if 0 in self.expected and "net::ERR_" in text:
            return
        self.problems.append(text)

    def _dismiss(self, dialog: Any) -> None:
        """The page opens none: a script of a memory would."""
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _see(self, request: Any) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("blob", "data") and f"{address.scheme}://{address.netloc}" != self.address:
            self.foreign.append(request.url)
