"""The layers of a model as kernels read them, and which layers kernels can read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from nearmt.engines.cpu import PackedLinear
from nearmt.engines.cpu import library as native
from nearmt.engines.cpu.library import address
from nearmt.engines.parts import EncoderLayerParts
from nearmt.engines.precision import Int8Linear, KernelLinear

# In the order of blocks.h.
_ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (functional.relu, functional.silu, functional.gelu)


def packed(linear: nn.Module) -> PackedLinear:
    """The weights of a linear layer in the kernels' layout."""
    if isinstance(linear, Int8Linear):
        assert isinstance(linear.product, PackedLinear)
        return linear.product
    assert isinstance(linear, nn.Linear)
    return linear.packed() if isinstance(linear, KernelLinear) else PackedLinear(linear.weight, None, linear.bias)


def norm_layout(norm: nn.Module) -> native.Norm:
    """The weights of a norm, which must be kept alive."""
    assert isinstance(norm, nn.LayerNorm)
    return native.Norm(address(norm.weight), address(norm.bias), norm.eps)


def feed_forward(parts: EncoderLayerParts) -> tuple[nn.Module, nn.Module]:
    """The two linear layers of a feed-forward block."""
    assert isinstance(parts.feed_forward, nn.Sequential)
    first, _, second = parts.feed_forward
    return first, second


def activation_of(parts: EncoderLayerParts) -> int | None:
    """The number of a feed-forward block's activation function; None if kernels do not have it."""
    if not isinstance(parts.feed_forward, nn.Sequential):
        return None
    tried_X = torch.linspace(-20, 20, 256)
    found_X = parts.feed_forward[1](tried_X)
    return next((n for n, known in enumerate(_ACTIVATIONS) if torch.equal(known(tried_X), found_X)), None)


def is_known(linears: Iterable[nn.Module], norms: Iterable[nn.Module]) -> bool:
    """Whether kernels can read these linear layers and norms, in their number format."""
    return all(map(_linear_is_known, linears)) and all(map(_norm_is_known, norms))


def _linear_is_known(linear: nn.Module) -> bool:
    if isinstance(linear, Int8Linear):
        return isinstance(linear.product, PackedLinear)
    return isinstance(linear, nn.Linear) and _is_float(linear.weight)


def _norm_is_known(norm: nn.Module) -> bool:
    return isinstance(norm, nn.LayerNorm) and norm.bias is not None and _is_float(norm.weight)


def _is_float(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
