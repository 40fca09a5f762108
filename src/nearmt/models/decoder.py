"""One step of a decoder, from the weights of a Hugging Face model: the same numbers in fewer and larger products.

Query, key and value come from one product. Keys and values of the source are made once for all layers, and once for
a sentence however many hypotheses it has. Hypotheses of a sentence are compared with its slots in one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearmt.models.decoder_state import DecoderState, Slots
from nearmt.models.parts import DecoderParts, LayerParts

#: Of a row's own slots and of its source.
Biases = tuple[Tensor, Tensor]


class JoinedLinears(nn.Module):
    """The linear layers of a decoder that share an input, joined: of each layer, and those that read the source."""

    def __init__(self, layers: Sequence[LayerParts]) -> None:
        super().__init__()
        self.own = nn.ModuleList(_joined([layer.own.query, layer.own.key, layer.own.value]) for layer in layers)
        self.source = _joined([part for layer in layers for part in (layer.cross.key, layer.cross.value)])


class StepDecoder:
    """Feeds every row one token. Holds weights only; what it knows of a request lives in its `DecoderState`."""

    def __init__(self, parts: DecoderParts, joined: JoinedLinears, key_layer: str) -> None:
        self._parts, self._key_layer = parts, key_layer
        self._source = joined.source
        own = zip(parts.layers, joined.own, strict=True)
        self._layers = [_StepLayer(number, layer, linear) for number, (layer, linear) in enumerate(own)]
        self._heads = parts.layers[0].own.heads

    def step(self, state: DecoderState, token_B: Tensor) -> tuple[Tensor, Tensor]:
        """What is projected as logits, and the key, each [B, H]."""
        parts = self._parts
        hidden_BH = parts.embed(token_B, state.length)
        if state.source is None:
            state.source = self._look_at_source(state.encoded_SFH)
        state.begin_step()
        biases = self._biases(state, hidden_BH.dtype)
        step_layer = _StepLayer.norm_first if parts.norm_first else _StepLayer.norm_last
        for layer in self._layers:
            hidden_BH, thinking_BH = step_layer(layer, state, hidden_BH, biases)
        hidden_BH = parts.finish(hidden_BH)
        return hidden_BH, hidden_BH if self._key_layer == "output" else thinking_BH

    def logits(self, hidden_BH: Tensor) -> Tensor:
        return self._parts.project(hidden_BH)

    def _look_at_source(self, encoded_SFH: Tensor) -> Slots:
        """Keys and values of the source, for all layers."""
        found_SFLPAD = self._source(encoded_SFH).unflatten(-1, (len(self._layers), 2, self._heads, -1))
        key_LSAFD, value_LSAFD = found_SFLPAD.permute(3, 2, 0, 4, 1, 5).unbind(dim=0)
        columns = found_SFLPAD.dtype == torch.float32
        key = key_LSAFD.transpose(3, 4) if columns else key_LSAFD
        return Slots(key.contiguous(), value_LSAFD.contiguous(), columns)

    def _biases(self, state: DecoderState, dtype: torch.dtype) -> Biases:
        """What is added to scores: -inf for slots of others and for padding; [S, A, R, X] and [S, A, R, F]."""
        bias_SARX = _bias(state.ancestor_SRX[:, :, : state.used], dtype)[:, None].expand(-1, self._heads, -1, -1)
        if self._parts.position_bias is not None:
            place_SXA = self._parts.position_bias(state.length - 1, state.position_SX[:, : state.used])
            bias_SARX = bias_SARX + place_SXA.to(dtype).permute(0, 2, 1)[:, :, None]
        source_S11F = _bias(state.mask_SF != 0, dtype)[:, None, None]
        return bias_SARX.contiguous(), source_S11F.expand(-1, self._heads, state.rows_each, -1).contiguous()


class _StepLayer:
    """A layer of the decoder, and its place among them."""

    def __init__(self, number: int, parts: LayerParts, own: nn.Module) -> None:
        self._number, self._parts, self._own_linear = number, parts, own

    def norm_first(
        self, state: DecoderState, hidden_BH: Tensor, biases: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """What goes on to the next layer, and what the feed-forward block was given, each [B, H]."""
        parts = self._parts
        hidden_BH = hidden_BH + self._own(state, parts.own.norm(hidden_BH), biases[0])
        hidden_BH = hidden_BH + self._cross(state, parts.cross.norm(hidden_BH), biases[1])
        thinking_BH = parts.feed_forward_norm(hidden_BH)
        return hidden_BH + parts.feed_forward(thinking_BH), thinking_BH

    def norm_last(self, state: DecoderState, hidden_BH: Tensor, biases: Biases) -> tuple[Tensor, Tensor]:
        """The same for layers whose norms stand behind the blocks."""
        parts = self._parts
        hidden_BH = parts.own.norm(hidden_BH + self._own(state, hidden_BH, biases[0]))
        thinking_BH = parts.cross.norm(hidden_BH + self._cross(state, hidden_BH, biases[1]))
        return parts.feed_forward_norm(thinking_BH + parts.feed_forward(thinking_BH)), thinking_BH

    def _own(self, state: DecoderState, hidden_BH: Tensor, bias_SARX: Tensor) -> Tensor:
        """Each row looks at its ancestors and itself."""
        parts, rows = self._parts.own, state.rows_each
        joined_BX = self._own_linear(hidden_BH)
        query_SRAD, key_SRAD, value_SRAD = joined_BX.view(len(joined_BX) // rows, rows, 3, parts.heads, -1).unbind(
            dim=2
        )
        slots = state.slots(key_SRAD)
        slots.write(self._number, state.used - rows, key_SRAD, value_SRAD)
        found_BX = _attend(query_SRAD, *slots.read(self._number, state.used), bias_SARX, parts.scale)
        output_BH: Tensor = parts.output(found_BX)
        return output_BH

    def _cross(self, state: DecoderState, hidden_BH: Tensor, bias_SARF: Tensor) -> Tensor:
        """Each row looks at its source."""
        assert state.source is not None
        parts, rows = self._parts.cross, state.rows_each
        query_SRAD = parts.query(hidden_BH).view(len(hidden_BH) // rows, rows, parts.heads, -1)
        found_BX = _attend(query_SRAD, *state.source.read(self._number), bias_SARF, parts.scale)
        output_BH: Tensor = parts.output(found_BX)
        return output_BH


def _attend(query_SRAD: Tensor, key: Tensor, value_SAXD: Tensor, bias_SARX: Tensor, scale: float) -> Tensor:
    """softmax(scale * query . key + bias) . value of every row, heads side by side: [B, A * D]."""
    query_SARD = query_SRAD.transpose(1, 2)
    if query_SRAD.dtype == torch.float32:  # keys are columns
        score = torch.baddbmm(_flat(bias_SARX), _flat(query_SARD), _flat(key), alpha=scale)
        found_SARD = torch.bmm(score.softmax(dim=-1), _flat(value_SAXD)).view(query_SARD.shape)
    else:
        found_SARD = nn.functional.scaled_dot_product_attention(
            query_SARD, key, value_SAXD, attn_mask=bias_SARX, scale=scale
        )
    return found_SARD.transpose(1, 2).reshape(query_SRAD.shape[0] * query_SRAD.shape[1], -1)


def _flat(matrices: Tensor) -> Tensor:
    """Sentences and heads as one list of matrices."""
    return matrices.flatten(0, 1)


def _bias(seen: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)


def _joined(parts: Sequence[Any]) -> nn.Linear:
    """One linear layer that gives the outputs of several, one after the other."""
    weight_OI = torch.cat([part.weight for part in parts])
    joined = nn.Linear(weight_OI.shape[1], len(weight_OI), bias=any(part.bias is not None for part in parts))
    joined.weight = nn.Parameter(weight_OI, requires_grad=False)
    if joined.bias is not None:
        biases = [part.weight.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
        joined.bias = nn.Parameter(torch.cat(biases), requires_grad=False)
    return joined
