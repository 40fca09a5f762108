"""From a memory to a correction that changes the next sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.serve.page.browser.samples import FROST_GUARD, PAIRS, TEXT, tsv, upload
from tests.serve.page.browser.watched import WatchedPage

pytestmark = [pytest.mark.services, pytest.mark.embedded]


def test_the_whole_way_from_an_import_to_a_correction_that_changes_the_next_sentence(page: WatchedPage) -> None:
    page.click("nav >> text=Memories")
    page.click("text=New memory")
    page.fill("input[name=name]", "whole-way")
    page.click("dialog >> text=Create")
    page.wait_for_selector("h1:has-text('whole-way')")
    page.set_input_files("input[aria-label='Files to import']", [upload("manual.tsv", tsv(PAIRS))])
    page.wait_for_selector(f"text={len(PAIRS)} pairs imported")
    page.wait_for_selector(".pair")
    assert page.locator(".pair-target").all_inner_texts() == [target for _, target in PAIRS]

    page.choose("whole-way")
    page.click("nav >> text=Translate")
    page.translate(f"Prüfen Sie den Feuchtefühler einmal im Jahr. {TEXT}")
    before = page.targets()
    assert before[0] == "Check the moisture probe once a year."
    assert page.locator(".row >> nth=0 >> .badge").inner_text() == "100 %"
    assert not any("frost guard" in text for text in before)

    page.click(".row >> nth=1 >> .row-target")
    page.fill(".row-field", FROST_GUARD)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    after = page.targets()
    assert after[0] == before[0]
    assert after[1] == FROST_GUARD
    assert "frost guard" in after[2]
    assert "frost guard" in after[3]
    marked = page.locator(".row >> nth=2 >> .changed").all_inner_texts()
    assert "frost" in " ".join(marked)
    assert page.locator(".note").inner_text().endswith(before[2])
    pairs = page.api("GET", "memories/whole-way/pairs?query=frost")["pairs"]
    assert [pair["target"] for pair in pairs] == [FROST_GUARD]


def test_confirming_moves_on_to_the_next_sentence_that_is_not_confirmed(page: WatchedPage) -> None:
    page.memory("moving-on", PAIRS)
    page.translate(TEXT)
    page.click(".row >> nth=1 >> .row-check")
    page.wait_for_selector(".row[data-state=confirmed] >> nth=0")
    page.click(".row >> nth=0 >> .row-target")
    page.keyboard.press("Control+Enter")
    assert page.locator(".row-field").get_attribute("aria-label") == "Translation of sentence 3"
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => document.querySelectorAll('.row[data-state=confirmed]').length === 3")
    page.wait_for_selector("text=3 of 3 confirmed")


def test_a_confirmation_is_undone(page: WatchedPage) -> None:
    page.memory("undoing", PAIRS)
    page.translate(TEXT)
    before = page.targets()
    page.click(".row >> nth=0 >> .row-target")
    page.fill(".row-field", FROST_GUARD)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    assert page.targets()[1:] != before[1:]
    page.keyboard.press("Control+Shift+Enter")
    page.wait_for_selector(".row[data-state=confirmed]", state="detached")
    page.settle()
    assert page.targets() == [FROST_GUARD, *before[1:]]
    assert page.api("GET", "memories/undoing")["pairs"] == len(PAIRS)
    assert page.locator(".row-field").get_attribute("aria-label") == "Translation of sentence 1"


def test_a_corrected_confirmation_changes_its_pair_and_undo_restores_it(page: WatchedPage) -> None:
    page.memory("twice", PAIRS)
    page.translate(TEXT)
    page.click(".row >> nth=0 >> .row-target")
    for target in (FROST_GUARD, "The frost watch closes the valve."):
        page.click(".row >> nth=0 >> .row-target")
        page.fill(".row-field", target)
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(".row[data-state=confirmed]")
        page.settle()
    stored = "memories/twice/pairs?query=Frostw"
    assert [pair["target"] for pair in page.api("GET", stored)["pairs"]] == ["The frost watch closes the valve."]
    page.keyboard.press("Control+Shift+Enter")
    page.wait_for_selector(".row[data-state=confirmed]", state="detached")
    page.settle()
    assert [pair["target"] for pair in page.api("GET", stored)["pairs"]] == [FROST_GUARD]


def test_a_confirmed_exact_match_survives_its_undo(page: WatchedPage) -> None:
    """It was in the memory before: taking the confirmation back must not delete it."""
    page.memory("exact", PAIRS)
    page.translate(PAIRS[0][0])
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    page.click(".row-check")
    page.wait_for_selector(".row[data-state=ready]")
    page.settle()
    assert page.api("GET", "memories/exact")["pairs"] == len(PAIRS)


def test_words_are_explained(page: WatchedPage) -> None:
    page.memory("why", PAIRS)
    page.translate("Jeder Gießkreis braucht einen eigenen Gießplan.")
    word = page.locator(".row .word", has_text="schedule")
    page.wait_for_selector(".row .by-most, .row .by-some")
    word.hover(force=True)
    card = page.locator(".word-place")
    card.locator("strong >> text=schedule >> nth=0").wait_for()
    assert "step" in card.inner_text()
    assert "The controller opens the valves according to the watering schedule." in card.inner_text()
    before, after = (int(text.strip(" %<")) for text in card.locator("dd").all_inner_texts())
    assert before < after


def test_the_caret_chooses_the_word(page: WatchedPage) -> None:
    page.memory("caret", PAIRS)
    page.translate("Jeder Gießkreis braucht einen eigenen Gießplan.")
    page.wait_for_selector(".row .by-most, .row .by-some")
    page.keyboard.press("Control+Home")
    head = page.locator(".word-head strong")
    first = page.targets()[0].split()[0]
    assert head.inner_text() == first
    page.keyboard.press("Control+ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert head.inner_text() == page.targets()[0].split()[1]
    page.keyboard.type("x")
    page.wait_for_selector("text=You wrote this")
    assert head.inner_text().count("x") == 1


def test_matches_have_percentages_and_marks_and_are_inserted_by_number(page: WatchedPage) -> None:
    page.memory("fuzzy", PAIRS)
    page.translate("Prüfen Sie den Feuchtefühler einmal im Monat.")
    match = page.locator(".match >> nth=0")
    match.wait_for()
    assert match.locator(".badge").inner_text() not in ("100 %", "")
    assert match.locator("mark").all_inner_texts() == ["Jahr"]
    page.keyboard.press("Control+1")
    assert page.targets() == ["Check the moisture probe once a year."]
    page.keyboard.press("Control+z")
    assert page.targets() != ["Check the moisture probe once a year."]
    match.click()
    assert page.targets() == ["Check the moisture probe once a year."]


def test_other_memories_change_the_translation(page: WatchedPage) -> None:
    page.memory("other", PAIRS)
    page.translate("Jeder Gießkreis braucht einen eigenen Gießplan.")
    with_memory = page.targets()
    page.click(".toolbar [aria-haspopup=dialog]")
    page.uncheck(".picker-row:has-text('other') [type=checkbox]")
    page.settle()
    page.keyboard.press("Escape")
    assert page.targets() != with_memory
    assert page.locator(".changed").count() > 0
    assert page.locator(".toolbar [aria-haspopup=dialog]").inner_text() == "No memory"


def test_a_text_is_downloaded_as_it_was_put_together(page: WatchedPage, tmp_path: Path) -> None:
    page.memory("download", PAIRS)
    page.translate(f"{PAIRS[0][0]}  {PAIRS[1][0]}\n\n{PAIRS[3][0]}\n")
    saved = {}
    for entry in ("Text", "Table of both sides"):
        page.click("[aria-label=Download]")
        with page.expect_download() as download:
            page.click(f"[role=menuitem] >> text={entry}")
        download.value.save_as(tmp_path / entry)
        saved[entry] = (tmp_path / entry).read_text(encoding="utf-8")
    assert saved["Text"] == f"{PAIRS[0][1]}  {PAIRS[1][1]}\n\n{PAIRS[3][1]}\n"
    assert saved["Table of both sides"] == "".join(f"{PAIRS[n][0]}\t{PAIRS[n][1]}\n" for n in (0, 1, 3))


def test_a_text_and_its_corrections_survive_a_reload(page: WatchedPage) -> None:
    page.memory("reload", PAIRS)
    page.translate(TEXT)
    page.click(".row >> nth=1 >> .row-target")
    page.fill(".row-field", "Mine.")
    page.click(".row >> nth=0 >> .row-check")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    page.click(".row >> nth=2 >> .row-target")
    page.fill(".row-field", "Typed just before.")
    before = page.targets()
    page.reload()
    page.wait_for_selector(".row")
    page.settle()
    assert page.targets() == before
    assert page.locator(".row[data-state=confirmed]").count() == 1
    page.click(".row >> nth=0 >> .row-check")  # and can still be undone
    page.wait_for_selector(".row[data-state=confirmed]", state="detached")
    page.settle()
    assert page.api("GET", "memories/reload")["pairs"] == len(PAIRS)


def test_a_text_that_is_left_does_not_come_back(page: WatchedPage) -> None:
    """What is kept of it is written when typing pauses; leaving is faster."""
    page.clock.install()
    page.translate(TEXT)
    page.keyboard.type("x")
    page.click("text=New text")
    page.click("dialog >> [type=submit]")
    page.wait_for_selector(".composer-field")
    page.clock.fast_forward(5_000)
    page.reload()
    page.wait_for_selector("main h1", state="attached")
    assert page.locator(".row").count() == 0
    assert page.locator(".composer-field").count() == 1


NOTE_SHIFTS = """() => {
    window.shifts = [];
    const note = (one) => one.hadRecentInput || window.shifts.push(one.value);
    const seen = (list) => list.getEntries().forEach(note);
    new PerformanceObserver(seen).observe({ type: "layout-shift", buffered: false });
}"""


def test_sentences_come_without_moving_those_below(open_page: Callable[..., WatchedPage]) -> None:
    page = open_page()
    page.memory("steady", PAIRS)
    held: list[Any] = []
    watched = False

    def hold(route: Any) -> None:
        if watched:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/v1/translate", hold)
    page.fill(".composer-field", " ".join(source for source, _ in PAIRS) + " " + TEXT * 3)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=waiting]")
    page.evaluate(NOTE_SHIFTS)
    watched = True
    for route in held:
        route.continue_()
    page.settle()
    assert page.locator(".row").count() == len(PAIRS) + 9
    assert sum(page.evaluate("window.shifts")) < 0.01
