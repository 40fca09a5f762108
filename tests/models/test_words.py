"""Words of sources, their codes, and what target tokens are aligned with."""

from __future__ import annotations

import pytest
import torch

from nearmt.models import ModelConfig, load_model
from nearmt.models.forced import ForcedPairs
from nearmt.models.words import CODES, SourceWords, aligned_codes, form_codes, stem_code, words_of


@pytest.mark.parametrize(
    ("subwords", "numbers", "words"),
    [
        ([" Der", " Mot", "or", " läuft", ".", ""], [0, 1, 1, 2, 3, -1], ["der", "motor", "läuft", "."]),
        (["Mot", "or ", "läuft ", "! ", ""], [0, 0, 1, 2, -1], ["motor", "läuft", "!"]),
        ([" E", "-", "Mail", " (", "neu", ")"], [0, 1, 2, 3, 4, 5], ["e", "-", "mail", "(", "neu", ")"]),
        (["", " 19", "95", " 4", "5"], [-1, 0, 0, 1, 1], ["1995", "45"]),
        ([" 你", "好", "吗"], [0, 1, 2], ["你", "好", "吗"]),
        ([" ", "Wort"], [-1, 0], ["wort"]),
        ([], [], []),
    ],
    ids=["blanks before", "blanks behind", "punctuation", "numbers", "no blanks", "a blank alone", "nothing"],
)
def test_words_of_subwords(subwords: list[str], numbers: list[int], words: list[str]) -> None:
    assert words_of(subwords) == (numbers, words)


@pytest.mark.parametrize(
    ("stored", "present"),
    [
        ("motor", "motoren"),
        ("motoren", "motor"),
        ("heiße", "heißes"),
        ("minute", "minuten"),
        ("45", "45"),
        ("im", "im"),
    ],
)
def test_inflected_forms_are_the_same_word(stored: str, present: str) -> None:
    assert stem_code(stored) in form_codes(present)


@pytest.mark.parametrize(
    ("stored", "present"),
    [("kalt", "heiß"), ("30", "45"), ("1990", "1995"), ("vor", "nach"), ("mit", "ohne"), ("kein", "ein"),
     ("berlin", "hamburg"), ("annehmen", "ablehnen"), ("öffnen", "schließen")],
)  # fmt: skip
def test_other_words_are_not(stored: str, present: str) -> None:
    assert stem_code(stored) not in form_codes(present)


def test_codes_fit_and_0_is_no_word() -> None:
    codes = {stem_code(f"wort{number}") for number in range(3000)}
    assert min(codes) > 0 and max(codes) < CODES and len(codes) > 2900


class WholeWords:
    """A codec whose subwords are words."""

    def __init__(self, *texts: str) -> None:
        self.known = sorted({word for text in texts for word in text.split()})

    def ids(self, text: str) -> list[int]:
        return [self.known.index(word) for word in text.split()]

    def source_subwords(self, ids: list[int]) -> list[str]:
        return [f" {self.known[number]}" for number in ids]


@pytest.mark.parametrize(
    ("source", "near", "contested"),
    [
        ("viele gäste hörten nicht zu", ["viele gäste hörten zu"], {"hörten", "zu"}),  # one more
        ("viele gäste hörten zu", ["viele gäste hörten nicht zu"], {"hörten", "zu"}),  # one less
        ("viele gäste hörten lange , nicht zu", ["viele gäste hörten lange zu"], {"lange", "zu"}),  # punctuation
        ("viele kinder hörten zu", ["viele gäste hörten zu"], set()),  # another: its neighbour disagrees itself
        ("viele gäste hörten nicht zu", ["viele gäste hörten zu", "wir hörten nicht"], set()),  # told by another
        ("viele gäste hörten zu", ["viele gäste hörten zu"], set()),
        ("nicht viele gäste hörten zu", ["viele gäste hörten zu"], {"viele"}),  # at the beginning
        ("nein ! viele gäste hörten zu", ["viele gäste hörten zu"], set()),  # a sentence more
        ("viele gäste hörten zu .", ["viele gäste hörten zu . sie lachten"], set()),
        ("viele gäste , die ich gut kenne , hörten zu", ["viele gäste hörten zu"], set()),  # a clause more
        ("viele gäste hörten zu", [], set()),
        ("nicht", [""], set()),  # it has no neighbours
    ],
)
def test_words_beside_a_difference_are_contested(source: str, near: list[str], contested: set[str]) -> None:
    codec = WholeWords(source, *near)
    words = SourceWords.of(codec, codec.ids(source))  # type: ignore[arg-type]
    assert words.codes == frozenset().union(*map(form_codes, source.split()))
    expected = frozenset().union(*map(form_codes, contested))
    assert words.contested([codec.ids(text) for text in near]) == expected


@pytest.mark.parametrize(
    ("source", "other", "count"),
    [
        ("der motor ist kalt .", "der motor ist kalt !", 0),
        ("der motor ist kalt", "der motor ist heiß", 1),
        ("die motoren sind kalt", "der motor ist kalt", 2),  # forms of one word do not differ
        ("der motor ist kalt", "der motor ist am morgen kalt", 2),
        ("der motor ist am morgen kalt", "der motor ist kalt", 2),
        ("der alte motor ist kalt", "der neue motor ist heiß und laut", 4),
    ],
)
def test_words_that_differ_are_counted_on_both_sides(source: str, other: str, count: int) -> None:
    codec = WholeWords(source, other)
    words = SourceWords.of(codec, codec.ids(source))  # type: ignore[arg-type]
    assert words.differing(words.like(codec.ids(other))) == count
    assert words.count == len([word for word in source.split() if word.isalnum()])


@pytest.mark.embedded
def test_tokens_are_aligned_with_the_words_that_they_translate() -> None:
    model = load_model(ModelConfig(device="cpu"))
    source, target = "Der Motor ist am Morgen kalt.", "The engine is cold in the morning."
    ids, tokens = model.codec.source_ids(source), model.codec.target_ids(target)
    _, code_T = model.seq2seq.force_entries(ForcedPairs.of(model.codec, [ids], [tokens]))
    assert len(code_T) == len(tokens) and code_T[-1] == 0
    subwords = [subword.strip() for subword in model.codec.subwords(tokens)]
    aligned = dict(zip(subwords, code_T.tolist(), strict=True))
    assert aligned["engine"] == stem_code("motor") and aligned["cold"] == stem_code("kalt")
    assert aligned["morning"] == stem_code("morgen")
    known = SourceWords.of(model.codec, ids).codes
    assert set(code_T[:-1].tolist()) <= known and stem_code("heiß") not in known


def test_a_source_without_words_aligns_nothing() -> None:
    class NoWords:
        def source_subwords(self, ids: list[int]) -> list[str]:
            return [""] * len(ids)

    pairs = ForcedPairs.of(NoWords(), [[3]], [[4, 5, 2]])  # type: ignore[arg-type]
    number_BS, code_BW = torch.from_numpy(pairs.number_BS), torch.from_numpy(pairs.code_BW)
    assert aligned_codes(torch.ones(1, 2, 1), number_BS, code_BW).tolist() == [[0, 0]]


def test_a_token_is_aligned_with_the_word_whose_subwords_get_most_attention() -> None:
    """Subwords without text do not count, nor does what pads shorter sentences."""
    weight_BTS = torch.tensor([[[0.3, 0.3, 0.1, 0.3], [0.2, 0.1, 0.7, 0.0]], [[0.6, 0.4, 0.0, 0.0]] * 2])
    number_BS = torch.tensor([[0, 1, -1, 1], [-1, 0, -1, -1]])
    code_BW = torch.tensor([[7, 8], [9, 0]])
    assert aligned_codes(weight_BTS, number_BS, code_BW).tolist() == [[8, 7], [9, 9]]
