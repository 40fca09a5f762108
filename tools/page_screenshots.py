"""Write the screenshots of docs/server/page.md, from a running server whose memory `manual` is docs/samples/memory.tmx.

nearmt build docs/samples/memory.tmx --out memories/manual
nearmt serve
python tools/page_screenshots.py http://127.0.0.1:8080

What it confirms, it takes back.
"""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

PAGES = Path(__file__).parent.parent / "docs" / "server"
CHROMIUM = "/usr/bin/chromium"
TEXT = (
    "Öffnen Sie das Hauptventil, bevor Sie den Gießplan starten. Der Stutzer klemmt, sobald das Gras nass ist. "
    "Reinigen Sie den Stutzer nach jedem Einsatz. Prüfen Sie den Feuchtefühler einmal in der Woche. "
    "Der Stutzer darf nicht im Regen stehen. "
    "Das Steuergerät meldet eine Störung, sobald ein Gießkreis zu trocken ist."
)
CORRECTED, CORRECTION = 1, "The trimmer jams as soon as the grass is wet."
SETTLED = "() => !document.querySelector('.row[data-state=waiting], .row.is-busy, .row .ring')"
CHOICE = {"source_lang": "de", "target_lang": "en", "weights": [["manual", 1]], "learns": "manual"}
#: Colours of a picture: the page has few.
COLOURS = 64


def translated(page: Any, address: str) -> None:
    """Translate the text and correct a sentence; the caret stands in a word of the next one that changed by it."""
    page.goto(address)
    page.evaluate("choice => localStorage.setItem('nearmt.choice', choice)", json.dumps(CHOICE))
    page.reload()
    page.fill(".composer-field", TEXT)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row")
    page.wait_for_function(SETTLED)
    page.click(f".row >> nth={CORRECTED} >> .row-target")
    page.fill(".row-field", CORRECTION)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row[data-state=confirmed]")
    page.wait_for_function(SETTLED)
    page.wait_for_selector(".is-active :is(.by-most, .by-some)")
    word = page.locator(".row.is-active .word.changed").first.get_attribute("data-start")
    page.evaluate("start => document.querySelector('.row-field').setSelectionRange(start, start)", int(word) + 1)
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".chances")


def taken_back(page: Any) -> None:
    page.keyboard.press("Control+Shift+Enter")
    page.wait_for_selector(".row[data-state=confirmed]", state="detached")


def write(picture: bytes, path: Path) -> None:
    """With few colours, which makes it several times smaller."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description="Write the screenshots of the page's documentation.")
    parser.add_argument("address")
    address = parser.parse_args().address
    views: dict[str, dict[str, Any]] = {
        "page.png": {"viewport": {"width": 1120, "height": 640}, "color_scheme": "light"},
        "page-phone.png": {"viewport": {"width": 390, "height": 780}, "color_scheme": "dark", "has_touch": True},
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, options in views.items():
            page = browser.new_context(**options).new_page()
            translated(page, address)
            write(page.screenshot(), PAGES / name)
            taken_back(page)
        browser.close()


if __name__ == "__main__":
    main()
