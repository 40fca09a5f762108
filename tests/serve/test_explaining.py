"""Words of a translation, and why they are there."""

from __future__ import annotations

import pytest

from nearmt.contracts import Pair, Silenced, TokenProvenance, Witness
from nearmt.serve.explaining import words_of
from nearmt.serve.matching import PairFinder


class Pairs(PairFinder):
    def __init__(self) -> None:
        super().__init__({})

    def _found(self, identity: str) -> tuple[str, Pair] | None:
        return None if identity == "gone" else ("mine", Pair(f"source {identity}", f"target {identity}", identity))


def token(text: str, origin: str = "model", before: float = 0.5, after: float = 0.5, **more: object) -> TokenProvenance:
    given = {"searched": origin == "search", "witnesses": (), **more}
    return TokenProvenance(text, origin, model_probability=before, probability=after, **given)  # type: ignore[arg-type]


def test_subwords_are_words_with_their_places() -> None:
    tokens = [token(" The"), token(" pu"), token("mp"), token("."), token("</s>")]
    found = words_of("The pump.", tokens, Pairs())
    assert [(word.text, word.start, word.end, word.step) for word in found] == [("The", 0, 3, 0), ("pump.", 4, 9, 1)]


def test_blanks_may_end_words() -> None:
    tokens = [token("the "), token("pu"), token("mp "), token("</s>")]
    assert [(word.text, word.start) for word in words_of("the pump", tokens, Pairs())] == [("the", 0), ("pump", 4)]


def test_several_sentences_follow_one_another() -> None:
    tokens = [token(" a"), token("</s>"), token(" a"), token("</s>")]
    assert [word.start for word in words_of("a a", tokens, Pairs())] == [0, 2]


def test_what_stands_in_place_of_a_mark_is_left_out() -> None:
    tokens = [token(" Click"), token(" ["), token("1"), token("]"), token(" here"), token("</s>")]
    assert [word.text for word in words_of("Click <b>here", tokens, Pairs())] == ["Click", "here"]


def test_a_word_has_the_strongest_origin_and_the_probability_of_its_subwords() -> None:
    tokens = [token(" pu", "cache", 0.5, 0.8), token("mp", "search", 0.5, 0.5), token("s", "model", 0.4, 1.0)]
    (word,) = words_of("pumps", tokens, Pairs())
    assert (word.origin, word.searched) == ("search", True)
    assert (word.before, word.after) == pytest.approx((0.1, 0.4))


def test_pairs_are_ranked_by_their_mean_share() -> None:
    first = token(" pu", "cache", witnesses=(Witness("1", 0.2), Witness("2", 0.8)))
    second = token("mp", "cache", witnesses=(Witness("1", 1.0), Witness("gone", 0.9)))
    (word,) = words_of("pump", [first, second], Pairs())
    assert [(one.id, one.memory, one.source) for one in word.witnesses] == [
        ("1", "mine", "source 1"),
        ("2", "mine", "source 2"),
    ]
    assert [one.share for one in word.witnesses] == pytest.approx([0.6, 0.4])


def test_silenced_pairs_say_what_they_would_have_written() -> None:
    silenced = token(" pump", silenced=(Silenced("7", " valve", 0.3),))
    ((found,),) = [word.silenced for word in words_of("pump", [silenced], Pairs())]
    assert (found.id, found.token, found.share, found.target) == ("7", "valve", 0.3, "target 7")
