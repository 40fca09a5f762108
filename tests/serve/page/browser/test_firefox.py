"""The page in Firefox: a correction changes the next sentence, and nothing goes wrong on the way."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from tests.serve.page.browser.firefox import ALT, CONTROL, DOWN, ENTER, HOME, SHIFT, firefox
from tests.serve.page.browser.samples import FROST_GUARD, PAIRS, TEXT

pytestmark = [pytest.mark.services, pytest.mark.embedded]

SETTLED = "!document.querySelector('.row[data-state=waiting], .row.is-busy, .row .ring')"


def make_memory(address: str, name: str) -> None:
    pairs = {"pairs": [{"source": source, "target": target} for source, target in PAIRS]}
    for path, body in (("memories", {"name": name}), (f"memories/{name}/pairs", pairs)):
        request = urllib.request.Request(f"{address}/api/v1/{path}", json.dumps(body).encode(), method="POST")
        request.add_header("content-type", "application/json")
        urllib.request.urlopen(request).close()


def test_a_correction_changes_the_next_sentence(address: str, tmp_path: Path) -> None:
    make_memory(address, "firefox")
    with firefox(tmp_path) as browser:
        browser.open(address)
        choice = json.dumps({"source_lang": "de", "target_lang": "en", "weights": [["firefox", 1]], "learns": ""})
        browser.evaluate(f"localStorage.setItem('nearmt.choice', {json.dumps(choice)})")
        browser.open(f"{address}/")
        browser.wait_for("document.querySelector('.composer-field') === document.activeElement")
        browser.type(TEXT.replace("\n", " "))
        browser.press(CONTROL, ENTER)
        browser.wait_for(f"document.querySelector('.row') && {SETTLED}")
        targets = "JSON.stringify([...document.querySelectorAll('.row-text')].map((one) => one.innerText))"
        before = json.loads(browser.evaluate(targets))
        browser.press(CONTROL, HOME)
        browser.wait_for("document.querySelector('.chances')")

        browser.press(CONTROL, "a")
        browser.type(FROST_GUARD)
        browser.press(CONTROL, ENTER)
        browser.wait_for(f"document.querySelector('.row[data-state=confirmed]') && {SETTLED}")
        after = json.loads(browser.evaluate(targets))
        assert "frost guard" not in "".join(before)
        assert all("frost guard" in text for text in after)
        assert browser.evaluate("document.querySelectorAll('.changed').length") > 0
        label = "document.activeElement.getAttribute('aria-label')"
        assert browser.evaluate(label) == "Translation of sentence 2"
        browser.press(ALT, DOWN)
        assert browser.evaluate(label) == "Translation of sentence 3"
        browser.wait_for("document.querySelector('.match')")
        browser.press(CONTROL, "1")
        assert browser.evaluate("document.activeElement.value") == FROST_GUARD
        browser.press(CONTROL, SHIFT, ENTER)
        browser.wait_for(f"!document.querySelector('.row[data-state=confirmed]') && {SETTLED}")
        assert browser.evaluate(label) == "Translation of sentence 1"

        for view, found in (("memories/firefox", ".pair"), ("cost", ".figures"), ("memories", ".memory-table")):
            browser.evaluate(f"void (location.hash = '#/{view}')")
            browser.wait_for(f"document.querySelector('{found}')")
        assert browser.problems == []
        assert browser.foreign(address) == []
