"""All layers of a decoder in one call of a kernel, on a CPU that has the instructions for it."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nearmt.engines.cpu import kernels
from nearmt.engines.cpu import layouts as kernel_parts
from nearmt.engines.cpu import library as native
from nearmt.engines.cpu.layouts import feed_forward
from nearmt.engines.cpu.library import address
from nearmt.engines.parts import DecoderParts, LayerParts
from nearmt.engines.precision import Int8Linear
from nearmt.engines.reference.decoder_state import DecoderState, Slots

if TYPE_CHECKING:
    from nearmt.engines.cuda.decoder import Stage


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
        activation = kernel_parts.activation_of(parts.layers[0])
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
        linears = own, parts.own.output, parts.cross.query, parts.cross.output, *feed_forward(parts)
        norms = parts.own.norm, parts.cross.norm, parts.feed_forward_norm
        packed = [kernel_parts.packed(linear) for linear in linears]
        self._weights += [packed, norms]
        layouts = *(each.layout for each in packed), *map(kernel_parts.norm_layout, norms)
        return native.Layer(*layouts, parts.own.scale, parts.cross.scale)


def _is_known(parts: LayerParts, own: nn.Module) -> bool:
    """Whether a layer is made of what the kernel knows, in numbers that it can read."""
    return kernel_parts.is_known(
        linears=(own, parts.own.output, parts.cross.query, parts.cross.output, *feed_forward(parts)),
        norms=(parts.own.norm, parts.cross.norm, parts.feed_forward_norm),
    )
