"""Memories, cost, themes, sizes; and what every view owes to its users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.page.browser.samples import PAIRS, TEXT
from tests.serve.page.browser.watched import WatchedPage

pytestmark = [pytest.mark.services, pytest.mark.embedded]

VIEWS = ["translate", "memories", "memories/{}", "cost"]


def open_view(page: WatchedPage, view: str, memory: str) -> None:
    place = view.format(memory)
    page.evaluate("place => { location.hash = `#/${place}`; }", place)
    title = {"translate": "Text", "memories": "Memories", "cost": "Cost"}.get(place, memory)
    page.wait_for_selector(f"main h1:text-is('{title}')", state="attached")
    page.wait_for_function("() => !document.querySelector('main .bone')")


def test_memories_are_chosen_and_weighted_for_translating(page: WatchedPage) -> None:
    page.memory("weight-a", PAIRS)
    page.memory("weight-b", PAIRS[:1])
    page.goto("#/memories")
    page.reload()
    page.wait_for_selector(".memory-table")
    page.check("[aria-label='Use weight-a']")
    page.fill("[aria-label='Weight of weight-a']", "0.5")
    page.keyboard.press("Tab")
    page.check("[aria-label='weight-a learns']")
    page.click("nav >> text=Translate")
    assert page.locator(".composer [aria-haspopup=dialog]").inner_text() == "weight-a × 0.5 + weight-b"
    with page.expect_request("**/api/v1/translate") as asked:
        page.translate("Der Frostwächter ist an.")
    weights = {use["name"]: use["weight"] for use in asked.value.post_data_json["memories"]}
    assert weights == {"weight-a": 0.5, "weight-b": 1}
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    assert page.api("GET", "memories/weight-a")["pairs"] == len(PAIRS) + 1
    assert page.api("GET", "memories/weight-b")["pairs"] == 1


def test_a_memory_is_exported_verified_compacted_and_deleted(page: WatchedPage, tmp_path: Path) -> None:
    page.memory("upkeep", PAIRS)
    page.goto("#/memories/upkeep")
    page.reload()
    page.wait_for_selector(".pair")
    page.click(".memory-page >> text=Export")
    with page.expect_download() as begun:
        page.click("[role=menuitem] >> text=TSV")
    begun.value.save_as(tmp_path / "saved.tsv")
    assert begun.value.suggested_filename == "upkeep.tsv"
    assert len((tmp_path / "saved.tsv").read_text(encoding="utf-8").splitlines()) == len(PAIRS)
    for entry, outcome in (("Verify", "Every file is as it was written"), ("Compact", "Compacted: ")):
        page.click(".memory-page >> text=More")
        page.click(f"[role=menuitem] >> text={entry}")
        page.wait_for_selector(f".jobs >> text={outcome}")
    page.click(".memory-page >> text=More")
    page.click("[role=menuitem] >> text=Delete…")
    page.click("dialog >> text=Cancel")
    assert "upkeep" in {memory["name"] for memory in page.api("GET", "memories")["memories"]}
    page.click(".memory-page >> text=More")
    page.click("[role=menuitem] >> text=Delete…")
    page.click("dialog >> [type=submit]")
    page.wait_for_selector("h1:text-is('Memories')")
    assert "upkeep" not in {memory["name"] for memory in page.api("GET", "memories")["memories"]}


def test_many_pairs_come_in_parts(page: WatchedPage) -> None:
    page.memory("many", [(f"Satz {number}.", f"Sentence {number}.") for number in range(120)])
    page.goto("#/memories/many")
    page.reload()
    for shown, rest in ((50, "Show 50 more"), (100, "Show 20 more")):
        page.wait_for_function("count => document.querySelectorAll('.pair').length === count", arg=shown)
        page.click(f"text={rest}")
    page.wait_for_function("() => document.querySelectorAll('.pair').length === 120")
    assert not page.is_visible(".more")
    page.fill("[type=search]", "SENTENCE 77")
    page.wait_for_selector("text=1 pair found")
    assert page.locator(".pair-source").all_inner_texts() == ["Satz 77."]


def test_a_dropped_file_becomes_a_memory(page: WatchedPage) -> None:
    page.click("nav >> text=Memories")
    page.wait_for_selector(".memory-table, .empty")
    page.evaluate(
        """() => {
            const data = new DataTransfer();
            data.items.add(new File(["Eins.\\tOne.\\nZwei.\\tTwo.\\n"], "dropped memory.tsv"));
            const drop = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: data });
            document.querySelector(".page").dispatchEvent(drop);
        }"""
    )
    assert page.input_value("dialog input") == "dropped-memory"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=2 pairs imported")
    page.wait_for_selector(".pair >> nth=1")
    assert page.locator(".pair-target").all_inner_texts() == ["One.", "Two."]


def test_costs_are_shown(page: WatchedPage) -> None:
    page.memory("cost", PAIRS)
    page.translate(TEXT)
    page.click("nav >> text=Cost")
    figures = page.locator(".figures")
    figures.wait_for()
    assert "Searches a sentence" in figures.inner_text()
    assert page.locator(".legend li").count() >= 3
    page.focus(".columns-field")
    page.keyboard.press("ArrowLeft")
    assert "model" in page.locator(".columns-detail").inner_text()
    widths = page.eval_on_selector_all(
        ".share-bar rect", "all => all.map(one => parseFloat(one.getAttribute('width')))"
    )
    assert sum(widths) == pytest.approx(100)


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_every_control_has_a_name_and_no_view_is_wider_than_the_window(
    open_page: Callable[..., WatchedPage], phone: bool
) -> None:
    page = open_page(phone=phone)
    name = f"names-{int(phone)}"
    page.memory(name, [*PAIRS, ("x" * 300, "y" * 300)])
    page.translate(f"{TEXT} {PAIRS[4][0]} {'Donaudampfschiff' * 20}.")
    page.wait_for_selector(".word-head, .word-place p")
    for view in VIEWS:
        open_view(page, view, name)
        nameless = """() => [...document.querySelectorAll("button, a, input, select, textarea, [role=img], progress")]
            .filter((one) => one.checkVisibility())
            .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.closest("label")))
            .map((one) => one.outerHTML)"""
        assert page.evaluate(nameless) == [], view
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, view
        assert page.locator("main h1").count() == 1, view
        identifiers = page.eval_on_selector_all("[id]", "all => all.map(one => one.id)")
        assert len(identifiers) == len(set(identifiers)), view
        assert page.locator("nav [aria-current=page]").count() == 1, view


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_the_text_field_lies_exactly_over_the_words(open_page: Callable[..., WatchedPage], phone: bool) -> None:
    """Else marks would be beside the words that they mark."""
    page = open_page(phone=phone)
    page.memory(f"over-{int(phone)}", PAIRS)
    page.translate(" ".join(source for source, _ in PAIRS))
    page.click(".row >> nth=2 >> .row-target")
    measure = """() => {
        const [field, text] = [".row-field", ".row.is-active .row-text"].map((one) => document.querySelector(one));
        const [a, b] = [getComputedStyle(field), getComputedStyle(text)];
        const [f, t] = [field.getBoundingClientRect(), text.getBoundingClientRect()];
        const same = ["font", "lineHeight", "letterSpacing", "wordSpacing", "whiteSpace", "overflowWrap", "tabSize"];
        return [f.left - t.left, f.top - t.top, f.width - t.width, field.scrollHeight - t.height,
            ...same.map((name) => (a[name] === b[name] ? 0 : `${name}: ${a[name]} ${b[name]}`))];
    }"""
    assert all(abs(value) < 1 if not isinstance(value, str) else False for value in page.evaluate(measure))
    page.keyboard.type(" and a lot more text that needs another line or two, until it is really long" * 3)
    assert all(abs(value) < 1 if not isinstance(value, str) else False for value in page.evaluate(measure))


def test_the_theme_is_the_systems_until_one_is_chosen(page: WatchedPage) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert dark != light
    page.click("[aria-label^=Theme]")
    page.click("[aria-label^=Theme]")
    assert page.evaluate(ground) == dark
    page.reload()
    page.wait_for_selector(".composer-field")
    assert page.evaluate(ground) == dark
    page.click("[aria-label^='Theme: dark']")
    assert page.evaluate(ground) == light


def test_reduced_motion_is_respected(page: WatchedPage) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.route("**/api/v1/translate", lambda route: None)  # never answers
    page.fill(".composer-field", TEXT)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=waiting]")
    moving = "() => document.getAnimations().filter((one) => one.playState === 'running').map(String)"
    page.wait_for_timeout(100)
    assert page.evaluate(moving) == []


def test_a_draft_survives_other_views(page: WatchedPage) -> None:
    page.fill(".composer-field", "Ein Entwurf")
    page.click("nav >> text=Cost")
    page.wait_for_selector("h1:text-is('Cost')")
    page.click("nav >> text=Translate")
    assert page.input_value(".composer-field") == "Ein Entwurf"


def test_what_was_edited_is_not_left_without_a_question(page: WatchedPage) -> None:
    page.translate("Der Frostwächter ist an.")
    page.keyboard.type("x")
    page.click("text=New text")
    page.wait_for_selector("dialog >> text=1 edited sentence not confirmed")
    page.click("dialog >> text=Cancel")
    assert page.locator(".row").count() == 1
    page.click("text=New text")
    page.click("dialog >> [type=submit]")
    assert page.input_value(".composer-field") == "Der Frostwächter ist an."


LOWEST_OF_MENU = "y => Boolean(document.elementFromPoint(innerWidth / 2, y)?.closest('.menu'))"
ONE_CHOICE = """() => [...document.querySelectorAll('.picker-row')]
    .filter((one) => one.checkVisibility()).length === 1"""


def test_many_memories_fit_the_choice_and_are_found_by_name(open_page: Callable[..., WatchedPage]) -> None:
    page = open_page(phone=True)
    for number in range(30):
        page.api("POST", "memories", {"name": f"choice-{number:02d}"})
    page.choose("choice-07")
    for view in ("composer", "toolbar"):
        page.click(f".{view} [aria-haspopup=dialog]")
        box, window = page.locator(".menu").bounding_box(), page.viewport_size
        assert box["x"] >= 0 and box["x"] + box["width"] <= window["width"]
        assert box["y"] + box["height"] <= window["height"]
        assert page.locator(".picker-name >> nth=0").inner_text() == "choice-07"
        assert page.evaluate(LOWEST_OF_MENU, box["y"] + box["height"] - 9), "something lies over it"
        page.fill("[aria-label='Find a memory']", "CHOICE-23")
        page.wait_for_function(ONE_CHOICE)
        page.keyboard.press("Escape")
        if view == "composer":
            page.translate("Der Frostwächter ist an.")


def test_using_a_memory_keeps_the_focus(page: WatchedPage) -> None:
    page.memory("kept-focus", PAIRS)
    page.goto("#/memories")
    page.reload()
    page.wait_for_selector(".memory-table")
    page.focus("[aria-label='Use kept-focus']")
    for enabled in (False, True):
        page.keyboard.press("Space")
        assert page.is_enabled("[aria-label='Weight of kept-focus']") is enabled
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Use kept-focus"


def test_what_can_be_undone_stays_until_it_is_closed(page: WatchedPage) -> None:
    page.clock.install()
    page.memory("undo-stays", PAIRS)
    page.goto("#/memories/undo-stays")
    page.reload()
    page.click(".pair >> nth=0 >> [aria-label^=Delete]")
    page.wait_for_selector(".toast >> text=Undo")
    page.clock.fast_forward(600_000)
    page.click(".toast >> text=Undo")
    page.wait_for_selector(".toast", state="detached")
    page.wait_for_selector(f"text={len(PAIRS)} pairs")
    assert page.api("GET", "memories/undo-stays")["pairs"] == len(PAIRS)
