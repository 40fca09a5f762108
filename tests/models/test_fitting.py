"""Sources longer than the model's positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.models import TranslationModel, split_to_fit
from tests.tiny import WORDS


def words_and_end(text: str) -> int:
    return len(text.split()) + 1


def characters_and_end(text: str) -> int:
    return len(text.replace(" ", "")) + 1


def test_a_text_that_fits_is_left_alone() -> None:
    assert split_to_fit("a  b", words_and_end, 3) == ["a  b"]


def test_cuts_at_sentences_then_clauses_then_words() -> None:
    assert split_to_fit("a b c. d e f.", words_and_end, 4) == ["a b c.", "d e f."]
    assert split_to_fit("a b, c d e", words_and_end, 4) == ["a b,", "c d e"]
    assert split_to_fit("a b. c d e f, g h i.", words_and_end, 5) == ["a b.", "c d e f,", "g h i."]


def test_short_neighbours_stay_together() -> None:
    text = "a. b. c. d. e. f."
    parts = split_to_fit(text, words_and_end, 6)
    assert " ".join(parts) == text
    assert len(parts) <= 3


@given(
    st.lists(st.text(st.sampled_from("abcdefgh,.;"), min_size=1, max_size=6), min_size=1, max_size=60),
    st.integers(7, 20),
)
def test_every_part_fits_and_no_word_is_lost(words: list[str], limit: int) -> None:
    parts = split_to_fit(" ".join(words), characters_and_end, limit)
    assert all(characters_and_end(part) <= limit for part in parts)
    assert " ".join(parts).split() == words


def test_ten_thousand_words(tiny: TranslationModel) -> None:
    words = [WORDS[n * 7919 % len(WORDS)] for n in range(10_000)]

    def count(text: str) -> int:
        return len(tiny.codec.source_ids(text))

    limit = tiny.seq2seq.positions
    parts = split_to_fit(" ".join(words), count, limit)
    assert " ".join(parts).split() == words
    sizes = [count(part) for part in parts]
    assert max(sizes) <= limit


def test_parts_are_as_few_as_a_greedy_walk_gives() -> None:
    assert split_to_fit("a b c d e", words_and_end, 4) == ["a b c", "d e"]


@pytest.mark.parametrize("limit", [16, 64])
def test_one_endless_word(limit: int, tiny: TranslationModel) -> None:
    word = "öffnenschließenpumpe" * 250
    assert len(word) == 5000

    def count(text: str) -> int:
        return len(tiny.codec.source_ids(text))

    parts = split_to_fit(word, count, limit)
    assert "".join(parts).replace(" ", "") == word
    assert max(count(part) for part in parts) <= limit


@given(st.text(st.sampled_from("aaaaaaWW"), min_size=1, max_size=120))
def test_no_blank_is_put_into_a_word(word: str) -> None:
    """Letters of unequal cost, as subwords have: halves of one word may meet again, but without a blank."""

    def count(text: str) -> int:
        return 1 + sum(6 if letter == "W" else 1 for letter in text)

    assert "".join(split_to_fit(word, count, 12)) == word


def test_text_without_blanks_is_cut_at_its_sentences() -> None:
    text = "泵已打开。阀门已关闭。电机运行。" * 2
    parts = split_to_fit(text, characters_and_end, 12)
    assert all(part.endswith("。") for part in parts)
    assert "".join(parts) == text
