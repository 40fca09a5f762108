"""Everything can be done without a pointer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.serve.page.browser.samples import FROST_GUARD, PAIRS, TEXT
from tests.serve.page.browser.watched import WatchedPage

pytestmark = [pytest.mark.services, pytest.mark.embedded]

#: The name of what has the focus.
FOCUSED = """() => {
    const one = document.activeElement;
    return one.getAttribute("aria-label") || one.placeholder || one.textContent.trim() || one.name;
}"""


def tab_to(page: WatchedPage, name: str, key: str = "Tab", most: int = 40) -> None:
    """Press Tab until something with this name has the focus, which must be visible then."""
    for _ in range(most):
        page.keyboard.press(key)
        if str(page.evaluate(FOCUSED)).startswith(name):
            outline = "getComputedStyle(document.activeElement)"
            visible = page.evaluate(
                f"{outline}.outlineStyle !== 'none' || document.activeElement.matches('textarea, [type=search]')"
            )
            assert visible, name
            return
    raise AssertionError(f"{name} is not reached")


def test_from_a_new_memory_to_a_download(page: WatchedPage, tmp_path: Path) -> None:
    tab_to(page, "Memories")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('Memories')")
    assert page.evaluate(FOCUSED) == "Memories"  # the title of the view
    tab_to(page, "New memory")
    page.keyboard.press("Enter")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('by-keyboard')")
    page.choose("by-keyboard")

    tab_to(page, "Translate")
    page.keyboard.press("Enter")
    page.wait_for_selector(".composer-field:focus")
    page.keyboard.type(f"{TEXT} {PAIRS[4][0]}")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row")
    page.settle()
    assert page.evaluate(FOCUSED) == "Translation of sentence 1"
    page.keyboard.press("Control+a")
    page.keyboard.type(FROST_GUARD)
    page.keyboard.press("Control+Enter")
    assert page.evaluate(FOCUSED) == "Translation of sentence 2"
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    assert "frost guard" in page.targets()[1]
    page.keyboard.press("Alt+ArrowDown")
    page.keyboard.press("Alt+ArrowDown")
    assert page.evaluate(FOCUSED) == "Translation of sentence 4"
    page.keyboard.press("Alt+ArrowUp")
    assert page.evaluate(FOCUSED) == "Translation of sentence 3"
    page.wait_for_selector(".match")
    tab_to(page, "Insert match 1")
    page.keyboard.press("Enter")
    assert page.evaluate(FOCUSED) == "Translation of sentence 3"
    assert page.targets()[2] == FROST_GUARD
    page.keyboard.press("Control+Shift+Enter")
    page.wait_for_selector(".row[data-state=confirmed]", state="detached")
    assert page.evaluate(FOCUSED) == "Translation of sentence 1"
    page.settle()

    tab_to(page, "Download", "Shift+Tab")
    page.keyboard.press("Enter")
    assert page.evaluate(FOCUSED).startswith("Text")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    with page.expect_download() as begun:
        page.keyboard.press("Enter")
    begun.value.save_as(tmp_path / "text")
    assert (tmp_path / "text").read_text(encoding="utf-8").startswith(FROST_GUARD)
    assert page.evaluate(FOCUSED) == "Download"


def test_an_explanation_that_comes_late_leaves_the_focus_where_it_is(page: WatchedPage) -> None:
    held: list[Any] = []

    def hold(route: Any) -> None:
        if route.request.post_data_json.get("explain"):
            held.append(route)
        else:
            route.continue_()

    page.memory("late", PAIRS)
    page.route("**/api/v1/translate", hold)
    page.translate("Prüfen Sie den Feuchtefühler einmal im Monat.")
    page.wait_for_selector(".match")
    tab_to(page, "Insert match 1")
    held[0].continue_()
    page.wait_for_selector("text=Asking the memory", state="detached")
    assert str(page.evaluate(FOCUSED)).startswith("Insert match 1")
    page.keyboard.press("Enter")
    assert page.targets() == ["Check the moisture probe once a year."]


def test_menus_and_dialogs_give_the_focus_back(page: WatchedPage) -> None:
    page.memory("focus", PAIRS)
    tab_to(page, "Memories: focus")
    page.keyboard.press("Enter")
    assert page.evaluate("Boolean(document.activeElement.closest('.menu'))")
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED) == "Memories: focus"
    tab_to(page, "Memories", "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".memory-table")
    tab_to(page, "New memory")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED) == "New memory"


def test_pairs_are_corrected_and_deleted(page: WatchedPage) -> None:
    page.memory("pairs", PAIRS)
    page.goto("#/memories/pairs")
    page.reload()
    page.wait_for_selector(".pair")
    tab_to(page, "Search pairs")
    page.keyboard.type("feuchtefühler")
    page.wait_for_selector("text=2 pairs found")
    tab_to(page, "Edit: Every watering zone")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+a")
    page.keyboard.type("Each zone has a probe.")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Each zone has a probe.")
    assert page.evaluate(FOCUSED).startswith("Edit")
    tab_to(page, "Delete: Each zone has a probe.")
    page.keyboard.press("Enter")
    page.wait_for_selector(".toast")
    assert page.evaluate(FOCUSED).startswith("Edit: Check the moisture probe")
    assert page.api("GET", "memories/pairs")["pairs"] == len(PAIRS) - 1
    tab_to(page, "Undo")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=2 pairs found")
    assert page.api("GET", "memories/pairs")["pairs"] == len(PAIRS)


def test_a_link_skips_to_the_content(page: WatchedPage) -> None:
    page.wait_for_selector(".composer-field:focus")
    tab_to(page, "Skip to content", "Shift+Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.wait_for_selector(".composer-field")
