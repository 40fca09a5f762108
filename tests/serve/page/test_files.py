"""Files of the page: what a browser would refuse or fetch elsewhere, and what would let text of users run as code."""

from __future__ import annotations

import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from nearmt.serve.page import FOLDER

ROOT = Path(__file__).parents[3]
STATIC = FOLDER / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
SHEETS = sorted(STATIC.rglob("*.css"))
#: Ways to turn text into markup or code.
PARSERS = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\b"
PARSERS += r"|new Function|srcdoc|javascript:"


def name_of(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


class Elements(HTMLParser):
    """All elements of a document, and the text of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style"):
            self.inline += data.strip()


def index() -> Elements:
    elements = Elements()
    elements.feed((FOLDER / "index.html").read_text(encoding="utf-8"))
    return elements


def test_the_document_has_no_inline_code_and_no_inline_style() -> None:
    elements = index()
    attributes = {name for _, attributes in elements.found for name in attributes}
    assert elements.inline == ""
    assert {name for name in attributes if name.startswith("on") or name == "style"} == set()
    assert "style" not in {tag for tag, _ in elements.found}


def test_the_document_names_files_that_exist() -> None:
    named = [attributes.get("src") or attributes.get("href") for _, attributes in index().found]
    files = {name for name in named if name and not name.startswith("#")}
    assert {name for name in files if not (FOLDER / name).is_file()} == set()
    assert {name_of(sheet) for sheet in SHEETS} <= files


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_modules_import_modules_of_the_page(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    imported = re.findall(r"""(?:from|import\()\s*["']([^"']+)["']""", text)
    assert [name for name in imported if not (script.parent / name).is_file()] == []
    exported = {name: (script.parent / name).read_text(encoding="utf-8") for name in imported}
    for names, module in re.findall(r"""import \{([^}]*)\} from ["']([^"']+)["']""", text):
        for name in filter(None, (part.strip() for part in names.split(","))):
            pattern = rf"export (?:async )?(?:function\*?|class|const|let) {name}\b"
            assert re.search(pattern, exported[module]), (module, name)


def test_every_export_is_used() -> None:
    texts = {script: script.read_text(encoding="utf-8") for script in SCRIPTS}
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("*.py"))
    for script, text in texts.items():
        for name in re.findall(r"^export (?:async )?(?:function\*?|class|const|let) (\w+)", text, re.MULTILINE):
            others = [other for path, other in texts.items() if path != script]
            imported = any(re.search(rf"import \{{[^}}]*\b{name}\b", other) for other in others)
            assert imported or name in tests, (script, name)


def test_every_module_is_used() -> None:
    imported = {"static/main.js", "static/theme.js"}
    for script in SCRIPTS:
        names = re.findall(r"""from\s*["']([^"']+)["']""", script.read_text(encoding="utf-8"))
        imported |= {name_of((script.parent / name).resolve()) for name in names}
    assert {name_of(script) for script in SCRIPTS} == imported


@pytest.mark.parametrize("path", [*SCRIPTS, *SHEETS], ids=name_of)
def test_files_are_small_and_ask_no_other_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) < (300 if path.suffix == ".js" else 600)
    assert max(map(len, lines)) <= 120
    addresses = set(re.findall(r"(?:https?:|wss?:)?//[\w.-]+\.[a-z]{2,}[^\s\"')]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in text
    assert "url(" not in text


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_text_is_never_parsed_as_markup_or_code(script: Path) -> None:
    assert re.findall(PARSERS, script.read_text(encoding="utf-8")) == []


def test_every_class_of_the_scripts_is_styled_and_the_reverse() -> None:
    """A style without an element is left over; scripts may have classes that only they look for."""
    sheets = "".join(re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.S) for sheet in SHEETS)
    selectors = re.findall(r"([^{}]+)\{", sheets)
    styled = {name for selector in selectors for name in re.findall(r"\.([a-z][\w-]*)", selector)}
    scripts = "".join(path.read_text(encoding="utf-8") for path in [*SCRIPTS, FOLDER / "index.html"])
    words = set(re.findall(r"[a-z][\w-]*", scripts))
    built = {"by-some", "by-most", *(f"part-{part}" for part in ("model", "search", "cache", "other"))}
    assert styled - words - built == set()


def test_all_files_are_in_the_package() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    patterns = setup["package-data"]["nearmt.serve.page"]
    packed = {path for pattern in patterns for path in FOLDER.glob(pattern) if path.is_file()}
    files = {path for path in FOLDER.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert len(files) > 30
    assert packed == files


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/static/main.js", "text/javascript; charset=utf-8"),
        ("/static/css/base.css", "text/css; charset=utf-8"),
        ("/static/icon.svg", "image/svg+xml"),
    ],
)
def test_files_are_served_with_their_types_and_a_policy(client: TestClient, path: str, media_type: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == media_type
    assert answer.headers["cache-control"] == "no-cache"
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    again = client.get(path, headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code in (200, 304)


@pytest.mark.parametrize(
    "path", ["/static/", "/static/none.js", "/static/../__init__.py", "/static/%2e%2e/__init__.py"]
)
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


# Colours.

#: Text and what it stands on: names of tokens.
PAIRS = [
    *(
        (text, ground)
        for text in ("text", "text-soft", "accent", "danger")
        for ground in ("canvas", "sunken", "raised")
    ),
    ("on-accent", "accent"),
    ("text", "accent-tint"),
    ("text", "danger-tint"),
]


def tokens() -> dict[str, tuple[str, str]]:
    """Colours in light and dark by name."""
    text = (STATIC / "css" / "base.css").read_text(encoding="utf-8")
    return {
        name: (light, dark) for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", text)
    }


def luminance(colour: str) -> float:
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_can_be_read(text: str, ground: str, theme: int) -> None:
    """At least 4.5, level AA of WCAG."""
    colours = tokens()
    assert contrast(colours[text][theme], colours[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_borders_of_controls_can_be_seen(theme: int) -> None:
    colours = tokens()
    assert contrast(colours["line-strong"][theme], colours["canvas"][theme]) >= 3
