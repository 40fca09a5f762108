"""HTML documents: which texts are units, and how translations are written."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.document import Segment, Tag, TagKind
from nearmt.corpus.html import html_document, html_parts
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError
from tests.corpus.files import write_file
from tests.corpus.markup_files import filled, lines_of, opened, same, shown, sources, texts, with_texts

PAGE = """\
<!DOCTYPE html>
<html lang="de-AT">
<head><meta charset="utf-8"><title>Pumpen &amp; Ventile</title>
<meta name="description" content="Alles über &quot;Pumpen&quot;"><meta name="author" content="Wer auch immer">
<style>p { color: red }</style></head>
<body>
<!-- <p>Kommentar</p> -->
<p>Die <b>rote
   Pumpe</b> f&uuml;r <a href="x?a=1&b=2" title="Mehr dazu">Wasser</a>.
<ul><li><a href="/">Start</a> <li>Ende</ul>
<pre>bleibt <b>ganz</b></pre>
<script>var a = "<p>Hallo</p>";</script>
</body></html>
"""


def units(tmp_path: Path, content: str) -> list[str]:
    return texts(html_document, tmp_path, content, "a.html")


def rewritten(tmp_path: Path, content: str, *targets: str) -> str:
    """Fill units without tags with these texts, in order."""
    left = iter(targets)
    path = write_file(tmp_path, content, "a.html")
    return filled(html_document, path, with_texts(lambda _: next(left))).decode()


def test_texts_and_attributes_are_units(tmp_path: Path) -> None:
    assert lines_of(html_document, write_file(tmp_path, PAGE, "a.html")) == [
        (3, "Pumpen & Ventile"),
        (4, 'Alles über "Pumpen"'),
        (8, 'Die ⟦<b>⟧rote Pumpe⟦</b>⟧ für ⟦<a href="x?a=1&b=2" title="Mehr dazu">⟧Wasser⟦</a>⟧.'),
        (9, "Mehr dazu"),
        (10, "Start"),
        (10, "Ende"),
    ]


def test_a_translated_page(tmp_path: Path) -> None:
    path = write_file(tmp_path, PAGE, "a.html")
    out = filled(html_document, path, with_texts(str.upper)).decode()
    expected = PAGE.replace('lang="de-AT"', 'lang="en"')
    for old, new in [
        ("Pumpen &amp; Ventile", "PUMPEN &amp; VENTILE"),
        ("Alles über &quot;Pumpen&quot;", "ALLES ÜBER &quot;PUMPEN&quot;"),
        ("Die <b>rote\n   Pumpe</b> f&uuml;r", "DIE <b>ROTE PUMPE</b> FÜR"),
        ('title="Mehr dazu">Wasser', 'title="MEHR DAZU">WASSER'),
        (">Start<", ">START<"),
        ("<li>Ende", "<li>ENDE"),
    ]:
        assert old in expected
        expected = expected.replace(old, new)
    assert out == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("nur Text", ["nur Text"]),
        ("<p>eins<p>zwei", ["eins", "zwei"]),
        ("<p> <b><i>ganz fett</i></b> </p>", ["ganz fett"]),
        ("<p><img src=a alt='Ein Bild'> Text <i class=icon></i></p>", ["Ein Bild", "Text"]),
        ("<p>eins<br>zwei<br> <br>drei", ["eins⟦<br>⟧zwei", "drei"]),
        ("Mit <code>x < y</code> geht es", ["Mit ⟦<code>x < y</code>⟧ geht es"]),
        ("<code>x()</code> macht <kbd>y</kbd>", ["⟦<code>x()</code>⟧ macht ⟦<kbd>y</kbd>⟧"]),
        ("Die <span translate=no>Firma <b>X</b></span> hier", ["Die ⟦<span translate=no>Firma <b>X</b></span>⟧ hier"]),
        ('<div class="a notranslate">bleibt <p>auch</p></div>hier', ["hier"]),
        ("<div translate=no>a<p translate=yes>b</p>c</div>d", ["b", "d"]),
        ("<p translate=no>bleibt<p>nicht", ["nicht"]),
        ("<ul><li translate=no>bleibt<li>nicht</ul>", ["nicht"]),
        ("<p>offen <code>bleibt</p><p>nicht", ["offen ⟦<code>bleibt⟧", "nicht"]),
        ("3 < 4 und 5 > 4 & mehr", ["3 < 4 und 5 > 4 & mehr"]),
        ("a <!-- Kommentar --> b", ["a ⟦<!-- Kommentar -->⟧ b"]),
        ("<b>a <i>b</b> c</i> d", ["a ⟦<i>⟧b⟦</b>⟧ c⟦</i>⟧ d"]),
        ("</b>zu viel</div>", ["zu viel"]),
        ("&copy; &auml;&#228;&#xe4; &unbekannt;", ["© äää &unbekannt;"]),
        ("12 345 &mdash; 7 %", []),
        ("<svg><title>Bild</title><text>x</text></svg> Ende", ["Ende"]),
        ("<textarea>Zwei\nZeilen <b></textarea>", ["Zwei\nZeilen <b>"]),
        ("<title>A <b>B</title>", ["A <b>B"]),
        ("{% if x %}Hallo {{ name }}!{% endif %}", ["Hallo ⟦{{ name }}⟧!"]),
        ("<?php if (1 > 0) echo '<p>'; ?>Text", ["Text"]),
        ("<o:p>Text</o:p>", ["Text"]),
        ("<button>Los</button><select><option>Eins<option>Zwei</select>", ["Los", "Eins", "Zwei"]),
        ("<iframe>bleibt</iframe><noscript>nicht</noscript>", ["nicht"]),
    ],
)
def test_what_is_a_unit(tmp_path: Path, content: str, expected: list[str]) -> None:
    assert units(tmp_path, content) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('<a title="Mehr" href="Ort">', ["Mehr"]),
        ("<input placeholder=Name value=Wert>", ["Name"]),
        ("<input type=submit value=Senden>", ["Senden"]),
        ("<meta property=og:title content='Der Titel'><meta name=robots content=noindex>", ["Der Titel"]),
        ('<td aria-label="Das Feld" data-title="bleibt">', ["Das Feld"]),
        ('<optgroup label="Gruppe"><th abbr="Kurz"><track label=Ton>', ["Gruppe", "Kurz", "Ton"]),
        ('<p translate=no title="bleibt">', []),
        ('<link title="bleibt"><a title="{% trans %}">', []),
        ('<a title="a &copy=1 &amp; &copy; b" title="zweiter">', ["a &copy=1 & © b"]),
        ("<a title>", []),
    ],
)
def test_which_attributes_are_units(tmp_path: Path, content: str, expected: list[str]) -> None:
    assert units(tmp_path, content) == expected


@pytest.mark.parametrize(
    ("content", "target", "expected"),
    [
        ("<p> alt </p>", "a < b & c > d", "<p> a &lt; b &amp; c &gt; d </p>"),
        ("<a title='alt'>", 'it\'s "x"', "<a title='it&#39;s \"x\"'>"),
        ('<a title="alt">', 'it\'s "x"', '<a title="it\'s &quot;x&quot;">'),
        ("<a title=alt>", "a b", '<a title="a b">'),
        ("<p>alt", "10\u00a0kg", "<p>10&nbsp;kg"),
        ('<?xml version="1.0"?><p>alt</p>', "10\u00a0kg", '<?xml version="1.0"?><p>10&#160;kg</p>'),
    ],
)
def test_what_is_written_is_escaped(tmp_path: Path, content: str, target: str, expected: str) -> None:
    assert rewritten(tmp_path, content, target) == expected


def test_an_attribute_in_a_tag_that_moves(tmp_path: Path) -> None:
    path = write_file(tmp_path, '<p>alt <a title="Mehr">dort</a> hin', "a.html")

    def turned(segment: Segment) -> Segment:
        if len(segment) == 1:
            return ("more",)
        _, opening, _, closing, _ = segment
        return (opening, "there", closing, " is old")

    assert filled(html_document, path, turned).decode() == '<p><a title="more">there</a> is old'


@pytest.mark.parametrize(
    ("content", "source_lang", "expected"),
    [
        ('<html lang="de-AT">', "de", '<html lang="en">'),
        ("<html lang=de xml:lang='de'>", "de", "<html lang=en xml:lang='en'>"),
        ('<html lang="fr">', "de", '<html lang="fr">'),
        ('<html lang="">', "de", '<html lang="">'),
        ('<p lang="de">', "de", '<p lang="de">'),
        ('<html lang="de">', None, '<html lang="de">'),
    ],
)
def test_the_language_of_a_page(tmp_path: Path, content: str, source_lang: str | None, expected: str) -> None:
    path = write_file(tmp_path, content, "a.html")
    assert filled(html_document, path, same, Request(source_lang, "en")).decode() == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("<p>Käse".encode(), "Käse"),
        (b"\xef\xbb\xbf" + "<p>Käse".encode(), "Käse"),
        ("\ufeff<p>Käse".encode("utf-16-le"), "Käse"),
        ("<meta charset='ISO-8859-1'><p>Käse \x96 gut".encode("latin-1"), "Käse – gut"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2">ő'.encode("iso-8859-2"), "ő"),
        ('<?xml version="1.0" encoding="windows-1252"?><p>“Käse”'.encode("cp1252"), "“Käse”"),
    ],
)
def test_encodings(tmp_path: Path, raw: bytes, expected: str) -> None:
    path = write_file(tmp_path, raw, "a.html")
    assert [shown(source) for source in sources(html_document, path)] == [expected]
    assert filled(html_document, path, same) == raw
    translated = filled(html_document, path, with_texts(lambda _: "日本 ä"))
    path.write_bytes(translated)
    assert [shown(source) for source in sources(html_document, path)] == ["日本 ä"]


def test_undecodable_bytes_stay(tmp_path: Path) -> None:
    raw = b"<p>gut<p>schlecht \xff<p title='auch \xfe'>gut"
    path, report = write_file(tmp_path, raw, "a.html"), Report()
    assert filled(html_document, path, with_texts(str.upper), report=report) == raw.replace(b"gut", b"GUT")
    assert len(report.problems) == 2 and "line 1: undecodable bytes" in report.problems[0]


def test_an_encoding_that_does_not_round_trip_is_refused(tmp_path: Path) -> None:
    raw = b"<meta charset=iso-2022-jp><p>\x1b$B\x1b(Ba"
    with pytest.raises(InputError, match="cannot be written back unchanged"):
        opened(html_document, write_file(tmp_path, raw, "a.html"))


def test_a_tag_without_an_end_is_reported(tmp_path: Path) -> None:
    path, report = write_file(tmp_path, "<p>Text\n<p>mehr <a href='x", "a.html"), Report()
    assert "".join(part.raw for part in opened(html_document, path, report)) == "<p>Text\n<p>mehr <a href='x"
    assert report.problems == [f"{path}, line 2: a tag without an end; the rest of the file is kept as it is"]


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<!--",
            "<a ",
            "<a b='",
            "</",
            "<![CDATA[",
            "<script>",
            "<?",
            "<?php ",
            "&#",
            "<p>a",
            "<b>a",
            "</i><b>",
            "{% ",
        ),
        *("<li>x", "<li><ul><i>", "<a title='x'>a", "<a b=\"x' ", "\x00", "<br>a<br>", "{{ ", "<%", "<textarea>"),
    ],
)
def test_hostile_pages_come_back(tmp_path: Path, piece: str) -> None:
    """A scan that starts again at each piece would take minutes."""
    text = piece * 4_000
    path = write_file(tmp_path, text, "a.html")
    parts = opened(html_document, path, Report())
    assert "".join(part.raw for part in parts) == text


SNIPPETS = st.sampled_from(
    "<p> </p> <b> </b> <i title='a\"b'> </i> <br> <code> </code> <pre> </pre> <img/alt=Bild> <!-- c --> <div> </div> "
    "<li> <ul> </ul> <a/href=x> </a> <p/translate=no> < & &amp; &lt; &nbsp; &auml &#65; <script> </script> <title> "
    "</title> <?php ?> <![CDATA[ ]]> <!doctype> <svg> </svg> {% %} {{x}} <a/title=Wort <x-y> ä Wort 7 \" ' =".split()
) | st.sampled_from([" ", "\n  ", "\r\n", "\x00", "\u00a0", "\u2028"])


@given(st.lists(SNIPPETS, max_size=25).map("".join), st.booleans())
def test_pages_come_back(content: str, is_xml: bool) -> None:
    raw = ('<?xml version="1.0" encoding="utf-8"?>' if is_xml else "") + content
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), raw, "a.html")
        parts = opened(html_document, path, Report())
        assert "".join(part.raw for part in parts) == raw
        assert "".join(part.filled([None] * len(part.units)) for part in parts) == raw
        assert filled(html_document, path, same, report=Report()) == raw.encode()


# Without braces: what looks like a template in a page is one.
TARGETS = st.text("aZ ä<>&\"'%-/!?日\u00a0;#", min_size=1, max_size=12).map(lambda text: f"x{text}x")


@given(st.lists(SNIPPETS, max_size=20).map("".join), st.lists(TARGETS, min_size=1, max_size=5))
def test_translations_are_read_as_they_are_meant(content: str, targets: list[str]) -> None:
    """What is filled in is text and the same tags, whatever its characters."""

    def rewrite(segment: Segment) -> Segment:
        return tuple(targets[len(part) % len(targets)] if isinstance(part, str) else part for part in segment)

    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), content, "a.html")
        meant = [shown(rewrite(source)) for source in sources_of(path)]
        path.write_bytes(filled(html_document, path, rewrite, report=Report()))
        assert [without_attributes(text) for text in sources_shown(path)] == [
            without_attributes(text) for text in meant
        ]


def sources_of(path: Path) -> list[Segment]:
    return [unit.source for part in opened(html_document, path, Report()) for unit in part.units]


def sources_shown(path: Path) -> list[str]:
    return [shown(source) for source in sources_of(path)]


def without_attributes(text: str) -> str:
    """Leave out the markup of tags, in which attributes are translated, and white space that is collapsed."""
    return re.sub(" +", " ", re.sub("⟦[^⟧]*⟧", "⟦⟧", text))


def test_tags_have_their_kinds(tmp_path: Path) -> None:
    (source,) = sources(html_document, write_file(tmp_path, "a <b>b</b> c <br> <i>d", "a.html"))
    kinds = [(part.markup, part.kind, part.element, part.blank) for part in source if isinstance(part, Tag)]
    assert kinds == [
        ("<b>", TagKind.OPEN, True, False),
        ("</b>", TagKind.CLOSE, True, False),
        ("<br>", TagKind.SINGLE, False, True),
        ("<i>", TagKind.SINGLE, False, False),
    ]


def test_a_text_is_read_like_a_file(tmp_path: Path) -> None:
    parts = html_parts("<p>Eins <b>zwei</b></p>", Path("text 1"), Request("de", "en"), Report(strict=True))
    assert [shown(unit.source) for part in parts for unit in part.units] == units(tmp_path, "<p>Eins <b>zwei</b></p>")


def test_problems_of_a_text_name_it() -> None:
    with pytest.raises(InputError, match="text 1"):
        list(html_parts("eins <b", Path("text 1"), Request("de", "en"), Report(strict=True)))
