"""What the running rows of a beam search say about themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from nearmt.decoding.state import REPEATED, BeamState, Chosen


def state_of(rows: list[list[int]], prompt: int = 1) -> BeamState:
    """Slots of one row each, which may have different lengths."""
    width = max(map(len, rows)) + prompt + 2
    said_BT = np.full((len(rows), width), 99)
    said_BT[:, :prompt] = 7
    for row, tokens in enumerate(rows):
        said_BT[row, prompt : prompt + len(tokens)] = tokens
    unused: Any = SimpleNamespace()
    return BeamState(
        decoder=unused,
        method=unused,
        sentences=list(range(len(rows))),
        time_S=np.array([len(tokens) + 1 for tokens in rows]),
        prompt=prompt,
        newest_BT=torch.zeros(len(rows), 1, dtype=torch.long),
        score_B=torch.zeros(len(rows)),
        said_BT=said_BT,
        total_BT=np.zeros(said_BT.shape),
        traces=[()] * len(rows),
    )


@pytest.mark.parametrize("prompt", [1, 2])
def test_repetitions_are_noticed_at_the_end_of_a_row(prompt: int) -> None:
    long = list(range(10, 10 + REPEATED))
    rows = {
        (): False,
        (1,): False,
        (1, 1): False,
        (1, 1, 1): True,
        (1, 1, 1, 2): False,
        (1, 2, 1, 2): True,
        (5, 1, 2, 1, 2): True,
        (1, 2, 1): False,
        (*long, *long): True,
        (*long, 99, *long, 99): False,
        (7, 7): False,  # the prompt does not count
    }
    found = state_of([list(row) for row in rows], prompt).repeats_B()
    assert found.tolist() == list(rows.values())


class _Rows:
    """Stands for a decoder and a method, whose rows are not looked at here."""

    def reorder(self, *rows: object) -> None:
        pass

    def replace(self, *rows: object) -> None:
        pass


def test_repetitions_follow_rows_that_move_and_slots_that_are_refilled() -> None:
    def recomputed(state: BeamState) -> list[bool]:
        rows = [state.tokens(row) for row in range(len(state.said_BT))]
        found: list[bool] = state_of(rows, state.prompt).repeats_B().tolist()
        return found

    generator = np.random.default_rng(3)
    state, newer = state_of([[5], [6], [5, 6, 5], [8]]), state_of([[4], [4]])
    for each in (state, newer):
        each.decoder = each.method = cast(Any, _Rows())
    seen = set()
    for step in range(40):
        rows = np.arange(len(state.said_BT))
        chosen_B = Chosen(np.zeros(len(rows)), rows.astype(float), generator.integers(4, 6, len(rows)).astype(float))
        state.advance(chosen_B, rows.tolist(), state.traces)
        if step == 20:
            state.refill([1, 3], newer, [1, 0])
        assert state.repeats_B().tolist() == recomputed(state)
        seen.update(state.repeats_B().tolist())
    assert seen == {True, False}
