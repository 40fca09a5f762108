"""Linear layers with int8 weights: exact by their definition, row by row, whatever kernel multiplies."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nearmt.config.model import PRECISIONS
from nearmt.engines import precision
from nearmt.engines.precision import (
    FewRowsLinear,
    Int8Linear,
    KernelLinear,
    Precision,
    StoredLinear,
    apply_precision,
    quantised,
)
from nearmt.engines.reference import integer
from nearmt.engines.reference.integer import Steps
from nearmt.errors import ConfigError

SHAPES = [(512, 64), (2048, 48), (64, 300), (30, 7), (4, 1)]


# What is used where nearmt has no kernel of its own.
TORCHS = integer._first_exact(integer._KERNELS[1:])
KERNELS = {
    "fastest": integer._kernel(),
    "plain": (integer._Plain, integer.EIGHT_BITS),
    "plain, 7 bits": (integer._Plain, integer.SEVEN_BITS),
    "torch's": TORCHS,
    "torch's, 7 bits": (TORCHS[0], integer.SEVEN_BITS),
}


@pytest.fixture(params=KERNELS)
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The ways in which machines and torch versions differ."""
    kernel = KERNELS[request.param]
    monkeypatch.setattr(integer, "_kernel", lambda: kernel)
    return kernel[1]


def made(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    torch.manual_seed(inputs + outputs)
    return nn.Linear(inputs, outputs, bias=bias).requires_grad_(False)


def layer_of(weight_OI: Tensor, bias_O: Tensor | None = None) -> Int8Linear:
    linear = nn.Linear(weight_OI.shape[1], len(weight_OI), bias=bias_O is not None).requires_grad_(False)
    linear.weight.copy_(weight_OI)
    if bias_O is not None:
        linear.bias.copy_(bias_O)
    return Int8Linear(linear)


def rows_of(count: int, width: int) -> Tensor:
    """Rows of very different sizes."""
    row_RI = torch.randn(count, width, generator=torch.Generator().manual_seed(width))
    return row_RI * torch.tensor([1.0, 100.0, 1e-3, 1e4, 5.0]).repeat(count // 5 + 1)[:count, None]


def int8_weight(linear: nn.Linear) -> np.ndarray:
    weight_OI = linear.weight.numpy()
    scale_O1 = np.abs(weight_OI).max(axis=1, keepdims=True) / np.float32(127)
    quantised_OI: np.ndarray = np.round(weight_OI / scale_O1).astype(np.float64) * scale_O1
    return quantised_OI


def by_definition(linear: nn.Linear, row_RI: Tensor, steps: Steps) -> np.ndarray:
    """Every row by its largest value, in steps, times weights in int8; all sums in double precision."""
    top_R1 = np.abs(row_RI.numpy()).max(axis=1, keepdims=True)
    byte_RI = np.round(row_RI.numpy() / top_R1 * np.float32(1 / steps.step)).astype(np.float64)
    output_RO: np.ndarray = byte_RI * steps.step @ int8_weight(linear).T * top_R1
    if linear.bias is not None:
        output_RO += linear.bias.numpy()
    return output_RO


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
def test_the_layer_is_its_definition(steps: Steps, shape: tuple[int, int], bias: bool) -> None:
    linear, row_RI = made(*shape, bias), rows_of(40, shape[0])
    found_RO, expected_RO = Int8Linear(linear)(row_RI), by_definition(linear, row_RI, steps)
    assert found_RO.dtype == torch.float32
    error_R = np.abs(found_RO.numpy() - expected_RO).max(axis=1)
    # Against what is summed up, since a sum may be near zero by chance.
    size_R = (np.abs(row_RI.numpy()) @ np.abs(int8_weight(linear)).T).max(axis=1)
    assert (error_R <= 1e-5 * size_R + 1e-6).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_is_the_same_whatever_stands_beside_it(steps: Steps, shape: tuple[int, int]) -> None:
    layer, row_RI = Int8Linear(made(*shape)), rows_of(200, shape[0])
    together_RO = layer(row_RI)
    assert torch.equal(layer(row_RI[:40]), together_RO[:40])
    for number in range(0, 200, 7):
        assert torch.equal(layer(row_RI[number]), together_RO[number])
        assert torch.equal(layer(row_RI[number : number + 5]), together_RO[number : number + 5])


def test_rows_at_the_edges(steps: Steps) -> None:
    linear = made(64, 32)
    layer = Int8Linear(linear)
    assert torch.equal(layer(torch.zeros(3, 64)), linear.bias.expand(3, 32))
    level = torch.full((1, 64), 2.5)
    torch.testing.assert_close(layer(level), linear(level), rtol=0, atol=0.05)
    assert bool(layer(torch.randn(4, 64) * 1e30).isfinite().all())
    assert bool(layer(torch.randn(4, 64) * 1e-30).isfinite().all())
    largest = torch.full((2, 64), 1.0)
    largest[:, ::2] = -1.0
    torch.testing.assert_close(layer(largest), linear(largest), rtol=0, atol=0.05)


def test_shapes_of_the_input(steps: Steps) -> None:
    layer = Int8Linear(made(16, 24))
    assert layer(torch.zeros(0, 16)).shape == (0, 24)
    assert layer(torch.zeros(2, 0, 16)).shape == (2, 0, 24)
    row_RI = torch.randn(6, 16)
    assert torch.equal(layer(row_RI.t().contiguous().t()), layer(row_RI))
    assert torch.equal(layer(row_RI.view(2, 3, 16)).view(6, 24), layer(row_RI))
    assert torch.equal(layer(row_RI.repeat(1, 2)[:, :16]), layer(row_RI))
    assert layer(row_RI.bfloat16()).dtype == torch.float32
    assert layer.weight.dtype == torch.int8


def test_the_input_is_left_alone(steps: Steps) -> None:
    row_RI = rows_of(5, 64)
    before = row_RI.clone()
    Int8Linear(made(64, 64))(row_RI)
    assert torch.equal(row_RI, before)


def test_layers_on_top_of_each_other() -> None:
    parts, row_RI = [made(64, size) for size in (10, 20, 30)], rows_of(9, 64)
    weight_OI = torch.cat([part.weight for part in parts])
    bias_O = torch.cat([part.bias for part in parts])
    expected = torch.cat([Int8Linear(part)(row_RI) for part in parts], dim=1)
    assert torch.equal(layer_of(weight_OI, bias_O)(row_RI), expected)
    assert torch.equal(layer_of(weight_OI)(row_RI), layer_of(weight_OI, torch.zeros(60))(row_RI))


def test_int8_weights_stay_what_they_are() -> None:
    """As the embedded model stores them: int8 times an fp16 scale, the largest of a row 127."""
    byte_OI = torch.randint(-127, 128, (40, 64), dtype=torch.int8)
    byte_OI[:, 5] = 127
    stored = StoredLinear(byte_OI, (torch.rand(40) * 0.01).half(), torch.rand(40).half())
    for found, expected in zip(stored.quantised(), quantised(stored.expanded()), strict=True):
        assert found is not None and expected is not None and torch.equal(found, expected)


@pytest.mark.parametrize("biases", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("name", PRECISIONS)
def test_joined_layers_are_the_layers_one_after_the_other(name: str, biases: tuple[bool, bool]) -> None:
    parts = [made(64, 20 + 10 * bias, bias) for bias in biases]
    row_RI = torch.randn(9, 64, generator=torch.Generator().manual_seed(0))
    row_RI = row_RI.bfloat16() if name == "bf16" else row_RI
    precision = Precision(name, torch.device("cpu"))
    joined = precision.joined("x", *parts)
    each = [nn.Sequential(copy.deepcopy(part)) for part in parts]
    for part in each:
        precision.apply(part)
    with torch.inference_mode():
        expected_RO = torch.cat([part(row_RI) for part in each], dim=1)
        torch.testing.assert_close(joined(row_RI), expected_RO, rtol=0, atol=0 if name == "int8" else 1e-2)


@pytest.mark.parametrize("name", ["fp32", "int8"])
def test_stored_layers_are_converted_like_their_expanded_ones(name: str) -> None:
    byte_OI = torch.randint(-127, 128, (40, 64), dtype=torch.int8)
    byte_OI[:, 5] = -127
    stored = StoredLinear(byte_OI, (torch.rand(40) * 0.01).half(), torch.rand(40).half())
    models = [nn.Sequential(stored), nn.Sequential(stored.expanded())]
    precision, row_RI = Precision(name, torch.device("cpu")), rows_of(5, 64)
    joined = [precision.joined("x", model[0], model[0]) for model in models]
    for model in models:
        precision.apply(model)
    with torch.inference_mode():
        assert torch.equal(models[0](row_RI), models[1](row_RI))
        assert torch.equal(joined[0](row_RI), joined[1](row_RI))


def test_a_layer_can_be_copied() -> None:
    layer, row_RI = Int8Linear(made(16, 24)), rows_of(5, 16)
    assert torch.equal(copy.deepcopy(layer)(row_RI), layer(row_RI))


# Machines.

_LARGEST = """
import torch
from nearmt.engines.reference import integer
from nearmt.engines.precision import Int8Linear
weight_OI = torch.full((40, 64), 0.5)
weight_OI[::2] = -0.5
weight_OI[3, ::2] = -0.5
linear = torch.nn.Linear(64, 40, bias=False).requires_grad_(False)
linear.weight.copy_(weight_OI)
row_RI = torch.full((20, 64), 3.0)
row_RI[1], row_RI[2, ::2], row_RI[3, 1::2] = -3.0, -3.0, 0.0
plain = [kernel for kernel in integer._KERNELS if kernel[0] is integer._Plain and integer._is_exact(*kernel)]
for kernel in (integer._kernel(), plain[0]):
    integer._kernel = lambda: kernel
    layer = Int8Linear(linear)
    for rows in (1, 20):
        torch.testing.assert_close(layer(row_RI[:rows]), row_RI[:rows] @ weight_OI.t())
"""


@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_sums_do_not_saturate_without_vnni(instructions: str) -> None:
    """oneDNN can be held back to what older CPUs know; elsewhere the setting changes nothing."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": instructions, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _LARGEST], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


# Whole models.


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.block = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
        self.same = self.first

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = self.block(self.first(input))
        return output


def test_every_linear_layer_is_replaced() -> None:
    model = Small().requires_grad_(False)
    expected = model(torch.ones(3, 8))
    apply_precision(model, "int8", torch.device("cpu"))
    assert not any(isinstance(module, nn.Linear) for module in model.modules())
    assert model.same is model.first
    torch.testing.assert_close(model(torch.ones(3, 8)), expected, rtol=0, atol=0.05)


def test_int8_is_refused_on_a_gpu() -> None:
    with pytest.raises(ConfigError, match="runs on a CPU only"):
        apply_precision(Small(), "int8", torch.device("cuda"))


def few_rows(linear: nn.Linear) -> nn.Module:
    """The layer as fp32 on a CPU has it."""
    module = nn.Sequential(copy.deepcopy(linear))
    apply_precision(module, "fp32", torch.device("cpu"))
    return module[0]


@pytest.fixture(params=["nearmt's kernel", "torch's kernels"])
def kind(request: pytest.FixtureRequest) -> type[nn.Linear]:
    """What multiplies few rows in fp32."""
    if request.param == "torch's kernels":
        request.getfixturevalue("no_kernels")
    found = precision._faster_linear()
    if found is not (KernelLinear if request.param == "nearmt's kernel" else FewRowsLinear):
        pytest.skip("not on this machine")
    return found


@pytest.mark.parametrize("bias", [True, False])
def test_few_rows_in_fp32(kind: type[nn.Linear], bias: bool) -> None:
    """Whichever kernel multiplies, and however the input lies in memory."""
    linear = made(64, 300, bias)
    layer = few_rows(linear)
    assert isinstance(layer, kind)
    with torch.inference_mode():
        for rows in (0, 1, 3, 4, 5, 13, 128, 129):
            input_RI = torch.randn(rows, 64)
            torch.testing.assert_close(layer(input_RI), linear(input_RI), rtol=1e-5, atol=1e-5)
        for input_XI in (
            torch.randn(64, 9).t(),
            torch.randn(4, 3, 64).transpose(0, 1),
            torch.randn(2, 9, 128)[..., ::2],
        ):
            torch.testing.assert_close(layer(input_XI), linear(input_XI), rtol=1e-5, atol=1e-5)


def test_few_rows_can_be_trained(kind: type[nn.Linear]) -> None:
    """Weights stay the parameters they were; what was trained is what multiplies, in copies too."""
    layer = few_rows(made(64, 30)).requires_grad_(True)
    input_RI = torch.randn(8, 64)
    with torch.no_grad():
        layer(input_RI)
    layer(input_RI).sum().backward()
    assert isinstance(layer, kind) and layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, input_RI.sum(dim=0).expand(30, -1), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        layer.weight.mul_(2)
        torch.testing.assert_close(layer(input_RI), input_RI @ layer.weight.t() + layer.bias, rtol=1e-5, atol=1e-5)
        other = copy.deepcopy(layer)
        other.weight.mul_(2)
        torch.testing.assert_close(other(input_RI), input_RI @ other.weight.t() + other.bias, rtol=1e-5, atol=1e-5)
