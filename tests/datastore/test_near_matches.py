"""Near matches: stored sources that differ from a sentence in a word or two."""

from __future__ import annotations

import pytest
import torch

from nearmt.contracts import CloseSource
from nearmt.datastore import Datastore
from nearmt.datastore.search.agreement import CLOSE, NEARLY_EQUAL, SlotWords, nearness, sentence_words, stacked
from nearmt.engines.base import CONTESTED, KNOWN, TERM, SentenceWords
from nearmt.models import TranslationModel
from nearmt.models.words import SourceWords, stem_code
from tests.models.test_words import WholeWords

LONG = "am abend gehen viele gäste gern in den großen garten"


def words_of(codec: WholeWords, text: str) -> SourceWords:
    return SourceWords.of(codec, codec.ids(text))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentence", "stored", "expected"),
    [
        ("pumpe prüfen", ["pumpe prüfen"], 1.0),
        ("nun pumpe prüfen", ["nun pumpe ölen"], 1.0),
        ("pumpe prüfen", ["pumpe ölen"], 0.5),
        ("pumpe", ["pumpengehäuse"], 0.0),  # nothing is left that could be near
        ("!", ["!"], 0.0),
        ("pumpe prüfen", ["welle ölen"], 0.0),
        (LONG, [LONG.replace("abend", "morgen").replace("viele", "wenige")], 1.0),
        (LONG, [LONG.replace("abend", "morgen").replace("viele gäste", "alle kinder")], 0.5),
        (LONG, ["am morgen gehen alle kinder fast nie in den großen garten"], 0.0),
        (LONG, ["am morgen", LONG.replace("abend", "morgen")], 1.0),  # the nearest counts
        (LONG, [], 0.0),
    ],
)
def test_a_near_match_differs_in_a_word_or_two(sentence: str, stored: list[str], expected: float) -> None:
    codec = WholeWords(sentence, *stored)
    found = nearness(words_of(codec, sentence), [words_of(codec, text) for text in stored])
    assert found == pytest.approx(expected)


def test_what_is_known_of_sentences() -> None:
    """Words that they have, words beside a difference from a source that is nearly equal, and near matches."""
    texts = "viele gäste hörten nicht zu", "viele gäste hörten zu", "kinder lachten"
    codec = WholeWords(*texts)
    ids = [codec.ids(text) for text in texts]
    words = [words_of(codec, text) for text in (texts[0], texts[0], texts[2])]
    close = [[CloseSource(ids[1], NEARLY_EQUAL)], [CloseSource(ids[1], NEARLY_EQUAL - 0.1)], []]
    known = sentence_words(words, close, torch.device("cpu"))
    assert known.near_S.tolist() == [1.0, 1.0, 0.0]
    codes = [stem_code(word) for word in ("viele", "hörten", "lachten")]
    assert known.known_SX[:, codes].tolist() == [[KNOWN, CONTESTED, 0], [KNOWN, KNOWN, 0], [0, 0, KNOWN]]


def test_what_is_known_of_sentences_that_the_guard_doubts() -> None:
    """Terms are marked; beside a word more than a nearly equal source has, they count as little as others."""
    texts = "viele gäste hörten nicht zu", "viele gäste hörten zu"
    codec = WholeWords(*texts)
    ids = [codec.ids(text) for text in texts]
    words, close = [words_of(codec, text) for text in texts], [[CloseSource(ids[1], NEARLY_EQUAL)], []]
    codes = [stem_code(word) for word in ("gäste", "hörten", "zu")]
    known = sentence_words(words, close, torch.device("cpu"), {0: (0.25, codes[:2])})
    assert known.trust_S.tolist() == [0.25, 1.0]
    assert known.known_SX[:, codes].tolist() == [[TERM, CONTESTED, CONTESTED], [KNOWN, KNOWN, KNOWN]]


def test_close_sources_are_the_most_similar_ones(tiny: TranslationModel, tiny_store: Datastore) -> None:
    store = tiny_store.snapshot()
    number = 3
    ids = store.source(number)
    (close,) = store.similar([ids], 2).close
    assert close[0].ids == ids and close[0].share == pytest.approx(1.0)
    assert [each.share for each in close] == sorted((each.share for each in close), reverse=True)
    assert all(each.share >= CLOSE for each in close)
    others = store.close_sources(ids, without=number)
    stored = [store.source(other) for other in store.numbers() if other != number]
    assert [each.ids for each in others] and all(each.ids in stored for each in others)
    assert all(each.share >= CLOSE for each in others)


def test_words_of_slots_follow_their_sentences() -> None:
    words_of = {
        number: SentenceWords(torch.full((1, 6), number), torch.tensor([number / 10]), torch.tensor([number / 20]))
        for number in range(9)
    }
    before = {number: [part.clone() for part in vars(words).values()] for number, words in words_of.items()}
    slots = SlotWords()
    for sentences in ([0, 1, 2], [0, 1, 2], [3, 1, 4], [4, 5, 6], [4, 6], [7], [8]):
        expected = stacked([words_of[sentence] for sentence in sentences])
        for mine, theirs in zip(vars(slots.of(sentences, words_of)).values(), vars(expected).values(), strict=True):
            assert torch.equal(mine, theirs)
    for number, words in words_of.items():  # none was overwritten
        for mine, theirs in zip(vars(words).values(), before[number], strict=True):
            assert torch.equal(mine, theirs)
