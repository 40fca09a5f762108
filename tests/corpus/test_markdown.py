"""Markdown documents: which texts are units, and how translations are written."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearmt.corpus.document import Segment, Tag, TagKind
from nearmt.corpus.markdown import markdown_document
from nearmt.corpus.markdown_inline import pieces_of
from nearmt.corpus.report import Report
from tests.corpus.files import write_file
from tests.corpus.markup_files import filled, lines_of, opened, same, shown, sources, texts, with_texts

PAGE = """\
---
title: Bleibt
---

# Pumpen *und* Ventile {#pumpen}

Die **rote
Pumpe** für [Wasser](x.md "Mehr dazu") und `code()`.
Zweite Zeile\x20\x20
nach Umbruch. ![Ein Bild](a.png)

> [!NOTE]
> Ein Hinweis
> in zwei Zeilen.

- [ ] Aufgabe eins
- Punkt *zwei*
  mit Fortsetzung
    1. tief

| Spalte A | Spalte B |
|----------|:--------:|
| a \\| b   | **fett** |
| | leer |

    bleibt

```python
print("bleibt")
```

<div>
bleibt
</div>

Siehe [Handbuch] und Fußnote[^1].
Überschrift
===========

[Handbuch]: http://x.y "Bleibt"
[^1]: Das ist die
    Fußnote.

Begriff
: Erklärung

$$
bleibt
$$
"""


def units(tmp_path: Path, content: str) -> list[str]:
    return texts(markdown_document, tmp_path, content, "a.md")


def rewritten(tmp_path: Path, content: str, *targets: str) -> str:
    left = iter(targets)
    path = write_file(tmp_path, content, "a.md")
    return filled(markdown_document, path, with_texts(lambda _: next(left))).decode()


def test_texts_are_units(tmp_path: Path) -> None:
    assert lines_of(markdown_document, write_file(tmp_path, PAGE, "a.md")) == [
        (5, "Pumpen ⟦*⟧und⟦*⟧ Ventile"),
        (
            7,
            'Die ⟦**⟧rote Pumpe⟦**⟧ für ⟦[⟧Wasser⟦](x.md "Mehr dazu")⟧ und ⟦`code()`⟧. Zweite Zeile⟦  \n⟧nach Umbruch.',
        ),
        (8, "Mehr dazu"),
        (10, "Ein Bild"),
        (13, "Ein Hinweis in zwei Zeilen."),
        (16, "Aufgabe eins"),
        (17, "Punkt ⟦*⟧zwei⟦*⟧ mit Fortsetzung"),
        (19, "tief"),
        (21, "Spalte A"),
        (21, "Spalte B"),
        (23, "a | b"),
        (23, "fett"),
        (24, "leer"),
        (36, "Siehe ⟦[⟧Handbuch⟦][Handbuch]⟧ und Fußnote⟦[^1]⟧. Überschrift"),
        (41, "Das ist die Fußnote."),
        (44, "Begriff"),
        (45, "Erklärung"),
    ]


def test_a_translated_page(tmp_path: Path) -> None:
    out = filled(markdown_document, write_file(tmp_path, PAGE, "a.md"), with_texts(str.upper)).decode()
    expected = PAGE
    for old, new in [
        ("Pumpen *und* Ventile", "PUMPEN *UND* VENTILE"),
        ("Die **rote\nPumpe** für [Wasser]", "DIE **ROTE PUMPE** FÜR [WASSER]"),
        ("Mehr dazu", "MEHR DAZU"),
        (" und `code()`.\nZweite Zeile", " UND `code()`. ZWEITE ZEILE"),
        ("nach Umbruch", "NACH UMBRUCH"),
        ("Ein Bild", "EIN BILD"),
        ("Ein Hinweis\n> in zwei Zeilen", "EIN HINWEIS IN ZWEI ZEILEN"),
        ("Aufgabe eins", "AUFGABE EINS"),
        ("Punkt *zwei*\n  mit Fortsetzung", "PUNKT *ZWEI* MIT FORTSETZUNG"),
        ("tief", "TIEF"),
        ("Spalte", "SPALTE"),
        ("a \\| b", "A \\| B"),
        ("fett", "FETT"),
        ("leer", "LEER"),
        (
            "Siehe [Handbuch] und Fußnote[^1].\nÜberschrift\n",
            "SIEHE [HANDBUCH][Handbuch] UND FUSSNOTE[^1]. ÜBERSCHRIFT\n",
        ),
        ("Das ist die\n    Fußnote", "DAS IST DIE FUSSNOTE"),
        ("Begriff\n: Erklärung", "BEGRIFF\n: ERKLÄRUNG"),
    ]:
        assert old in expected, old
        expected = expected.replace(old, new)
    assert out == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("***beides***", ["beides"]),
        ("a ***beides*** b", ["a ⟦*⟧⟦**⟧beides⟦**⟧⟦*⟧ b"]),
        ("a ~~weg~~ <b>c</b><br>d", ["a ⟦~~⟧weg⟦~~⟧ ⟦<b>⟧c⟦</b>⟧⟦<br>⟧d"]),
        ("a \\* &amp; &copy; <http://x.y>", ["a * & © ⟦<http://x.y>⟧"]),
        ("snake_case 2 * 3", ["snake_case 2 * 3"]),
        ("[a [b](c) d](e)", ["[a ⟦[⟧b⟦](c)⟧ d](e)"]),
        ("a $x^2$ b, 5 $ und 6 $", ["a ⟦$x^2$⟧ b, 5 $ und 6 $"]),
        ("a^[Notiz] b", ["a⟦^[Notiz]⟧ b"]),
        ("a\\\nb", ["a⟦\\\n⟧b"]),
        ("[x]: http://y\n\nText", ["Text"]),
        ("![Bild][x]\n\n[x]: y", []),
        ("![*Bild*](x) a", ["a"]),
        ("> a\nfaul", ["a faul"]),
        ("-\ta\n\n\tb", ["a", "b"]),
        ("a | b\n-|-\n`c\\|d` e | f", ["a", "b", "⟦`c|d`⟧ e", "f"]),
        ("+++\nx = 1\n+++\nText", ["Text"]),
        ("---\n\nText\n\n---\n", ["Text"]),
        ("## Titel ##", ["Titel"]),
        ("## a # a", ["a # a"]),
        ("a\r\nb\r\n\r\nc", ["a b", "c"]),
        ("a\rb", ["a b"]),
        ("**offen", ["**offen"]),
        ("7 % - 8", []),
        ("a <kbd>Strg</kbd> b <code>c *d*</code>", ["a ⟦<kbd>Strg</kbd>⟧ b ⟦<code>c *d*</code>⟧"]),
        ('a <i translate="no">b <i>c</i></i> d', ['a ⟦<i translate="no">b <i>c</i></i>⟧ d']),
        ("a <code>b", ["a ⟦<code>⟧b"]),
    ],
)
def test_what_is_a_unit(tmp_path: Path, content: str, expected: list[str]) -> None:
    assert units(tmp_path, content) == expected


@pytest.mark.parametrize(
    ("content", "target", "expected"),
    [
        ("alt", "2 * 3 snake_case (x) 5 - 6", "2 * 3 snake_case (x) 5 - 6"),
        ("alt", "*neu* [x](y)", "\\*neu\\* \\[x\\](y)"),
        ("alt", "# neu", "\\# neu"),
        ("alt", "1. neu", "1\\. neu"),
        ("alt", "- neu", "\\- neu"),
        ("alt", "[neu]: x", "\\[neu\\]: x"),
        ("alt", "a\n\nb", "a b"),
        ("alt", "<b> &amp;", "\\<b> \\&amp;"),
        ("alt", "10\u00a0kg", "10&nbsp;kg"),
        ("# alt", "neu #", "# neu \\#"),
        ("# alt", "1. neu", "# 1. neu"),
        ("# alt", "neu {#x}", "# neu \\{#x}"),
        ("- alt", "[x] neu", "- \\[x\\] neu"),
        ("> - alt", "neu\nneu", "> - neu neu"),
        ("| alt |\n|---|", "a|b", "| a\\|b |\n|---|"),
        ("![alt](x)", "[a] 'b'", "![\\[a\\] 'b'](x)"),
        ('![7](x "alt")', '"a" \\', '![7](x "\\"a\\" \\\\")'),
        ("[7](x 'alt')", "it's", "[7](x 'it\\'s')"),
    ],
)
def test_what_is_written_is_escaped_where_it_has_to_be(
    tmp_path: Path, content: str, target: str, expected: str
) -> None:
    assert rewritten(tmp_path, content, target) == expected


def turned(tmp_path: Path, content: str, *parts: str | int) -> str:
    """Fill the only unit of a document; numbers are the tags of its source."""
    path = write_file(tmp_path, content, "a.md")
    (source,) = sources(markdown_document, path)
    tags = [part for part in source if isinstance(part, Tag)]
    target = tuple(part if isinstance(part, str) else tags[part] for part in parts)
    return filled(markdown_document, path, lambda _: target).decode()


def test_emphasis_within_a_word_is_written_as_an_element(tmp_path: Path) -> None:
    assert turned(tmp_path, "a **b:** c", "x", 0, "y:", 1, "z") == "x<strong>y:</strong>z"
    assert turned(tmp_path, "a _b_ c", "x", 0, "y", 1, "z") == "x<em>y</em>z"
    assert turned(tmp_path, "a **b** c", 0, "x y", 1, " z") == "**x y** z"


def test_an_exclamation_mark_before_a_link(tmp_path: Path) -> None:
    assert turned(tmp_path, "a [b](c)", "x!", 0, "y", 1) == "x\\![y](c)"


def test_a_line_break_in_a_quotation(tmp_path: Path) -> None:
    assert turned(tmp_path, "> a  \r\n> b\r\n", "x", 0, "- y") == "> x  \r\n> \\- y\r\n"


def test_undecodable_bytes_stay(tmp_path: Path) -> None:
    raw = b"gut\n\nschlecht \xff\n\n[gut](\xfe)\n"
    path, report = write_file(tmp_path, raw, "a.md"), Report()
    out = filled(markdown_document, path, with_texts(str.upper), report=report)
    assert out == b"GUT\n\nschlecht \xff\n\n[GUT](\xfe)\n"
    assert report.problems == [f"{path}, line 3: undecodable bytes; convert the file to UTF-8, e.g. with iconv"]


def test_a_paragraph_that_is_too_long_stays(tmp_path: Path) -> None:
    path, report = write_file(tmp_path, "a\n\n" + "[" * 30_000, "a.md"), Report()
    assert "".join(part.raw for part in opened(markdown_document, path, report)) == path.read_text()
    assert "line 3: a paragraph of more than 20,000 characters" in report.problems[0]


@pytest.mark.parametrize(
    "piece",
    [
        *("*a ", "[", "![", "[a](", "**a", "a\n\n", "> ", "- ", "`", "``a", "<a ", "|a", "|a\n|-\n", "[^1]: a\n\n"),
        *("[a]: b\n", "$a", "$$", "![a](b", "~~a", "\\*", "a  \n", ": a\n", "[![", "^[a", "<!--", "a](b)", "\x00\t"),
    ],
)
def test_hostile_documents_come_back(tmp_path: Path, piece: str) -> None:
    path = write_file(tmp_path, piece * 600, "a.md")
    assert "".join(part.raw for part in opened(markdown_document, path, Report())) == piece * 600
    assert filled(markdown_document, path, same, report=Report()).decode() == piece * 600


SIGNS = st.sampled_from(
    "* ** _ ~~ ` `` [ ] ( ) ![ ](x) [x] [^1] [^1]: ^[ <b> </b> <!-- <http://a.b> \\ & &amp; | |- # ## > - + 1. : "
    "$ $$ --- === ``` [x]: Wort ä 7 ! http://x <div> {#a} [!NOTE]".split()
) | st.sampled_from(
    [" ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", "    ", "  \n", "\\\n", "\u00a0", "\x00", "\x1f", "\u2028"]
)
SOUP = st.lists(SIGNS, max_size=25).map("".join)


@given(SOUP)
def test_documents_come_back(content: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, report = write_file(Path(folder), content, "a.md"), Report()
        parts = opened(markdown_document, path, report)
        assert "".join(part.raw for part in parts) == content
        assert filled(markdown_document, path, same, report=Report()) == content.encode()
        assert not report.problems


@given(SOUP)
def test_pieces_cover_the_content(content: str) -> None:
    pieces = pieces_of(content, {"references": {"X": {"href": "y", "title": ""}}})
    assert "".join(content[piece.start : piece.end] for piece in pieces) == content


TARGETS = st.lists(SIGNS.filter(lambda sign: "\r" not in sign), max_size=6).map(lambda signs: f"{''.join(signs)}z")


@given(st.sampled_from(["alt", "# alt", "> alt\n> alt", "- alt", "alt\n===", "| alt |\n|---|\n", "a\n: alt"]), TARGETS)
@example("alt", "a\\z")
@example("> alt\n> alt", "[^1]: z")
@example("| alt |\n|---|\n", "a\\|z")
def test_translations_are_read_as_they_are_meant(content: str, target: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), content, "a.md")
        before = sources(markdown_document, path)
        path.write_bytes(filled(markdown_document, path, with_texts(lambda _: target)))
        after = [shown(source) for source in sources(markdown_document, path)]
        assert [text.split() for text in after] == [target.split()] * len(before)


@given(SOUP, st.sampled_from(["neu", "neu und alt.", "3. x!"]))
@example("***<b>*](x)", "neu")  # emphasis that crosses an element
@example("**<b>**](x)", "neu")  # emphasis before the text, which ends only before punctuation
def test_markup_around_translations_is_read_as_before(content: str, target: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), content, "a.md")
        rewrite = with_texts(lambda _: f"{target}z")
        meant = [outline(rewrite(source)) for source in sources(markdown_document, path)]
        path.write_bytes(filled(markdown_document, path, rewrite))
        assert [outline(source) for source in sources(markdown_document, path)] == meant


def outline(segment: Segment) -> str:
    """Return a segment without the markup of its tags, which may change from `**` to an element."""
    return "".join("⟦⟧" if isinstance(part, Tag) else part for part in segment)


def test_tags_have_their_kinds(tmp_path: Path) -> None:
    (source,) = sources(markdown_document, write_file(tmp_path, "a **b** c [d](e) <i>f", "a.md"))
    kinds = [(part.markup, part.kind, part.element) for part in source if isinstance(part, Tag)]
    assert kinds == [
        ("**", TagKind.OPEN, True),
        ("**", TagKind.CLOSE, True),
        ("[", TagKind.OPEN, True),
        ("](e)", TagKind.CLOSE, True),
        ("<i>", TagKind.SINGLE, False),
    ]


@pytest.mark.parametrize("page", sorted((Path(__file__).parents[2] / "docs").glob("*.md")), ids=lambda page: page.name)
def test_pages_of_the_documentation(page: Path) -> None:
    """Everything outside of texts stays, and translations are read as they are meant."""
    report = Report()
    parts = opened(markdown_document, page, report)
    assert "".join(part.raw for part in parts) == page.read_text(encoding="utf-8") and not report.problems
    assert sum(len(part.units) for part in parts) > 5
