"""Whole sources and whole targets on a GPU, in torch.

Nothing here waits for the device, so batches can be started while earlier ones are computed: transformers looks at its
masks on the host. No logits are computed.

Shapes as in `decoder_state`; T positions of a target.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from nearmt.engines.parts import AttentionParts, DecoderParts, EncoderLayerParts, EncoderParts, LayerParts
from nearmt.engines.reference.decoder_state import DecoderState
from nearmt.engines.reference.step_decoder import JoinedLinears


class TorchEncoder:
    """transformers' encoder up to rounding."""

    def __init__(self, parts: EncoderParts) -> None:
        self._parts = parts

    def encode(self, token_SF: Tensor, mask_SF: Tensor, lengths: Sequence[int]) -> Tensor:
        """States of sentences that are padded on the right, [S, F, H]."""
        hidden_SFH = self._parts.embed(token_SF)
        bias_S11F = _bias(mask_SF, hidden_SFH.dtype)
        for layer in self._parts.layers:
            hidden_SFH = self._layer(layer, hidden_SFH, bias_S11F)
        return self._parts.finish(hidden_SFH)

    def _layer(self, layer: EncoderLayerParts, hidden_SFH: Tensor, bias_S11F: Tensor) -> Tensor:
        own = layer.own
        input_SFH = own.norm(hidden_SFH) if self._parts.norm_first else hidden_SFH
        read = own.query(input_SFH), own.key(input_SFH), own.value(input_SFH)
        hidden_SFH = hidden_SFH + own.output(_attend(own, *read, bias_S11F))
        if self._parts.norm_first:
            return _fed_forward(layer, hidden_SFH, norm_first=True)[0]
        return _fed_forward(layer, own.norm(hidden_SFH), norm_first=False)[0]


class WholeTargets:
    """Forced decoding."""

    def __init__(self, parts: DecoderParts, joined: JoinedLinears, key_layer: str) -> None:
        self._parts, self._joined, self._key_layer = parts, joined, key_layer
        #: Layers of which the attention to the source counts: the lower half.
        self._lower = (len(parts.layers) + 1) // 2

    @staticmethod
    def supports(parts: DecoderParts) -> bool:
        return parts.position_bias is None

    def force(self, state: DecoderState, token_ST: Tensor) -> Tensor:
        """The key at every position of whole targets, [S, T, H]."""
        return self._run(state, token_ST, None)

    def force_aligned(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Keys [S, T, H] and attention [S, T, F] at every position of whole targets."""
        weights: list[Tensor] = []
        key_STH = self._run(state, token_ST, weights)
        return key_STH, torch.stack(weights).mean(dim=0)

    def _run(self, state: DecoderState, token_ST: Tensor, weights: list[Tensor] | None) -> Tensor:
        count, length = token_ST.shape
        position_B = torch.arange(length, device=token_ST.device).repeat(count)
        hidden_STH = self._parts.embed(token_ST.flatten(), position_B).view(count, length, -1)
        bias_S11F = _bias(state.mask_SF, hidden_STH.dtype)
        # Keys and values of the source for all layers, by one product.
        source = self._joined.source(state.encoded_SFH).chunk(2 * len(self._parts.layers), dim=-1)
        for number, (layer, own) in enumerate(zip(self._parts.layers, self._joined.own, strict=True)):
            key_SFH, value_SFH = source[2 * number : 2 * number + 2]
            hidden_STH, query_STH = self._attended(layer, own, hidden_STH, (key_SFH, value_SFH, bias_S11F))
            if weights is not None and number < self._lower:
                weights.append(layer.cross.weights(query_STH, key_SFH, state.mask_SF))
            hidden_STH, input_STH = _fed_forward(layer, hidden_STH, self._parts.norm_first)
        return (self._parts.finish(hidden_STH) if self._key_layer == "output" else input_STH).float()

    def _attended(
        self, layer: LayerParts, joined: torch.nn.Module, hidden_STH: Tensor, source: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The input of a layer's feed-forward block, before its norm where that comes first, and the queries to the
        source."""
        own, cross, norm_first = layer.own, layer.cross, self._parts.norm_first
        query_STH, key_STH, value_STH = joined(own.norm(hidden_STH) if norm_first else hidden_STH).chunk(3, dim=-1)
        hidden_STH = hidden_STH + own.output(_attend(own, query_STH, key_STH, value_STH, None))
        hidden_STH = hidden_STH if norm_first else own.norm(hidden_STH)
        query_STH = cross.query(cross.norm(hidden_STH) if norm_first else hidden_STH)
        hidden_STH = hidden_STH + cross.output(_attend(cross, query_STH, *source))
        return hidden_STH if norm_first else cross.norm(hidden_STH), query_STH


def _fed_forward(layer: EncoderLayerParts, hidden: Tensor, norm_first: bool) -> tuple[Tensor, Tensor]:
    """The output of a layer, and the input of its feed-forward block."""
    if norm_first:
        fed = layer.feed_forward_norm(hidden)
        return hidden + layer.feed_forward(fed), fed
    return layer.feed_forward_norm(hidden + layer.feed_forward(hidden)), hidden


def _attend(
    parts: AttentionParts, query_STH: Tensor, key_SFH: Tensor, value_SFH: Tensor, bias_S11F: Tensor | None
) -> Tensor:
    """softmax(scale * query . key + bias) . value, heads concatenated; without a bias, only to earlier positions."""
    query, key, value = (
        part.unflatten(-1, (parts.heads, -1)).transpose(1, 2) for part in (query_STH, key_SFH, value_SFH)
    )
    causal = bias_S11F is None
    found_SATD = scaled_dot_product_attention(
        query, key, value, attn_mask=bias_S11F, is_causal=causal, scale=parts.scale
    )
    return found_SATD.transpose(1, 2).flatten(2)


def _bias(mask_SF: Tensor, dtype: torch.dtype) -> Tensor:
    """0 for tokens, -inf for padding, [S, 1, 1, F]."""
    bias_SF = torch.zeros(mask_SF.shape, dtype=dtype, device=mask_SF.device)
    return bias_SF.masked_fill_(mask_SF == 0, float("-inf"))[:, None, None]
