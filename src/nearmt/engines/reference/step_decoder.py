"""What the decoders of all engines share: from tokens to logits and keys; only the layers differ.

Query, key and value come from one product. Keys and values of the source are computed once for all layers, and once
for a sentence however many hypotheses it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from nearmt.engines.parts import DecoderParts, LayerParts
from nearmt.engines.precision import Precision
from nearmt.engines.reference.decoder_state import DecoderState, KeyValues, Offset
from nearmt.timing import timed

#: Logits [B, V] and keys [B, H].
Output = tuple[Tensor, Tensor]


class Batch(Protocol):
    """A batch during a step: a `DecoderState`, or static buffers that a CUDA graph reads and writes."""

    rows_each: int
    mask_SF: Tensor
    ancestor_SRX: Tensor
    position_SX: Tensor
    position_S: Tensor
    #: Cached tokens that are read; masks say which of them count.
    used: int

    @property
    def width(self) -> int: ...

    @property
    def offset(self) -> Offset: ...

    @property
    def own(self) -> KeyValues | None: ...

    @property
    def source(self) -> KeyValues | None: ...

    def begin_step(self) -> None: ...

    def end_step(self) -> None: ...


class JoinedLinears(nn.Module):
    """The linear layers of a decoder that share an input, joined: query, key and value of each self-attention, and keys
    and values of the source for all layers."""

    def __init__(self, layers: Sequence[LayerParts], precision: Precision) -> None:
        super().__init__()
        self.own = nn.ModuleList(
            precision.joined(f"joined.own.{number}", layer.own.query, layer.own.key, layer.own.value)
            for number, layer in enumerate(layers)
        )
        source = [part for layer in layers for part in (layer.cross.key, layer.cross.value)]
        self.source = precision.joined("joined.source", *source)


class Layers(Protocol):
    """All layers of a decoder."""

    def key_values(self, key_LGFD: Tensor, value_LGFD: Tensor) -> KeyValues:
        """Keys and values of the source in the format that the layers read."""

    def run(self, batch: Batch, hidden_BH: Tensor) -> tuple[Tensor, Tensor]:
        """The output of the last layer, and the input of its feed-forward block, each [B, H]."""


class StepDecoder:
    """Feeds every row tokens. Holds weights only; the state of a request is its `DecoderState`."""

    def __init__(self, parts: DecoderParts, joined: JoinedLinears, key_layer: str, layers: Layers) -> None:
        self.parts, self.joined, self.key_layer = parts, joined, key_layer
        self._layers = layers
        self._count, self._heads = len(parts.layers), parts.layers[0].own.heads

    def begin(self, encoded_SFH: Tensor, mask_SF: Tensor, lengths: list[int]) -> DecoderState:
        """The state of a batch of encoded sources of these lengths, one row each."""
        return DecoderState(encoded_SFH, mask_SF, lengths)

    def step(self, state: DecoderState, token_BT: Tensor) -> Output:
        """Feed the newest tokens of every row: logits of the next token and the key, in fp32."""
        with timed("model/layers"):
            for token_B in token_BT.unbind(dim=1):
                if state.source is None:
                    state.begin(self._source_key_values(state.encoded_SFH))
                hidden_BH, key_BH = self.run(state, token_B)
        with timed("model/output"):
            return self.parts.project(hidden_BH).float(), key_BH.float()

    def run(self, batch: Batch, token_B: Tensor) -> tuple[Tensor, Tensor]:
        """Feed a token: what is projected to logits, and the key, each [B, H]."""
        hidden_BH = self.parts.embed(token_B, batch.position_S.repeat_interleave(batch.rows_each))
        batch.begin_step()
        hidden_BH, input_BH = self._layers.run(batch, hidden_BH)
        batch.end_step()
        hidden_BH = self.parts.finish(hidden_BH)
        return hidden_BH, hidden_BH if self.key_layer == "output" else input_BH

    def project(self, hidden_BH: Tensor) -> Tensor:
        """From states to logits."""
        return self.parts.project(hidden_BH)

    def unfolded(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """What `run` gives at every position of whole targets, fed at once; each [S, T, H]."""
        count, length = token_ST.shape
        state.unfold(length)
        state.begin(self._source_key_values(state.encoded_SFH))
        position_B = torch.arange(length, device=token_ST.device).repeat(count)
        hidden_BH, input_BH = self._layers.run(state, self.parts.embed(token_ST.flatten(), position_B))
        hidden_STH = self.parts.finish(hidden_BH).view(count, length, -1)
        return hidden_STH, hidden_STH if self.key_layer == "output" else input_BH.view(count, length, -1)

    def _source_key_values(self, encoded_SFH: Tensor) -> KeyValues:
        """Keys and values of the source, for all layers."""
        found_SFLPAD = self.joined.source(encoded_SFH).unflatten(-1, (self._count, 2, self._heads, -1))
        # One copy for both: [2, L, G, F, D].
        key_LGFD, value_LGFD = found_SFLPAD.permute(3, 2, 0, 4, 1, 5).flatten(2, 3).contiguous()
        return self._layers.key_values(key_LGFD, value_LGFD)
