"""What the page says when something goes wrong, and that it goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.serve.page.browser.samples import FROST_GUARD, PAIRS, TEXT
from tests.serve.page.browser.watched import WatchedPage
from tests.serve.process import SOURCES, ServerProcess

pytestmark = [pytest.mark.services, pytest.mark.embedded]


def problem(status: int, detail: str, **headers: str) -> Callable[[Any], None]:
    """Answers requests with a problem document."""
    body = {"type": "about:blank", "title": "Title", "status": status, "detail": detail, "request_id": "r-17"}
    return lambda route: route.fulfill(
        status=status, json=body, content_type="application/problem+json", headers=headers
    )


def test_a_busy_server_is_asked_again(page: WatchedPage) -> None:
    page.expected = {503}
    asked: list[str] = []

    def busy_once(route: Any) -> None:
        asked.append(route.request.post_data)
        if len(asked) == 1:
            problem(503, "too many requests wait", **{"retry-after": "4"})(route)
        else:
            route.continue_()

    page.route("**/api/v1/translate", busy_once)
    page.fill(".composer-field", "Der Frostwächter ist an.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=The server is busy. Next try in 4 s.")
    page.settle()
    assert asked[0] == asked[1]
    assert page.targets()[0]
    assert page.locator(".row-problem").count() == 0


def test_a_sentence_that_fails_can_be_tried_again_or_written(page: WatchedPage) -> None:
    page.expected = {400}
    page.route("**/api/v1/translate", problem(400, "this cannot be translated"))
    page.fill(".composer-field", "Eins ist eins. Zwei ist zwei.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=failed] >> nth=1")
    assert "This cannot be translated" in page.locator(".row >> nth=0").inner_text()
    page.unroute("**/api/v1/translate")
    page.click(".row >> nth=1 >> text=Try again")
    page.wait_for_selector(".row[data-state=ready]")
    page.click(".row >> nth=0 >> text=Write it yourself")
    page.keyboard.type("One is one.")
    assert page.targets()[0] == "One is one."


def test_a_pair_that_is_not_stored_is_not_shown_as_confirmed(page: WatchedPage) -> None:
    page.expected = {507}
    page.memory("full", PAIRS)
    page.translate(TEXT)
    page.route("**/memories/full/pairs", problem(507, "the disk is full"))
    page.click(".row >> nth=0 >> .row-target")
    page.fill(".row-field", FROST_GUARD)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".toast.bad >> text=The disk is full (request r-17)")
    assert page.locator(".row[data-state=confirmed]").count() == 0
    assert page.targets()[0] == FROST_GUARD
    page.unroute("**/memories/full/pairs")
    page.click(".row >> nth=0 >> .row-check")
    page.wait_for_selector(".row[data-state=confirmed]")


def test_an_explanation_that_fails_is_told_and_not_asked_for_again_and_again(page: WatchedPage) -> None:
    page.expected = {400}
    asked: list[str] = []

    def answer(route: Any) -> None:
        if not route.request.post_data_json.get("explain"):
            route.continue_()
            return
        asked.append(route.request.post_data)
        problem(400, "this cannot be explained")(route)

    page.route("**/api/v1/translate", answer)
    page.translate("Der Frostwächter ist an.")
    page.wait_for_selector(".word-place >> text=Not known: This cannot be explained")
    page.keyboard.type("x y z")
    page.wait_for_timeout(300)
    assert len(asked) == 1


def test_a_server_that_is_gone_is_announced_until_it_is_back(page: WatchedPage) -> None:
    page.expected = {0}
    page.route("**/api/v1/**", lambda route: route.abort())
    page.fill(".composer-field", TEXT)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#notice >> text=The server does not answer")
    assert page.input_value(".composer-field") == TEXT
    page.unroute("**/api/v1/**")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row")
    assert not page.is_visible("#notice")


def test_an_answer_that_is_no_problem_document(page: WatchedPage) -> None:
    """From a proxy, say."""
    page.route("**/api/v1/memories", lambda route: route.fulfill(status=418, body="<h1>teapot</h1>"))
    page.expected = {418}
    page.click("nav >> text=Memories")
    page.wait_for_selector("text=The server answered with status 418")
    page.unroute("**/api/v1/memories")
    page.click("text=Try again")
    page.wait_for_selector(".memory-table, .empty")


def test_a_memory_that_does_not_exist(page: WatchedPage) -> None:
    page.expected = {404}
    page.goto("#/memories/none")
    page.reload()
    page.wait_for_selector("text=This could not be loaded")


def test_a_name_that_exists_is_refused_in_the_dialog(page: WatchedPage) -> None:
    page.expected = {409}
    page.memory("taken", [])
    page.click("nav >> text=Memories")
    page.click("text=New memory")
    page.fill("dialog input", "taken")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .problem:not(:empty)")
    assert "taken" in page.locator("dialog .problem").inner_text()
    assert page.evaluate("document.activeElement.name") == "name"


def test_statistics_that_the_key_may_not_see_leave_those_of_the_tab(page: WatchedPage) -> None:
    page.expected = {403}
    page.route("**/api/v1/statistics", problem(403, "this key may not do this"))
    page.translate("Der Frostwächter ist an.")
    page.click("nav >> text=Cost")
    page.wait_for_selector("text=This key may not do this")
    page.focus(".columns-field")
    page.wait_for_selector(".columns-detail >> text=Der Frostwächter ist an.")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server that wants keys: its address, a key that may do everything, and one that may only translate."""
    folder = tmp_path_factory.mktemp("keyed")

    def key(name: str, *options: str) -> str:
        state = str(folder / "memories" / ".server")
        command = [sys.executable, "-m", "nearmt", "keys", "add", name, "--memories", "*", "--state", state, *options]
        environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    keys = key("all", "--may", "translate,learn,admin"), key("reader", "--may", "translate")
    with ServerProcess(["--memories", folder / "memories"], folder) as server:
        yield server.wait_until_started(), *keys


def test_a_key_is_asked_for_and_kept_for_the_tab(open_page: Callable[..., WatchedPage], keyed: Any) -> None:
    address, key, _ = keyed
    page = open_page(at=address, wait="dialog", refused={401})
    page.fill("dialog input", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog >> text=does not know this key")
    page.fill("dialog input", key)
    page.keyboard.press("Enter")
    page.wait_for_selector(".composer-field")
    page.reload()
    page.wait_for_selector(".composer-field")
    assert page.evaluate("JSON.stringify(localStorage)").find(key) < 0
    open_page(at=address, wait="dialog", refused={401})


def test_a_key_that_may_only_translate_has_no_buttons_for_more(
    open_page: Callable[..., WatchedPage], keyed: Any
) -> None:
    address, _, key = keyed
    page = open_page(at=address, wait="dialog", refused={401})
    page.fill("dialog input", key)
    page.keyboard.press("Enter")
    page.translate("Der Frostwächter ist an.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.click("nav >> text=Memories")
    page.wait_for_selector("text=No memory yet")
    assert page.locator("text=New memory").count() == 0
