"""Filling of units with a fake translator: exact matches, sentences, placeholders and tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from nearmt.contracts import Pair, Progress, Translation
from nearmt.corpus import Filling, FillingOrigin, Segment, Tag, TagKind, Unit, plain_text
from nearmt.corpus.glossary import Term
from nearmt.corpus.marks import Terms
from nearmt.datastore import Datastore
from nearmt.datastore.search.matches import SegmentSources, SourceLookup
from nearmt.documents import FillConfig, FilledUnit, Filler, fill_document
from nearmt.documents import filling as filling_module
from nearmt.documents.checks import Finding, Severity
from nearmt.models import TranslationModel
from nearmt.models.alignment import Link
from nearmt.translator import Flags, Translator
from tests.datastore.helpers import in_memory

OPEN, CLOSE = Tag("<b>", TagKind.OPEN, "1", element=True), Tag("</b>", TagKind.CLOSE, "1", element=True)


class FakeModel:
    language_pair = ("de", "en")

    class seq2seq:  # noqa: N801
        positions = 100

    class codec:  # noqa: N801
        @staticmethod
        def unknown_share(text: str) -> float:
            return 0.0


class FakeMemory:
    def __init__(self, pairs: list[Pair]) -> None:
        lookup = SourceLookup([SegmentSources(in_memory(pairs))], None)
        self.exact, self.exact_match = lookup.exact, lookup.exact_match
        self.matches, self.containing = lookup.fuzzy, lookup.containing

    def snapshot(self) -> FakeMemory:
        return self


class Shouting:
    """Translates into capitals; drops the strings in `lose`."""

    def __init__(self, memory: list[Pair] | None = None, lose: str = "") -> None:
        self.model, self.batch_size = FakeModel(), 8
        self.datastore = None if memory is None else FakeMemory(memory)
        self.asked: list[str] = []
        self._lose = lose

    def translate(
        self,
        texts: Sequence[str],
        *,
        explain: bool = False,
        progress: Progress | None = None,
        printf: Flags = None,
        terms: Terms | None = None,
    ) -> list[Translation]:
        self.asked += texts
        return [Translation(source=text, text=self._say(text), score=-0.5, tokens=1) for text in texts]

    def _say(self, text: str) -> str:
        words = [word if re.fullmatch(r"[%{<].*", word) else word.upper() for word in text.split()]
        return " ".join(word for word in words if word != self._lose)


def word_by_word(model: object, sources: Sequence[str], targets: Sequence[str]) -> list[list[Link]]:
    """Align word by word, in order."""
    links = []
    for source, target in zip(sources, targets, strict=True):
        sides = [[match.span() for match in re.finditer(r"\w+|[^\w\s]", text)] for text in (source, target)]
        links.append([Link(a, b) for a, b in zip(*sides, strict=False)])
    return links


@pytest.fixture
def filler(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Filler]:
    monkeypatch.setattr(filling_module, "align", word_by_word)

    def make(translator: Shouting | None = None, paragraphs: bool = True, **settings: Any) -> Filler:
        return Filler(cast(Translator, translator or Shouting()), FillConfig(**settings), paragraphs=paragraphs)

    return make


def fill_one(filler: Filler, *source: str | Tag, printf: bool | None = None) -> FilledUnit:
    (filled,) = filler.fill([Unit(source, printf=printf)])
    return filled


def test_paragraphs_are_translated_by_sentence_and_keep_their_spacing(filler: Callable[..., Filler]) -> None:
    translator = Shouting()
    found = fill_one(filler(translator), "  Erster Satz.  Zweiter Satz!\n\nDritter\n")
    assert translator.asked == ["Erster Satz.", "Zweiter Satz!", "Dritter"]
    assert found.filling.text == "  ERSTER SATZ.  ZWEITER SATZ!\n\nDRITTER\n"
    assert found.filling.origin is FillingOrigin.MACHINE and found.filling.score == -0.5


@pytest.mark.parametrize(("paragraphs", "split", "asked"), [(False, None, 1), (False, True, 2), (True, False, 1)])
def test_splitting_depends_on_format_and_option(
    filler: Callable[..., Filler], paragraphs: bool, split: bool | None, asked: int
) -> None:
    translator = Shouting()
    fill_one(filler(translator, paragraphs=paragraphs, split_sentences=split), "Ein Satz. Noch ein Satz.")
    assert len(translator.asked) == asked


def test_tags_are_projected_across_sentences(filler: Callable[..., Filler]) -> None:
    source: Segment = ("Drücken Sie ", OPEN, "den Knopf. Warten", CLOSE, " Sie", Tag("<x/>"), ".")
    found = fill_one(filler(), *source)
    assert found.filling.target == ("DRÜCKEN SIE ", OPEN, "DEN KNOPF. WARTEN", CLOSE, " SIE", Tag("<x/>"), ".")
    assert not found.findings and found.translation.text == plain_text(found.filling.target)


@pytest.mark.parametrize("text", ["%s", "{0} – {1}", "123", "<b></b>", "...", "&nbsp;"])
def test_units_without_letters_are_copied(filler: Callable[..., Filler], text: str) -> None:
    translator = Shouting()
    found = fill_one(filler(translator), text)
    assert found.filling == Filling((text,), FillingOrigin.COPY) and translator.asked == []


def test_tags_alone_are_copied(filler: Callable[..., Filler]) -> None:
    assert fill_one(filler(), Tag("<x/>")).filling.target == (Tag("<x/>"),)


def test_kept_placeholders_need_no_second_translation(filler: Callable[..., Filler]) -> None:
    translator = Shouting()
    found = fill_one(filler(translator), "Datei %s fehlt in {ordner}")
    assert found.filling.text == "DATEI %s FEHLT IN {ordner}" and not found.findings
    assert len(translator.asked) == 1


def test_lost_placeholder_is_put_back_with_a_warning(filler: Callable[..., Filler]) -> None:
    found = fill_one(filler(Shouting(lose="%s")), "Datei %s fehlt")
    assert found.filling.text == "DATEI %s FEHLT"
    message = "placeholders were put back by alignment: check their positions"
    assert found.findings == (Finding("placeholders", Severity.WARNING, message),)


def test_percent_sign_is_not_a_placeholder_if_the_document_says_so(filler: Callable[..., Filler]) -> None:
    found = fill_one(filler(Shouting(lose="%s")), "Datei %s fehlt", printf=False)
    assert found.filling.text == "DATEI FEHLT" and not found.findings


def test_exact_matches_come_from_the_datastore(filler: Callable[..., Filler]) -> None:
    memory = [Pair("der Knopf", "the button", id="7"), Pair("die Datei %s", "the file", id="8")]
    translator = Shouting(memory)
    found = fill_one(filler(translator), " der  Knopf\n")
    assert found.filling == Filling((" the button\n",), FillingOrigin.MEMORY, pair_ids=("7",))
    assert translator.asked == []
    lacking = fill_one(filler(translator), "die Datei %s")
    assert lacking.findings == (Finding("placeholders", Severity.ERROR, "placeholders differ from the source", "%s"),)
    assert lacking.filling.note.endswith("pair 8; placeholders differ from the source: %s")
    machine = fill_one(filler(translator, exact=False), "der Knopf")
    assert machine.filling.origin is FillingOrigin.MACHINE and machine.filling.text == "DER KNOPF"


def test_exact_matches_get_the_tags_of_the_document(filler: Callable[..., Filler]) -> None:
    translator = Shouting([Pair("der rote Knopf", "the red button", id="7")])
    found = fill_one(filler(translator), "der ", OPEN, "rote", CLOSE, " Knopf")
    assert found.filling.target == ("the ", OPEN, "red", CLOSE, " button")


def test_fuzzy_matches_on_request(filler: Callable[..., Filler]) -> None:
    translator = Shouting([Pair("der Knopf klemmt", "the button is stuck", id="7")])
    assert fill_one(filler(translator), "der Knopf hakt").filling.matches == ()
    (match,) = fill_one(filler(translator, matches=True, min_match=0.5), "der Knopf hakt").filling.matches
    assert match.target == "the button is stuck" and 0.5 < match.similarity < 1
    assert fill_one(filler(translator, matches=True, min_match=0.9), "der Knopf hakt").filling.matches == ()


def test_exact_matches_of_the_context_need_no_review(filler: Callable[..., Filler]) -> None:
    memory = [Pair("Start", "Home", id="1", metadata={"context": "menu"}), Pair("Start", "Begin", id="2")]
    units = [Unit(("Start",), context=context) for context in ("menu", "", "tab")]
    found = [filled.filling for filled in filler(Shouting([*memory, Pair("Start", "Go", id="3")])).fill(units)]
    assert [(filling.text, filling.in_context, filling.is_unconfirmed) for filling in found] == [
        ("Home", True, False),
        ("Go", False, True),
        ("Go", False, True),
    ]
    assert found[1].origin is FillingOrigin.MEMORY and found[1].pair_ids == ("3",)


def test_similar_matches_are_repaired_on_request(filler: Callable[..., Filler]) -> None:
    memory = [Pair("Schrauben Sie 4 Bolzen fest", "Tighten 4 bolts", id="7"), Pair("Öl", "oil", id="8")]
    translator = Shouting(memory)
    source: Segment = (" Schrauben Sie ", OPEN, "6", CLOSE, " Bolzen  fest\n")
    assert fill_one(filler(translator), *source).filling.origin is FillingOrigin.MACHINE
    found = fill_one(filler(translator, fuzzy=0.9), *source)
    assert found.filling.origin is FillingOrigin.REPAIRED and found.filling.pair_ids == ("7",)
    assert plain_text(found.filling.target) == " Tighten 6 bolts\n" and OPEN in found.filling.target
    assert found.filling.is_unconfirmed and found.filling.review == "96% match, 4 -> 6"
    assert found.warnings == () and found.translation.text == "Tighten 6 bolts"
    # Too little resemblance, something that cannot be exchanged, and no datastore.
    assert fill_one(filler(translator, fuzzy=0.99), *source).filling.origin is FillingOrigin.MACHINE
    other = "Schrauben Sie 4 Muttern fest"
    assert fill_one(filler(translator, fuzzy=0.5), other).filling.origin is FillingOrigin.MACHINE
    assert fill_one(filler(Shouting(), fuzzy=0.5), other).filling.origin is FillingOrigin.MACHINE


def test_repair_does_not_lose_placeholders(filler: Callable[..., Filler]) -> None:
    memory = [Pair("Datei {a} hat 5 Zeilen in %s", "The file has 5 lines in %s", id="7")]
    found = fill_one(filler(Shouting(memory), fuzzy=0.5), "Datei {a} hat 6 Zeilen in %s")
    assert found.filling.origin is FillingOrigin.MACHINE


def test_file_is_filled_with_a_tiny_model(tmp_path: Path, tiny: TranslationModel, tiny_store: Datastore) -> None:
    pair = next(tiny_store.pairs())
    path, out = tmp_path / "a.tsv", tmp_path / "b.tsv"
    path.write_text(f"die pumpe\t\tx\nder motor\tthe engine\n\n{pair.source}\n", encoding="utf-8")
    translator = Translator(tiny, tiny_store)
    summary = fill_document(path, out, translator)
    rows = [line.split("\t") for line in out.read_text(encoding="utf-8").split("\n")]
    assert rows[0] == ["die pumpe", translator.translate("die pumpe").text, "x"]
    assert rows[1:3] == [["der motor", "the engine"], [""]]
    assert rows[3] == [pair.source, pair.target] and rows[4] == [""]
    assert summary.counts == {"machine": 1, "kept": 2, "memory": 1}
    again = fill_document(path, out, translator, everything=True)
    assert again.counts == {"machine": 2, "kept": 1, "memory": 1}


def test_accelerators_are_set_anew_in_documents_only(filler: Callable[..., Filler]) -> None:
    translator = Shouting()
    assert fill_one(filler(translator), "&Datei öffnen").filling.text == "&DATEI ÖFFNEN"
    assert translator.asked == ["Datei öffnen"]
    translator = Shouting()
    fill_one(filler(translator, paragraphs=False), "&Datei öffnen")
    assert translator.asked == ["&Datei öffnen"]


def test_a_glossary_is_given_to_the_translator_and_checked(filler: Callable[..., Filler], tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Kessel\tboiler\n", encoding="utf-8")
    found = fill_one(filler(glossary=str(glossary)), "Der Kessel ist heiß")
    assert any("Kessel → boiler" in warning for warning in found.warnings)


def test_terms_can_be_given_without_a_file() -> None:
    filler = Filler(cast(Translator, Shouting()), FillConfig(), paragraphs=True, terms=[Term("Kessel", "boiler")])
    assert any("Kessel → boiler" in warning for warning in fill_one(filler, "Der Kessel ist heiß").warnings)


@pytest.mark.embedded
def test_an_exact_match_that_contradicts_the_glossary_is_reviewed(
    filler: Callable[..., Filler], tmp_path: Path
) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Kessel\tboiler\n", encoding="utf-8")
    memory = Shouting([Pair("Der Kessel", "The kettle", "k"), Pair("Den Kessel prüfen", "Check the boiler", "b")])
    found = filler(memory, glossary=str(glossary))
    first, second = found.fill([Unit(("Der Kessel",)), Unit(("Den Kessel prüfen",))])
    assert first.filling.review == "the glossary has another translation of Kessel" and first.filling.is_unconfirmed
    assert second.filling.review == "" and not second.filling.is_unconfirmed
    assert found.conflicts == []  # half of the pairs have the term


def test_terms_of_a_glossary_are_used_and_other_sentences_do_not_change(
    embedded: TranslationModel, tmp_path: Path
) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Warenkorb\ttrolley\nRechnung\tcharge note\n", encoding="utf-8")
    units = [Unit((text,)) for text in ("Ihr Warenkorb ist leer.", "Das Wetter ist schön.", "Rechnung bezahlen")]
    plain, fixed = (
        [found.filling.text for found in Filler(Translator(embedded), config, paragraphs=True).fill(units)]
        for config in (FillConfig(), FillConfig(glossary=str(glossary)))
    )
    assert "trolley" in fixed[0] and fixed[1] == plain[1] and fixed[2].lower().find("charge note") >= 0
