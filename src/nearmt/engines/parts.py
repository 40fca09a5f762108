"""What encoders and decoders are made of: the modules that an engine reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, einsum, nn


@dataclass(frozen=True)
class AttentionParts:
    """softmax(scale * query . key) . value, head by head, then a projection; its norm comes first or last."""

    query: nn.Module
    key: nn.Module
    value: nn.Module
    output: nn.Module
    norm: nn.Module
    heads: int
    scale: float

    def weights(self, query_BTH: Tensor, key_BSH: Tensor, mask_BS: Tensor) -> Tensor:
        """How much each target position looks at each source token, as the mean of all heads: [B, T, S]."""
        query_BTAD = query_BTH.float().unflatten(-1, (self.heads, -1))
        key_BSAD = key_BSH.float().unflatten(-1, (self.heads, -1))
        score_BATS = einsum("btad,bsad->bats", query_BTAD, key_BSAD) * self.scale
        return score_BATS.masked_fill(mask_BS[:, None, None] == 0, float("-inf")).softmax(dim=-1).mean(dim=1)


@dataclass(frozen=True)
class EncoderLayerParts:
    """A layer of an encoder: attention to its own sentence, and a feed-forward block."""

    own: AttentionParts
    feed_forward: nn.Module
    feed_forward_norm: nn.Module


@dataclass(frozen=True)
class LayerParts(EncoderLayerParts):
    """A layer of a decoder: it looks at its own past, at the source, and thinks."""

    cross: AttentionParts


@dataclass(frozen=True)
class EncoderParts:
    """An encoder from tokens to what a decoder reads."""

    #: Tokens [S, F], padded on the right, as inputs of the first layer [S, F, H].
    embed: Callable[[Tensor], Tensor]
    layers: list[EncoderLayerParts]
    #: Norms stand before the blocks, not behind them.
    norm_first: bool
    #: From the last layer to what is read.
    finish: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class DecoderParts:
    """A decoder from token to logits."""

    #: Tokens [B] at their positions [B] as inputs of the first layer [B, H].
    embed: Callable[[Tensor, Tensor], Tensor]
    layers: list[LayerParts]
    #: Norms stand before the blocks, not behind them.
    norm_first: bool
    #: From the last layer to what is projected.
    finish: Callable[[Tensor], Tensor]
    #: What is projected as logits.
    project: Callable[[Tensor], Tensor]
    #: What is added to scores where a query at a position [S] looks at tokens at others [S, X]: [S, X, A].
    position_bias: Callable[[Tensor, Tensor], Tensor] | None = None
