"""What the running rows of a beam search say about themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nearmt.decoding.state import REPEATED, BeamState


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
        newest_BT=torch.zeros(len(rows), 1),
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
