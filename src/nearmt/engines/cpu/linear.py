"""Linear layers with weights in the kernels' layout."""

from __future__ import annotations

from ctypes import byref

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from nearmt.engines.cpu.library import Linear, address, loaded

# As in linear.c.
_PANEL, _QUAD = 64, 4


class PackedLinear(nn.Module):
    """Rows [R, I] to [R, O]: weights are fp32 or, with scales [O], int8; int8 layers round their inputs to 8 bits, too.

    Every row is summed in the same order, however many rows there are, so it does not depend on its batch.
    """

    def __init__(self, weight_OI: Tensor, scale_O: Tensor | None, bias_O: Tensor | None) -> None:
        super().__init__()
        outputs, inputs = weight_OI.shape
        panels = _panels(weight_OI.detach()) if scale_O is None else _panels_of_bytes(weight_OI.detach())
        self._set(outputs, inputs, panels, _padded(scale_O), _padded(bias_O))

    @classmethod
    def from_packed(
        cls, outputs: int, inputs: int, panels: Tensor, scale_P: Tensor | None, bias_P: Tensor | None
    ) -> PackedLinear:
        """A layer of weights that are packed already: flat panels, scales and biases padded to whole panels."""
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer._set(outputs, inputs, panels, scale_P, bias_P)
        return layer

    def _set(self, outputs: int, inputs: int, panels: Tensor, scale_P: Tensor | None, bias_P: Tensor | None) -> None:
        self.outputs = outputs
        self.panels, self.scale_P, self.bias_P = panels, scale_P, bias_P
        self.layout = Linear(
            inputs=inputs, outputs=outputs, panels=address(panels), scale=address(scale_P), bias=address(bias_P)
        )

    def __deepcopy__(self, memo: dict[int, object]) -> PackedLinear:
        """Weights never change: copies of a model share them."""
        return self

    def forward(self, input_RI: Tensor) -> Tensor:
        library = loaded()
        input_RI, rows = input_RI.contiguous(), len(input_RI)
        output_RO = torch.empty(rows, self.outputs)
        scratch = torch.empty(library.linear_scratch(byref(self.layout), rows), dtype=torch.uint8)
        library.linear(byref(self.layout), address(input_RI), rows, address(output_RO), address(scratch))
        return output_RO


def int8_sizes(outputs: int, inputs: int) -> tuple[int, int]:
    """Of an int8 layer: bytes of its panels, and how many scales or biases fill whole panels."""
    whole = outputs + -outputs % _PANEL
    return whole * (inputs + -inputs % _QUAD), whole


def _panels(weight_OI: Tensor) -> Tensor:
    """[P, I, 64]."""
    outputs, inputs = weight_OI.shape
    whole_OI = pad(weight_OI, (0, 0, 0, -outputs % _PANEL))
    # Converted last: fp16 is less to move than fp32.
    return whole_OI.view(-1, _PANEL, inputs).transpose(1, 2).contiguous().float()


def _panels_of_bytes(weight_OI: Tensor) -> Tensor:
    """[P, I / 4, 64, 4], each number plus 128."""
    outputs, inputs = weight_OI.shape
    # Adding 128 flips the highest bit; padding is 0 in the result.
    byte_OI = pad(weight_OI.view(torch.uint8) ^ 128, (0, -inputs % _QUAD, 0, -outputs % _PANEL))
    return byte_OI.view(-1, _PANEL, byte_OI.shape[1] // _QUAD, _QUAD).transpose(1, 2).contiguous()


def _padded(number_O: Tensor | None) -> Tensor | None:
    """Scales or biases in fp32, padded to whole panels."""
    return None if number_O is None else pad(number_O.detach().float(), (0, -len(number_O) % _PANEL)).contiguous()
