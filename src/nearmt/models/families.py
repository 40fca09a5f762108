"""Differences between families of sequence-to-sequence models: where their parts are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from nearmt.engines.parts import DecoderParts, EncoderParts
from nearmt.errors import ModelError
from nearmt.models import parts

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Family:
    """Where a family keeps its parts, and how many positions it has."""

    output_projection: Callable[[Any], nn.Module]
    #: First module of the last feed-forward block, after its layer norm where that comes first.
    last_feed_forward: Callable[[Any], nn.Module]
    positions: Callable[[Any], int]
    decoder: Callable[[Any], DecoderParts]
    #: None if only transformers can run it.
    encoder: Callable[[Any], EncoderParts] | None = None
    #: Inputs of the decoder's layers are [T, B, H] instead of [B, T, H].
    time_first: bool = False


def _standard(decoder: Callable[[Any], DecoderParts], **changes: Any) -> Family:
    usual: dict[str, Any] = {
        "output_projection": lambda model: model.get_output_embeddings(),
        "last_feed_forward": lambda model: model.get_decoder().layers[-1].fc1,
        "positions": lambda config: config.max_position_embeddings,
    }
    return Family(**{**usual, **changes}, decoder=decoder)


_T5 = _standard(
    parts.t5_parts,
    last_feed_forward=lambda model: model.get_decoder().block[-1].layer[-1].DenseReluDense,
    # Relative positions have no hard bound; this is the length that T5 was trained on.
    positions=lambda config: getattr(config, "n_positions", 512) or 512,
)

FAMILIES = {
    "marian": _standard(parts.marian_parts, encoder=parts.marian_encoder),
    "mbart": _standard(parts.mbart_parts, encoder=parts.mbart_encoder),
    "m2m_100": _standard(parts.m2m_100_parts, encoder=parts.m2m_100_encoder),
    "t5": _T5,
    "fsmt": _standard(
        parts.fsmt_parts,
        encoder=parts.fsmt_encoder,
        time_first=True,
        output_projection=lambda model: model.model.decoder.output_projection,
        last_feed_forward=lambda model: model.model.decoder.layers[-1].fc1,
    ),
}


def family_of(model: PreTrainedModel) -> Family:
    return check_family(model.config.model_type)


def check_family(kind: Any) -> Family:
    if kind not in FAMILIES:
        raise ModelError(f"model type '{kind}' is not supported; supported are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[kind]
