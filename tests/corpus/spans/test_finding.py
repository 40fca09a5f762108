"""Protected spans: what is found, what is prose, and properties of every text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.spans import Span, SpanKind, find_spans

SPANS = {
    SpanKind.PRINTF: (
        "%1$s %(name)s %(anzahl)03d %-5.2f %% %s %lld %*d %.*f %@ %1$@ %+d %[2]d %<name>d %<PRIu64> %1 %n %L1 %name% "
        "%(a-b.c)s"
    ),
    SpanKind.BRACE: "{name} {0!r:>10} {} {0} {0:%Y-%m-%d} {x.y[0]} {0:{width}} {:>10} {$name} {user-name}",
    SpanKind.TEMPLATE: "{{name}} {{{raw}}} ${name} #{name} %{name} $t(key.other) [X12X]",
    SpanKind.VARIABLE: "@name @babel/core :name :NAME :Name :smile: $NAME $name $NAME$ __name__ __a.b_c__",
    SpanKind.URL: (
        "https://a.org/b?c=d#e http://a.org/{id}/x www.example.org/x example.com/a https:// mailto:a@b.de "
        "localhost:8000"
    ),
    SpanKind.EMAIL: "a.b+c@d-e.org",
    SpanKind.PATH: (
        r"/etc/passwd /admin/pages/ ~/x ./run.sh ../a/b src/app/main.py settings.py file.tar.gz .csv .gitignore *.txt "
        r"**/*.py *.{jpg,png} C:\Windows\x.dll %APPDATA%\x \\server\share\x"
    ),
    SpanKind.VERSION: "v1.2.3 1.2.3 v2 2.0.0-rc1 4.2.x 192.168.0.1",
    SpanKind.ESCAPE: r"\n \t \u00e9 \\ \" \x1b \033",
    SpanKind.TAG: "<b> </b> <br/> <0> </0> <!--x--> <x:y> <DATEI>",
    SpanKind.ENTITY: "&amp; &nbsp; &#160; &#xA0; &brandName;",
    SpanKind.CODE: "`ls` ``ls`` `--all`",
    SpanKind.HASH: "#fff #ff8800 0xFF a1b2c3d4e5 550e8400-e29b-41d4-a716-446655440000",
    SpanKind.DATE_FORMAT: "HH:MM HH:MM[:ss[.uuuuuu]] YYYY-MM-DD dd.mm.yyyy [YYYY-MM-DD] YYYY-MM-DDTHH:MM",
}
WITH_BLANKS = {
    "YYYY-MM-DD HH:MM[:ss[.uuuuuu]][TZ]": SpanKind.DATE_FORMAT,
    "[DD] [HH:[MM:]]ss[.uuuuuu]": SpanKind.DATE_FORMAT,
    '<a href="#tab" data-tab-trigger>': SpanKind.TAG,
    "{count, number}": SpanKind.BRACE,
    "{preis, number, ::currency/EUR}": SpanKind.BRACE,
    "{@link Foo}": SpanKind.BRACE,
    "{ userName }": SpanKind.BRACE,
    "{{ item.name }}": SpanKind.TEMPLATE,
    "<%= user.name %>": SpanKind.TEMPLATE,
    "{% trans %}": SpanKind.TEMPLATE,
    r"C:\Program Files\Foo\bar.txt": SpanKind.PATH,
    '<a href="a > b" disabled>': SpanKind.TAG,
    """<a href="{% url 'x' %}" class='b'>""": SpanKind.TAG,
    "<br />": SpanKind.TAG,
    "</ b>": SpanKind.TAG,
    "<kbd>Strg</kbd>": SpanKind.TAG,
    '<code class="x">die Datei</code>': SpanKind.TAG,
    '<i class="a" translate="no">Blaue Wolke</i>': SpanKind.TAG,
    "`git commit -m x`": SpanKind.CODE,
}
PROSE = (
    """
100 % sicher|50 % der Fälle|5 %|50%ig|20 %ige|100%-Test|10 % d. Fälle|5%-Hürde|0,5-1,5|1,5 %|z.B. so|d.h. usw.|i.d.R.
und/oder|Ja/Nein|Mo/Di|km/h|1/2|TCP/IP|24/7|Tag/Monat/Jahr|5€/Monat|1.2 Millionen|1.234.567 Zeilen|12345678|defaced
am 12.03.2024 um 12:30 Uhr|01.02.24|um 12.30 Uhr|3:1|12/2020|[1] und [a]|[X] und [XX]|:-) ;-) :D :P :DD :) :xD
eine {geschweifte klammer}|und { oder|{ und }|{Hinweis: bitte lesen}
wenn a < b > c|3 < 4 > 2|<wenn x und y>|A & B|R&D|Müller & Söhne; GmbH
f&uuml;r|`datei' und `ordner'|Benutzer:innen|$5|US$ 5|100 $|Datei (&D)|&Datei|_Datei|gut.Und|Bitte warten...|#1|§5
*wichtig*|%(name) sagt|% (a) s|1. 2. 3.|Strg+C|E-Mail|TT.MM.JJJJ|STIMMEN|5 mm|1%die|z. B.|@ |:|¯_(ツ)_/¯
Name: ____|__fett und__|snake__case__x
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def found(text: str, printf: bool | None = None) -> list[str]:
    return [text[span.start : span.end] for span in find_spans(text, printf)]


@pytest.mark.parametrize("around", ["{}", "Das {} hier", "({})", "„{}“", "Ende {}."])
@pytest.mark.parametrize(("kind", "texts"), SPANS.items(), ids=lambda value: getattr(value, "value", ""))
def test_every_span_is_found_whole(around: str, kind: SpanKind, texts: str) -> None:
    before, after = around.split("{}")
    for text in texts.split():
        start, end = len(before), len(before) + len(text)
        assert [(s.start, s.end, s.kind) for s in find_spans(before + text + after)] == [(start, end, kind)], text


@pytest.mark.parametrize("text", list(WITH_BLANKS))
def test_spans_with_blanks(text: str) -> None:
    assert [(s.start, s.end, s.kind) for s in find_spans(f"Hier {text}, ja")] == [(5, 5 + len(text), WITH_BLANKS[text])]


@pytest.mark.parametrize("text", PROSE)
def test_prose_has_no_spans(text: str) -> None:
    assert found(text) == [] and found(f"Hier {text} da") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://a.org/x.", ["https://a.org/x"]),
        ("(siehe https://a.org/x_(y))", ["https://a.org/x_(y)"]),
        ("Mail an a@b.de, c@d.de!", ["a@b.de", "c@d.de"]),
        ("<a@b.de> <https://a.org>", ["a@b.de", "https://a.org"]),
        ("https://a.org/%(pk)s/ und %s", ["https://a.org/%(pk)s/", "%s"]),
        ('<a href="https://a.org/{id}">x</a>', ['<a href="https://a.org/{id}">', "</a>"]),
        ("Version 2.0 kostet 2.0", ["2.0"]),
        ("Zeile 1\\nZeile 2", ["\\n"]),
        ("\\textbf{fett}", ["\\textbf", "{fett}"]),
        ("`a` und `b`", ["`a`", "`b`"]),
        ("%(a)s%(b)s", ["%(a)s", "%(b)s"]),
        ("{a}{b} {{c}}", ["{a}", "{b}", "{{c}}"]),
        ("Nr. %d:%02d", ["%d", "%02d"]),
        ("%.2fs, %dpx, %dMB", ["%.2f", "%d", "%d"]),
        ("in __zeit__s.", ["__zeit__"]),
        ("TT.MM.JJJJ HH:MM", ["HH:MM"]),
        ("(HH:MM[:ss]), YYYY-MM-DD]", ["HH:MM[:ss]", "YYYY-MM-DD"]),
    ],
)
def test_neighbours_of_spans(text: str, expected: list[str]) -> None:
    assert found(text) == expected


def test_printf_follows_the_document() -> None:
    assert found("%dTage und 50%d", printf=True) == ["%d", "%d"]
    assert found("% d Tage, 50 % der", printf=True) == ["% d"]
    assert found("%dTage und 50%d") == []
    assert found("%d %(name)s %1 {x}", printf=False) == ["{x}"]


def test_phrases_are_whole_words() -> None:
    text = "Open  Office und OpenOffice, C++ und C"
    spans = find_spans(text, phrases=["Open Office", "C", "C++", " "])
    assert [(text[s.start : s.end], s.kind) for s in spans] == [
        (name, SpanKind.PHRASE) for name in ("Open  Office", "C++", "C")
    ]
    assert find_spans("open office", phrases=["Open Office"]) == []


def test_entities_of_xml_and_of_document_types_stay() -> None:
    text = "&amp; &nbsp; &quot; &brandName;"
    assert [span.once for span in find_spans(text)] == [True, False, False, True]
    assert Span(0, 1, SpanKind.TAG).once


PIECES = st.sampled_from(
    [*"%{}$#<>@:/\\`&*.()[]-_'\"=!,;+ \n", *"asdnx0129äÄ文", "%s", "{a}", "{{", "}}", "http://", "www.", "a.de", "</b>"]
)


@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from([True, False, None]))
def test_spans_are_in_order_and_stay_where_text_is_added(text: str, printf: bool | None) -> None:
    spans = find_spans(text, printf, ("ad", "s d"))
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
    assert edges == sorted(edges) and all(span.start < span.end for span in spans)
    moved = find_spans(f"ß ß\n{text}\nß ß", printf, ("ad", "s d"))
    assert [(span.start - 4, span.end - 4, span.kind) for span in moved] == [(s.start, s.end, s.kind) for s in spans]


@given(st.lists(PIECES, max_size=12).map("".join).map(lambda text: text.replace("`", "")))
def test_texts_without_signs_have_no_spans(text: str) -> None:
    """A lone backtick makes no span, and texts with one are not left out as texts without any sign."""
    assert find_spans(text) == [span for span in find_spans(f"{text}\n\n`") if span.end <= len(text)]


@given(st.text(max_size=60))
def test_any_text_can_be_searched(text: str) -> None:
    assert all(0 <= span.start < span.end <= len(text) for span in find_spans(text))


@pytest.mark.parametrize(
    "piece", ["a", "{", "%", '<a b="', "`", "\\", "a/", "a.", "1.1.1.", "a@", "{a:{", "C:\\a b", "ab1"]
)
def test_long_texts_take_linear_time(piece: str) -> None:
    # Milliseconds; in quadratic time it would take minutes.
    assert all(span.start < span.end for span in find_spans(piece * (50_000 // len(piece))))
