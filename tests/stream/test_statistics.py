"""How much people changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.stream.statistics import SessionStatistics, edit_effort


def levenshtein(one: str, other: str) -> int:
    """By the definition, row by row."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(row[-1] + 1, before[j] + 1, before[j - 1] + (a != b)))
    return row[-1]


@given(st.text(alphabet="ab ä", max_size=8), st.text(alphabet="ab ä", max_size=8))
def test_effort_is_the_share_of_characters_that_were_edited(one: str, other: str) -> None:
    assert edit_effort(one, other) == pytest.approx(levenshtein(one, other) / max(len(one), len(other), 1))


@given(st.lists(st.one_of(st.none(), st.just(0.0), st.floats(0.01, 1)), max_size=6))
def test_taking_everything_back_leaves_nothing(efforts: list[float | None]) -> None:
    found = SessionStatistics()
    for effort in efforts:
        found.count(effort)
    known = [effort for effort in efforts if effort is not None]
    assert found.confirmed == len(efforts) and found.unchanged + found.edited == len(known)
    assert found.mean_effort == pytest.approx(sum(known) / max(1, len(known)))
    for effort in efforts:
        found.count(effort, -1)
    assert (found.confirmed, found.unchanged, found.edited) == (0, 0, 0)
    assert found.summary()["effort"] == 0.0
