"""Units that are ICU messages: branches are filled in one by one, and the message is rebuilt."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from nearmt.contracts import Pair
from nearmt.corpus import Filling, FillingOrigin, Tag, TagKind, Unit
from nearmt.documents import FillConfig, FilledUnit, Filler, fill_document
from nearmt.documents import filling as filling_module
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.documents.test_filling import Shouting, word_by_word

X = Tag('<x id="INTERPOLATION"/>')
OPEN, CLOSE = Tag("<b>", TagKind.OPEN, "1", element=True), Tag("</b>", TagKind.CLOSE, "1", element=True)


class CountingLoudly(Shouting):
    """Translates into capitals, and 1 as a word."""

    def _say(self, text: str) -> str:
        return super()._say(text.replace("1 Tag", "ein Tag"))


@pytest.fixture
def aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling_module, "align", word_by_word)


def fill(translator: Shouting, *source: str | Tag) -> FilledUnit:
    filler = Filler(cast(Translator, translator), FillConfig(), paragraphs=True)
    (filled,) = filler.fill([Unit(source, line=3)])
    return filled


def test_branches_are_translated_with_their_numbers() -> None:
    translator = Shouting()
    found = fill(translator, "Nach {n, plural, one {# Tag} other {# Tagen}} ist {datei} weg.")
    assert translator.asked == ["Nach 1 Tag ist {datei} weg.", "Nach 13 Tagen ist {datei} weg."]
    expected = "{n, plural, one {NACH # TAG IST {datei} WEG.} other {NACH # TAGEN IST {datei} WEG.}}"
    assert found.filling.text == found.translation.text == expected
    assert found.filling.origin is FillingOrigin.MACHINE and found.warnings == ()
    assert found.filling.score == found.translation.score == -0.5 and found.translation.tokens == 2


@pytest.mark.usefixtures("aligned")
def test_number_that_became_a_word_is_put_back_by_alignment() -> None:
    found = fill(CountingLoudly(), "{n, plural, one {Nur # Tag} other {Nur # Tage}}")
    assert found.filling.text == "{n, plural, one {NUR # TAG} other {NUR # TAGE}}"
    told = "numbers or arguments were put back by alignment: check their positions: branch one"
    assert found.warnings == (told,)


@pytest.mark.usefixtures("aligned")
def test_warnings_name_all_their_branches() -> None:
    found = fill(Shouting(lose="%s"), "{n, plural, =0 {Kein %s} one {Ein %s} other {Viele %s}}")
    (warning,) = [warning for warning in found.warnings if "alignment" in warning]
    assert warning.startswith("placeholders were put back by alignment")
    assert warning.endswith(": branches =0, one, other")
    assert found.filling.text == "{n, plural, =0 {KEIN %s} one {EIN %s} other {VIELE %s}}"


@pytest.mark.usefixtures("aligned")
def test_numbers_differ_from_those_of_the_text() -> None:
    translator = Shouting()
    found = fill(translator, "{n, plural, other {# von 13 und 1, also {n}}}")
    assert translator.asked == ["\ue000 von 13 und 1, also \ue001", "14 von 13 und 1, also 15"]
    assert "other {# VON 13 UND 1, ALSO {n}}" in found.filling.text


@pytest.mark.usefixtures("aligned")
def test_tags_stay_in_their_branches() -> None:
    found = fill(Shouting(), "{N, plural, =0 {eben} other {vor ", X, " Minuten ", OPEN, "genau", CLOSE, "}}")
    parts = ("{N, plural, =0 {EBEN} one {VOR ", X, " MINUTEN ", OPEN, "GENAU", CLOSE, "} other {VOR ", X, " MINUTEN ")
    assert found.filling.target == (*parts, OPEN, "GENAU", CLOSE, "}}")


@pytest.mark.usefixtures("aligned")
def test_quoted_syntax_and_formats_of_their_own_are_kept() -> None:
    found = fill(Shouting(), "{g, select, other {das '{' und {x, own, a b} ist''s}}")
    assert found.filling.text == "{g, select, other {DAS '{' UND {x, own, a b} IST''S}}"
    (warning,) = found.warnings
    assert warning == "numbers or arguments were put back by alignment: check their positions: branch other"


def test_branches_without_words_are_copied() -> None:
    translator = Shouting()
    found = fill(translator, "{n, plural, =0 {–} one {#} other {{n} %}}")
    assert found.filling == Filling(("{n, plural, =0 {–} one {#} other {{n} %}}",), FillingOrigin.COPY)
    assert translator.asked == []


def test_memory_knows_messages_and_branches() -> None:
    whole = "{n, plural, one {ein Tag} other {Tage}}"
    memory = [Pair(whole, "{n, plural, one {a day} other {days}}", id="1"), Pair("die Stunde", "the hour", id="2")]
    translator = Shouting(memory)
    assert fill(translator, whole).filling.origin is FillingOrigin.MEMORY
    found = fill(translator, "{g, select, a {die Stunde} other {der Tag}}")
    assert found.filling.text == "{g, select, a {the hour} other {DER TAG}}" and translator.asked == ["der Tag"]
    assert found.filling.origin is FillingOrigin.MACHINE and found.filling.pair_ids == ("2",)


def test_malformed_message_is_translated_as_text_with_a_warning() -> None:
    translator = Shouting()
    found = fill(translator, "{n, plural, one {Tag} other {Tage}")
    (warning,) = found.warnings
    assert warning == "not an ICU message, translated as plain text: '}' is missing at character 35"
    assert translator.asked == ["{n, plural, one {Tag} other {Tage}"]


@pytest.mark.usefixtures("aligned")
def test_characters_that_stand_for_tags_are_text() -> None:
    text = "{g, select, other {\U000f0000}}"
    assert fill(Shouting(), text, X).filling.target == ("{g, SELECT, OTHER {\U000f0000}}", X)


def test_document_is_filled_with_a_tiny_model(tmp_path: Path, tiny: TranslationModel) -> None:
    path, out = tmp_path / "a.po", tmp_path / "b.po"
    message = "{n, plural, one {der motor} other {die pumpe}}"
    path.write_text(f'msgid ""\nmsgstr "Language: en\\n"\n\nmsgid "{message}"\nmsgstr ""\n', encoding="utf-8")
    translator = Translator(tiny)
    summary = fill_document(path, out, translator)
    one, other = (found.text for found in translator.translate(["der motor", "die pumpe"]))
    assert f'msgstr "{{n, plural, one {{{one}}} other {{{other}}}}}"' in out.read_text(encoding="utf-8")
    assert summary.counts == {"machine": 1}


@pytest.mark.embedded
def test_embedded_model_translates_whole_sentences(embedded: TranslationModel) -> None:
    filler = Filler(Translator(embedded), FillConfig(), paragraphs=True)
    sources = [
        "{count, plural, one {# Datei wurde} other {# Dateien wurden}} gelöscht.",
        "Ich habe {n, plural, =0 {keine Katze} =1 {eine Katze} other {{n} Katzen}}.",
        "{gender, select, female {Sie} other {Er}} hat das Buch gelesen.",
    ]
    first, second, third = (found.filling.text for found in filler.fill([Unit((source,)) for source in sources]))
    assert first == "{count, plural, one {# file has been deleted.} other {# files were deleted.}}"
    assert second == "{n, plural, =0 {I don't have a cat.} =1 {I have a cat.} other {I have {n} cats.}}"
    assert third == "{gender, select, female {She read the book.} other {He read the book.}}"
