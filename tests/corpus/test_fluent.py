"""Fluent files as documents and, in two languages, as a memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.corpus.document import Segment
from nearmt.corpus.fluent import fluent_document
from nearmt.corpus.icu import parse_message
from nearmt.corpus.report import Report, Request
from nearmt.errors import InputError
from tests.corpus.files import unchanged_or_refused, write_file
from tests.corpus.markup_files import filled, lines_of, opened, same, texts, with_texts

FILE = """\
### Eine App
# Kommentar
-marke = Blaue Wolke
    .gattung = feminin
willkommen = Willkommen bei { -marke }, { $name }!
zeit = Um { DATETIME($d, hour: "numeric") }{ "." }
menu =
    .label = Datei öffnen
    .accesskey = D
    .style = width: 20em
absatz =
    Erste Zeile
    geht weiter.

    Zweiter Absatz.
leer = { $a }
"""


def written(folder: Path, content: str, rewrite: object = same) -> str:
    path = write_file(folder, content, "a.ftl")
    return filled(fluent_document, path, rewrite).decode()  # type: ignore[arg-type]


def test_values_and_attributes_of_messages_are_units(tmp_path: Path) -> None:
    assert lines_of(fluent_document, write_file(tmp_path, FILE, "a.ftl")) == [
        (3, "Blaue Wolke"),
        (5, "Willkommen bei { -marke }, { $name }!"),
        (6, 'Um ⟦{ DATETIME($d, hour: "numeric") }⟧⟦{ "." }⟧'),
        (8, "Datei öffnen"),
        (12, "Erste Zeile geht weiter.\n\nZweiter Absatz."),
        (16, "{ $a }"),
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_only_patterns_are_replaced(tmp_path: Path, line_end: str) -> None:
    content = FILE.replace("\n", line_end)
    assert written(tmp_path, content) == content
    words = {"Datei": "File", "Zeile": "Line", "Wolke": "Cloud", "Um ": "At "}

    def translated(text: str) -> str:
        for word, translation in words.items():
            text = text.replace(word, translation)
        return text

    expected = translated(content).replace("= D", "= F")
    expected = expected.replace(f"Line{line_end}    geht", "Line geht")
    assert written(tmp_path, content, with_texts(translated)) == expected


def test_signs_of_fluent_in_translations_are_quoted(tmp_path: Path) -> None:
    content = "a =\n    Wort\nb = Wort { $x }\nc = Wort\n"
    found = written(tmp_path, content, with_texts(lambda text: text.replace("Wort", "[x] {y}\n\n.z")))
    assert found == (
        'a =\n    {"["}x] {"{"}y{"}"}\n\n    {"."}z\nb = [x] {"{"}y{"}"}\n\n    {"."}z { $x }\n'
        'c = [x] {"{"}y{"}"}\n\n    {"."}z\n'
    )
    assert texts(fluent_document, tmp_path, found)[0] == '⟦{"["}⟧x] ⟦{"{"}⟧y⟦{"}"}⟧\n\n⟦{"."}⟧z'


SELECT = """\
dateien = { $n ->
    [0] Keine Datei
    [one] Eine Datei mit { -marke } und 'x'
   *[other] { $n } Dateien, #1 { NUMBER($m) }
} gefunden
wer =
    Von { $user ->
        [male] ihm
       *[female] ihr
    }
rang = { NUMBER($n, type: "ordinal") ->
   *[other] { $n }. Platz
}
bruch = { $n ->
    [1.5] anderthalb
   *[other] viele
}
"""


def branches(segment: Segment) -> list[str]:
    """The branches of an ICU message, with tags as they are in the document."""
    text = "".join(part if isinstance(part, str) else "⟦⟧" for part in segment)
    message = parse_message(text, "de", "de")
    assert message is not None
    return [branch.text for branch in message.branches]


def test_select_expressions_are_messages_with_branches(tmp_path: Path) -> None:
    parts = opened(fluent_document, write_file(tmp_path, SELECT, "a.ftl"))
    files, people, rank = [unit.source for part in parts for unit in part.units]
    assert branches(files) == [
        "Keine Datei gefunden",
        "Eine Datei mit { -marke } und 'x' gefunden",
        "{ $n } Dateien, '#'1 ⟦⟧ gefunden",
    ]
    assert branches(people) == ["Von ihm", "Von ihr"] and branches(rank) == ["{ $n }. Platz"]


def test_translated_messages_are_select_expressions(tmp_path: Path) -> None:
    def rewrite(segment: Segment) -> Segment:
        text, *others = segment
        assert isinstance(text, str)
        if "Datei" in text:
            case = text.replace("Eine Datei mit", "A file, it''s")
            return (case.replace("Dateien", "files"), *others)
        if "ordinal" in text:
            return ("{n, selectordinal, one {{ $n }st} other {{ $n }th}}",)
        return ("{user, select, male {by {$user} '{'a'}'} female {by her}}",)

    assert (
        written(tmp_path, SELECT, rewrite)
        == """\
dateien = { $n ->
        [0] Keine Datei
        [one] A file, it's { -marke } und 'x'
       *[other] { $n } files, #1 { NUMBER($m) }
    } gefunden
wer =
    { $user ->
        [male] by {$user} {"{"}a{"}"}
       *[female] by her
    }
rang = { NUMBER($n, type: "ordinal") ->
        [one] { $n }st
       *[other] { $n }th
    }
bruch = { $n ->
    [1.5] anderthalb
   *[other] viele
}
"""
    )


def test_a_translation_that_is_no_message_leaves_the_text(tmp_path: Path) -> None:
    assert written(tmp_path, SELECT, lambda _: ("{n, plural, one {",)) == SELECT


def test_broken_entries_are_reported_and_kept(tmp_path: Path) -> None:
    report = Report()
    path = write_file(tmp_path, "a = Wort\nkaputt\nb = { $x\nc = Wort\n", "a.ftl")
    assert len([unit for part in opened(fluent_document, path, report) for unit in part.units]) == 2
    assert [problem.partition(", ")[2].partition(":")[0] for problem in report.problems] == ["line 2", "line 4"]
    with pytest.raises(InputError, match="kept as it is"):
        opened(fluent_document, path)
    with pytest.raises(InputError, match="no Fluent file"):
        opened(fluent_document, write_file(tmp_path, "# nichts\n", "b.ftl"))


PIECES = [
    "a = b\n",
    "-t = c\n",
    "    .d = e\n",
    "{ $n ->\n",
    "   *[other] x\n",
    "}",
    "    ",
    "\n",
    "# k\n",
    "{",
    '"',
    "\r\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_any_file_comes_back_or_is_refused(content: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder), content, "a.ftl")
        assert unchanged_or_refused(fluent_document, path, Request("de", "en"))


def pairs(*paths: Path) -> list[Pair]:
    return list(read_pairs(*paths, source_lang="de", target_lang="en", strict=False))


def test_two_languages_are_a_memory(tmp_path: Path) -> None:
    for folder in ("de", "en-US", "fr"):
        (tmp_path / folder).mkdir()
    source = write_file(tmp_path / "de", FILE + SELECT, "app.ftl")
    english = (
        "willkommen = Welcome to { -marke }, { $name }!\nzeit = At { DATETIME($d) }\nmenu =\n    .label = Open\n"
        "    .accesskey = O\ndateien = { $n ->\n    [one] One file\n   *[other] { $n } files\n} found\n"
    )
    target = write_file(tmp_path / "en-US", english, "app.ftl")
    write_file(tmp_path / "fr", "willkommen = Salut\n", "app.ftl")
    expected = [
        ("willkommen", "Willkommen bei { -marke }, { $name }!", "Welcome to { -marke }, { $name }!"),
        ("zeit", "Um", "At"),
        ("menu.label", "Datei öffnen", "Open"),
        ("dateien:one", "Eine Datei mit { -marke } und 'x' gefunden", "One file found"),
        ("dateien:other", "{ $n } Dateien, '#'1 gefunden", "{ $n } files found"),
    ]
    for paths in ((tmp_path,), (source, target), (target, source)):
        found = pairs(*paths)
        assert [(pair.id.partition(":")[2], pair.source, pair.target) for pair in found] == expected
        assert found[2].metadata == {"resname": "menu.label"}


def test_files_named_after_languages(tmp_path: Path) -> None:
    write_file(tmp_path, "a = Wort\n", "app.de.ftl")
    write_file(tmp_path, "a = Word\n", "app.en.ftl")
    assert [(pair.id, pair.target) for pair in pairs(tmp_path)] == [("app.de.ftl:a", "Word")]


def test_one_language_is_no_memory(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a = Wort\n", "app.ftl")
    for named in (path, tmp_path):
        with pytest.raises(InputError, match="give the files of both, de and en"):
            pairs(named)


def test_requests_without_languages(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a = Wort\n", "a.ftl")
    assert len(opened(fluent_document, path, request=Request())) == 2
