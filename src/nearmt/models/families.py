"""What differs between the families of sequence-to-sequence models: where things are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, einsum, nn

from nearmt.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

KEY_LAYERS = ("output", "feed-forward")


@dataclass(frozen=True)
class CrossAttention:
    """How one layer of the decoder looks at the source: softmax(scale * query . key), head by head."""

    query: nn.Module
    key: nn.Module
    heads: int
    scale: float

    def weights(self, query_BTH: Tensor, key_BSH: Tensor, mask_BS: Tensor) -> Tensor:
        """How much each target position looks at each source token, as the mean of all heads: [B, T, S]."""
        query_BTAD = query_BTH.float().unflatten(-1, (self.heads, -1))
        key_BSAD = key_BSH.float().unflatten(-1, (self.heads, -1))
        score_BATS = einsum("btad,bsad->bats", query_BTAD, key_BSAD) * self.scale
        return score_BATS.masked_fill(mask_BS[:, None, None] == 0, float("-inf")).softmax(dim=-1).mean(dim=1)


@dataclass(frozen=True)
class Family:
    """Where a family keeps what is read from it, and how far it can see."""

    output_projection: Callable[[Any], nn.Module]
    #: First module of the last feed-forward block, behind its layer norm where that comes first.
    last_feed_forward: Callable[[Any], nn.Module]
    positions: Callable[[Any], int]
    #: Of every layer of the decoder, the first layer first.
    cross_attention: Callable[[Any], list[CrossAttention]]
    #: The layers of the decoder see [T, B, H] instead of [B, T, H].
    time_first: bool = False


def _attention(layer: Any) -> CrossAttention:
    found = layer.encoder_attn
    return CrossAttention(found.q_proj, found.k_proj, found.num_heads, found.scaling)


def _t5_attention(block: Any) -> CrossAttention:
    found = block.layer[1].EncDecAttention
    return CrossAttention(found.q, found.k, found.n_heads, found.scaling)


def _standard(time_first: bool = False, **changes: Any) -> Family:
    parts: dict[str, Any] = {
        "output_projection": lambda model: model.get_output_embeddings(),
        "last_feed_forward": lambda model: model.get_decoder().layers[-1].fc1,
        "positions": lambda config: config.max_position_embeddings,
        "cross_attention": lambda model: [_attention(layer) for layer in model.get_decoder().layers],
    }
    return Family(**{**parts, **changes}, time_first=time_first)


_T5 = _standard(
    last_feed_forward=lambda model: model.get_decoder().block[-1].layer[-1].DenseReluDense,
    # Relative positions have no hard bound; this is the length that T5 was trained on.
    positions=lambda config: getattr(config, "n_positions", 512) or 512,
    cross_attention=lambda model: [_t5_attention(block) for block in model.get_decoder().block],
)

FAMILIES = {
    "marian": _standard(),
    "mbart": _standard(),
    "m2m_100": _standard(),
    "t5": _T5,
    "fsmt": _standard(
        time_first=True,
        output_projection=lambda model: model.model.decoder.output_projection,
        last_feed_forward=lambda model: model.model.decoder.layers[-1].fc1,
        cross_attention=lambda model: [_attention(layer) for layer in model.model.decoder.layers],
    ),
}


def family_of(model: PreTrainedModel) -> Family:
    kind = str(model.config.model_type)
    if kind not in FAMILIES:
        raise ModelError(f"model type '{kind}' is not supported; supported are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[kind]
