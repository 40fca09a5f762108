"""Linear layers whose weights lie as the kernels read them."""

from __future__ import annotations

from ctypes import byref

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from nearmt.engines.cpu.library import Linear, address, loaded

# As in linear.c.
_PANEL, _QUAD = 64, 4


class PackedLinear(nn.Module):
    """Rows [R, I] to [R, O]: weights are floats or, with scales [O], 8-bit numbers; inputs are then rounded, too.

    Every row is summed up in the same order, however many there are: it does not depend on those beside it.
    """

    def __init__(self, weight_OI: Tensor, scale_O: Tensor | None, bias_O: Tensor | None) -> None:
        super().__init__()
        outputs, inputs = weight_OI.shape
        self.outputs = outputs
        self._panels = _panels(weight_OI.detach()) if scale_O is None else _panels_of_bytes(weight_OI.detach())
        self._scale_O, self._bias_O = _whole(scale_O), _whole(bias_O)
        self.layout = Linear(
            inputs=inputs, outputs=outputs, panels=address(self._panels), scale=address(self._scale_O),
            bias=address(self._bias_O),
        )  # fmt: skip

    def __deepcopy__(self, memo: dict[int, object]) -> PackedLinear:
        """Weights never change: copies of a model share them."""
        return self

    def forward(self, input_RI: Tensor) -> Tensor:
        library = loaded()
        input_RI, rows = input_RI.contiguous(), len(input_RI)
        output_RO = torch.empty(rows, self.outputs)
        room = torch.empty(library.linear_room(byref(self.layout), rows), dtype=torch.uint8)
        library.linear(byref(self.layout), address(input_RI), rows, address(output_RO), address(room))
        return output_RO


def _panels(weight_OI: Tensor) -> Tensor:
    """[P, I, 64]."""
    outputs, inputs = weight_OI.shape
    whole_OI = pad(weight_OI, (0, 0, 0, -outputs % _PANEL))
    # In this order: halves are less to move than floats.
    return whole_OI.view(-1, _PANEL, inputs).transpose(1, 2).contiguous().float()


def _panels_of_bytes(weight_OI: Tensor) -> Tensor:
    """[P, I / 4, 64, 4], each number plus 128."""
    outputs, inputs = weight_OI.shape
    whole_OI = pad(weight_OI.short() + 128, (0, -inputs % _QUAD, 0, -outputs % _PANEL)).to(torch.uint8)
    return whole_OI.view(-1, _PANEL, whole_OI.shape[1] // _QUAD, _QUAD).transpose(1, 2).contiguous()


def _whole(number_O: Tensor | None) -> Tensor | None:
    """Filled up to whole panels."""
    return None if number_O is None else pad(number_O.detach().float(), (0, -len(number_O) % _PANEL)).contiguous()
