"""Products with int8 weights on a CPU, by the fastest kernel that this machine and this torch offer.

Each row of inputs is divided by its largest number and becomes bytes, `round(x / step) + zero`; sums of products are
exact 32-bit integers. CPUs without VNNI instructions add pairs of products in 16 bits, which is too little
for all 8 bits of an input, so kernels are tried out once, and inputs have 7 bits where 8 do not fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from nearmt.threads import scripted

Product = Callable[[Tensor], Tensor]  # fp32 [R, I] -> fp32 [R, O]


class Steps(NamedTuple):
    """How numbers from -1 to 1 are laid out in a byte."""

    step: float
    zero: int


EIGHT_BITS, SEVEN_BITS = Steps(1 / 127, 128), Steps(1 / 63, 64)


def product_with(weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None) -> Product:
    """The function that multiplies inputs with `weight_OI * scale_O[:, None]`, int8 times fp32, and adds the bias."""
    make, steps = _kernel()
    return make(weight_OI, scale_O, bias_O, steps)


def _fbgemm(weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None, steps: Steps) -> Product:
    """Bytes, product and scales in one call, with weights packed beforehand."""
    with warnings.catch_warnings():
        # Torch means to drop quantised tensors one day; from then on `_plain` does the work.
        warnings.simplefilter("ignore")
        no_shift_O = torch.zeros(len(scale_O), dtype=torch.long)
        weight = torch._make_per_channel_quantized_tensor(weight_OI, scale_O.double(), no_shift_O, 0)
        packed = torch.ops.quantized.linear_prepack(weight, None)
    multiply = _by_fbgemm()
    return lambda input_RI: multiply(input_RI, steps.step, steps.zero, packed, bias_O)


@cache
def _by_fbgemm() -> Callable[..., Tensor]:
    """Torch names the types here only where it has fbgemm, so this waits until it is wanted."""

    def multiply(
        input_RI: Tensor,
        step: float,
        zero: int,
        packed: torch.classes.quantized.LinearPackedParamsBase,  # type: ignore[name-defined]
        bias_O: Tensor | None,
    ) -> Tensor:
        top_R1 = input_RI.abs().amax(dim=1, keepdim=True)
        # A row of zeros is divided by zero here, but what comes of it is multiplied by zero again.
        output_RO: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            input_RI / top_R1, step, zero, packed
        )
        if bias_O is None:
            return output_RO.mul_(top_R1)
        return torch.addcmul(bias_O, output_RO, top_R1)

    return scripted(multiply)


def _plain(weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None, steps: Steps) -> Product:
    """For every CPU and every torch; it packs the weights anew in every call, and wants signed bytes."""
    weight_IO, scale_O = weight_OI.t(), scale_O * steps.step
    shift = steps.zero - 128
    shift_O = -shift * weight_OI.sum(dim=1, dtype=torch.int32)

    def product(input_RI: Tensor) -> Tensor:
        top_R1 = input_RI.abs().amax(dim=1, keepdim=True)
        byte_RI = (input_RI / top_R1 * (1 / steps.step)).round_().add_(shift).to(torch.int8)
        output_RO = torch._int_mm(byte_RI, weight_IO).add_(shift_O) * scale_O
        return output_RO.mul_(top_R1) if bias_O is None else torch.addcmul(bias_O, output_RO, top_R1)

    return product


Kernel = Callable[[Tensor, Tensor, Tensor | None, Steps], Product]
_KERNELS: tuple[tuple[Kernel, Steps], ...] = (
    (_fbgemm, EIGHT_BITS),
    (_fbgemm, SEVEN_BITS),
    (_plain, EIGHT_BITS),
    (_plain, SEVEN_BITS),
)


@cache
def _kernel() -> tuple[Kernel, Steps]:
    """The first that gets the largest sums right."""
    for make, steps in _KERNELS:
        try:
            if _is_exact(make, steps):
                return make, steps
        except (RuntimeError, AttributeError, TypeError, NotImplementedError):  # not built in, or changed since
            continue
    return _KERNELS[-1]


def _is_exact(make: Kernel, steps: Steps) -> bool:
    """Whether the largest sums come out right, for one row and for many."""
    weight_OI = torch.full((32, 64), 127, dtype=torch.int8)
    weight_OI[::2] = -127
    product = make(weight_OI, torch.ones(32), None, steps)
    for rows in (1, 16):
        for value in (1.0, -1.0):
            input_RI = torch.full((rows, 64), value)
            if not torch.allclose(product(input_RI), input_RI @ weight_OI.float().t(), rtol=1e-5):
                return False
    return True
