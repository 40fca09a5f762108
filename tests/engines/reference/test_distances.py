"""The nearest of some candidates."""

from __future__ import annotations

import math

import torch

from nearmt.engines.reference.distances import first_of, squared_l2


def test_the_nearest_come_first_and_equals_in_corpus_order() -> None:
    entry_BX = torch.tensor([[2, 4, 6, 8], [0, 1, 2, 3]])
    found = first_of(entry_BX, torch.tensor([[5.0, 1.0, 0.0, 1.0], [2.0, 2.0, 2.0, 2.0]]), 3)
    assert found.entry_BK.tolist() == [[6, 4, 8], [0, 1, 2]]
    assert found.distance_BK.tolist() == [[0.0, 1.0, 1.0], [2.0, 2.0, 2.0]]


def test_what_is_no_entry_is_never_near() -> None:
    found = first_of(torch.tensor([[-1, -1, 3]]), torch.tensor([[0.0, 1.0, 7.0]]), 2)
    assert found.entry_BK.tolist() == [[3, -1]] and found.distance_BK.tolist() == [[7.0, math.inf]]


def test_fewer_candidates_than_asked_for_are_filled_up() -> None:
    found = first_of(torch.tensor([[5]]), torch.tensor([[2.0]]), 3)
    assert found.entry_BK.tolist() == [[5, -1, -1]] and found.distance_BK.tolist() == [[2.0, math.inf, math.inf]]


def test_distances_are_exact_where_they_are_small() -> None:
    """Large keys that differ by little: |k|^2 - 2 q k would lose it all."""
    key_BKD = 1000 + torch.tensor([[[0.0, 0.0], [0.25, 0.0]]])
    assert squared_l2(torch.full((1, 2), 1000.0), key_BKD).tolist() == [[0.0, 0.0625]]
