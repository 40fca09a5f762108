"""Accelerator markers: found, removed, set on a letter of the translation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.accelerators import Accelerator, remove_accelerator, set_accelerator


@pytest.mark.parametrize(
    ("text", "plain", "letter"),
    [
        ("&Datei", "Datei", "D"),
        ("_Datei", "Datei", "D"),
        ("Be&arbeiten", "Bearbeiten", "a"),
        ("Sp_eichern unter…", "Speichern unter…", "e"),
        ("Neue Datei &öffnen", "Neue Datei öffnen", "ö"),
        ("&1. Fenster", "1. Fenster", "1"),
        ("Datei (&D)", "Datei", "D"),
        ("Datei(_D)...", "Datei...", "D"),
        ("ファイル(&F)", "ファイル", "F"),
        ("Suchen && &Ersetzen", "Suchen & Ersetzen", "E"),
        ("&Öffnen &amp; schließen", "Öffnen &amp; schließen", "Ö"),
        ("<b>&Datei</b>", "<b>Datei</b>", "D"),
    ],
)
def test_markers_are_removed(text: str, plain: str, letter: str) -> None:
    found, accelerator = remove_accelerator(text)
    assert found == plain
    assert accelerator is not None and accelerator.letter == letter and accelerator.marker in text


@pytest.mark.parametrize(
    "text",
    [
        "R&D", "AT&T", "Q&A", "Drag&Drop", "Müller&Söhne", "A & B", "A &amp; B", "&nbsp;Datei", "Ende &", "&&Datei",
        "snake_case", "user_name", "__init__", "_private_name", "ein _Wort_ hier", "&A und &B", "https://a.org/?a=1&b=2",
        "%(_name)s", "Datei", "", "(&)", "Datei (D)",
    ],
)  # fmt: skip
def test_other_texts_are_unchanged(text: str) -> None:
    assert remove_accelerator(text) == (text, None)


def test_only_the_markers_asked_for_count() -> None:
    assert remove_accelerator("&Datei", markers="_") == ("&Datei", None)
    assert remove_accelerator("_Datei", markers="&") == ("_Datei", None)
    assert remove_accelerator("Datei (_D)", markers="&") == ("Datei (_D)", None)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("&Datei", "File", "&File"),
        ("&Bearbeiten", "Edit", "&Edit"),
        ("Be&arbeiten", "Change all", "Change &all"),
        ("Sp_eichern", "Save", "Sav_e"),
        ("&Ende", "“Exit”", "“&Exit”"),
        ("Datei (&D)", "Duplicate", "&Duplicate"),
        ("&Datei", "ファイル", "ファイル(&D)"),
        ("&Datei...", "ファイル...", "ファイル(&D)..."),
        ("&Datei", "DVD ファイル", "&DVD ファイル"),
        ("&1. Fenster", "1st window", "&1st window"),
        ("&Fenster %s", "%s window", "%s &window"),
        ("&Suche", "<b>search</b>", "<b>&search</b>"),
        ("Suchen && &Ersetzen", "Find & Replace", "Find && R&eplace"),
        ("&& &Datei", "a &amp; b & c", "&a &amp; b && c"),
        ("&Datei", "...", "..."),
        ("_Datei", "Файл", "_Файл"),
    ],
)
def test_markers_are_set(source: str, target: str, expected: str) -> None:
    _, accelerator = remove_accelerator(source)
    assert accelerator is not None
    assert set_accelerator(target, accelerator) == expected


@given(st.text(alphabet="abzß文 .%<", min_size=1, max_size=20), st.sampled_from("az1"))
def test_a_marker_that_was_set_is_found_again(text: str, letter: str) -> None:
    marked = set_accelerator(text, Accelerator("&", letter))
    plain, accelerator = remove_accelerator(marked)
    assert plain == text
    assert (accelerator is None) == (marked == text)


@given(
    st.lists(st.sampled_from(["&Datei", "&", "&&", "_", " ", "Wort", "&amp;", "(&D)", "..."]), max_size=6).map("".join)
)
def test_removing_keeps_all_other_characters(text: str) -> None:
    plain, accelerator = remove_accelerator(text)
    if accelerator is None:
        assert plain == text
    else:
        left = [character for character in plain if character not in "&_()D "]
        assert left == [character for character in text if character not in "&_()D "]
