"""Documents on the page: upload, correct, download in their own format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.page.browser.samples import FROST_GUARD, PAIRS, upload
from tests.serve.page.browser.watched import WatchedPage

pytestmark = [pytest.mark.services, pytest.mark.embedded]

HTML = (
    "<!doctype html>\n<title>Frost</title>\n<p>Der Frostwächter schließt das Ventil.</p>\n<hr>\n"
    "<p>Prüfen Sie den <b>Frostwächter</b> vor dem Winter.</p>\n<p>Der Frostwächter ist an.</p>\n"
)


def open_document(page: WatchedPage, name: str, content: str) -> None:
    page.set_input_files("input[aria-label=Document]", [upload(name, content.encode())])
    page.wait_for_selector(f"h1:has-text('{name}')")
    page.wait_for_selector(".row")
    page.settle()


def download(page: WatchedPage, folder: Path) -> tuple[str, str]:
    with page.expect_download() as begun:
        page.click(".toolbar [aria-label=Download]")
    begun.value.save_as(folder / "saved")
    return begun.value.suggested_filename, (folder / "saved").read_text(encoding="utf-8")


def test_a_corrected_document_is_downloaded_in_its_own_format(page: WatchedPage, tmp_path: Path) -> None:
    page.memory("document", PAIRS)
    open_document(page, "frost.html", HTML)
    sources = page.locator(".row-source").all_inner_texts()
    first = sources.index("Der Frostwächter schließt das Ventil.")
    before = page.targets()
    assert not any("frost guard" in text for text in before)
    page.click(f".row >> nth={first} >> .row-target")
    page.fill(".row-field", FROST_GUARD)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    assert all("frost" in text.lower() and "guard" in text.lower() for text in page.targets()[first:])
    assert page.locator(f".row >> nth={first + 2} >> .changed").count() > 0

    page.click(f".row >> nth={first + 2} >> .row-target")
    page.fill(".row-field", "It is on.")  # edited, not confirmed: it is in the document, and not learnt
    name, text = download(page, tmp_path)
    assert name.endswith(".html")
    assert f"<p>{FROST_GUARD}</p>\n<hr>\n<p>" in text
    assert text.endswith("<p>It is on.</p>\n")
    assert "<b>" in text
    learnt = page.api("GET", "memories/document/pairs?query=frost")["pairs"]
    assert [pair["target"] for pair in learnt] == [FROST_GUARD]

    page.reload()
    page.wait_for_selector(".row")
    page.settle()
    assert page.locator(".row[data-state=confirmed]").count() == 1
    assert page.targets()[first + 2] == "It is on."


def test_an_edit_is_kept_when_typing_pauses(page: WatchedPage) -> None:
    page.memory("typing", PAIRS)
    open_document(page, "frost.html", HTML)
    page.click(".row >> nth=1 >> .row-target")
    with page.expect_response("**/units/*"):
        page.fill(".row-field", "Half a sentence")
    page.reload()
    page.wait_for_selector(".row")
    page.settle()
    assert page.targets()[1] == "Half a sentence"
    assert page.locator(".row[data-state=confirmed]").count() == 0


def test_a_confirmed_unit_is_undone(page: WatchedPage) -> None:
    page.memory("undone", PAIRS)
    open_document(page, "frost.html", HTML)
    before = page.targets()
    place = page.locator(".row-source").all_inner_texts().index("Der Frostwächter schließt das Ventil.")
    page.click(f".row >> nth={place} >> .row-target")
    page.fill(".row-field", FROST_GUARD)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.settle()
    page.keyboard.press("Control+Shift+Enter")
    page.wait_for_selector(".row[data-state=confirmed]", state="detached")
    page.settle()
    assert page.api("GET", "memories/undone")["pairs"] == len(PAIRS)
    assert page.targets()[place + 1 :] == before[place + 1 :]


def test_a_dropped_document_is_opened_and_listed(page: WatchedPage) -> None:
    page.memory("dropped", PAIRS)
    page.evaluate(
        """() => {
            const data = new DataTransfer();
            data.items.add(new File(["Der Frostwächter ist an.\\n"], "dropped here.txt"));
            const place = document.querySelector(".composer");
            for (const kind of ["dragenter", "dragover", "drop"]) {
                place.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
            }
        }"""
    )
    page.wait_for_selector("h1:has-text('dropped here.txt')")
    page.settle()
    assert page.locator(".row-source").all_inner_texts() == ["Der Frostwächter ist an."]
    page.click("text=Close")
    page.click(".recent >> text=dropped here.txt")
    page.wait_for_selector("h1:has-text('dropped here.txt')")


def test_a_long_document_is_loaded_in_parts(page: WatchedPage) -> None:
    page.memory("long", PAIRS)
    lines = [f"{number}. {PAIRS[0][0]}" for number in range(450)]
    page.set_input_files("input[aria-label=Document]", [upload("long.txt", "\n".join(lines).encode())])
    page.wait_for_selector(".row")
    assert page.locator(".row").count() == 200
    page.locator(".row >> nth=199").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelectorAll('.row').length >= 400")
    assert page.locator(".row-source >> nth=399").text_content() == lines[399]


def test_a_file_that_is_no_document_is_refused_with_a_message(page: WatchedPage) -> None:
    page.expected = {400, 415, 422}
    page.set_input_files("input[aria-label=Document]", [upload("broken.xliff", b"<xliff>\x00")])
    page.wait_for_selector(".toast.bad")
    assert page.locator(".toast.bad").inner_text().lower().count("broken.xliff: ") == 1
    page.wait_for_selector(".composer-field")


def test_a_document_that_does_not_exist(page: WatchedPage) -> None:
    page.expected = {404}
    page.goto("#/translate/none")
    page.reload()
    page.wait_for_selector("text=This could not be loaded")
    page.wait_for_selector("text=No document 'none'")
