"""Number formats of the frozen weights: fp32, bf16, and int8 on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nearmt.errors import ConfigError
from nearmt.models.integer import product_with

PRECISIONS = ("fp32", "bf16", "int8")


class Int8Linear(nn.Module):
    """A linear layer with int8 weights (one scale per output) and 8-bit activations (one scale per row).

    Scaling every row by itself keeps a sentence's result independent of what shares its batch,
    which one scale for the whole batch would not.
    """

    weight: Tensor  # [O, I]; transformers asks layers for the type of what they call `weight`
    bias_O: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight_OI = linear.weight.detach().float()
        scale_O = weight_OI.abs().amax(dim=1).clamp(min=1e-12) / 127
        self.register_buffer("weight", (weight_OI / scale_O[:, None]).round().to(torch.int8))
        self.register_buffer("bias_O", None if linear.bias is None else linear.bias.detach().float())
        self._product = product_with(self.weight, scale_O)

    def forward(self, input: Tensor) -> Tensor:
        row_RI = input.reshape(-1, self.in_features).float()
        top_R1 = row_RI.abs().amax(dim=1, keepdim=True)
        # A row of zeros is divided by zero here, but what comes of it is multiplied by zero again.
        output_RO = self._product(row_RI / top_R1)
        if self.bias_O is None:
            output_RO.mul_(top_R1)
        else:
            torch.addcmul(self.bias_O, output_RO, top_R1, out=output_RO)
        return output_RO.view(*input.shape[:-1], self.out_features)


def apply_precision(model: nn.Module, precision: str, device: torch.device) -> None:
    """Convert frozen weights in place."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision = {precision!r}: must be one of {', '.join(PRECISIONS)}")
    if precision == "int8":
        if device.type != "cpu":
            raise ConfigError("precision = 'int8': runs on a CPU only; use bf16 on a GPU")
        _replace_linear(model)
    elif precision == "bf16":
        model.to(torch.bfloat16)


def _replace_linear(model: nn.Module) -> None:
    layer_of: dict[nn.Linear, Int8Linear] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.Linear):
            if module not in layer_of:
                layer_of[module] = Int8Linear(module)
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, layer_of[module])
