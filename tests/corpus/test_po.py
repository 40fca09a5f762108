"""PO catalogues: reading pairs, and filling in."""

from __future__ import annotations

import gzip
import lzma
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.document import Filling, FillingOrigin, Match, Tag, plain_text
from nearmt.corpus.mo import read_mo
from nearmt.corpus.po import po_document, read_po
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError
from tests.corpus.po_catalogues import (
    CATALOGUE,
    HEADER,
    SOUP,
    Written,
    catalogues,
    fillings,
    machine,
    memory,
    opened,
    packed,
    rendered,
    sides,
    written,
)

LONG = "a" * 1_000_000 + "\\n"


def read(path: Path, report: Report | None = None, request: Request | None = None) -> list[Pair]:
    reader = read_mo if ".mo" in path.suffixes else read_po
    return list(reader(path, request or Request(), report if report is not None else Report()))


def without_ids(pairs: list[Pair]) -> list[Pair]:
    return [replace(pair, id="") for pair in pairs]


def entry(msgid: str, msgstr: str) -> str:
    return f'\nmsgid "{msgid}"\nmsgstr "{msgstr}"\n'


def plural(*forms: str) -> str:
    strings = "".join(f'msgstr[{form}] "{text}"\n' for form, text in enumerate(forms))
    return f'\nmsgid "one"\nmsgid_plural "many"\n{strings}'


def header(plural_count: int) -> str:
    return HEADER.replace("nplurals=2", f"nplurals={plural_count}")


# Pairs


def test_pairs_have_metadata(tmp_path: Path) -> None:
    report = Report()
    assert without_ids(read(written(tmp_path, CATALOGUE), report)) == [
        Pair(
            "Pump",
            "Pumpe",
            origin="de.po",
            metadata={
                "comment": "Title of the window.\nKeep it short.",
                "occurrences": "src/main.c:10 src/other.c:7 src/third.c",
            },
        ),
        Pair("%d of %d", "%d von %d", origin="de.po"),
        Pair("Two\nlines\n", "Zwei\nZeilen\n", origin="de.po"),
        Pair("%d valve", "%d Ventil", origin="de.po"),
        Pair("%d valves", "%d Ventile", origin="de.po"),
    ]
    assert report.units == 8
    assert report.skipped == {"fuzzy": 1, "obsolete": 2, "untranslated": 1}
    assert report.languages == {"de": 5}
    assert not report.problems


def test_fuzzy_entries_on_request(tmp_path: Path) -> None:
    report = Report()
    pairs = read(written(tmp_path, CATALOGUE), report, Request(unconfirmed=True))
    assert ("100% sure", "100% gewiss") in sides(pairs)
    assert report.skipped == {"obsolete": 2, "untranslated": 1}


def test_context_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, 'msgctxt "noun"\nmsgid "Open"\nmsgstr "Offenes"\n')
    assert without_ids(read(path)) == [Pair("Open", "Offenes", origin="de.po", metadata={"context": "noun"})]


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (["a"], [("many", "a")]),
        (["a", "b"], [("one", "a"), ("many", "b")]),
        (["a", "b", "c"], [("one", "a"), ("many", "c")]),
        (["a", "b", "c", "d", "e", "f"], [("one", "a"), ("many", "f")]),
        (["", "b"], [("many", "b")]),
        (["a", ""], [("one", "a")]),
        (["", ""], []),
        ([""], []),
    ],
)
def test_plurals_give_the_first_and_the_last_form(
    forms: list[str], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    report = Report()
    assert sides(read(written(tmp_path, header(len(forms)) + plural(*forms)), report)) == expected
    assert report.units == 1
    assert report.skipped["untranslated"] == (not expected)


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".po", bytes), (".po.gz", gzip.compress), (".po.xz", lzma.compress)],
    ids=["plain", "gz", "xz"],
)
def test_compressed_catalogues_are_read(suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = written(tmp_path, pack(CATALOGUE.encode()), "de" + suffix)
    assert len(read(path)) == 5
    document, parts = opened(path)
    assert packed(document, [part.raw for part in parts]) == CATALOGUE.encode()


@pytest.mark.parametrize("target", ["de", "DE", "de-AT", "de_CH", "de@hebrew", None])
def test_catalogue_of_the_requested_language_is_read(target: str | None, tmp_path: Path) -> None:
    assert len(read(written(tmp_path, CATALOGUE), request=Request("en", target))) == 5


def test_catalogue_of_another_language_is_skipped(tmp_path: Path) -> None:
    path, report = written(tmp_path, CATALOGUE.replace("Language: de", "Language: fr")), Report()
    assert read(path, report, Request("de", "en")) == []
    assert report.skipped == {"catalogues of other languages": 1} and not report.problems
    assert not report.units and not report.languages


@pytest.mark.parametrize("line", ["", '"Language: \\n"\n'])
def test_catalogue_without_a_language_is_read_as_its_name_says(line: str, tmp_path: Path) -> None:
    report = Report()
    path = written(tmp_path, CATALOGUE.replace('"Language: de\\n"\n', line))
    assert ("Pumpe", "Pump") in sides(read(path, report, Request("de", "en")))
    assert report.languages == {"de": 5} and not report.problems


def test_only_the_first_empty_msgid_is_the_header(tmp_path: Path) -> None:
    report = Report()
    path = written(tmp_path, HEADER + '\nmsgctxt "c"\nmsgid ""\nmsgstr "x"\n' + entry("", "Language: fr\\n"))
    assert sides(read(path, report)) == [("", "x"), ("", "Language: fr\n")]
    assert report.units == 2 and report.languages == {"de": 2}
    assert [part.units for part in opened(path)[1] if part.units] == []


@pytest.mark.parametrize(
    ("quoted", "text"),
    [
        (r"a\\b\"c\"", 'a\\b"c"'),
        (r"\\n", "\\n"),
        (r"\n\t\r\v\b\f\a", "\n\t\r\v\b\f\a"),
        (r"\033[1m\x41", "\x1b[1mA"),
        (r"\303\244\xc3\xa4", "ää"),
        (r"\\033", r"\033"),
        (r"\d", r"\d"),
        ("👩\u200d👩\u200d👧 \u202eשלום مرحبا\u202c", "👩\u200d👩\u200d👧 \u202eשלום مرحبا\u202c"),
        ("a\u2028b\x85c\x0cd", "a\u2028b\x85c\x0cd"),
        ("# no comment", "# no comment"),
    ],
)
def test_strings_are_unescaped(quoted: str, text: str, tmp_path: Path) -> None:
    assert sides(read(written(tmp_path, entry(quoted, quoted)))) == [(text, text)]


@pytest.mark.parametrize(
    "text",
    [
        '#,fuzzy\nmsgid "a"\nmsgstr "b"\n',
        '#, c-format fuzzy\nmsgid "a"\nmsgstr "b"\n',
        '#, fuzzy\n\n# comment\n\nmsgid "a"\nmsgstr "b"\n',
        '#-#-#-#-#  a.po  #-#-#-#-#\n#, c-format\n#, fuzzy\nmsgid"a"\nmsgstr"b"',
    ],
)
def test_fuzzy_flags_of_any_form(text: str, tmp_path: Path) -> None:
    report = Report()
    assert read(written(tmp_path, text), report) == []
    assert report.skipped == {"fuzzy": 1} and not report.problems


def test_blank_lines_are_ignored(tmp_path: Path) -> None:
    text = 'msgctxt "c"\n\nmsgid "a"\n\n\nmsgid_plural "b"\n \nmsgstr[0] ""\n\n"x"\n\nmsgstr[1] "y"\n'
    path, report = written(tmp_path, text), Report()
    assert sides(read(path, report)) == [("a", "x"), ("b", "y")]
    assert report.units == 1 and not report.problems
    assert rendered(path, None, memory("z")) == "# nearmt: exact match from the memory, pair 7\n" + text.replace(
        '"y"', '"z"'
    )


# Broken entries

GOOD = [("first", "erste"), ("last", "letzte")]


@pytest.mark.parametrize(
    ("broken", "line", "reason"),
    [
        ('msgid "open\nmsgstr "offen"\n', 1, "quotation mark"),
        ('msgid "a"\nmsgstr "offen\n', 2, "quotation mark"),
        ('msgid "a"\nmsgstr ""\n"b\n"c"\n', 3, "quotation mark"),
        ('msgid "say "no""\nmsgstr "b"\n', 1, "quotation mark"),
        ('msgid "a\\\\"b"\nmsgstr "b"\n', 1, "quotation mark"),
        ('msgid "a"\nmsgstr "b" and more\n', 2, "quotation mark"),
        ('# comment\nmsgid "a"\ngarbage\nmsgstr "b"\n', 3, "neither a comment nor"),
        ("garbage\n", 1, "neither a comment nor"),
        ('msgid "a"\nmsgid "b"\nmsgstr "c"\n', 2, "'msgid' is out of place"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', 3, "'msgstr' is out of place"),
        ('msgctxt "a"\nmsgctxt "b"\nmsgid "c"\nmsgstr "d"\n', 2, "'msgctxt' is out of place"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[0] "c"\nmsgstr[0] "d"\n', 4, "'msgstr[0]' is out of place"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[0] "c"\nmsgstr[2] "d"\n', 4, "'msgstr[2]' is out of place"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr "c"\n', 3, "'msgstr' is out of place"),
        ('msgid "a"\nmsgstr[0] "c"\n', 2, "'msgstr[0]' is out of place"),
        ('# comment\nmsgid "a"\n', 2, "without msgstr"),
        ('msgctxt "c"\nmsgid "a"\n', 2, "without msgstr"),
        ('msgstr "b"\n', 1, "'msgstr' is out of place"),
        ('msgid "a"\n# comment\nmsgstr "b"\n', 2, "a comment inside"),
        ('msgid "a"\nmsgstr "b"\n#: a.c:1\n"c"\n', 3, "a comment inside"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[' + "9" * 5000 + '] "c"\n', 3, "'msgstr' is out of place"),
        ('msgid "a"\nmsgstr "\\377"\n', 2, "escaped bytes that are not utf-8"),
        (b'msgid "a"\nmsgstr "gr\xfcn"\n', 2, "not utf-8"),
        (b'# gr\xfcn\nmsgid "a"\nmsgstr "b"\n', 1, "not utf-8"),
        ('<<<<<<< HEAD\nmsgid "a"\nmsgstr "b"\n=======\n', 1, "neither a comment nor"),
    ],
)
def test_broken_entry_does_not_affect_others(broken: str | bytes, line: int, reason: str, tmp_path: Path) -> None:
    before = HEADER + entry(*GOOD[0]) + "\n"
    middle = broken.encode() if isinstance(broken, str) else broken
    text = before.encode() + middle + entry(*GOOD[1]).encode()
    path, report = written(tmp_path, text), Report()
    assert sides(read(path, report)) == GOOD
    assert report.units == 3 and report.problem_count == 1
    assert report.problems[0].startswith(f"{path}, line {before.count(chr(10)) + line}: ")
    assert reason in report.problems[0]
    with pytest.raises(InputError, match=f"line {before.count(chr(10)) + line}: "):
        read(path, Report(strict=True))

    document, parts = opened(path, of_document := Report())
    assert of_document.problems == report.problems
    assert [plain_text(unit.source) for part in parts for unit in part.units] == ["first", "last"]
    assert packed(document, [part.raw for part in parts]) == text
    filled = packed(document, [part.filled([memory("x") for _ in part.units]) for part in parts])
    assert middle in filled
    with pytest.raises(InputError):
        opened(path, Report(strict=True))


def test_two_adjacent_broken_entries(tmp_path: Path) -> None:
    report = Report()
    text = HEADER + '\nmsgid "a\n#: a.c:1\nmsgid "b"\nmsgstr "c\nmsgid "d"\nmsgstr "e"\n'
    assert sides(read(written(tmp_path, text), report)) == [("d", "e")]
    assert [problem.partition("line ")[2][:2] for problem in report.problems] == ["8:", "11"]


def test_broken_entry_before_an_obsolete_one_is_reported(tmp_path: Path) -> None:
    report = Report()
    text = 'msgid "a"\n#~ msgid "b"\n#~ msgstr "c"\nmsgid "d"\nmsgstr "e"\n'
    assert sides(read(written(tmp_path, text), report)) == [("d", "e")]
    assert report.units == 3 and report.skipped == {"obsolete": 1}
    assert "line 1: an entry without msgstr" in report.problems[0]


def test_entries_are_streamed(tmp_path: Path) -> None:
    path = written(tmp_path, entry("a", "b") + entry("open", 'en"d') + entry("c", "d"))
    stream = read_po(path, Request(), Report(strict=True))
    assert next(stream).source == "a"
    with pytest.raises(InputError, match="line 6"):
        next(stream)


# Documents

TEXTS = {
    "all": CATALOGUE,
    "no blank lines": CATALOGUE.replace("\n\n", "\n"),
    "header": HEADER,
    "comments last": HEADER + entry("a", "b") + "\n# one\n#, fuzzy\n",
    "no newline last": (HEADER + entry("a", "b")).rstrip(),
    "long": HEADER + entry(LONG, LONG),
    "six forms": header(6) + plural(*"abcdef"),
    "other scripts": HEADER + entry("😀 👩\u200d👩\u200d👧", "\u202eשלום\u202c مرحبا"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["", "bom"])
@pytest.mark.parametrize("name", TEXTS)
def test_unfilled_document_is_unchanged(name: str, bom: bytes, end: str, tmp_path: Path) -> None:
    data = bom + TEXTS[name].replace("\n", end).encode()
    report = Report()
    document, parts = opened(written(tmp_path, data), report)
    assert packed(document, [part.raw for part in parts]) == data
    assert packed(document, [part.filled([None] * len(part.units)) for part in parts]) == data
    assert document.paragraphs and not report.problems


def test_entries_are_units(tmp_path: Path) -> None:
    _, parts = opened(written(tmp_path, CATALOGUE))
    units = [unit for part in parts for unit in part.units]
    assert [(plain_text(unit.source), unit.target, unit.line, unit.printf) for unit in units] == [
        ("Pump", "Pumpe", 12, None),
        ("Open", "", 17, None),
        ("%d of %d", "%d von %d", 21, True),
        ("100% sure", "100% gewiss", 30, False),
        ("Two\nlines\n", "Zwei\nZeilen\n", 33, None),
        ("%d valve", "%d Ventil", 41, True),
        ("%d valves", "%d Ventile", 41, True),
    ]
    assert all(len(unit.source) == 1 for unit in units)
    assert [len(part.units) for part in parts if part.units] == [1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("flags", "printf"),
    [
        ("#, c-format", True),
        ("#, fuzzy, php-format", True),
        ("#,no-wrap\n#=python-format", True),
        ("#, no-c-format, python-format", True),
        ("#, no-c-format", False),
        ("#, no-wrap", None),
        ("# c-format", None),
    ],
)
def test_format_flags_tell_printf_placeholders(flags: str, printf: bool | None, tmp_path: Path) -> None:
    _, parts = opened(written(tmp_path, f'{flags}\nmsgid "a"\nmsgstr "b"\n'))
    assert [unit.printf for part in parts for unit in part.units] == [printf]


@pytest.mark.parametrize("name", ["latin-1", "cp1252", "koi8-r", "euc-jp", "gb18030"])
def test_encoding_of_the_header_is_used(name: str, tmp_path: Path) -> None:
    target = {"koi8-r": "насос", "euc-jp": "ポンプ", "gb18030": "泵😀"}.get(name, "Prüfgerät")
    text = HEADER.replace("UTF-8", name) + entry("pump", target)
    path = written(tmp_path, text.encode(name))
    assert sides(read(path)) == [("pump", target)]
    document, parts = opened(path)
    assert packed(document, [part.raw for part in parts]) == text.encode(name)
    assert rendered(path, memory(target + target)).endswith(f'\nmsgstr "{target}{target}"\n')


def test_byte_order_mark_of_utf_16(tmp_path: Path) -> None:
    data = ("\ufeff" + CATALOGUE).encode("utf-16-le")
    document, parts = opened(written(tmp_path, data))
    assert packed(document, [part.raw for part in parts]) == data
    assert sum(len(part.units) for part in parts) == 7


def test_machine_translation_is_fuzzy(tmp_path: Path) -> None:
    text = '# By hand.\n#. extracted\n#: a.c:1\n#| msgid "before"\nmsgctxt "c"\nmsgid "a"\nmsgstr ""\n'
    match = Match("A\nb", "B\r\n", 0.8799)
    assert rendered(written(tmp_path, text), machine("x", match, ids=("3", "5"))) == (
        "# nearmt: machine translation, score -0.500, memory pairs 3, 5\n# nearmt: 87% match: A b -> B\n"
        '# By hand.\n#. extracted\n#: a.c:1\n#, fuzzy\n#| msgid "before"\nmsgctxt "c"\nmsgid "a"\nmsgstr "x"\n'
    )


NOTE = "# nearmt: exact match from the memory, pair 7\n"
MACHINE_NOTE = "# nearmt: machine translation, score -0.500\n"


@pytest.mark.parametrize(
    ("before", "fuzzy", "confirmed"),
    [
        ("", "#, fuzzy\n", ""),
        ("#, c-format\n", "#, c-format, fuzzy\n", "#, c-format\n"),
        ("#,c-format\n", "#, c-format, fuzzy\n", "#,c-format\n"),
        ("#,\n", "#, fuzzy\n", "#,\n"),
        ("#, fuzzy\n", "#, fuzzy\n", ""),
        ("#,fuzzy\n", "#,fuzzy\n", ""),
        ("#, fuzzy, c-format\n", "#, fuzzy, c-format\n", "#, c-format\n"),
        ("#, c-format, fuzzy, no-wrap\n", "#, c-format, fuzzy, no-wrap\n", "#, c-format, no-wrap\n"),
        ("#, c-format\n#, fuzzy\n", "#, c-format\n#, fuzzy\n", "#, c-format\n"),
        ('#, fuzzy\n#| msgid ""\n#| "b"\n', '#, fuzzy\n#| msgid ""\n#| "b"\n', ""),
        ('#| msgid "b"\n', '#, fuzzy\n#| msgid "b"\n', '#| msgid "b"\n'),
        ("# fuzzy\n", "# fuzzy\n#, fuzzy\n", "# fuzzy\n"),
        ("#: fuzzy\n", "#: fuzzy\n#, fuzzy\n", "#: fuzzy\n"),
    ],
)
def test_fuzzy_flag_is_set_and_removed(before: str, fuzzy: str, confirmed: str, tmp_path: Path) -> None:
    path = written(tmp_path, f'{before}msgid "a"\nmsgstr "b"\n')
    assert rendered(path, machine("x")) == f'{MACHINE_NOTE}{fuzzy}msgid "a"\nmsgstr "x"\n'
    assert rendered(path, memory("x")) == f'{NOTE}{confirmed}msgid "a"\nmsgstr "x"\n'
    copied = f'# nearmt: copied from the source\n{confirmed}msgid "a"\nmsgstr "x"\n'
    assert rendered(path, Filling(("x",), FillingOrigin.COPY)) == copied


def test_notes_replace_earlier_notes(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + '\n# Section.\n\n# By hand.\n#: a.c:1\nmsgid "a"\nmsgstr "b"\n')
    once = rendered(path, machine("x", Match("A", "B", 1.0), Match("C", "D", 0.999999)))
    assert once == HEADER + (
        f"\n# Section.\n\n{MACHINE_NOTE}# nearmt: 100% match: A -> B\n# nearmt: 99% match: C -> D\n"
        '# By hand.\n#: a.c:1\n#, fuzzy\nmsgid "a"\nmsgstr "x"\n'
    )
    twice = rendered(written(tmp_path, once), memory("y"))
    assert twice == HEADER + f'\n# Section.\n\n{NOTE}# By hand.\n#: a.c:1\nmsgid "a"\nmsgstr "y"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 'msgstr ""'),
        ("one line", 'msgstr "one line"'),
        ("one line\n", r'msgstr "one line\n"'),
        ("\n", r'msgstr "\n"'),
        ("two\nlines", 'msgstr ""\n"two\\n"\n"lines"'),
        ("\ntwo\n\n", 'msgstr ""\n"\\n"\n"two\\n"\n"\\n"'),
        ('"\\\t\r\v\b\f', r'msgstr "\"\\\t\r\v\b\f"'),
        ("long " * 50, f'msgstr "{"long " * 50}"'),
    ],
)
@pytest.mark.parametrize("old", ['msgstr "b"', 'msgstr ""\n"b\\n"\n"c"'])
def test_strings_are_written_like_gettext(text: str, expected: str, old: str, tmp_path: Path) -> None:
    path = written(tmp_path, f'msgid "a"\n{old}\n\nmsgid "next"\nmsgstr ""\n')
    assert rendered(path, memory(text)) == f'{NOTE}msgid "a"\n{expected}\n\nmsgid "next"\nmsgstr ""\n'


def test_tags_are_written_as_markup(tmp_path: Path) -> None:
    filling = Filling(("a ", Tag("<b>"), "b", Tag("</b>")), FillingOrigin.MEMORY, pair_ids=("7",))
    assert rendered(written(tmp_path, 'msgid "a"\nmsgstr ""\n'), filling).endswith('msgstr "a <b>b</b>"\n')


def test_line_ends_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path, b'#: a.c:1\r\nmsgid "a"\r\nmsgstr "b"')
    assert rendered(path, machine("x\ny")) == (
        MACHINE_NOTE + '#: a.c:1\n#, fuzzy\nmsgid "a"\nmsgstr ""\n"x\\n"\n"y"'
    ).replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("count", "forms", "both", "first", "second"),
    [
        (1, ["a"], ["y"], ["a"], ["y"]),
        (2, ["a", "b"], ["x", "y"], ["x", "b"], ["a", "y"]),
        (3, ["a", "b", "c"], ["x", "y", "y"], ["x", "b", "c"], ["a", "y", "y"]),
        (6, ["", "", "", "", "", ""], ["x"] + ["y"] * 5, ["x"] + [""] * 5, [""] + ["y"] * 5),
        (3, ["", ""], ["x", "y", "y"], ["x", ""], ["", "y", "y"]),
        (2, ["a"], ["x", "y"], ["x"], ["a", "y"]),
        (2, ["a", "b", "c"], ["x", "y"], ["x", "b", "c"], ["a", "y"]),
        (1, ["a", "b"], ["y"], ["a", "b"], ["y"]),
        (0, ["a"], ["x", "y"], ["x"], ["a", "y"]),
        (0, ["a", "b", "c"], ["x", "y", "y"], ["x", "b", "c"], ["a", "y", "y"]),
    ],
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_plurals_are_filled_form_by_form(
    count: int, forms: list[str], both: list[str], first: list[str], second: list[str], end: str, tmp_path: Path
) -> None:
    def strings(text: str) -> list[str]:
        assert text.endswith("\n") == bool(end)
        (found,) = polib.pofile(text)
        assert (found.msgid, found.msgid_plural) == ("one", "many")
        return [form for _, form in sorted(found.msgstr_plural.items())]

    path = written(tmp_path, (header(count) + plural(*forms)).removesuffix("\n") + end)
    assert strings(rendered(path, memory("x"), memory("y"))) == both
    assert strings(rendered(path, memory("x"), None)) == first
    assert strings(rendered(path, None, memory("y"))) == second


@pytest.mark.parametrize(
    ("count", "forms", "targets"),
    [
        (1, ["a"], ["a", "a"]),
        (2, ["a", "b"], ["a", "b"]),
        (3, ["a", "b", "c"], ["a", "c"]),
        (6, list("abcdef"), ["a", "f"]),
        (2, ["a"], ["a", ""]),
        (1, ["a", "b"], ["a", "a"]),
    ],
)
def test_targets_of_plurals(count: int, forms: list[str], targets: list[str], tmp_path: Path) -> None:
    _, parts = opened(written(tmp_path, header(count) + plural(*forms)))
    assert [unit.target for part in parts for unit in part.units] == targets


def test_template_without_a_number_of_forms(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER.replace("nplurals=2", "nplurals=INTEGER") + plural("", ""))
    assert 'msgstr[0] "x"\nmsgstr[1] "y"\n' in rendered(path, memory("x"), memory("y"))


@pytest.mark.parametrize(
    ("pair", "is_fuzzy"),
    [
        ((memory("x"), memory("y")), False),
        ((memory("x"), machine("y")), True),
        ((machine("x"), memory("y")), True),
        ((memory("x"), None), True),  # the other half is unconfirmed
        ((None, memory("y")), True),
    ],
)
def test_fuzzy_plural(pair: tuple[Filling | None, ...], is_fuzzy: bool, tmp_path: Path) -> None:
    text = HEADER + plural("a", "b").replace("\nmsgid ", '\n#, fuzzy\n#| msgid "zero"\nmsgid ', 1)
    (found,) = polib.pofile(rendered(written(tmp_path, text), *pair))
    assert found.fuzzy == is_fuzzy
    assert (found.previous_msgid is not None) == is_fuzzy


def test_both_halves_of_a_plural_share_a_note(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + plural("", ""))
    assert rendered(path, memory("x"), memory("y")).count("nearmt") == 1
    assert rendered(path, memory("x"), machine("y")).count("nearmt") == 2
    path = written(tmp_path, header(1) + plural(""))
    assert rendered(path, machine("x"), memory("y")).count("nearmt") == 1


# Catalogues generated by polib


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One folder for all examples of a property test."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def seen_by_polib(path: Path, unconfirmed: bool) -> list[tuple[str, str, str]]:
    seen = []
    for found in polib.pofile(str(path)):
        if found.obsolete or (found.fuzzy and not unconfirmed):
            continue
        forms = [form for _, form in sorted(found.msgstr_plural.items())] if found.msgid_plural else [found.msgstr]
        if len(forms) > 1 or not found.msgid_plural:
            seen.append((found.msgid, forms[0], found.msgctxt or ""))
        if found.msgid_plural:
            seen.append((found.msgid_plural, forms[-1], found.msgctxt or ""))
    return [pair for pair in seen if pair[1]]


@given(catalogue=catalogues(), unconfirmed=st.booleans())
def test_pairs_equal_those_of_polib(catalogue: Written, unconfirmed: bool, folder: Path) -> None:
    path, report = written(folder, catalogue.data), Report(strict=True)
    pairs = read(path, report, Request(unconfirmed=unconfirmed))
    found = [(pair.source, pair.target, pair.metadata.get("context", "")) for pair in pairs]
    assert found == seen_by_polib(path, unconfirmed)
    assert report.units == len(polib.pofile(str(path)))


@given(catalogue=catalogues())
def test_no_fillings_change_nothing(catalogue: Written, folder: Path) -> None:
    document, parts = opened(written(folder, catalogue.data), Report(strict=True))
    assert packed(document, [part.raw for part in parts]) == catalogue.data
    assert packed(document, [part.filled([None] * len(part.units)) for part in parts]) == catalogue.data


def unchanged(found: polib.POEntry) -> tuple[object, ...]:
    """Return the fields that fillings do not change."""
    comments = [line for line in found.tcomment.split("\n") if line and not line.startswith("nearmt:")]
    flags = [flag for flag in found.flags if flag != "fuzzy"]
    return (found.msgctxt, found.msgid, found.msgid_plural, found.comment, comments, flags, found.occurrences)


def text_of(filling: Filling) -> str:
    return "".join(part if isinstance(part, str) else part.markup for part in filling.target)


def check_filled(old: polib.POEntry, new: polib.POEntry, mine: list[Filling], plural_count: int) -> None:
    texts = [text_of(filling) for filling in mine]
    if old.msgid_plural:
        singular = [texts[0]] if plural_count > 1 else []
        forms = singular + [texts[1]] * (plural_count - len(singular))
        assert new.msgstr_plural == dict(enumerate(forms))
        mine = mine if plural_count > 1 else mine[1:]
    else:
        assert new.msgstr == texts[0]
    assert new.fuzzy == any(filling.is_unconfirmed for filling in mine)
    assert new.previous_msgid == (None if old.fuzzy and not new.fuzzy else old.previous_msgid)
    said = {note for filling in mine for note in [filling.note] + ["match"] * len(filling.matches)}
    assert sum(line.startswith("nearmt:") for line in new.tcomment.split("\n")) >= len(said)


@given(data=st.data(), catalogue=catalogues())
def test_polib_reads_filled_catalogues(data: st.DataObject, catalogue: Written, folder: Path) -> None:
    path = written(folder, catalogue.data)
    document, parts = opened(path)
    texts, given_out = [], []
    for part in parts:
        mine = [data.draw(fillings()) for _ in part.units]
        given_out += [mine] if mine else []
        texts.append(part.filled(mine))
    filled = polib.pofile(str(written(folder, packed(document, texts), "filled.po")))
    before = polib.pofile(str(path))
    assert [unchanged(new) for new in filled] == [unchanged(old) for old in before]
    assert filled.metadata == before.metadata
    assert filled.obsolete_entries() == before.obsolete_entries()
    live = [pair for pair in zip(before, filled, strict=True) if not pair[0].obsolete]
    for (old, new), mine in zip(live, given_out, strict=True):
        check_filled(old, new, mine, catalogue.plural_count)


@given(soup=SOUP)
@settings(max_examples=300)
def test_lines_in_any_order_are_kept(soup: str, folder: Path) -> None:
    soup += entry("last", "x")  # a broken entry at the end would be an error
    data = soup.encode("utf-8", "surrogateescape")
    path, report = written(folder, data), Report()
    read(path, report)
    lines = [int(problem.partition("line ")[2].partition(":")[0]) for problem in report.problems]
    assert lines == sorted(lines) and all(1 <= line <= soup.count("\n") for line in lines)
    document, parts = opened(path)
    assert packed(document, [part.raw for part in parts]) == data
    filled = packed(document, [part.filled([memory("x") for _ in part.units]) for part in parts])
    again = Report()
    document, parts = opened(written(folder, filled, "filled.po"), again)
    assert {unit.target for part in parts for unit in part.units} <= {"x"}
    assert again.problem_count == report.problem_count


# Compiled catalogues


def compiled(folder: Path, text: str) -> Path:
    path = folder / "de.mo"
    polib.pofile(text).save_as_mofile(str(path))
    return path


@given(catalogue=catalogues())
def test_compiled_catalogues_have_the_same_pairs(catalogue: Written, folder: Path) -> None:
    path = written(folder, catalogue.data)
    source = polib.pofile(str(path))
    # polib does not compile plurals with an empty form. (`remove` would delete the first equal entry.)
    source[:] = [found for found in source if found.translated()]
    source.save(str(path))
    source.save_as_mofile(str(folder / "de.mo"))

    def counted(pairs: list[Pair]) -> Counter[tuple[str, str, str]]:
        return Counter((pair.source, pair.target, pair.metadata.get("context", "")) for pair in pairs)

    of_po, of_mo = Report(strict=True), Report(strict=True)
    assert counted(read(folder / "de.mo", of_mo)) == counted(read(path, of_po))
    assert of_mo.languages == of_po.languages and of_mo.units == of_po.units


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".mo", bytes), (".mo.gz", gzip.compress), (".mo.xz", lzma.compress)],
    ids=["plain", "gz", "xz"],
)
def test_compressed_compiled_catalogues_are_read(suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    data = compiled(tmp_path, CATALOGUE).read_bytes()
    report = Report()
    path = written(tmp_path, pack(data), "de" + suffix)
    pairs = read(path, report)
    assert Counter(sides(pairs)) == Counter(sides(read(written(tmp_path, CATALOGUE))))
    assert {pair.origin for pair in pairs} == {path.name}
    assert report.units == 4 and report.languages == {"de": 5}


def test_compiled_catalogue_of_another_language_is_skipped(tmp_path: Path) -> None:
    path, report = compiled(tmp_path, CATALOGUE), Report()
    assert read(path, report, Request("de", "fr")) == []
    assert report.skipped == {"catalogues of other languages": 1} and not report.units


def mo_bytes(strings: list[tuple[bytes, bytes]], order: str = "<", system_dependent: int = 0) -> bytes:
    """Make a compiled catalogue of any byte order and encoding, with a count of system-dependent messages."""
    start = 48 + 16 * len(strings)
    tables: list[list[int]] = [[], []]
    texts = b""
    for table, column in zip(tables, zip(*strings, strict=True), strict=True):
        for text in column:
            table += [len(text), start + len(texts)]
            texts += text + b"\0"
    begins = (48, 48 + 8 * len(strings))
    numbers = [0x950412DE, min(system_dependent, 1), len(strings), *begins, 0, start, 0, 0, system_dependent, 0, 0]
    numbers += tables[0] + tables[1]
    return struct.pack(f"{order}{len(numbers)}I", *numbers) + texts


@pytest.mark.parametrize("order", "<>")
def test_compiled_catalogues_of_any_byte_order_and_encoding(order: str, tmp_path: Path) -> None:
    head = b"Content-Type: text/plain; charset=ISO-8859-1\nLanguage: de\n"
    data = mo_bytes([(b"", head), (b"Menu\x04pump", b"Pr\xfcfpumpe"), (b"one\0many", b"eine\0viele")], order)
    assert without_ids(read(written(tmp_path, data, "de.mo"))) == [
        Pair("pump", "Prüfpumpe", origin="de.mo", metadata={"context": "Menu"}),
        Pair("one", "eine", origin="de.mo"),
        Pair("many", "viele", origin="de.mo"),
    ]


@pytest.mark.parametrize("order", "<>")
def test_system_dependent_messages_are_counted(order: str, tmp_path: Path) -> None:
    report = Report()
    path = written(tmp_path, mo_bytes([(b"a", b"b")], order, system_dependent=3), "de.mo")
    assert sides(read(path, report)) == [("a", "b")]
    assert report.units == 4 and report.skipped == {"system-dependent": 3}


def test_compiled_entry_in_another_encoding_is_reported(tmp_path: Path) -> None:
    head = b"Content-Type: text/plain; charset=CHARSET\n"
    path = written(tmp_path, mo_bytes([(b"", head), (b"a", b"\xff"), (b"b", b"x"), (b"c", b"")]), "de.mo")
    report = Report()
    assert sides(read(path, report)) == [("b", "x")]
    assert report.units == 3 and report.skipped == {"untranslated": 1}
    assert report.problems == [f"{path}: entry 2 is not utf-8, as the header says"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:2],
        lambda data: data[:20],
        lambda data: data[:40],
        lambda data: data[:-4],
        lambda data: b"msgid" + data,
        lambda data: data[:4] + b"\xff\xff\xff\xff" + data[8:],
        lambda data: data[:8] + b"\xff\xff\xff\xff" + data[12:],
        lambda data: data[:12] + b"\xff\xff\xff\x7f" + data[16:],
        lambda data: data.replace(b"UTF-8", b"UTF-X"),
    ],
)
def test_damaged_compiled_catalogue_is_reported(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    data = damage(compiled(tmp_path, CATALOGUE).read_bytes())
    path, report = written(tmp_path, data, "bad.mo"), Report()
    assert read(path, report) == []
    assert report.problem_count == 1
    assert report.problems[0].startswith(f"{path}: is not a compiled catalogue, or damaged (")
    with pytest.raises(InputError, match="damaged"):
        read(path, Report(strict=True))


@given(data=st.data())
@settings(max_examples=300)
def test_altered_bytes_are_reported_or_read(data: st.DataObject, folder: Path) -> None:
    raw = bytearray(compiled(folder, CATALOGUE).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read(written(folder, bytes(raw), "altered.mo"))


@pytest.mark.parametrize(
    ("header", "request_", "expected"),
    [
        ("Language: de\\n", Request("de", "en"), ("Pumpe", "pump")),  # English messages, as usual
        ("Language: de_AT\\nX-Source-Language: en_GB\\n", Request("de", "en"), ("Pumpe", "pump")),
        ("Language: de\\n", Request("en", "de"), ("pump", "Pumpe")),
        ("Language: deu\\n", Request("eng_Latn", "deu_Latn"), ("pump", "Pumpe")),
        ("Language: de\\n", Request("de", "fr"), None),
        ("Language: de\\nX-Source-Language: fr\\n", Request("de", "en"), None),
    ],
)
def test_catalogue_of_the_opposite_direction_is_swapped(
    tmp_path: Path, header: str, request_: Request, expected: tuple[str, str] | None
) -> None:
    path, report = tmp_path / "a.po", Report()
    path.write_text(f'msgid ""\nmsgstr "{header}"\n\nmsgid "pump"\nmsgstr "Pumpe"\n', encoding="utf-8")
    found = [(pair.source, pair.target) for pair in read_po(path, request_, report)]
    assert found == ([expected] if expected else [])
    assert report.skipped.total() == (expected is None)


def test_document_of_another_language_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text('msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "pump"\nmsgstr ""\n', encoding="utf-8")
    with pytest.raises(InputError, match="is a catalogue of 'de', the model translates into 'en'"):
        list(po_document(path, Request("de", "en"), Report()).parts)
