"""The beam writes every mark of a sentence exactly once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nearmt.config.beam import BeamConfig
from nearmt.config.building import BuildConfig
from nearmt.contracts import Pair
from nearmt.corpus.marks import KNOWN_MARKS, MARKS
from nearmt.corpus.spans import find_spans
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.tokens import tokens_of
from nearmt.datastore.upkeep.description import describe
from nearmt.datastore.upkeep.reindex import rebuild
from nearmt.decoding.marks import MarkRule
from nearmt.errors import NearmtWarning
from nearmt.models import TranslationModel
from nearmt.models.marks import Marks, MarkTokens
from nearmt.translator import Translator

VOCABULARY = ["</s>", " [", "[", "]", "1", "2", "a"]
END, OPEN, INNER, CLOSE, ONE, TWO, WORD = range(len(VOCABULARY))
TEXTS = [
    "Die Datei {path} konnte nicht in {folder} gespeichert werden: %s",
    "%(counter)s Benutzer löschen",
    "Klicken Sie auf [OK], um %d von %d Dateien zu löschen.",
    'Warum nicht <a href="%(url)s">ein neues <b>Objekt</b> erstellen</a>?',
    "Das Wetter ist heute schön.",
    "{0} {1} {2} {3} {4} {5} {6} {7} {8} {9} {10} {11}",
]


class Codec:
    def subwords(self, ids: Sequence[int]) -> list[str]:
        return [VOCABULARY[number] for number in ids]


def constrained(tokens: list[int], marks: Marks | None, logits: list[float], left: int = 9) -> list[float]:
    """The logits of the only row of a sentence that has these tokens so far."""
    rule = MarkRule(MarkTokens(Codec(), len(VOCABULARY)), [marks], [END])  # type: ignore[arg-type]
    state: Any = SimpleNamespace(sentences=[0], rows_of=list, tokens_of=lambda slot: [tokens])
    logits_BV = torch.tensor([logits])
    rule.apply(state, [left], logits_BV)
    found: list[float] = logits_BV[0].tolist()
    return found


def test_a_sentence_without_marks_is_not_touched() -> None:
    assert constrained([OPEN, OPEN], None, [1.0] * 7) == [1.0] * 7


def test_the_end_waits_for_marks_and_what_it_had_goes_to_them() -> None:
    found = constrained([WORD], Marks(frozenset({1})), [math.log(8), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert found[END] == -math.inf and found[CLOSE] == -math.inf
    assert found[OPEN] == found[INNER] == pytest.approx(math.log(1 + 4))
    assert found[WORD] == found[ONE] == 0.0
    done = constrained([WORD, OPEN, ONE, CLOSE], Marks(frozenset({1})), [0.0] * 7)
    assert done[END] == 0.0 and done[OPEN] == done[INNER] == done[CLOSE] == -math.inf


def test_within_a_mark_only_its_rest_may_follow() -> None:
    found = constrained([OPEN], Marks(frozenset({2})), [float(number) for number in range(7)])
    assert [number for number, value in enumerate(found) if math.isfinite(value)] == [TWO] and found[TWO] == TWO


def test_marks_that_are_missing_get_the_last_tokens_before_the_limit() -> None:
    marks = Marks(frozenset({1, 2}))
    for left, alone in ((7, False), (6, True), (5, False)):  # with less room, marks are put back by alignment
        found = constrained([WORD], marks, [0.0] * 7, left)
        assert (found[WORD] == -math.inf) is alone and math.isfinite(found[OPEN]) and found[END] == -math.inf
    done = constrained([OPEN, ONE, CLOSE, INNER, TWO, CLOSE], marks, [0.0] * 7, 0)
    assert math.isfinite(done[WORD]) and math.isfinite(done[END])


def spans_of(text: str) -> list[str]:
    return sorted(text[span.start : span.end] for span in find_spans(text))


@pytest.fixture(scope="module")
def memory(embedded: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Datastore:
    pairs = [
        Pair("Die Datei {name} wurde gelöscht: %d", "The file {name} was removed: %d"),
        Pair("%(count)s Benutzer wurden gelöscht", "%(count)s users were removed"),
        Pair("Klicken Sie auf [Weiter].", "Press [Continue]."),
    ]
    return Datastore.build(tmp_path_factory.mktemp("marks") / "store", pairs, embedded)


@pytest.mark.embedded
@pytest.mark.parametrize("method", ["plain", "knn", "chunk"])
def test_every_span_is_there_once_in_any_batch(embedded: TranslationModel, memory: Datastore, method: str) -> None:
    store = None if method == "plain" else memory
    found = Translator(embedded, store, method, batch_size=8).translate(TEXTS)
    for text, translation in zip(TEXTS, found, strict=True):
        assert spans_of(translation.text) == spans_of(text) and not translation.truncated
    assert "[OK]" in found[2].text
    alone = Translator(embedded, store, method, batch_size=1).translate(TEXTS)
    assert [(each.text, each.score) for each in alone] == [(each.text, each.score) for each in found]


@pytest.mark.embedded
@pytest.mark.parametrize("limit", [13, 16, 20])
def test_a_translation_that_is_cut_has_its_spans(embedded: TranslationModel, limit: int) -> None:
    text = "Der Benutzer %(name)s hat die Datei <b>%(path)s</b> aus dem Ordner des Projekts entfernt."
    found = Translator(embedded, beam=BeamConfig(max_new_tokens=limit)).translate(text)
    assert found.truncated and spans_of(found.text) == spans_of(text)


@pytest.mark.embedded
def test_a_store_with_other_marks_is_stale_until_it_is_encoded_anew(
    embedded: TranslationModel, memory: Datastore, tmp_path: Path
) -> None:
    folder, text = tmp_path / "store", "Klicken Sie auf [OK]."
    pairs = [*memory.pairs(), Pair(text, "Press [OK].")]
    Datastore.build(folder, pairs, embedded)
    replace(Manifest.load(folder), marks=KNOWN_MARKS[1]).save(folder)
    with pytest.warns(NearmtWarning, match="nearmt reindex DIR --model MODEL"):
        Translator(embedded, str(folder))
    assert "stale" in describe(folder, Manifest.load(folder))["marks"]
    store = Datastore.open(folder)
    before, new = len(store), Pair("Drücken Sie <b>Achtung</b>.", "Press <b>Achtung</b>.")
    store.add([new], embedded)  # as the store has its other pairs: the two are not mixed
    (_, old_target), (_, target) = (tokens_of(embedded.codec, new, marks) for marks in (KNOWN_MARKS[1], MARKS))
    assert len(store) - before == len(old_target) != len(target)
    rebuild(folder, embedded, BuildConfig())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Translator(embedded, str(folder))
    assert describe(folder, Manifest.load(folder))["marks"] == MARKS


@pytest.mark.embedded
def test_stored_spans_of_other_sentences_do_not_leak(embedded: TranslationModel, memory: Datastore) -> None:
    """The memory's `{name}` is the mark of whatever the sentence has there."""
    translator = Translator(embedded, memory, "chunk", {"lambda": 0.9, "agreement": 0, "guard": False})
    assert translator.translate("Die Datei %(path)s wurde gelöscht: %s").text == "The file %(path)s was removed: %s"
