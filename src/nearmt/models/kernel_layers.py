"""All layers of a decoder in one call of a kernel, on a CPU that has the instructions for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import byref
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from nearmt.models.decoder_state import DecoderState, Slots
from nearmt.models.parts import AttentionParts, DecoderParts, LayerParts
from nearmt.models.precision import Int8Linear
from nearmt.native import PackedLinear, kernels
from nearmt.native import library as native
from nearmt.native.library import address

if TYPE_CHECKING:
    from nearmt.models.graphs import Stage

# In the order of decoder.c.
_ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (functional.relu, functional.silu, functional.gelu)


class KernelLayers:
    """The same numbers as layer by layer, but for rounding: slots and activations stay in the processor's cache."""

    def __init__(self, parts: DecoderParts, own: Sequence[nn.Module], activation: int) -> None:
        self._weights: list[object] = []  # what the kernel reads has to live as long
        layers = [self._layer(layer, linear) for layer, linear in zip(parts.layers, own, strict=True)]
        self._decoder = native.Decoder(len(layers), parts.norm_first, activation, (native.Layer * len(layers))(*layers))
        self._heads = parts.layers[0].own.heads
        #: Where weights are rounded, slots may be a little: reading them takes half the time then.
        self._halves = isinstance(own[0], Int8Linear)

    @classmethod
    def of(cls, parts: DecoderParts, own: nn.ModuleList) -> KernelLayers | None:
        """None where there is no kernel, or the decoder is another one than it knows."""
        activation = _activation(parts)
        if kernels() is None or parts.position_bias is not None or activation is None:
            return None
        if not all(_is_known(layer, linear) for layer, linear in zip(parts.layers, own, strict=True)):
            return None
        return cls(parts, list(own), activation)

    def slots(self, key_LGFD: Tensor, value_LGFD: Tensor) -> Slots:
        if self._halves:
            key_LGFD, value_LGFD = key_LGFD.half(), value_LGFD.half()
        return Slots(key_LGFD, value_LGFD, columns=False)

    def run(self, state: DecoderState | Stage, hidden_BH: Tensor) -> tuple[Tensor, Tensor]:
        library = native.loaded()
        assert isinstance(state, DecoderState) and state.own is not None and state.source is not None
        length_S = torch.tensor(state.source_lengths)
        own = self._layout(state, state.own)
        own.used, own.seen, own.seen_room = state.used, address(state.ancestor_SRX), state.ancestor_SRX.shape[2]
        source = self._layout(state, state.source)
        source.used, source.length = state.width, address(length_S)
        hidden_BH, thinking_BH = hidden_BH.contiguous(), torch.empty_like(hidden_BH)
        room = torch.empty(library.decoder_room(byref(self._decoder), byref(own), byref(source)), dtype=torch.uint8)
        library.decoder_step(
            byref(self._decoder), byref(own), state.own.key[0].nbytes, state.place,
            byref(source), state.source.key[0].nbytes, address(hidden_BH), address(thinking_BH), address(room),
        )  # fmt: skip
        return hidden_BH, thinking_BH

    def _layout(self, state: DecoderState, slots: Slots) -> native.Slots:
        assert not slots.columns
        _, _, room, size = slots.value_LGXD.shape
        return native.Slots(
            sentences=state.sentences, rows=state.rows_each, heads=self._heads, size=size, room=room,
            halves=self._halves, key=address(slots.key), value=address(slots.value_LGXD),
        )  # fmt: skip

    def _layer(self, parts: LayerParts, own: nn.Module) -> native.Layer:
        first, _, second = _feed_forward(parts)
        linears = own, parts.own.output, parts.cross.query, parts.cross.output, first, second
        norms = parts.own.norm, parts.cross.norm, parts.feed_forward_norm
        packed = [_packed(linear) for linear in linears]
        self._weights += [packed, norms]
        return native.Layer(*(each.layout for each in packed), *map(_norm, norms), parts.own.scale, parts.cross.scale)


def _packed(linear: nn.Module) -> PackedLinear:
    if isinstance(linear, Int8Linear):
        assert isinstance(linear.product, PackedLinear)
        return linear.product
    assert isinstance(linear, nn.Linear)
    return PackedLinear(linear.weight, None, linear.bias)


def _norm(norm: nn.Module) -> native.Norm:
    assert isinstance(norm, nn.LayerNorm)
    return native.Norm(address(norm.weight), address(norm.bias), norm.eps)


def _feed_forward(parts: LayerParts) -> tuple[nn.Module, Callable[[Tensor], Tensor], nn.Module]:
    assert isinstance(parts.feed_forward, nn.Sequential)
    first, activation, second = parts.feed_forward
    return first, activation, second


def _activation(parts: DecoderParts) -> int | None:
    """The number of the function between the two halves of the feed-forward blocks; None for one that is unknown."""
    if not isinstance(parts.layers[0].feed_forward, nn.Sequential):
        return None
    tried_X = torch.linspace(-20, 20, 256)
    found_X = _feed_forward(parts.layers[0])[1](tried_X)
    return next((n for n, known in enumerate(_ACTIVATIONS) if torch.equal(known(tried_X), found_X)), None)


def _is_known(parts: LayerParts, own: nn.Module) -> bool:
    """Whether a layer is made of what the kernel knows, in numbers that it can read."""

    def linear_is_known(linear: nn.Module) -> bool:
        if isinstance(linear, Int8Linear):
            return isinstance(linear.product, PackedLinear)
        return isinstance(linear, nn.Linear) and _is_float(linear.weight)

    def attention_is_known(attention: AttentionParts, linear: nn.Module) -> bool:
        return linear_is_known(linear) and linear_is_known(attention.output) and norm_is_known(attention.norm)

    def norm_is_known(norm: nn.Module) -> bool:
        return isinstance(norm, nn.LayerNorm) and norm.bias is not None and _is_float(norm.weight)

    first, _, second = _feed_forward(parts)
    attentions = attention_is_known(parts.own, own), attention_is_known(parts.cross, parts.cross.query)
    return all((*attentions, linear_is_known(first), linear_is_known(second), norm_is_known(parts.feed_forward_norm)))


def _is_float(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
