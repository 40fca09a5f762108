"""A decoder in torch, on any device: the reference for all engines.

Hypotheses of a sentence are compared with its cached tokens in one product. On a CPU a layer is one call of
TorchScript, during which other threads can run Python.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from nearmt.engines.parts import AttentionParts, DecoderParts, LayerParts, WholePass
from nearmt.engines.reference.decoder_state import DecoderState, KeyValues, Offset, first_tokens, write_tokens
from nearmt.engines.reference.step_decoder import Batch, JoinedLinears, StepDecoder
from nearmt.threads import scripted

#: Keys and values, and the bias of the scores of the first of them; the others are not attended to.
Attended = tuple[Tensor, Tensor, Tensor]


class TorchDecoder(StepDecoder):
    """Steps in torch; whole targets are fed by the model's own library."""

    def __init__(self, parts: DecoderParts, joined: JoinedLinears, key_layer: str, whole: WholePass) -> None:
        super().__init__(parts, joined, key_layer, TorchLayers(parts, joined.own))
        self._whole = whole

    def force(self, state: DecoderState, token_ST: Tensor) -> Tensor:
        """The key at every position of whole targets, [S, T, H]."""
        return self._whole.keys(state.encoded_SFH, state.mask_SF, token_ST).float()

    def force_aligned(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Keys [S, T, H] and attention [S, T, F] at every position of whole targets."""
        key_STH, attention_STF = self._whole.keys_and_attention(state.encoded_SFH, state.mask_SF, token_ST)
        return key_STH.float(), attention_STF

    def force_with_logits(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [S, T, V] and keys [S, T, H] at every position of whole targets, in the model's precision."""
        return self._whole.logits_and_keys(state.encoded_SFH, state.mask_SF, token_ST)


class TorchLayers:
    """Layer by layer, on the device of the weights."""

    def __init__(self, parts: DecoderParts, own: Iterable[nn.Module]) -> None:
        self._position_bias, self._heads = parts.position_bias, parts.layers[0].own.heads
        layers = zip(parts.layers, own, strict=True)
        self.layers = [_compiled(_StepLayer(layer, linear, parts.norm_first)) for layer, linear in layers]

    def key_values(self, key_LGFD: Tensor, value_LGFD: Tensor) -> KeyValues:
        columns = _as_columns(key_LGFD)
        return KeyValues(key_LGFD.transpose(2, 3).contiguous() if columns else key_LGFD, value_LGFD, columns)

    def run(self, batch: Batch, hidden_BH: Tensor) -> tuple[Tensor, Tensor]:
        bias_GRX, bias_GRF = self._biases(batch, hidden_BH.dtype)
        assert batch.own is not None and batch.source is not None
        for layer, own, source in zip(self.layers, batch.own.layers, batch.source.layers, strict=True):
            hidden_BH, input_BH = layer(hidden_BH, (*own, bias_GRX), batch.offset, (*source, bias_GRF))
        return hidden_BH, input_BH

    def _biases(self, batch: Batch, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Biases of scores: -inf for tokens of other rows and for padding; [G, R, X] and [G, R, F]."""
        bias_SARX = _bias(batch.ancestor_SRX[:, :, : batch.used], dtype)[:, None].expand(-1, self._heads, -1, -1)
        if self._position_bias is not None:
            position_SXA = self._position_bias(batch.position_S, batch.position_SX[:, : batch.used])
            bias_SARX = bias_SARX + position_SXA.to(dtype).permute(0, 2, 1)[:, :, None]
        source_S11F = _bias(batch.mask_SF[:, : batch.width] != 0, dtype)[:, None, None]
        source_SARF = source_S11F.expand(-1, self._heads, batch.rows_each, -1)
        return bias_SARX.flatten(0, 1), source_SARF.flatten(0, 1)


class _StepLayer(nn.Module):
    """A layer of the decoder, in the subset of Python that TorchScript compiles."""

    def __init__(self, parts: LayerParts, own_linear: nn.Module, norm_first: bool) -> None:
        super().__init__()
        self.own, self.cross = _Attention(parts.own, own_linear), _Attention(parts.cross, parts.cross.query)
        self.feed_forward, self.feed_forward_norm = parts.feed_forward, parts.feed_forward_norm
        self.norm_first = norm_first

    def forward(self, hidden_BH: Tensor, own: Attended, offset: Offset, source: Attended) -> tuple[Tensor, Tensor]:
        """The output of the layer, and the input of its feed-forward block, each [B, H]."""
        if self.norm_first:
            hidden_BH = hidden_BH + self._self_attention(self.own.norm(hidden_BH), own, offset)
            hidden_BH = hidden_BH + self._cross_attention(self.cross.norm(hidden_BH), source)
            input_BH = self.feed_forward_norm(hidden_BH)
            return hidden_BH + self.feed_forward(input_BH), input_BH
        hidden_BH = self.own.norm(hidden_BH + self._self_attention(hidden_BH, own, offset))
        input_BH = self.cross.norm(hidden_BH + self._cross_attention(hidden_BH, source))
        return self.feed_forward_norm(input_BH + self.feed_forward(input_BH)), input_BH

    def _self_attention(self, hidden_BH: Tensor, own: Attended, offset: Offset) -> Tensor:
        """Each row attends to its ancestors and itself, after its key and value are written to the cache."""
        query_GRD, key_GRD, value_GRD = self.own.split(hidden_BH, own, 3)
        write_tokens(own[0], own[1], offset, key_GRD, value_GRD, _as_columns(own[0]))
        found_BH: Tensor = self.own(query_GRD, own)
        return found_BH

    def _cross_attention(self, hidden_BH: Tensor, source: Attended) -> Tensor:
        """Each row attends to its source."""
        found_BH: Tensor = self.cross(self.cross.split(hidden_BH, source, 1)[0], source)
        return found_BH


class _Attention(nn.Module):
    """Attention of rows to cached tokens. `linear` gives queries or, joined, queries, keys and values."""

    def __init__(self, parts: AttentionParts, linear: nn.Module) -> None:
        super().__init__()
        self.linear, self.output, self.norm = linear, parts.output, parts.norm
        self.heads, self.scale = parts.heads, float(parts.scale)

    def split(self, hidden_BH: Tensor, attended: Attended, parts: int) -> list[Tensor]:
        """The output of `linear` by part and head, each part [G, R, D]."""
        return _by_head(self.linear(hidden_BH), len(attended[0]) // self.heads, parts, self.heads)

    def forward(self, query_GRD: Tensor, attended: Attended) -> Tensor:
        """The projected attention output, [B, H]."""
        bias_GRX = attended[2]
        key, value_GXD = first_tokens(attended[0], attended[1], bias_GRX.shape[2], _as_columns(attended[0]))
        found_BH: Tensor = self.output(_attend(query_GRD, key, value_GXD, bias_GRX, self.scale, self.heads))
        return found_BH


def _compiled(layer: _StepLayer) -> nn.Module:
    """One call on a CPU; on a GPU steps are captured in graphs, and TorchScript would generate kernels of its own."""
    on_cpu = all(weight.device.type == "cpu" for weight in layer.parameters())
    return scripted(layer) if on_cpu else layer


@scripted
def _by_head(joined_BX: Tensor, slots: int, parts: int, heads: int) -> list[Tensor]:
    """Split parts that are concatenated in each row, each [G, R, D]."""
    joined_SRPAD = joined_BX.unflatten(1, (parts, heads, -1)).unflatten(0, (slots, -1))
    return list(joined_SRPAD.permute(2, 0, 3, 1, 4).flatten(1, 2).unbind())


def _as_columns(key: Tensor) -> bool:
    """Whether keys are stored as columns: products in single precision read columns, others rows."""
    return key.dtype == torch.float32


def _attend(query_GRD: Tensor, key: Tensor, value_GXD: Tensor, bias_GRX: Tensor, scale: float, heads: int) -> Tensor:
    """softmax(scale * query . key + bias) . value of every row, heads concatenated: [B, A * D]."""
    if _as_columns(key):
        return _attend_to_columns(query_GRD, key, value_GXD, bias_GRX, scale, heads)
    # The kernels expect a batch of heads.
    found_GRD = nn.functional.scaled_dot_product_attention(
        query_GRD[None], key[None], value_GXD[None], attn_mask=bias_GRX[None], scale=scale
    )[0]
    return _concatenated(found_GRD, heads)


def _concatenated(found_GRD: Tensor, heads: int) -> Tensor:
    """The outputs of all heads of a row, [B, A * D]."""
    found_SARD: Tensor = found_GRD.unflatten(0, (-1, heads))
    return found_SARD.transpose(1, 2).flatten(0, 1).flatten(1)


@scripted
def _attend_to_columns(
    query_GRD: Tensor, key_GDX: Tensor, value_GXD: Tensor, bias_GRX: Tensor, scale: float, heads: int
) -> Tensor:
    weight_GRX = torch.baddbmm(bias_GRX, query_GRD, key_GDX, alpha=scale).softmax(dim=-1)
    return _concatenated(torch.bmm(weight_GRX, value_GXD), heads)


@scripted
def _bias(attended: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where attended, -inf elsewhere."""
    return torch.zeros(attended.shape, dtype=dtype, device=attended.device).masked_fill_(~attended, float("-inf"))
