"""The parts of the encoders and decoders of each family, read from their modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nearmt.engines.parts import AttentionParts, DecoderParts, EncoderLayerParts, EncoderParts, LayerParts


def marian_parts(model: Any) -> DecoderParts:
    decoder = model.get_decoder()

    def embed(token_B: Tensor, position_B: Tensor) -> Tensor:
        hidden_BH: Tensor = (
            decoder.embed_tokens(token_B) * decoder.embed_scale + decoder.embed_positions.weight[position_B]
        )
        return hidden_BH

    return DecoderParts(embed, _layers(decoder), False, _unchanged, _with_bias(model.lm_head, model.final_logits_bias))


def marian_encoder(model: Any) -> EncoderParts:
    encoder = model.get_encoder()

    def embed(token_SF: Tensor) -> Tensor:
        hidden_SFH: Tensor = encoder.embed_tokens(token_SF) * encoder.embed_scale
        position_SFH: Tensor = encoder.embed_positions(token_SF.shape)
        return hidden_SFH + position_SFH

    return EncoderParts(embed, _encoder_layers(encoder), False, _unchanged)


def mbart_parts(model: Any) -> DecoderParts:
    decoder = model.get_decoder()

    def embed(token_B: Tensor, position_B: Tensor) -> Tensor:
        table = decoder.embed_positions
        hidden_BH: Tensor = decoder.layernorm_embedding(
            decoder.embed_tokens(token_B) + table.weight[position_B + table.offset]
        )
        return hidden_BH

    project = _with_bias(model.lm_head, model.final_logits_bias)
    return DecoderParts(embed, _layers(decoder), True, decoder.layer_norm, project)


def mbart_encoder(model: Any) -> EncoderParts:
    encoder = model.get_encoder()

    def embed(token_SF: Tensor) -> Tensor:
        hidden_SFH: Tensor = encoder.embed_tokens(token_SF) + encoder.embed_positions(token_SF)
        normed_SFH: Tensor = encoder.layernorm_embedding(hidden_SFH)
        return normed_SFH

    return EncoderParts(embed, _encoder_layers(encoder), True, encoder.layer_norm)


def m2m_100_parts(model: Any) -> DecoderParts:
    decoder = model.get_decoder()

    def embed(token_B: Tensor, position_B: Tensor) -> Tensor:
        table = decoder.embed_positions.weights
        hidden_BH: Tensor = decoder.embed_tokens(token_B) + _counted(table, token_B, position_B, decoder.padding_idx)
        return hidden_BH

    return DecoderParts(embed, _layers(decoder), True, decoder.layer_norm, model.lm_head)


def m2m_100_encoder(model: Any) -> EncoderParts:
    encoder = model.get_encoder()

    def embed(token_SF: Tensor) -> Tensor:
        hidden_SFH: Tensor = encoder.embed_tokens(token_SF)
        position_SFH: Tensor = encoder.embed_positions(token_SF, hidden_SFH)
        return hidden_SFH + position_SFH

    return EncoderParts(embed, _encoder_layers(encoder), True, encoder.layer_norm)


def fsmt_parts(model: Any) -> DecoderParts:
    decoder = model.model.decoder

    def embed(token_B: Tensor, position_B: Tensor) -> Tensor:
        offset_BH = _counted(decoder.embed_positions.weight, token_B, position_B, decoder.padding_idx)
        hidden_BH: Tensor = decoder.embed_tokens(token_B) * decoder.embed_scale + offset_BH
        return hidden_BH

    return DecoderParts(embed, _layers(decoder), False, _unchanged, decoder.output_projection)


def fsmt_encoder(model: Any) -> EncoderParts:
    encoder = model.get_encoder()

    def embed(token_SF: Tensor) -> Tensor:
        hidden_SFH: Tensor = encoder.embed_tokens(token_SF) * encoder.embed_scale
        position_SFH: Tensor = encoder.embed_positions(token_SF)
        return hidden_SFH + position_SFH

    return EncoderParts(embed, _encoder_layers(encoder), False, _unchanged)


def t5_parts(model: Any) -> DecoderParts:
    decoder, config = model.get_decoder(), model.config
    # The setting has changed its name between versions of transformers.
    scaled = getattr(config, "scale_decoder_outputs", config.tie_word_embeddings)
    scale = model.model_dim**-0.5 if scaled else 1.0

    def finish(hidden_BH: Tensor) -> Tensor:
        finished_BH: Tensor = decoder.final_layer_norm(hidden_BH) * scale
        return finished_BH

    def embed(token_B: Tensor, position_B: Tensor) -> Tensor:
        hidden_BH: Tensor = decoder.embed_tokens(token_B)
        return hidden_BH

    # All layers share the biases of the first.
    first = decoder.block[0].layer[0].SelfAttention

    def position_bias(position_S: Tensor, seen_SX: Tensor) -> Tensor:
        bucket = first._relative_position_bucket(
            seen_SX - position_S[:, None],
            bidirectional=False,
            num_buckets=first.relative_attention_num_buckets,
            max_distance=first.relative_attention_max_distance,
        )
        bias_SXA: Tensor = first.relative_attention_bias(bucket)
        return bias_SXA

    layers = [_t5_layer(block) for block in decoder.block]
    return DecoderParts(embed, layers, True, finish, model.lm_head, position_bias)


def _layers(decoder: Any) -> list[LayerParts]:
    return [_layer(layer) for layer in decoder.layers]


def _encoder_layers(encoder: Any) -> list[EncoderLayerParts]:
    return [
        EncoderLayerParts(_attention(layer.self_attn, layer.self_attn_layer_norm), *_feed_forward(layer))
        for layer in encoder.layers
    ]


def _layer(layer: Any) -> LayerParts:
    return LayerParts(
        _attention(layer.self_attn, layer.self_attn_layer_norm),
        *_feed_forward(layer),
        cross=_attention(layer.encoder_attn, layer.encoder_attn_layer_norm),
    )


def _attention(found: Any, norm: nn.Module) -> AttentionParts:
    parts = found.q_proj, found.k_proj, found.v_proj, found.out_proj
    return AttentionParts(*parts, norm, found.num_heads, found.scaling)


def _feed_forward(layer: Any) -> tuple[nn.Module, nn.Module]:
    return nn.Sequential(layer.fc1, layer.activation_fn, layer.fc2), layer.final_layer_norm


def _t5_layer(block: Any) -> LayerParts:
    def attention(found: Any, norm: nn.Module) -> AttentionParts:
        return AttentionParts(found.q, found.k, found.v, found.o, norm, found.n_heads, 1.0)

    own, cross, last = block.layer
    return LayerParts(
        own=attention(own.SelfAttention, own.layer_norm),
        cross=attention(cross.EncDecAttention, cross.layer_norm),
        feed_forward=last.DenseReluDense,
        feed_forward_norm=last.layer_norm,
    )


def _unchanged(hidden_BH: Tensor) -> Tensor:
    return hidden_BH


def _with_bias(projection: nn.Module, bias_1V: Tensor) -> Callable[[Tensor], Tensor]:
    """The projection plus a bias, unless that is all zeros, as it mostly is."""
    if not bool(bias_1V.any()):
        return projection
    return lambda hidden_BH: projection(hidden_BH) + bias_1V


def _counted(table_PH: Tensor, token_B: Tensor, position_B: Tensor, padding: int) -> Tensor:
    """Embeddings of positions that count from after the padding's index; padding has the one at its index."""
    return table_PH[torch.where(token_B == padding, padding, position_B + padding + 1)]
