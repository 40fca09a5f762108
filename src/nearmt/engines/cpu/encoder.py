"""An encoder by C kernels: sentences through all layers in one call.

The result of a sentence does not depend on its batch, not even in the last bit: sentences are not padded, and every
token goes through the same operations in the same order. torch chooses the order of sums by the shape of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref

import torch
from torch import Tensor

from nearmt.engines.cpu import layouts
from nearmt.engines.cpu import library as native
from nearmt.engines.cpu.layouts import feed_forward
from nearmt.engines.cpu.library import address, kernels
from nearmt.engines.parts import EncoderLayerParts, EncoderParts


class KernelEncoder:
    """transformers' encoder up to rounding."""

    def __init__(self, parts: EncoderParts) -> None:
        self._parts = parts
        self._weights: list[object] = []  # keeps alive what the kernel reads
        layers = [self._layer(layer) for layer in parts.layers]
        heads, activation = parts.layers[0].own.heads, layouts.activation_of(parts.layers[0])
        assert activation is not None
        array = (native.EncoderLayer * len(layers))(*layers)
        self._encoder = native.Encoder(len(layers), heads, parts.norm_first, activation, array)

    @staticmethod
    def supports(parts: EncoderParts) -> bool:
        """Whether there are kernels for an encoder like this one, in its number format."""
        activation = layouts.activation_of(parts.layers[0])
        return kernels() is not None and activation is not None and all(map(_is_known, parts.layers))

    def encode(self, token_SF: Tensor, mask_SF: Tensor, lengths: Sequence[int]) -> Tensor:
        """States of sentences that are padded on the right, [S, F, H]; zeros for padding."""
        library = native.loaded()
        real_SF, longest = mask_SF != 0, max(lengths)
        embedded_SFH = self._parts.embed(token_SF)
        hidden_BH = embedded_SFH[real_SF].contiguous()
        scratch = torch.empty(library.encoder_scratch(byref(self._encoder), longest), dtype=torch.uint8)
        length_S = torch.tensor(lengths)
        library.encode(
            byref(self._encoder), address(length_S), len(lengths), longest, address(hidden_BH), address(scratch)
        )
        encoded_SFH = torch.zeros_like(embedded_SFH)
        encoded_SFH[real_SF] = self._parts.finish(hidden_BH)
        return encoded_SFH

    def _layer(self, parts: EncoderLayerParts) -> native.EncoderLayer:
        packed = [layouts.packed(linear) for linear in _linears(parts)]
        norms = parts.own.norm, parts.feed_forward_norm
        self._weights += [packed, norms]
        read = *(each.layout for each in packed), *map(layouts.norm_layout, norms)
        return native.EncoderLayer(*read, parts.own.scale)


def _linears(parts: EncoderLayerParts) -> tuple[torch.nn.Module, ...]:
    own = parts.own
    return own.query, own.key, own.value, own.output, *feed_forward(parts)


def _is_known(parts: EncoderLayerParts) -> bool:
    return layouts.is_known(_linears(parts), (parts.own.norm, parts.feed_forward_norm))
