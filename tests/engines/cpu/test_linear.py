"""Products with packed weights: in floats those of torch, in 8 bits what rounding every row by itself gives."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from nearmt.engines.cpu import PackedLinear
from tests.kernels import needs_kernels

pytestmark = needs_kernels

#: Inputs and outputs around what is computed together: 4 numbers, 16 lanes, panels of 64.
SHAPES = [(1, 1), (3, 5), (4, 64), (17, 65), (64, 63), (67, 130), (130, 16)]
#: Rows around blocks of 4, and around the 256 that go through all weights together.
ROWS = [0, 1, 2, 3, 4, 5, 7, 9, 255, 256, 257, 519]

shapes = pytest.mark.parametrize("shape", SHAPES)
both = pytest.mark.parametrize("rounded", [False, True])


def made(shape: tuple[int, int], rounded: bool, bias: bool = True) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Weights, scales and biases; 8-bit weights from end to end."""
    generator = torch.Generator().manual_seed(sum(shape))
    inputs, outputs = shape
    bias_O = torch.randn(outputs, generator=generator) if bias else None
    if not rounded:
        return torch.randn(outputs, inputs, generator=generator), None, bias_O
    weight_OI = torch.randint(-128, 128, (outputs, inputs), generator=generator).to(torch.int8)
    return weight_OI, torch.rand(outputs, generator=generator) / 127, bias_O


def rows_of(count: int, width: int) -> Tensor:
    """Rows of very different sizes, one of them of zeros."""
    row_RI = torch.randn(count, width, generator=torch.Generator().manual_seed(width))
    return row_RI * torch.tensor([1.0, 100.0, 1e-3, 0.0, 1e20, 1e-20, 5.0]).repeat(count // 7 + 1)[:count, None]


def by_definition(
    weight_OI: Tensor, scale_O: Tensor | None, bias_O: Tensor | None, row_RI: Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """The product in double precision, and the size of what is summed up: sums may be near zero by chance."""
    weight, row = weight_OI.double().numpy(), row_RI.numpy()
    if scale_O is None:
        number_RI, unit_R1, scale = row.astype(np.float64), np.ones((len(row), 1)), np.ones(len(weight))
    else:
        top_R1 = np.abs(row).max(axis=1, keepdims=True)
        factor_R1 = np.float32(127) / np.where(top_R1 > 0, top_R1, np.float32(1))
        number_RI = np.rint(row * factor_R1).astype(np.float64)
        unit_R1, scale = top_R1.astype(np.float64) / 127, scale_O.double().numpy()
    bias = np.zeros(len(weight)) if bias_O is None else bias_O.double().numpy()
    found_RO = number_RI @ weight.T * scale * unit_R1 + bias
    size_RO = np.abs(number_RI) @ np.abs(weight).T * scale * unit_R1 + np.abs(bias)
    return found_RO, size_RO


def check(shape: tuple[int, int], rounded: bool, bias: bool, row_RI: Tensor) -> None:
    parts = made(shape, rounded, bias)
    found_RO, (expected_RO, size_RO) = PackedLinear(*parts)(row_RI), by_definition(*parts, row_RI)
    assert found_RO.dtype == torch.float32 and found_RO.shape == expected_RO.shape
    assert (np.abs(found_RO.numpy() - expected_RO) <= 2e-6 * size_RO + 1e-36).all()


@shapes
@both
@pytest.mark.parametrize("bias", [False, True])
def test_the_product_is_its_definition(shape: tuple[int, int], rounded: bool, bias: bool) -> None:
    for rows in ROWS:
        check(shape, rounded, bias, rows_of(rows, shape[0]))


@settings(max_examples=40)
@given(
    shape=st.tuples(st.integers(1, 140), st.integers(1, 140)), rows=st.integers(0, 12),
    rounded=st.booleans(), bias=st.booleans(),
)  # fmt: skip
def test_products_of_any_size(shape: tuple[int, int], rows: int, rounded: bool, bias: bool) -> None:
    check(shape, rounded, bias, rows_of(rows, shape[0]))


@shapes
def test_in_floats_it_is_what_torch_does(shape: tuple[int, int]) -> None:
    weight_OI, _, bias_O = made(shape, rounded=False)
    row_RI = torch.randn(9, shape[0], generator=torch.Generator().manual_seed(0))
    expected_RO = functional.linear(row_RI, weight_OI, bias_O)
    torch.testing.assert_close(PackedLinear(weight_OI, None, bias_O)(row_RI), expected_RO, rtol=1e-5, atol=1e-5)


@shapes
@both
def test_a_row_is_the_same_whatever_stands_beside_it(shape: tuple[int, int], rounded: bool) -> None:
    layer, row_RI = PackedLinear(*made(shape, rounded)), rows_of(300, shape[0])
    together_RO = layer(row_RI)
    for number in range(0, 300, 11):
        for count in (1, 2, 3, 5):
            assert torch.equal(layer(row_RI[number : number + count]), together_RO[number : number + count])


def test_the_largest_sums_come_out_right() -> None:
    """Two products of bytes exceed 16 bits: none of them may be cut off."""
    weight_OI = torch.full((70, 200), 127, dtype=torch.int8)
    weight_OI[1::2], weight_OI[2::3] = -127, -128
    layer = PackedLinear(weight_OI, torch.ones(70), None)
    for value in (1.0, -1.0, 1e30, -1e-30):
        row_RI = torch.full((6, 200), value)
        torch.testing.assert_close(layer(row_RI), row_RI @ weight_OI.float().T, rtol=1e-5, atol=0.0)


@both
def test_rows_of_zeros_are_the_bias(rounded: bool) -> None:
    weight_OI, scale_O, bias_O = made((67, 70), rounded)
    assert bias_O is not None
    row_RI = torch.zeros(5, 67)
    assert torch.equal(PackedLinear(weight_OI, scale_O, bias_O)(row_RI), bias_O.expand(5, 70))
    assert not PackedLinear(weight_OI, scale_O, None)(row_RI).any()


@both
def test_numbers_from_end_to_end(rounded: bool) -> None:
    layer = PackedLinear(*made((64, 32), rounded))
    row_RI = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    for size in (1e30, 1e-30):
        assert bool(layer(row_RI * size).isfinite().all())


@both
def test_inputs_lie_anywhere_and_stay_as_they_are(rounded: bool) -> None:
    layer, row_RI = PackedLinear(*made((67, 70), rounded)), rows_of(9, 67)
    before_RI, expected_RO = row_RI.clone(), layer(row_RI)
    assert torch.equal(row_RI, before_RI)
    assert torch.equal(layer(row_RI.T.contiguous().T), expected_RO)
    assert torch.equal(layer(row_RI.repeat(1, 2)[:, :67]), expected_RO)


@both
def test_copies_share_their_weights(rounded: bool) -> None:
    layer, row_RI = PackedLinear(*made((67, 70), rounded)), rows_of(3, 67)
    copied = copy.deepcopy(torch.nn.Sequential(layer))
    assert copied[0] is layer
    assert torch.equal(copied(row_RI), layer(row_RI))


def test_weights_of_other_types_are_floats_here() -> None:
    weight_OI, _, bias_O = made((17, 65), rounded=False)
    assert bias_O is not None
    row_RI = rows_of(3, 17)
    found_RO = PackedLinear(weight_OI.half(), None, bias_O.half())(row_RI)
    assert torch.equal(found_RO, PackedLinear(weight_OI.half().float(), None, bias_O.half().float())(row_RI))
