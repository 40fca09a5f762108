"""Forms of terms that fit a translation, and words that are in doubt."""

from __future__ import annotations

import math

import pytest

from nearmt.corpus.glossary import Term
from nearmt.corpus.marks import marked
from nearmt.corpus.phrases import FixedTerms
from nearmt.marking import unsure_words, with_chosen_forms
from nearmt.models import TranslationModel
from nearmt.translator import Translator

TERMS = FixedTerms([Term("Filter", "strainer"), Term("Filter", "strainers")], "de")


@pytest.mark.embedded
def test_the_model_chooses_singular_or_plural(embedded: TranslationModel) -> None:
    texts = ["Die beiden Filter müssen gereinigt werden.", "Kein Begriff.", "Der Filter muss gereinigt werden."]
    units = [marked(text, terms=TERMS) for text in texts]
    written = ["The two [1] must be cleaned.", "No term.", "The [1] must be cleaned."]
    found = [
        unit.restored(text) for unit, text in zip(with_chosen_forms(embedded, units, written), written, strict=True)
    ]
    assert found == ["The two strainers must be cleaned.", "No term.", "The strainer must be cleaned."]


@pytest.mark.embedded
def test_texts_that_are_too_long_keep_the_first_form(embedded: TranslationModel) -> None:
    unit = marked("Der Filter", terms=TERMS)
    (found,) = with_chosen_forms(embedded, [unit], ["the [1] " * embedded.seq2seq.positions])
    assert found == unit


def test_words_are_doubtful_if_one_of_their_tokens_is() -> None:
    tokens = [
        (" The", 0.9),
        (" pum", 0.9),
        ("p", 0.1),
        (" is", 0.3),
        (" [", 0.1),
        ("1", 0.1),
        ("]", 0.1),
        (" now", 0.1),
    ]
    tokens += [(".", 0.1), (" –", 0.1), ("</s>", 0.01)]
    subwords, probabilities = zip(*tokens, strict=True)
    assert unsure_words(subwords, [math.log(each) for each in probabilities]) == ("pump", "now")


@pytest.mark.embedded
@pytest.mark.parametrize("batch_size", [1, 8])
def test_the_beam_knows_the_probabilities_of_its_tokens(embedded: TranslationModel, batch_size: int) -> None:
    texts = ["Das Wetter ist schön.", "Der Faltprogrammwechsler klemmt seit gestern.", "Ja.", "Nein, danke."]
    translator = Translator(embedded, batch_size=batch_size)
    found, explained = translator.translate(texts), translator.translate(texts, explain=True)
    assert [each.unsure for each in found] == [each.unsure for each in explained]
    for each in explained:
        assert each.provenance is not None
        in_doubt = {token.token.strip(" .,") for token in each.provenance if token.probability < 0.2}
        assert all(any(token in word for word in each.unsure) for token in in_doubt - {"</s>", ""})
    assert found[1].unsure and not found[0].unsure
