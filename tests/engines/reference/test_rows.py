"""Row numbers of slots."""

from __future__ import annotations

import pytest
import torch

from nearmt.engines.reference.rows import on_device, rows_of

CPU = torch.device("cpu")


def test_numbers_become_a_tensor() -> None:
    assert on_device([3, 1], CPU).tolist() == [3, 1] and on_device([], CPU).dtype == torch.long


@pytest.mark.parametrize(
    ("slots", "wanted", "expected"),
    [([0, 1, 2], 2, [0, 1, 3, 4, 6, 7]), ([2, 0], 3, [6, 7, 8, 0, 1, 2]), ([1], 1, [3]), ([0, 1], 3, [*range(6)])],
)
def test_the_first_rows_of_some_slots(slots: list[int], wanted: int, expected: list[int]) -> None:
    found = rows_of(slots, each=3, wanted=wanted, count=3, device=CPU)
    assert isinstance(found, torch.Tensor) and found.tolist() == expected


def test_all_rows_in_order_are_not_copied() -> None:
    assert rows_of([0, 1, 2], each=3, wanted=3, count=3, device=CPU) == slice(None)
    assert isinstance(rows_of([0, 2, 1], each=3, wanted=3, count=3, device=CPU), torch.Tensor)
