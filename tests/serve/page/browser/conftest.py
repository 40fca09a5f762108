"""A real server with the embedded model, and a browser that looks at its page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.page.browser.watched import WatchedPage
from tests.serve.process import ServerProcess

CHROMIUM = "/usr/bin/chromium"
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server is; its memories are shared by all tests of a process, so each test makes its own."""
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(["--memories", folder / "memories"], folder) as server:
        yield server.wait_until_started()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, address: str, tmp_path: Path) -> Iterator[Callable[..., WatchedPage]]:
    """Opens the page; afterwards it fails if a page had an error or asked another host."""
    opened: list[tuple[Any, WatchedPage]] = []

    def open_it(
        path: str = "", *, phone: bool = False, at: str = "", wait: str = "main h1", refused: Collection[int] = ()
    ) -> WatchedPage:
        context = chromium.new_context(viewport=PHONE if phone else DESKTOP, has_touch=phone)
        context.set_default_timeout(30_000)
        page = WatchedPage(context.new_page(), at or address, tmp_path)
        page.expected = set(refused)
        opened.append((context, page))
        page.goto(path, wait)
        return page

    yield open_it
    for context, page in opened:
        context.close()
        page.assert_clean()


@pytest.fixture
def page(open_page: Callable[..., WatchedPage]) -> WatchedPage:
    return open_page()
