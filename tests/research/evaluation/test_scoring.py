"""Counts, speeds and scores of an evaluation."""

from __future__ import annotations

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.errors import InputError
from nearmt.models import TranslationModel
from nearmt.research.evaluation import evaluate
from nearmt.translator import Translator


def test_counts_are_sums_over_translations(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair]
) -> None:
    translator = Translator(tiny, tiny_store, "knn", beam=BeamConfig(beams=2, max_new_tokens=6))
    result, translations = evaluate(translator, tiny_pairs[:7])
    assert result.sentences == len(translations) == 7
    assert result.tokens == sum(t.tokens for t in translations)
    assert result.tokens / result.tokens_per_second == pytest.approx(result.seconds, abs=0.006)  # rounded to hundredths
    assert result.searches_per_sentence == round(sum(t.searches for t in translations) / 7, 2)
    assert result.truncated == sum(t.truncated for t in translations)
    assert result.signature == translator.signature()
    assert result.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert result.peak_memory_mib is not None and result.peak_memory_mib > 10
    assert result.peak_device_memory_mib is None


@pytest.mark.parametrize("beams", [1, 4])
def test_steps_count_all_beams(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair], beams: int
) -> None:
    """kNN-MT searches at every step; a schedule of every third step searches at steps 1, 4, 7, ..."""
    sources = [pair.source for pair in tiny_pairs[:20]]
    beam = BeamConfig(beams=beams, max_new_tokens=15)
    knn = Translator(tiny, tiny_store, "knn", beam=beam)
    translated = knn.translate(sources)
    assert all(t.searches == t.steps >= t.tokens for t in translated)
    assert any(t.steps > t.tokens for t in translated) == (beams > 1)
    assert evaluate(knn, tiny_pairs[:20])[0].average_interval == 1.0
    third = Translator(tiny, tiny_store, "chunk", {"schedule": "every:3"}, beam)
    found, translations = evaluate(third, tiny_pairs[:20])
    assert all(t.searches == (t.steps + 2) // 3 for t in translations)
    steps, searches = sum(t.steps for t in translations), sum(t.searches for t in translations)
    assert found.average_interval == round(steps / searches, 2)


def test_steps_do_not_depend_on_the_batch(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair]
) -> None:
    sources = [pair.source for pair in tiny_pairs[:9]]
    one, nine = (Translator(tiny, tiny_store, "knn", batch_size=size).translate(sources) for size in (1, 9))
    assert [t.steps for t in one] == [t.steps for t in nine]


def test_steps_of_segments_are_added(tiny: TranslationModel) -> None:
    translator = Translator(tiny, beam=BeamConfig(beams=1, max_new_tokens=5))
    found = translator.translate("die pumpe prüfen und den motor reinigen. " * 30)
    assert found.source_parts > 1 and found.steps == found.tokens


def test_perfect_translation_scores_100(tiny: TranslationModel, tiny_pairs: list[Pair]) -> None:
    translator = Translator(tiny, beam=BeamConfig(beams=1, max_new_tokens=12))
    echoed = [Pair(p.source, translator.translate(p.source).text) for p in tiny_pairs[:3]]
    result, _ = evaluate(translator, echoed, ter=True)
    assert result.bleu == result.chrf == 100.0 and result.ter == 0
    assert evaluate(translator, echoed)[0].ter is None
    assert result.average_interval is None and result.searches_per_sentence == 0


def test_empty_test_set_is_refused(tiny: TranslationModel) -> None:
    with pytest.raises(InputError, match="no pairs"):
        evaluate(Translator(tiny), [])
