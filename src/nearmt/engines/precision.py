"""Number formats of frozen weights: fp32, bf16, and int8 on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nearmt.config.model import PRECISIONS
from nearmt.engines.cpu import PackedLinear, kernels
from nearmt.engines.cpu.packed_cache import PackedCache
from nearmt.engines.reference.integer import product_with
from nearmt.errors import ConfigError


class Quantised(NamedTuple):
    """weight = int8 [O, I] times scale [O]; scale and bias are fp32."""

    weight_OI: Tensor
    scale_O: Tensor
    bias_O: Tensor | None


class StoredLinear(nn.Module):
    """A linear layer in the embedded model's storage format: int8 weights [O, I] and one fp16 scale per output.

    The largest weight of every row is +-127, so these numbers are the ones that quantising the expanded weights gives.
    """

    def __init__(self, weight_OI: Tensor, scale_O: Tensor, bias_O: Tensor | None = None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight_OI.shape
        self.weight, self.scale_O = nn.Buffer(weight_OI), nn.Buffer(scale_O)
        self.bias = None if bias_O is None else nn.Buffer(bias_O)

    def expanded(self) -> nn.Linear:
        """The layer in fp32; the product of an int8 and an fp16 number is exact in fp32."""
        weight_OI = self.weight.float() * self.scale_O.float()[:, None]
        return _linear(weight_OI, None if self.bias is None else self.bias.float())

    def quantised(self) -> Quantised:
        return Quantised(self.weight, self.scale_O.float(), None if self.bias is None else self.bias.float())


class Int8Linear(nn.Module):
    """A linear layer with int8 weights (one scale per output) and 8-bit activations (one scale per row).

    Scaling every row by itself keeps a sentence's result independent of the rest of its batch, unlike one scale for
    the whole batch. Several layers that share an input are joined: their outputs follow one another.
    """

    def __init__(self, *parts: nn.Module, name: str = "", packed: PackedCache | None = None) -> None:
        super().__init__()
        linears = [part for part in parts if isinstance(part, nn.Linear | StoredLinear)]
        assert len(linears) == len(parts)
        self.in_features = linears[0].in_features
        self.out_features = sum(linear.out_features for linear in linears)
        # Shape and type alone: transformers asks layers for the type of their `weight`.
        self.weight = torch.empty(self.out_features, self.in_features, dtype=torch.int8, device="meta")

        def make() -> nn.Module:
            return product_with(*_stacked([quantised(linear) for linear in linears]))

        has_bias = any(linear.bias is not None for linear in linears)
        shape = self.out_features, self.in_features
        self.product = make() if packed is None else packed.linear(name, *shape, has_bias, make)

    def forward(self, input: Tensor) -> Tensor:
        row_RI = input.reshape(-1, self.in_features).float()
        output_RO: Tensor = self.product(row_RI)
        shape = list(input.shape)
        shape[-1] = self.out_features
        return output_RO.view(shape)


def quantised(linear: nn.Linear | StoredLinear) -> Quantised:
    """Round every row of weights to multiples of its largest number / 127."""
    if isinstance(linear, StoredLinear):
        return linear.quantised()
    weight_OI = linear.weight.detach().float()
    scale_O = weight_OI.abs().amax(dim=1).clamp(min=1e-12) / 127
    rounded_OI = (weight_OI / scale_O[:, None]).round().to(torch.int8)
    return Quantised(rounded_OI, scale_O, None if linear.bias is None else linear.bias.detach().float())


def _stacked(parts: Sequence[Quantised]) -> Quantised:
    """The layer whose outputs are those of several, one after the other."""
    if len(parts) == 1:
        return parts[0]
    biases = _biases([part.bias_O for part in parts], [len(part.weight_OI) for part in parts])
    return Quantised(torch.cat([part.weight_OI for part in parts]), torch.cat([part.scale_O for part in parts]), biases)


def _biases(biases: Sequence[Tensor | None], sizes: Sequence[int]) -> Tensor | None:
    """Biases one after the other, zeros for layers without; None if no layer has one."""
    known = next((bias_O for bias_O in biases if bias_O is not None), None)
    if known is None:
        return None
    return torch.cat([known.new_zeros(size) if b is None else b for b, size in zip(biases, sizes, strict=True)])


def _slow_for_mkl(rows: int) -> bool:
    """Whether MKL, torch's default, is slow for this number of rows.

    For 5 to 15 rows MKL takes longer than for 16, and up to twice as long as oneDNN, which torch has, too. For fewer
    rows MKL is the faster of the two, and for many rows both take the same time.
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
    """A linear layer in fp32 by nearmt's own kernel: the result of a row does not depend on the number of rows.

    Weights are packed on first use.
    """

    _packed: tuple[tuple[int, int], PackedLinear] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if input.dtype != torch.float32 or input.device.type != "cpu" or torch.is_grad_enabled():
            return nn.functional.linear(input, self.weight, self.bias)
        output_RO: Tensor = self.packed()(input.reshape(-1, self.in_features))
        return output_RO.view(*input.shape[:-1], self.out_features)

    def packed(self) -> PackedLinear:
        """The weights in the kernel's layout; packed again after training or copying has changed them."""
        latest = self.weight.data_ptr(), 0 if self.weight.is_inference() else self.weight._version
        if self._packed is None or self._packed[0] != latest:
            self._packed = latest, PackedLinear(self.weight, None, self.bias)
        return self._packed[1]


class Precision:
    """Converts frozen weights to one number format on one device.

    int8 weights in the kernels' layout are taken from a cache file where there is one.
    """

    def __init__(self, name: str, device: torch.device, packed: PackedCache | None = None) -> None:
        if name not in PRECISIONS:
            raise ConfigError(f"precision = {name!r}: must be one of {', '.join(PRECISIONS)}")
        if name == "int8" and device.type != "cpu":
            raise ConfigError("precision = 'int8': runs on a CPU only; use bf16 on a GPU")
        self.name, self._device, self._packed = name, device, packed

    def apply(self, model: nn.Module) -> None:
        """Convert all weights of a model in place; layers that are shared stay shared."""
        if self.name == "bf16":
            model.to(torch.bfloat16)
            return
        converted: dict[nn.Module, nn.Module] = {}
        for name, module in list(model.named_modules(remove_duplicate=False)):
            if isinstance(module, nn.Linear | StoredLinear):
                if module not in converted:
                    converted[module] = self._converted(module, name)
                if converted[module] is not module:
                    parent, _, last = name.rpartition(".")
                    setattr(model.get_submodule(parent), last, converted[module])

    def joined(self, name: str, *parts: nn.Module) -> nn.Module:
        """One linear layer that gives the outputs of several, one after the other."""
        if self.name == "int8":
            return self._int8(name, *parts)
        whole = [part.expanded() if isinstance(part, StoredLinear) else part for part in parts]
        linears = [part for part in whole if isinstance(part, nn.Linear)]
        assert len(linears) == len(parts)
        biases = [None if linear.bias is None else linear.bias.detach() for linear in linears]
        joined = _linear(
            torch.cat([linear.weight.detach() for linear in linears]),
            _biases(biases, [linear.out_features for linear in linears]),
        )
        if self.name == "bf16":
            return joined.to(torch.bfloat16)
        return self._converted(joined, name)

    def _converted(self, linear: nn.Module, name: str) -> nn.Module:
        """A layer in fp32 or int8; in fp32 the same object, with the same weights."""
        if self.name == "int8":
            return self._int8(name, linear)
        if isinstance(linear, StoredLinear):
            linear = linear.expanded()
        faster = _faster_linear() if self._device.type == "cpu" else None
        if faster is not None and type(linear) is nn.Linear:
            linear.__class__ = faster
        return linear

    def _int8(self, name: str, *parts: nn.Module) -> Int8Linear:
        return Int8Linear(*parts, name=name, packed=self._packed)


def apply_precision(model: nn.Module, precision: str, device: torch.device) -> None:
    """Convert frozen weights in place."""
    Precision(precision, device).apply(model)


def _linear(weight_OI: Tensor, bias_O: Tensor | None) -> nn.Linear:
    """A frozen linear layer with these weights; created without storage, so none are initialised in vain."""
    linear = nn.Linear(weight_OI.shape[1], len(weight_OI), bias=bias_O is not None, device="meta")
    linear.weight = nn.Parameter(weight_OI, requires_grad=False)
    if bias_O is not None:
        linear.bias = nn.Parameter(bias_O, requires_grad=False)
    return linear


def _faster_linear() -> type[nn.Linear] | None:
    """The layer that multiplies few rows in fp32 faster than torch's own, where there is one."""
    if kernels() is not None:
        return KernelLinear
    return FewRowsLinear if _has_mkl_and_onednn() else None


@cache
def _has_mkl_and_onednn() -> bool:
    """Whether this torch multiplies with MKL and could with oneDNN."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    try:
        layer, input_RI = nn.Linear(16, 8).requires_grad_(False), torch.ones(4, 16)
        output_RO = torch.ops.mkldnn._linear_pointwise(input_RI, layer.weight, layer.bias, "none", [], "")
        return bool(torch.allclose(output_RO, layer(input_RI), atol=1e-5))
    except (RuntimeError, AttributeError, TypeError, NotImplementedError):  # not built in, or changed since
        return False
