"""All layers of an encoder in one call of a kernel, on a CPU that has the instructions for it.

What it gives for a sentence does not depend on the batch, not even in the last bit: sentences are not padded, and every
token goes through the same operations in the same order. The products and the attention of torch choose their order of
summation by the shape of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref

import torch
from torch import Tensor

from nearmt.engines.cpu import kernels
from nearmt.engines.cpu import layouts as kernel_parts
from nearmt.engines.cpu import library as native
from nearmt.engines.cpu.layouts import feed_forward
from nearmt.engines.cpu.library import address
from nearmt.engines.parts import EncoderLayerParts, EncoderParts


class KernelEncoder:
    """What transformers' encoder gives, but for rounding."""

    def __init__(self, parts: EncoderParts, activation: int) -> None:
        self._parts = parts
        self._weights: list[object] = []  # what the kernel reads has to live as long
        layers = [self._layer(layer) for layer in parts.layers]
        heads = parts.layers[0].own.heads
        array = (native.EncoderLayer * len(layers))(*layers)
        self._encoder = native.Encoder(len(layers), heads, parts.norm_first, activation, array)

    @classmethod
    def of(cls, parts: EncoderParts) -> KernelEncoder | None:
        """None where there is no kernel, or the encoder is another one than it knows."""
        activation = kernel_parts.activation_of(parts.layers[0])
        if kernels() is None or activation is None or not all(map(_is_known, parts.layers)):
            return None
        return cls(parts, activation)

    def run(self, token_SF: Tensor, mask_SF: Tensor, lengths: Sequence[int]) -> Tensor:
        """What the encoder gives for sentences that are padded on the right, [S, F, H]; zeros for padding."""
        library = native.loaded()
        real_SF, longest = mask_SF != 0, max(lengths)
        embedded_SFH = self._parts.embed(token_SF)
        hidden_BH = embedded_SFH[real_SF].contiguous()
        room = torch.empty(library.encoder_room(byref(self._encoder), longest), dtype=torch.uint8)
        length_S = torch.tensor(lengths)
        library.encode(
            byref(self._encoder), address(length_S), len(lengths), longest, address(hidden_BH), address(room)
        )
        encoded_SFH = torch.zeros_like(embedded_SFH)
        encoded_SFH[real_SF] = self._parts.finish(hidden_BH)
        return encoded_SFH

    def _layer(self, parts: EncoderLayerParts) -> native.EncoderLayer:
        packed = [kernel_parts.packed(linear) for linear in _linears(parts)]
        norms = parts.own.norm, parts.feed_forward_norm
        self._weights += [packed, norms]
        layouts = *(each.layout for each in packed), *map(kernel_parts.norm_layout, norms)
        return native.EncoderLayer(*layouts, parts.own.scale)


def _linears(parts: EncoderLayerParts) -> tuple[torch.nn.Module, ...]:
    own = parts.own
    return own.query, own.key, own.value, own.output, *feed_forward(parts)


def _is_known(parts: EncoderLayerParts) -> bool:
    return kernel_parts.is_known(_linears(parts), (parts.own.norm, parts.feed_forward_norm))
