"""Text with markup and script is shown, never run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.serve.page.browser.samples import HOSTILE, PAIRS, tsv, upload
from tests.serve.page.browser.watched import WatchedPage

pytestmark = [pytest.mark.services, pytest.mark.embedded]


def assert_nothing_ran(page: WatchedPage) -> None:
    page.wait_for_timeout(200)  # images fail a little later
    assert page.evaluate("window.ran") is None
    made = "main :is(script, img, iframe, b, i, [onerror], [onload], [style*=url]), main a[href^=javascript]"
    assert page.locator(made).count() == 0


def hostile_pairs() -> list[tuple[str, str]]:
    return [(f"Satz {number} {text}", f"{text} is {number}") for number, text in enumerate(HOSTILE)]


def test_pairs_of_an_imported_memory(page: WatchedPage) -> None:
    page.memory("hostile", [])
    page.goto("#/memories/hostile")
    page.reload()
    page.wait_for_selector("h1:has-text('hostile')")
    page.set_input_files("input[aria-label='Files to import']", [upload("<b>x</b>.tsv", tsv(hostile_pairs()))])
    page.wait_for_selector(".pair >> nth=5")
    shown = page.locator(".pair-target").all_inner_texts()
    assert shown == [target for _, target in hostile_pairs()]
    page.fill("[type=search]", HOSTILE[0])
    page.wait_for_selector("text=1 pair found")
    page.click(".pair >> text=Edit")
    assert page.input_value(".pair-field") == hostile_pairs()[0][1]
    page.keyboard.press("Escape")
    page.fill("[type=search]", "<script>nothing</script>")
    page.wait_for_selector("text=No pair contains “<script>nothing</script>”.")
    assert_nothing_ran(page)


def test_matches_words_and_targets(page: WatchedPage) -> None:
    page.memory("shown", [*PAIRS, *hostile_pairs()])
    page.translate("\n".join(source for source, _ in hostile_pairs()))
    assert page.targets() == [target for _, target in hostile_pairs()]
    page.wait_for_selector(".match")
    page.click(".row >> nth=3 >> .row-target")
    page.keyboard.press("Control+1")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    assert_nothing_ran(page)


def test_everything_that_the_server_says(page: WatchedPage) -> None:
    """Even if a server, or a proxy before it, put markup in any field of its answers."""
    evil = HOSTILE[1]

    def poison(value: Any) -> Any:
        if isinstance(value, dict):
            kept = ("name", "source_lang", "target_lang", "origin", "state", "kind", "created", "id")
            return {key: value[key] if key in kept else poison(value[key]) for key in value}
        if isinstance(value, list):
            return [poison(each) for each in value]
        return f"{value} {evil}" if isinstance(value, str) else value

    def answer(route: Any) -> None:
        fetched = route.fetch()
        route.fulfill(response=fetched, body=json.dumps(poison(fetched.json())))

    page.memory("poisoned", PAIRS)
    page.route("**/api/v1/translate", answer)
    page.route("**/api/v1/memories**", answer)
    page.route(
        "**/api/v1/memories/**", lambda route: answer(route) if route.request.method == "GET" else route.continue_()
    )
    page.translate("Jeder Gießkreis braucht einen eigenen Gießplan.")
    page.wait_for_selector(".row .by-most, .row .by-some")
    assert evil in page.targets()[0]
    assert evil in page.locator(".match >> nth=0").inner_text()
    page.keyboard.press("Control+Home")
    page.wait_for_selector(".word-head")
    for place in ("memories", "memories/poisoned", "cost", "translate"):
        page.evaluate("place => { location.hash = `/${place}`; }", place)
        page.wait_for_timeout(300)
        assert_nothing_ran(page)


def test_names_of_documents(page: WatchedPage) -> None:
    page.memory("named", PAIRS)
    name = "<img src=x onerror=window.ran=9>.txt"
    page.set_input_files("input[aria-label=Document]", [upload(name, "\n".join(HOSTILE).encode())])
    page.wait_for_selector(".row")
    page.settle()
    assert page.locator("h1").inner_text() == name
    assert page.locator(".row-source").all_inner_texts() == HOSTILE
    page.click("text=Close")
    page.wait_for_selector(f".recent >> text={name}")
    assert_nothing_ran(page)


@pytest.mark.parametrize("attack", ["<script>window.ran = 1</script>", "<img src=x onerror='window.ran = 1'>"])
def test_the_policy_would_stop_it_anyway(page: WatchedPage, attack: str) -> None:
    page.evaluate("html => { document.querySelector('main').innerHTML = html; }", attack)
    made = "Object.assign(document.createElement('script'), { text: 'window.ran = 1' })"
    page.evaluate(f"() => document.querySelector('main').append({made})")
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert page.problems
    page.problems.clear()
