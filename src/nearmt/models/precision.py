"""Number formats of the frozen weights: fp32, bf16, and int8 on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nearmt.errors import ConfigError

PRECISIONS = ("fp32", "bf16", "int8")


class Int8Linear(nn.Module):
    """A linear layer with int8 weights (one scale per output) and int8 activations (one scale per row).

    Scaling every row by itself keeps a sentence's result independent of what shares its batch,
    which one scale for the whole batch would not.
    """

    weight: Tensor  # [I, O]; transformers asks layers for the type of what they call `weight`
    scale_O: Tensor
    bias_O: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight_OI = linear.weight.detach().float()
        scale_O = weight_OI.abs().amax(dim=1).clamp(min=1e-12) / 127
        self.register_buffer("weight", (weight_OI / scale_O[:, None]).round().to(torch.int8).t())
        self.register_buffer("scale_O", scale_O)
        self.register_buffer("bias_O", None if linear.bias is None else linear.bias.detach().float())
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, input: Tensor) -> Tensor:
        row_RI = input.reshape(-1, self.in_features).float()
        scale_R1 = row_RI.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
        quantised_RI = (row_RI / scale_R1).round().to(torch.int8)
        output_RO = torch._int_mm(quantised_RI, self.weight).float() * scale_R1 * self.scale_O
        if self.bias_O is not None:
            output_RO += self.bias_O
        return output_RO.reshape(*input.shape[:-1], self.out_features)


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


def _replace_linear(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            _replace_linear(child)
