"""A decoder by C kernels: all rows through all layers in one call."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref

import torch
from torch import Tensor, nn

from nearmt.engines.cpu import layouts
from nearmt.engines.cpu import library as native
from nearmt.engines.cpu.layouts import feed_forward
from nearmt.engines.cpu.library import address, kernels
from nearmt.engines.parts import DecoderParts, LayerParts
from nearmt.engines.precision import Int8Linear
from nearmt.engines.reference.decoder_state import DecoderState, KeyValues
from nearmt.engines.reference.step_decoder import Batch, JoinedLinears, StepDecoder


class KernelDecoder(StepDecoder):
    """The reference's numbers up to rounding. A row's result does not depend on the rest of its batch, nor on whether
    its tokens are fed one by one or as a whole target."""

    def __init__(self, parts: DecoderParts, joined: JoinedLinears, key_layer: str) -> None:
        super().__init__(parts, joined, key_layer, KernelLayers(parts, list(joined.own)))
        #: Heads of the lower half of the layers.
        self._attentions = (len(parts.layers) + 1) // 2 * parts.layers[0].cross.heads

    @staticmethod
    def supports(parts: DecoderParts, joined: JoinedLinears) -> bool:
        """Whether there are kernels for a decoder like this one, in its number format."""
        if kernels() is None or parts.position_bias is not None or layouts.activation_of(parts.layers[0]) is None:
            return False
        return all(_is_known(layer, linear) for layer, linear in zip(parts.layers, joined.own, strict=True))

    def force(self, state: DecoderState, token_ST: Tensor) -> Tensor:
        """The key at every position of whole targets, [S, T, H]."""
        return self.unfolded(state, token_ST)[1]

    def force_aligned(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Keys [S, T, H] and attention [S, T, F] at every position of whole targets."""
        attention_STF = state.attention_STF = torch.zeros(*token_ST.shape, state.width)
        key_STH = self.unfolded(state, token_ST)[1]
        return key_STH, attention_STF / self._attentions

    def force_with_logits(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [S, T, V] and keys [S, T, H] at every position of whole targets."""
        hidden_STH, key_STH = self.unfolded(state, token_ST)
        return self.project(hidden_STH), key_STH


class KernelLayers:
    """All layers in one call; cached keys and values and activations stay in the processor's cache."""

    def __init__(self, parts: DecoderParts, own: Sequence[nn.Module]) -> None:
        self._weights: list[object] = []  # keeps alive what the kernel reads
        layers = [self._layer(layer, linear) for layer, linear in zip(parts.layers, own, strict=True)]
        activation = layouts.activation_of(parts.layers[0])
        assert activation is not None
        array = (native.Layer * len(layers))(*layers)
        self._decoder = native.Decoder(len(layers), parts.norm_first, activation, array)
        self._heads = parts.layers[0].own.heads
        #: Cached keys and values are fp16 where weights are int8: half the time to read them, little to lose.
        self._halves = isinstance(own[0], Int8Linear)

    def key_values(self, key_LGFD: Tensor, value_LGFD: Tensor) -> KeyValues:
        if self._halves:
            key_LGFD, value_LGFD = key_LGFD.half(), value_LGFD.half()
        return KeyValues(key_LGFD, value_LGFD, columns=False)

    def run(self, batch: Batch, hidden_BH: Tensor) -> tuple[Tensor, Tensor]:
        library = native.loaded()
        assert isinstance(batch, DecoderState) and batch.own is not None and batch.source is not None
        length_S = torch.tensor(batch.source_lengths)
        own = self._layout(batch, batch.own)
        own.used, own.mask = batch.used, address(batch.ancestor_SRX)
        own.mask_stride = batch.ancestor_SRX.shape[2]
        source = self._layout(batch, batch.source)
        source.used, source.length = batch.width, address(length_S)
        source.attention = address(batch.attention_STF)
        hidden_BH, input_BH = hidden_BH.contiguous(), torch.empty_like(hidden_BH)
        scratch = torch.empty(
            library.decoder_scratch(byref(self._decoder), byref(own), byref(source)), dtype=torch.uint8
        )
        library.decoder_step(
            byref(self._decoder), byref(own), batch.own.key[0].nbytes, batch.offset,
            byref(source), batch.source.key[0].nbytes, address(hidden_BH), address(input_BH), address(scratch),
        )  # fmt: skip
        return hidden_BH, input_BH

    def _layout(self, state: DecoderState, cached: KeyValues) -> native.KeyValues:
        assert not cached.columns
        _, _, capacity, size = cached.value_LGXD.shape
        return native.KeyValues(
            slots=state.slots, rows=state.rows_each, heads=self._heads, size=size, capacity=capacity,
            halves=self._halves, key=address(cached.key), value=address(cached.value_LGXD),
        )  # fmt: skip

    def _layer(self, parts: LayerParts, own: nn.Module) -> native.Layer:
        linears = own, parts.own.output, parts.cross.query, parts.cross.output, *feed_forward(parts)
        norms = parts.own.norm, parts.cross.norm, parts.feed_forward_norm
        packed = [layouts.packed(linear) for linear in linears]
        self._weights += [packed, norms]
        read = *(each.layout for each in packed), *map(layouts.norm_layout, norms)
        return native.Layer(*read, parts.own.scale, parts.cross.scale)


def _is_known(parts: LayerParts, own: nn.Module) -> bool:
    """Whether kernels can read all parts of a layer."""
    return layouts.is_known(
        linears=(own, parts.own.output, parts.cross.query, parts.cross.output, *feed_forward(parts)),
        norms=(parts.own.norm, parts.cross.norm, parts.feed_forward_norm),
    )
