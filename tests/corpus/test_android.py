"""String resources of Android: which texts are units, and how translations are escaped."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.android import android_document
from nearmt.corpus.android_text import escaped, unescaped
from nearmt.corpus.document import Segment, Tag, TagKind
from nearmt.corpus.report import Report
from nearmt.errors import InputError
from tests.corpus.files import tree, write_file
from tests.corpus.markup_files import filled, lines_of, opened, same, shown, sources, texts, with_texts

RESOURCES = r"""<?xml version="1.0" encoding="utf-8"?>
<!-- <string name="x">Kommentar</string> -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="app" translatable="false">Bleibt</string>
    <string name="a">Das ist\'s: \"gut\" &amp; neu\nZeile \u00e4 %1$d</string>
    <string name="b">"Ganz in 'Anf\u00fchrung'  "</string>
    <string name="c">
        Mehrere
        Zeilen <b>fett</b> und <xliff:g id="x" example="3">%1$s</xliff:g> Tage
    </string>
    <string name="d">@string/a</string>
    <string name="e"><![CDATA[Klick <a href=\"http://x\">hier</a>]]></string>
    <string-array name="f"><item>Eins</item><item>@string/x</item><!-- x --><item>Zwei</item></string-array>
    <plurals name="g"><item quantity="one">%d Pumpe</item><item quantity="other">%d Pumpen</item></plurals>
    <string name="h"/>
    <dimen name="bleibt">3dp</dimen>
</resources>
"""


def document(content: str) -> str:
    return f"<resources>{content}</resources>"


def units(tmp_path: Path, content: str) -> list[str]:
    return texts(android_document, tmp_path, document(content), "strings.xml")


def test_texts_are_units(tmp_path: Path) -> None:
    assert lines_of(android_document, write_file(tmp_path, RESOURCES, "strings.xml")) == [
        (5, 'Das ist\'s: "gut" & neu\nZeile ä %1$d'),
        (6, "Ganz in 'Anführung'  "),
        (8, 'Mehrere Zeilen ⟦<b>⟧fett⟦</b>⟧ und ⟦<xliff:g id="x" example="3">%1$s</xliff:g>⟧ Tage'),
        (12, 'Klick ⟦<a href=\\"http://x\\">⟧hier⟦</a>⟧'),
        (13, "Eins"),
        (13, "Zwei"),
        (14, "%d Pumpe"),
        (14, "%d Pumpen"),
    ]


def test_translated_resources(tmp_path: Path) -> None:
    path = write_file(tmp_path, RESOURCES, "strings.xml")
    out = filled(android_document, path, with_texts(lambda text: text.replace("e", "'"))).decode()
    expected = RESOURCES
    for old, new in [
        (r"Das ist\'s: \"gut\" &amp; neu\nZeile \u00e4 %1$d", r"Das ist\'s: \"gut\" &amp; n\'u\nZ\'il\' ä %1$d"),
        ("Mehrere\n        Zeilen <b>fett</b>", r"M\'hr\'r\' Z\'il\'n <b>f\'tt</b>"),
        ("> Tage\n", r"> Tag\'" + "\n"),
        (">hier</a>", r">hi\'r</a>"),
        (">Zwei<", r">Zw\'i<"),
        ("%d Pumpe<", r"%d Pump\'<"),
        ("%d Pumpen<", r"%d Pump\'n<"),
    ]:
        assert old in expected
        expected = expected.replace(old, new)
    assert out == expected
    tree(write_file(tmp_path, out, "out.xml"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<string>  a  b\n </string>", ["a b"]),
        ('<string>a "b  c" d</string>', ["a b  c d"]),
        ("<string>\\u0020a\\u0020</string>", [" a "]),
        ("<string>\\@a \\? \\\\ \\# \\q</string>", ["@a ? \\ # q"]),
        ("<string>\\ud83d\\ude00 a \\ud800</string>", ["😀 a �"]),
        ("<string>&lt;b&gt;a&lt;/b&gt; &#228;&#xe4; &quot;a  b&quot;</string>", ["<b>a</b> ää a  b"]),
        ("<string>@null</string><string>?attr/x</string><string> @android:string/ok </string>", []),
        ("<string>@a b</string>", ["@a b"]),
        ("<string><b>ganz</b></string>", ["ganz"]),
        ("<string>a <!-- c --> b<br/>c</string>", ["a ⟦<!-- c -->⟧ b⟦<br/>⟧c"]),
        ("<string>a <![CDATA[b]]> c</string>", ["a ⟦<![CDATA[b]]>⟧ c"]),
        ("<string><![CDATA[ a &amp; <br>b ]]></string>", ["a &amp; ⟦<br>⟧b"]),
        ('<string>a <x:g xmlns:x="y"><b>1</b><x:g/></x:g> b</string>', None),
        ("<string>12 %</string>", []),
        ('<string-array translatable="false"><item>a</item></string-array>', []),
        ("<array><item>a</item></array><integer name='a'>b</integer>", []),
    ],
)
def test_what_is_a_unit(tmp_path: Path, content: str, expected: list[str] | None) -> None:
    kept = '<x:g xmlns:x="y"><b>1</b><x:g/></x:g>'
    assert units(tmp_path, content) == (expected if expected is not None else [f"a ⟦{kept}⟧ b"])


@pytest.mark.parametrize(
    ("content", "target", "expected"),
    [
        ("alt", 'it\'s "x" \\ <y> &', r"it\'s \"x\" \\ &lt;y&gt; &amp;"),
        ('"alt"', 'it\'s "x" \\ <y>', r'"it' + r"'s \"x\" \\ &lt;y&gt;" + '"'),
        ("alt", "@x", r"\@x"),
        ("alt", "?x", r"\?x"),
        ("alt", "a@b?", "a@b?"),
        ("alt", " a  b ", r"\u0020a \u0020b\u0020"),
        ("alt", "a\n\tb\u00a0c", r"a\n\tb\u00A0c"),
        ("<![CDATA[alt]]>", "a & <b> ]]> it's", r"<![CDATA[a & <b> ]]]]><![CDATA[> it\'s]]>"),
    ],
)
def test_what_is_written_is_escaped(tmp_path: Path, content: str, target: str, expected: str) -> None:
    path = write_file(tmp_path, document(f"<string>{content}</string>"), "strings.xml")
    out = filled(android_document, path, with_texts(lambda _: target)).decode()
    assert out == document(f"<string>{expected}</string>")


def test_characters_outside_the_encoding(tmp_path: Path) -> None:
    head = '<?xml version="1.0" encoding="iso-8859-1"?>'
    path = write_file(tmp_path, head + document("<string>ä</string><string><![CDATA[ö]]></string>"), "strings.xml")
    path.write_bytes(path.read_text(encoding="utf-8").encode("latin-1"))
    out = filled(android_document, path, with_texts(lambda _: "日ä😀")).decode("latin-1")
    assert "<string>&#26085;ä&#128512;</string>" in out and r"<![CDATA[\u65E5ä\uD83D\uDE00]]>" in out


def test_printf_of_strings_that_are_not_formatted(tmp_path: Path) -> None:
    content = '<string formatted="false">50 %s</string><string>%s Tage</string>'
    path = write_file(tmp_path, document(content), "strings.xml")
    assert [unit.printf for part in opened(android_document, path) for unit in part.units] == [False, None]


def test_tags_have_their_kinds(tmp_path: Path) -> None:
    path = write_file(tmp_path, document("<string>a <b>b</b> <br/>c</string>"), "strings.xml")
    (source,) = sources(android_document, path)
    kinds = [(part.markup, part.kind, part.element, part.blank) for part in source if isinstance(part, Tag)]
    assert kinds == [
        ("<b>", TagKind.OPEN, True, False),
        ("</b>", TagKind.CLOSE, True, False),
        ("<br/>", TagKind.SINGLE, False, True),
    ]


@pytest.mark.parametrize("content", ["<plist><string>a</string></plist>", "<a/>"])
def test_other_xml_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match=r"is XML without the <resources> of Android; name its format with --format"):
        opened(android_document, write_file(tmp_path, content, "a.xml"))


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="get a complete file"):
        opened(android_document, write_file(tmp_path, RESOURCES[:-30], "a.xml"), Report())


def test_entities_are_refused(tmp_path: Path) -> None:
    content = '<!DOCTYPE resources [<!ENTITY a "b">]>' + document("<string>&a;</string>")
    with pytest.raises(InputError, match="declares the entity 'a'"):
        opened(android_document, write_file(tmp_path, content, "a.xml"))


def test_a_broken_string_stays(tmp_path: Path) -> None:
    content = document("<string>alt</string><string>a <b c</string><string>alt</string>")
    path, report = write_file(tmp_path, content, "a.xml"), Report()
    out = filled(android_document, path, with_texts(str.upper), report=report).decode()
    assert out == content.replace("alt", "ALT") and "broken XML" in report.problems[0]


PLAIN = st.text("aZ ä'\"\\@?\n\t<&>]%u0日😀\u00a0\u200d;", max_size=15)


@given(PLAIN, st.booleans())
def test_escapes_are_read_as_they_are_meant(text: str, in_quotes: bool) -> None:
    assert unescaped(escaped(text, in_quotes), in_quotes) == (text, in_quotes)


PIECES = st.sampled_from(
    "Wort ä 'x &amp; &lt; &quot; &#65; \\' \\\" \\n \\u00e4 \\ud83d \\ \" @ ? % <b>a</b> <xliff:g>c</xliff:g> <br/> "
    "<!--d--> <![CDATA[e<i>f]]> <?g?>".split()
) | st.sampled_from([" ", "\n  ", "\u00a0"])
CONTENTS = st.lists(PIECES, max_size=8).map("".join)


def resources(contents: list[str]) -> str:
    strings = "".join(f'\n  <string name="a">{content}</string>' for content in contents)
    items = "".join(f"<item>{content}</item>" for content in contents)
    return f'<resources xmlns:xliff="x">{strings}<string-array>{items}</string-array>\n</resources>\n'


@given(st.lists(CONTENTS, max_size=4))
def test_resources_come_back(contents: list[str]) -> None:
    raw = resources(contents)
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), raw, "strings.xml")
        assert "".join(part.raw for part in opened(android_document, path)) == raw
        assert filled(android_document, path, same).decode() == raw


@given(st.lists(CONTENTS, min_size=1, max_size=3), PLAIN.map(lambda text: f"{text}z"))
def test_translations_are_read_as_they_are_meant(contents: list[str], target: str) -> None:
    def rewrite(segment: Segment) -> Segment:
        return tuple(part if isinstance(part, Tag) else target for part in segment)

    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), resources(contents), "strings.xml")
        meant = [shown(rewrite(source)) for source in sources(android_document, path)]
        path.write_bytes(filled(android_document, path, rewrite))
        assert [shown(source) for source in sources(android_document, path)] == meant
        tree(path)
