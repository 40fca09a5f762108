"""One step of a decoder, from the weights of a Hugging Face model: the same numbers in fewer and larger products.

Query, key and value come from one product. Keys and values of the source are made once for all layers, and once for
a sentence however many hypotheses it has. Hypotheses of a sentence are compared with its slots in one product.
On a CPU a step through all layers is one call of a kernel or, where there is none, a layer is one call of TorchScript:
beside it other threads run Python, for which small products would queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from nearmt.engines.cpu.decoder import KernelLayers
from nearmt.engines.parts import AttentionParts, DecoderParts, LayerParts
from nearmt.engines.precision import Precision
from nearmt.engines.reference.decoder_state import DecoderState, Place, Slots, fill_slots, first_slots
from nearmt.threads import scripted

if TYPE_CHECKING:
    from nearmt.engines.cuda.decoder import Stage

#: Keys and values of slots, and what is added to the scores of the first of them; the others are not looked at.
Seen = tuple[Tensor, Tensor, Tensor]


class JoinedLinears(nn.Module):
    """The linear layers of a decoder that share an input, joined: query, key and value of each layer's
    self-attention, and keys and values of the source for all layers."""

    def __init__(self, layers: Sequence[LayerParts], precision: Precision) -> None:
        super().__init__()
        self.own = nn.ModuleList(
            precision.joined(f"joined.own.{number}", layer.own.query, layer.own.key, layer.own.value)
            for number, layer in enumerate(layers)
        )
        source = [part for layer in layers for part in (layer.cross.key, layer.cross.value)]
        self.source = precision.joined("joined.source", *source)


class StepDecoder:
    """Feeds every row one token. Holds weights only; what it knows of a request lives in its `DecoderState`."""

    def __init__(self, parts: DecoderParts, joined: JoinedLinears, key_layer: str) -> None:
        self._parts, self._key_layer = parts, key_layer
        self._source = joined.source
        self._layers: Layers = KernelLayers.of(parts, joined.own) or TorchLayers(parts, joined.own)
        self._count, self._heads = len(parts.layers), parts.layers[0].own.heads

    def step(self, state: DecoderState | Stage, token_B: Tensor) -> tuple[Tensor, Tensor]:
        """What is projected as logits, and the key, each [B, H]."""
        hidden_BH = self._parts.embed(token_B, state.position_S.repeat_interleave(state.rows_each))
        if isinstance(state, DecoderState) and state.source is None:
            state.begin(self._look_at_source(state.encoded_SFH))
        state.begin_step()
        hidden_BH, thinking_BH = self._layers.run(state, hidden_BH)
        state.end_step()
        hidden_BH = self._parts.finish(hidden_BH)
        return hidden_BH, hidden_BH if self._key_layer == "output" else thinking_BH

    @property
    def can_force(self) -> bool:
        """Whether whole targets can be fed at once."""
        return isinstance(self._layers, KernelLayers)

    def force(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """What `step` gives at every position of whole targets, to the last bit, each [S, T, H]."""
        count, length = token_ST.shape
        state.unfold(length)
        state.begin(self._look_at_source(state.encoded_SFH))
        position_B = torch.arange(length, device=token_ST.device).repeat(count)
        hidden_BH, thinking_BH = self._layers.run(state, self._parts.embed(token_ST.flatten(), position_B))
        hidden_STH = self._parts.finish(hidden_BH).view(count, length, -1)
        return hidden_STH, hidden_STH if self._key_layer == "output" else thinking_BH.view(count, length, -1)

    def logits(self, hidden_BH: Tensor) -> Tensor:
        return self._parts.project(hidden_BH)

    def _look_at_source(self, encoded_SFH: Tensor) -> Slots:
        """Keys and values of the source, for all layers."""
        found_SFLPAD = self._source(encoded_SFH).unflatten(-1, (self._count, 2, self._heads, -1))
        # One copy for all: [2, L, G, F, D].
        key_LGFD, value_LGFD = found_SFLPAD.permute(3, 2, 0, 4, 1, 5).flatten(2, 3).contiguous()
        return self._layers.slots(key_LGFD, value_LGFD)


class Layers(Protocol):
    """All layers of a decoder."""

    def slots(self, key_LGFD: Tensor, value_LGFD: Tensor) -> Slots:
        """Keys and values of all layers as these read them."""

    def run(self, state: DecoderState | Stage, hidden_BH: Tensor) -> tuple[Tensor, Tensor]:
        """What comes out of the last layer, and what its feed-forward block was given, each [B, H]."""


class TorchLayers:
    """Layer by layer, wherever the weights are."""

    def __init__(self, parts: DecoderParts, own: Iterable[nn.Module]) -> None:
        self._position_bias, self._heads = parts.position_bias, parts.layers[0].own.heads
        layers = zip(parts.layers, own, strict=True)
        self.layers = [_compiled(_StepLayer(layer, linear, parts.norm_first)) for layer, linear in layers]

    def slots(self, key_LGFD: Tensor, value_LGFD: Tensor) -> Slots:
        columns = _as_columns(key_LGFD)
        return Slots(key_LGFD.transpose(2, 3).contiguous() if columns else key_LGFD, value_LGFD, columns)

    def run(self, state: DecoderState | Stage, hidden_BH: Tensor) -> tuple[Tensor, Tensor]:
        bias_GRX, bias_GRF = self._biases(state, hidden_BH.dtype)
        assert state.own is not None and state.source is not None
        for layer, own, source in zip(self.layers, state.own.layers, state.source.layers, strict=True):
            hidden_BH, thinking_BH = layer(hidden_BH, (*own, bias_GRX), state.place, (*source, bias_GRF))
        return hidden_BH, thinking_BH

    def _biases(self, state: DecoderState | Stage, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What is added to scores: -inf for slots of others and for padding; [G, R, X] and [G, R, F]."""
        bias_SARX = _bias(state.ancestor_SRX[:, :, : state.used], dtype)[:, None].expand(-1, self._heads, -1, -1)
        if self._position_bias is not None:
            place_SXA = self._position_bias(state.position_S, state.position_SX[:, : state.used])
            bias_SARX = bias_SARX + place_SXA.to(dtype).permute(0, 2, 1)[:, :, None]
        source_S11F = _bias(state.mask_SF[:, : state.width] != 0, dtype)[:, None, None]
        source_SARF = source_S11F.expand(-1, self._heads, state.rows_each, -1)
        return bias_SARX.flatten(0, 1), source_SARF.flatten(0, 1)


class _StepLayer(nn.Module):
    """A layer of the decoder, in words that TorchScript understands."""

    def __init__(self, parts: LayerParts, own_linear: nn.Module, norm_first: bool) -> None:
        super().__init__()
        self.own, self.cross = _Attention(parts.own, own_linear), _Attention(parts.cross, parts.cross.query)
        self.feed_forward, self.feed_forward_norm = parts.feed_forward, parts.feed_forward_norm
        self.norm_first = norm_first

    def forward(self, hidden_BH: Tensor, own: Seen, place: Place, source: Seen) -> tuple[Tensor, Tensor]:
        """What goes on to the next layer, and what the feed-forward block was given, each [B, H]."""
        if self.norm_first:
            hidden_BH = hidden_BH + self._look_back(self.own.norm(hidden_BH), own, place)
            hidden_BH = hidden_BH + self._look_at_source(self.cross.norm(hidden_BH), source)
            thinking_BH = self.feed_forward_norm(hidden_BH)
            return hidden_BH + self.feed_forward(thinking_BH), thinking_BH
        hidden_BH = self.own.norm(hidden_BH + self._look_back(hidden_BH, own, place))
        thinking_BH = self.cross.norm(hidden_BH + self._look_at_source(hidden_BH, source))
        return self.feed_forward_norm(thinking_BH + self.feed_forward(thinking_BH)), thinking_BH

    def _look_back(self, hidden_BH: Tensor, own: Seen, place: Place) -> Tensor:
        """Each row looks at its ancestors and itself, for which the newest slots are filled."""
        query_GRD, key_GRD, value_GRD = self.own.split(hidden_BH, own, 3)
        fill_slots(own[0], own[1], place, key_GRD, value_GRD, _as_columns(own[0]))
        found_BH: Tensor = self.own(query_GRD, own)
        return found_BH

    def _look_at_source(self, hidden_BH: Tensor, source: Seen) -> Tensor:
        """Each row looks at its source."""
        found_BH: Tensor = self.cross(self.cross.split(hidden_BH, source, 1)[0], source)
        return found_BH


class _Attention(nn.Module):
    """How rows look at slots. `linear` makes their queries, and where they fill slots, keys and values beside them."""

    def __init__(self, parts: AttentionParts, linear: nn.Module) -> None:
        super().__init__()
        self.linear, self.output, self.norm = linear, parts.output, parts.norm
        self.heads, self.scale = parts.heads, float(parts.scale)

    def split(self, hidden_BH: Tensor, seen: Seen, parts: int) -> list[Tensor]:
        """What is made of each row, head by head, each part [G, R, D]."""
        return _by_head(self.linear(hidden_BH), len(seen[0]) // self.heads, parts, self.heads)

    def forward(self, query_GRD: Tensor, seen: Seen) -> Tensor:
        """What the rows find, [B, H]."""
        bias_GRX = seen[2]
        key, value_GXD = first_slots(seen[0], seen[1], bias_GRX.shape[2], _as_columns(seen[0]))
        found_BH: Tensor = self.output(_attend(query_GRD, key, value_GXD, bias_GRX, self.scale, self.heads))
        return found_BH


def _compiled(layer: _StepLayer) -> nn.Module:
    """One call on a CPU; on a GPU steps are recorded, and TorchScript would write kernels of its own."""
    on_cpu = all(weight.device.type == "cpu" for weight in layer.parameters())
    return scripted(layer) if on_cpu else layer


@scripted
def _by_head(joined_BX: Tensor, sentences: int, parts: int, heads: int) -> list[Tensor]:
    """Parts that stand side by side in each row, taken apart, each [G, R, D]."""
    joined_SRPAD = joined_BX.unflatten(1, (parts, heads, -1)).unflatten(0, (sentences, -1))
    return list(joined_SRPAD.permute(2, 0, 3, 1, 4).flatten(1, 2).unbind())


def _as_columns(key: Tensor) -> bool:
    """Whether keys like these are columns: products of single precision read them so, others as rows."""
    return key.dtype == torch.float32


def _attend(query_GRD: Tensor, key: Tensor, value_GXD: Tensor, bias_GRX: Tensor, scale: float, heads: int) -> Tensor:
    """softmax(scale * query . key + bias) . value of every row, heads side by side: [B, A * D]."""
    if _as_columns(key):
        return _attend_to_columns(query_GRD, key, value_GXD, bias_GRX, scale, heads)
    # The kernels want a batch of heads.
    found_GRD = nn.functional.scaled_dot_product_attention(
        query_GRD[None], key[None], value_GXD[None], attn_mask=bias_GRX[None], scale=scale
    )[0]
    return _side_by_side(found_GRD, heads)


def _side_by_side(found_GRD: Tensor, heads: int) -> Tensor:
    """What the heads of a row found, one after the other, [B, A * D]."""
    found_SARD: Tensor = found_GRD.unflatten(0, (-1, heads))
    return found_SARD.transpose(1, 2).flatten(0, 1).flatten(1)


@scripted
def _attend_to_columns(
    query_GRD: Tensor, key_GDX: Tensor, value_GXD: Tensor, bias_GRX: Tensor, scale: float, heads: int
) -> Tensor:
    weight_GRX = torch.baddbmm(bias_GRX, query_GRD, key_GDX, alpha=scale).softmax(dim=-1)
    return _side_by_side(torch.bmm(weight_GRX, value_GXD), heads)


@scripted
def _bias(seen: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))
