"""Products with int8 weights on a CPU, by the fastest kernel that this machine and this torch have.

Each row of inputs is divided by its largest magnitude and rounded to bytes, `round(x / step) + zero`; sums of products
are exact 32-bit integers. CPUs without VNNI instructions add pairs of products in 16 bits, which overflow with 8-bit
inputs, so kernels are tested once, and inputs have 7 bits where 8 overflow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nearmt.engines.cpu import PackedLinear, kernels
from nearmt.threads import scripted


class Steps(NamedTuple):
    """Quantisation of numbers from -1 to 1 to a byte."""

    step: float
    zero: int


EIGHT_BITS, SEVEN_BITS = Steps(1 / 127, 128), Steps(1 / 63, 64)


def product_with(weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None) -> nn.Module:
    """A module for inputs [R, I] times `weight_OI * scale_O[:, None]`, int8 times fp32, plus the bias."""
    make, steps = _kernel()
    return make(weight_OI, scale_O, bias_O, steps)


def _by_kernel(weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None, steps: Steps) -> nn.Module:
    """nearmt's own kernel: rounding, product, scales and bias in one call."""
    if kernels() is None:
        raise NotImplementedError
    return PackedLinear(weight_OI, scale_O, bias_O)


class _Fbgemm(nn.Module):
    """Rounding, product and scales in one call of FBGEMM, with packed weights."""

    def __init__(self, weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None, steps: Steps) -> None:
        super().__init__()
        self.bias_O, self.step, self.zero = bias_O, steps.step, steps.zero
        with warnings.catch_warnings():
            # Quantised tensors are deprecated; without them `_Plain` is used.
            warnings.simplefilter("ignore")
            no_shift_O = torch.zeros(len(scale_O), dtype=torch.long)
            weight = torch._make_per_channel_quantized_tensor(weight_OI, scale_O.double(), no_shift_O, 0)
            self.packed = torch.ops.quantized.linear_prepack(weight, None)

    def forward(self, input_RI: Tensor) -> Tensor:
        return _by_fbgemm(input_RI, self.step, self.zero, self.packed, self.bias_O)


@scripted
def _by_fbgemm(
    input_RI: Tensor,
    step: float,
    zero: int,
    packed: torch.classes.quantized.LinearPackedParamsBase,  # type: ignore[name-defined]
    bias_O: Tensor | None,
) -> Tensor:
    top_R1 = input_RI.abs().amax(dim=1, keepdim=True)
    # A row of zeros is divided by zero here, and its result multiplied by zero again.
    output_RO: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
        input_RI / top_R1, step, zero, packed
    )
    return output_RO.mul_(top_R1) if bias_O is None else torch.addcmul(bias_O, output_RO, top_R1)


class _Plain(nn.Module):
    """For every CPU and every torch, with signed bytes; packs the weights in every call."""

    def __init__(self, weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None, steps: Steps) -> None:
        super().__init__()
        self.weight_IO, self.bias_O, self.scale_O = weight_OI.t(), bias_O, scale_O * steps.step
        self.steps, self.shift = 1 / steps.step, steps.zero - 128
        self.shift_O = -self.shift * weight_OI.sum(dim=1, dtype=torch.int32)

    def forward(self, input_RI: Tensor) -> Tensor:
        top_R1 = input_RI.abs().amax(dim=1, keepdim=True)
        byte_RI = (input_RI / top_R1 * self.steps).round_().add_(self.shift).to(torch.int8)
        output_RO = torch._int_mm(byte_RI, self.weight_IO).add_(self.shift_O) * self.scale_O
        bias_O = self.bias_O
        return output_RO.mul_(top_R1) if bias_O is None else torch.addcmul(bias_O, output_RO, top_R1)


Kernel = Callable[[Tensor, Tensor, Tensor | None, Steps], nn.Module]
_KERNELS: tuple[tuple[Kernel, Steps], ...] = (
    (_by_kernel, EIGHT_BITS),
    (_Fbgemm, EIGHT_BITS),
    (_Fbgemm, SEVEN_BITS),
    (_Plain, EIGHT_BITS),
    (_Plain, SEVEN_BITS),
)


@cache
def _kernel() -> tuple[Kernel, Steps]:
    """The first kernel that computes the largest sums exactly."""
    return _first_exact(_KERNELS)


def _first_exact(candidates: tuple[tuple[Kernel, Steps], ...]) -> tuple[Kernel, Steps]:
    for make, steps in candidates:
        try:
            if _is_exact(make, steps):
                return make, steps
        except (RuntimeError, AttributeError, TypeError, NotImplementedError):  # not built in, or changed since
            continue
    return candidates[-1]


def _is_exact(make: Kernel, steps: Steps) -> bool:
    """Whether the largest sums are exact, for one row and for many."""
    weight_OI = torch.full((32, 64), 127, dtype=torch.int8)
    weight_OI[::2] = -127
    product = make(weight_OI, torch.ones(32), None, steps)
    for rows in (1, 16):
        for value in (1.0, -1.0):
            input_RI = torch.full((rows, 64), value)
            if not torch.allclose(product(input_RI), input_RI @ weight_OI.float().t(), rtol=1e-5):
                return False
    return True
