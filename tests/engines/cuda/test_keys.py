"""The keys of all segments under one numbering, and sizes that kernels and graphs are made for."""

from __future__ import annotations

import pytest
import torch

from nearmt.engines.cuda.keys import SegmentedKeys, nearest_of
from nearmt.engines.cuda.sizes import padded_size, power_of_two
from tests.engines.every_engine import GPU
from tests.engines.test_entries import by_loop


@pytest.mark.parametrize("sizes", [[7], [7, 3], [4, 0, 5, 2], [0, 6]])
def test_segments_have_one_numbering(sizes: list[int]) -> None:
    whole_ND = torch.randn(sum(sizes), 5, generator=torch.Generator().manual_seed(0)).half().to(GPU)
    parts = list(whole_ND.split(sizes))
    keys = SegmentedKeys.of(parts)
    assert torch.equal(torch.cat(keys), whole_ND) and keys.more == (len(sizes) > 1)
    assert keys.key_ND.data_ptr() == parts[0].data_ptr()  # the first segment is not copied
    query_BD, every_BX = torch.zeros(1, 5), torch.arange(len(whole_ND))[None]
    found, expected = (
        nearest_of(query_BD.to(GPU), keys, every_BX.to(GPU), 4),
        by_loop(whole_ND.cpu(), query_BD, every_BX, 4),
    )
    assert torch.equal(found.entry_BK.cpu(), expected.entry_BK)


def test_kernels_take_powers_of_two() -> None:
    assert [power_of_two(number) for number in (0, 1, 2, 3, 4, 5, 64, 65)] == [1, 1, 2, 4, 4, 8, 64, 128]


def test_graphs_are_captured_for_few_sizes() -> None:
    expected = [1, 4, 6, 8, 48, 64, 64, 128, 128, 192]
    assert [padded_size(count) for count in (1, 4, 5, 7, 48, 49, 64, 65, 128, 129)] == expected
