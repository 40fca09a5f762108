"""Number formats of the frozen weights: fp32, bf16, and int8 on a CPU."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from nearmt.config.model import PRECISIONS
from nearmt.engines.cpu import PackedLinear, kernels
from nearmt.engines.reference.integer import product_with
from nearmt.errors import ConfigError


class Int8Linear(nn.Module):
    """A linear layer with int8 weights (one scale per output) and 8-bit activations (one scale per row).

    Scaling every row by itself keeps a sentence's result independent of what shares its batch,
    which one scale for the whole batch would not.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight_OI = linear.weight.detach().float()
        scale_O = weight_OI.abs().amax(dim=1).clamp(min=1e-12) / 127
        # [O, I]; transformers asks layers for the type of what they call `weight`.
        self.weight = nn.Buffer((weight_OI / scale_O[:, None]).round().to(torch.int8))
        self.bias_O = None if linear.bias is None else nn.Buffer(linear.bias.detach().float())
        self.product = product_with(self.weight, scale_O, self.bias_O)

    def forward(self, input: Tensor) -> Tensor:
        row_RI = input.reshape(-1, self.in_features).float()
        output_RO: Tensor = self.product(row_RI)
        shape = list(input.shape)
        shape[-1] = self.out_features
        return output_RO.view(shape)


def _slow_for_mkl(rows: int) -> bool:
    """Whether MKL, whom torch asks, is slow for so many rows.

    With 5 to 15 it takes longer than with 16, and up to twice as long as oneDNN, which torch has, too. With fewer it
    is the faster of the two, and with many it makes no difference.
    """
    return 4 <= rows <= 128


class FewRowsLinear(nn.Linear):
    """A linear layer in fp32 on a CPU that is as fast for a step of a decoder as for whole sentences."""

    def forward(self, input: Tensor) -> Tensor:
        rows = input.numel() // self.in_features
        if not _slow_for_mkl(rows) or input.dtype != torch.float32 or torch.is_grad_enabled():
            return nn.functional.linear(input, self.weight, self.bias)
        output: Tensor = torch.ops.mkldnn._linear_pointwise(input, self.weight, self.bias, "none", [], "")
        return output


class KernelLinear(nn.Linear):
    """The same with nearmt's own kernel, which treats each row alike, however many there are.

    Its weights are packed when they are needed first.
    """

    _packed: tuple[tuple[int, int], PackedLinear] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if input.dtype != torch.float32 or input.device.type != "cpu" or torch.is_grad_enabled():
            return nn.functional.linear(input, self.weight, self.bias)
        output_RO: Tensor = self.packed()(input.reshape(-1, self.in_features))
        return output_RO.view(*input.shape[:-1], self.out_features)

    def packed(self) -> PackedLinear:
        """The weights as the kernel reads them."""
        # They may be trained, or copied, in between.
        latest = self.weight.data_ptr(), 0 if self.weight.is_inference() else self.weight._version
        if self._packed is None or self._packed[0] != latest:
            self._packed = latest, PackedLinear(self.weight, None, self.bias)
        return self._packed[1]


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
    elif device.type == "cpu" and (better := _better_linear()) is not None:
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = better  # the same weights, whoever shares them


def _better_linear() -> type[nn.Linear] | None:
    """What multiplies few rows in fp32 faster than torch does by itself."""
    if kernels() is not None:
        return KernelLinear
    return FewRowsLinear if _both_kernels() else None


@cache
def _both_kernels() -> bool:
    """Whether this torch multiplies with MKL and could with oneDNN."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    try:
        layer, input_RI = nn.Linear(16, 8).requires_grad_(False), torch.ones(4, 16)
        output_RO = torch.ops.mkldnn._linear_pointwise(input_RI, layer.weight, layer.bias, "none", [], "")
        return bool(torch.allclose(output_RO, layer(input_RI), atol=1e-5))
    except (RuntimeError, AttributeError, TypeError, NotImplementedError):  # not built in, or changed since
        return False


def _replace_linear(model: nn.Module) -> None:
    layer_of: dict[nn.Linear, Int8Linear] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.Linear):
            if module not in layer_of:
                layer_of[module] = Int8Linear(module)
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, layer_of[module])
