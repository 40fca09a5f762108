"""Scores count what they say they count."""

from __future__ import annotations

import pytest

from nearmt.contracts import Pair
from nearmt.decoding import SearchConfig
from nearmt.errors import InputError
from nearmt.evaluation import evaluate
from nearmt.models import TranslationModel
from nearmt.store import Datastore
from nearmt.translator import Translator


def test_counts(tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair]) -> None:
    translator = Translator(tiny, tiny_store, "knn", search=SearchConfig(beams=2, max_new_tokens=6))
    result, translations = evaluate(translator, tiny_pairs[:7])
    assert result.sentences == len(translations) == 7
    assert result.tokens == sum(t.tokens for t in translations)
    assert result.tokens_per_second == pytest.approx(result.tokens / result.seconds, rel=0.2)
    assert result.searches_per_sentence == round(sum(t.searches for t in translations) / 7, 2)
    assert result.truncated == sum(t.truncated for t in translations)
    assert result.signature == translator.signature()
    assert result.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_a_perfect_translation_scores_100(tiny: TranslationModel, tiny_pairs: list[Pair]) -> None:
    translator = Translator(tiny, search=SearchConfig(beams=1, max_new_tokens=12))
    echoed = [Pair(p.source, translator.translate(p.source).text) for p in tiny_pairs[:3]]
    result, _ = evaluate(translator, echoed)
    assert result.bleu == result.chrf == 100.0
    assert result.average_interval is None and result.searches_per_sentence == 0


def test_an_empty_test_set_is_refused(tiny: TranslationModel) -> None:
    with pytest.raises(InputError, match="no pairs"):
        evaluate(Translator(tiny), [])
