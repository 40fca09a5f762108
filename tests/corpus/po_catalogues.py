"""Catalogues for tests: hand-written ones, and strategies that generate others with polib."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polib
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.document import Document, Filling, FillingOrigin, Fillings, Match, Part, Tag
from nearmt.corpus.po import po_document
from nearmt.corpus.report import Report, Request

HEADER = """\
# Translators' licence.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: de\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"
"""

#: One entry of every sort, in the order and spacing of gettext.
CATALOGUE = (
    HEADER
    + """
#. Title of the window.
#. Keep it short.
#: src/main.c:10 src/other.c:7
#: src/third.c
msgid "Pump"
msgstr "Pumpe"

# A word with two meanings.
msgctxt "noun"
msgid "Open"
msgstr ""

#, c-format
msgid "%d of %d"
msgstr "%d von %d"

#: src/main.c:30
#, fuzzy, no-c-format
#| msgctxt "old"
#| msgid ""
#| "100% "
#| "certain"
msgid "100% sure"
msgstr "100% gewiss"

msgid ""
"Two\\n"
"lines\\n"
msgstr ""
"Zwei\\n"
"Zeilen\\n"

#, python-format
msgid "%d valve"
msgid_plural "%d valves"
msgstr[0] "%d Ventil"
msgstr[1] "%d Ventile"

#~| msgid "Older"
#~ msgid "Old"
#~ msgstr "Alt"

#~ msgctxt "c"
#~ msgid "Gone"
#~ msgid_plural "All gone"
#~ msgstr[0] "Weg"
#~ msgstr[1] ""
#~ "Alle weg"

# The last word.
"""
)


def written(folder: Path, text: str | bytes, name: str = "de.po") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def opened(path: Path, report: Report | None = None) -> tuple[Document, list[Part]]:
    document = po_document(path, Request(), report if report is not None else Report())
    return document, list(document.parts)


def packed(document: Document, texts: list[str]) -> bytes:
    encoding = document.encoding
    return encoding.bom + "".join(texts).encode(encoding.name, encoding.errors)


def rendered(path: Path, *fillings: Filling | None) -> str:
    """Fill the units of a document in order; None after the last filling."""
    left = list(fillings)
    document, parts = opened(path)
    texts = []
    for part in parts:
        mine: Fillings = [left.pop(0) if left else None for _ in part.units]
        texts.append(part.filled(mine))
    return packed(document, texts).decode(document.encoding.name)


def machine(text: str, *matches: Match, ids: tuple[str, ...] = ()) -> Filling:
    return Filling((text,), FillingOrigin.MACHINE, score=-0.5, pair_ids=ids, matches=matches)


def memory(text: str, *matches: Match) -> Filling:
    return Filling((text,), FillingOrigin.MEMORY, pair_ids=("7",), matches=matches)


def sides(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


#: Characters of strings, without NUL and \x04, which are separators in compiled catalogues.
TEXT = st.text(
    st.one_of(
        st.characters(codec="utf-8", exclude_characters="\x00\x04"),
        st.sampled_from(' "\\\n\t\r\v\b\f\anrtx0#%\x85\u2028\u00a0\u202e\ufeff'),
        st.sampled_from("aبא😀é"),
    ),
    max_size=30,
)
SOURCE = TEXT.filter(bool)
#: A line of a comment; polib wraps and strips comments.
COMMENT = st.text(st.sampled_from("abc é:,#|~"), max_size=20).map(str.strip).filter(lambda text: text[:7] != "nearmt:")
PLACE = st.tuples(st.sampled_from(["a.c", "src/b-c.py", "d"]), st.sampled_from(["", "1", "250"]))
FLAGS = st.lists(st.sampled_from(["fuzzy", "c-format", "no-wrap", "no-python-format"]), unique=True)


@dataclass(frozen=True)
class Written:
    """A catalogue as bytes."""

    data: bytes
    plural_count: int


@st.composite
def entries(draw: st.DrawFn, plural_count: int) -> polib.POEntry:
    entry = polib.POEntry(
        msgid=draw(SOURCE),
        msgctxt=draw(st.none() | TEXT),
        comment=draw(COMMENT),
        tcomment=draw(COMMENT),
        occurrences=draw(st.lists(PLACE, max_size=3)),
        flags=draw(FLAGS),
        previous_msgid=draw(st.none() | SOURCE),
        obsolete=draw(st.sampled_from([False] * 4 + [True])),
    )
    if draw(st.booleans()):
        entry.msgstr = draw(TEXT)
    else:
        entry.msgid_plural = draw(SOURCE)
        entry.msgstr_plural = {form: draw(TEXT) for form in range(plural_count)}
    return entry


@st.composite
def catalogues(draw: st.DrawFn) -> Written:
    """Save with polib, then vary line ends, blank lines and the last line end."""
    plural_count = draw(st.sampled_from([1, 2, 3, 6]))
    catalogue = polib.POFile(wrapwidth=draw(st.sampled_from([0, 20, 78])))
    catalogue.metadata = {
        "Content-Type": "text/plain; charset=UTF-8",
        "Language": "de",
        "Plural-Forms": f"nplurals={plural_count}; plural=0;",
    }
    for entry in draw(st.lists(entries(plural_count), max_size=6)):
        catalogue.append(entry)
    text = str(catalogue)
    if draw(st.booleans()):
        text = re.sub("\n\n+", "\n", text)
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    bom = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    return Written(bom + text.encode(), plural_count)


@st.composite
def fillings(draw: st.DrawFn) -> Filling:
    match = st.builds(Match, TEXT, TEXT, st.floats(0, 1))
    return Filling(
        target=tuple(draw(st.lists(TEXT | TEXT.map(Tag), max_size=3))),
        origin=draw(st.sampled_from(FillingOrigin)),
        score=draw(st.none() | st.floats(-9, 0)),
        pair_ids=tuple(draw(st.lists(st.sampled_from(["1", "99"]), max_size=2))),
        matches=tuple(draw(st.lists(match, max_size=2))),
        review=draw(st.sampled_from(["", "the reason"])),
    )


#: Lines of catalogues, for use in any order.
LINES = st.sampled_from(
    [
        *("#", "# comment", "#comment", "#. extracted", "#: a.c:1", "#, fuzzy", "#,c-format fuzzy", "#, c-format"),
        *('#| msgid "previous"', '#~ msgid "gone"', '#~ msgstr "weg"', '#~| msgid "gone before"', "#~"),
        *('msgctxt "context"', 'msgid "source"', 'msgid ""', 'msgid "open', '  msgid  "indented"'),
        *('msgid_plural "sources"', 'msgstr "target"', 'msgstr ""', 'msgstr "one" too many"'),
        *('msgstr[0] "first"', 'msgstr[1] "second"', 'msgstr[x] "none"', '"more\\n"', '"more', '"\x85"'),
        *("garbage", "<<<<<<< HEAD", "\ufeff", "\udcff", " ", "", "", ""),
    ]
)
SOUP = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\n", "\r\n"])).map("".join), max_size=25).map("".join)
