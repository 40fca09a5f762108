"""The parts of encoders and decoders that engines read: modules, tables and small functions.

Shapes: B rows, S sentences, F source positions, T target positions, H hidden size, X cached tokens, A heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, einsum, nn


@dataclass(frozen=True)
class AttentionParts:
    """softmax(scale * query . key) . value per head, then a projection; its norm comes before or after."""

    query: nn.Module
    key: nn.Module
    value: nn.Module
    output: nn.Module
    norm: nn.Module
    heads: int
    scale: float

    def weights(self, query_BTH: Tensor, key_BSH: Tensor, mask_BS: Tensor) -> Tensor:
        """Attention weights of target positions over source tokens, mean of all heads: [B, T, S]."""
        query_BTAD = query_BTH.float().unflatten(-1, (self.heads, -1))
        key_BSAD = key_BSH.float().unflatten(-1, (self.heads, -1))
        score_BATS = einsum("btad,bsad->bats", query_BTAD, key_BSAD) * self.scale
        return score_BATS.masked_fill(mask_BS[:, None, None] == 0, float("-inf")).softmax(dim=-1).mean(dim=1)


@dataclass(frozen=True)
class EncoderLayerParts:
    """A layer of an encoder: self-attention and a feed-forward block."""

    own: AttentionParts
    feed_forward: nn.Module
    feed_forward_norm: nn.Module


@dataclass(frozen=True)
class LayerParts(EncoderLayerParts):
    """A layer of a decoder: self-attention, attention to the source, and a feed-forward block."""

    cross: AttentionParts


@dataclass(frozen=True)
class EncoderParts:
    """An encoder from tokens to the states that a decoder attends to."""

    #: Tokens [S, F], padded on the right, to inputs of the first layer [S, F, H].
    embed: Callable[[Tensor], Tensor]
    layers: list[EncoderLayerParts]
    #: Norms come before the blocks, not after them.
    norm_first: bool
    #: Applied to the output of the last layer.
    finish: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class DecoderParts:
    """A decoder from token to logits."""

    #: Tokens [B] at their positions [B] to inputs of the first layer [B, H].
    embed: Callable[[Tensor, Tensor], Tensor]
    layers: list[LayerParts]
    #: Norms come before the blocks, not after them.
    norm_first: bool
    #: Applied to the output of the last layer; the result is projected.
    finish: Callable[[Tensor], Tensor]
    #: From [..., H] to logits [..., V].
    project: Callable[[Tensor], Tensor]
    #: Bias of attention scores [S, X, A], from positions of queries [S] and of cached tokens [S, X].
    position_bias: Callable[[Tensor, Tensor], Tensor] | None = None


class WholePass(Protocol):
    """A model as its library runs it: whole sources and whole targets at once, on any device."""

    def encode(self, token_SF: Tensor, mask_SF: Tensor) -> Tensor:
        """States of sentences padded on the right, [S, F, H]."""

    def keys(self, encoded_SFH: Tensor, mask_SF: Tensor, token_ST: Tensor) -> Tensor:
        """The key at every position that is fed, [S, T, H]."""

    def keys_and_attention(self, encoded_SFH: Tensor, mask_SF: Tensor, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Keys [S, T, H] and the attention of the lower half of the layers, mean of all heads, [S, T, F]."""

    def logits_and_keys(self, encoded_SFH: Tensor, mask_SF: Tensor, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [S, T, V] and keys [S, T, H] at every position that is fed."""
