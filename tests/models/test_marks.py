"""Which tokens may follow, so that every mark is written once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nearmt.models.marks import Marks, MarkTokens, Progress

VOCABULARY = ["</s>", " [", "[", "]", "1", "2", "12", " 1", "a", "[...]", "]:", " [1]", " x"]
NUMBER = {text: number for number, text in enumerate(VOCABULARY)}


class Codec:
    def subwords(self, ids: Sequence[int]) -> list[str]:
        return [VOCABULARY[number] for number in ids]


@pytest.fixture(scope="module")
def tokens() -> MarkTokens:
    return MarkTokens(Codec(), len(VOCABULARY))  # type: ignore[arg-type]


def ids(*texts: str) -> list[int]:
    return [NUMBER[text] for text in texts]


def test_progress_reads_marks_in_any_tokens(tokens: MarkTokens) -> None:
    assert tokens.progress(ids("a", " [", "1", "]", " x", "[", "12", "]:")) == Progress((1, 12))
    assert tokens.progress(ids(" [1]", "a", "[", "1")) == Progress((1,), "1")
    assert tokens.progress(ids("1", "2", "a")) == Progress()


@pytest.mark.parametrize(
    ("written", "only", "banned"),
    [
        ((), None, {"]", "[...]", "]:"}),  # marks 1 and 12 may begin, and `[1]` is one
        ((" [",), {"1", "12"}, set()),
        ((" [", "1"), {"]", "]:", "2"}, set()),
        ((" [", "1", "]"), None, {"]", "[...]", "]:", " [1]"}),
        ((" [", "1", "]", "["), {"1", "12"}, set()),  # the 1 of 12
        ((" [", "1", "]", "[", "1"), {"2"}, set()),
        ((" [1]", "[", "12", "]"), None, {" [", "[", "]", "[...]", "]:", " [1]"}),
    ],
)
def test_only_marks_that_are_missing_may_be_written(
    tokens: MarkTokens, written: tuple[str, ...], only: set[str] | None, banned: set[str]
) -> None:
    allowed, forbidden, _ = tokens.next_tokens(Marks(frozenset({1, 12})), tokens.progress(ids(*written)))
    assert (None if allowed is None else {VOCABULARY[n] for n in allowed}) == only
    assert {VOCABULARY[n] for n in forbidden} == banned


def test_pairs_are_within_those_that_have_them_in_the_source() -> None:
    marks = Marks(frozenset(range(1, 8)), ((3, 2), (4, 1), (7, 6)))  # 3 closes 2, 4 closes 1, 7 closes 6
    assert marks.allowed([]) == {1, 5, 6}
    assert marks.allowed([1]) == {2, 5}
    assert marks.allowed([1, 2]) == {3, 5}
    assert marks.allowed([1, 2, 3]) == {4, 5}
    assert marks.allowed([6]) == {5, 7}
    assert marks.allowed([6, 7, 1, 2, 3, 4]) == {5}
    assert marks.allowed([1, 2, 3, 4, 5, 6, 7]) == frozenset()
