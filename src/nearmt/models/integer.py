"""Products with int8 weights on a CPU, by the fastest kernel that this machine and this torch offer.

Inputs lie between -1 and 1 and become bytes, `round(x / step) + zero`; sums of products are exact
32-bit integers. CPUs without VNNI instructions add pairs of products in 16 bits, which is too little
for all 8 bits of an input, so kernels are tried out once, and inputs have 7 bits where 8 do not fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # fp32 within [-1, 1], [R, I] -> fp32 [R, O]


class Steps(NamedTuple):
    """How numbers from -1 to 1 are laid out in a byte."""

    step: float
    zero: int


EIGHT_BITS, SEVEN_BITS = Steps(1 / 127, 128), Steps(1 / 63, 64)


def product_with(weight_OI: Tensor, scale_O: Tensor) -> Product:
    """The function that multiplies inputs with `weight_OI * scale_O[:, None]`, int8 times fp32."""
    make, steps = _kernel()
    return make(weight_OI, scale_O, steps)


def _fbgemm(weight_OI: Tensor, scale_O: Tensor, steps: Steps) -> Product:
    """Bytes, product and scales in one call, with weights packed beforehand."""
    with warnings.catch_warnings():
        # Torch means to drop quantised tensors one day; from then on `_plain` does the work.
        warnings.simplefilter("ignore")
        no_shift_O = torch.zeros(len(scale_O), dtype=torch.long)
        weight = torch._make_per_channel_quantized_tensor(weight_OI, scale_O.double(), no_shift_O, 0)
        packed = torch.ops.quantized.linear_prepack(weight, None)
    multiply: Any = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default

    def product(input_RI: Tensor) -> Tensor:
        output_RO: Tensor = multiply(input_RI, steps.step, steps.zero, packed)
        return output_RO

    return product


def _plain(weight_OI: Tensor, scale_O: Tensor, steps: Steps) -> Product:
    """For every CPU and every torch; it packs the weights anew in every call, and wants signed bytes."""
    weight_IO, scale_O = weight_OI.t(), scale_O * steps.step
    shift = steps.zero - 128
    shift_O = -shift * weight_OI.sum(dim=1, dtype=torch.int32)

    def product(input_RI: Tensor) -> Tensor:
        byte_RI = (input_RI * (1 / steps.step)).round_().add_(shift).to(torch.int8)
        return torch._int_mm(byte_RI, weight_IO).add_(shift_O) * scale_O

    return product


_KERNELS = ((_fbgemm, EIGHT_BITS), (_fbgemm, SEVEN_BITS), (_plain, EIGHT_BITS), (_plain, SEVEN_BITS))


@cache
def _kernel() -> tuple[Callable[[Tensor, Tensor, Steps], Product], Steps]:
    """The first that gets the largest sums right."""
    for make, steps in _KERNELS:
        try:
            if _is_exact(make, steps):
                return make, steps
        except (RuntimeError, AttributeError, TypeError, NotImplementedError):  # not built in, or changed since
            continue
    return _KERNELS[-1]


def _is_exact(make: Callable[[Tensor, Tensor, Steps], Product], steps: Steps) -> bool:
    """Whether the largest sums come out right, for one row and for many."""
    weight_OI = torch.full((32, 64), 127, dtype=torch.int8)
    weight_OI[::2] = -127
    product = make(weight_OI, torch.ones(32), steps)
    for rows in (1, 16):
        for value in (1.0, -1.0):
            input_RI = torch.full((rows, 64), value)
            if not torch.allclose(product(input_RI), input_RI @ weight_OI.float().t(), rtol=1e-5):
                return False
    return True
