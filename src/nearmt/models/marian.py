"""A Marian model made of stored weights, without transformers: what engines read, under transformers' names."""

from __future__ import annotations

import math
from types import SimpleNamespace

from torch import Tensor, nn

from nearmt.models.stored import StoredEmbedding, StoredTensor, stored_linear, stored_norm


class Attention(nn.Module):
    """The projections of a multi-head attention."""

    def __init__(self, stored: dict[str, StoredTensor], name: str, heads: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            stored_linear(stored, f"{name}.{part}_proj") for part in ("q", "k", "v", "out")
        )
        self.num_heads = heads
        self.scaling = (self.q_proj.out_features // heads) ** -0.5


class Layer(nn.Module):
    """A layer of the encoder or, with attention to the source, of the decoder."""

    def __init__(self, stored: dict[str, StoredTensor], name: str, heads: int, decodes: bool) -> None:
        super().__init__()
        self.self_attn = Attention(stored, f"{name}.self_attn", heads)
        self.self_attn_layer_norm = stored_norm(stored, f"{name}.self_attn_layer_norm")
        if decodes:
            self.encoder_attn = Attention(stored, f"{name}.encoder_attn", heads)
            self.encoder_attn_layer_norm = stored_norm(stored, f"{name}.encoder_attn_layer_norm")
        self.fc1, self.fc2 = stored_linear(stored, f"{name}.fc1"), stored_linear(stored, f"{name}.fc2")
        self.activation_fn = nn.SiLU()
        self.final_layer_norm = stored_norm(stored, f"{name}.final_layer_norm")


class Positions(nn.Module):
    """Position embeddings [P, H]."""

    def __init__(self, stored: StoredTensor) -> None:
        super().__init__()
        self.weight = nn.Buffer(stored.expanded())

    def forward(self, shape: tuple[int, ...]) -> Tensor:
        """The embeddings of the first positions of tokens [S, F]."""
        return self.weight[: shape[1]]


class Stack(nn.Module):
    """Encoder or decoder."""

    def __init__(
        self, stored: dict[str, StoredTensor], name: str, embedding: StoredEmbedding, layers: int, heads: int
    ) -> None:
        super().__init__()
        self.embed_tokens = embedding
        self.embed_positions = Positions(stored[f"model.{name}.embed_positions.weight"])
        self.embed_scale = math.sqrt(self.embed_positions.weight.shape[1])
        self.layers = nn.ModuleList(
            Layer(stored, f"model.{name}.layers.{number}", heads, name == "decoder") for number in range(layers)
        )


class StoredMarian(nn.Module):
    """Holds weights; engines run it. Its linear layers stay as they are stored until a precision is applied."""

    def __init__(
        self, config: SimpleNamespace, generation_config: SimpleNamespace, stored: dict[str, StoredTensor]
    ) -> None:
        super().__init__()
        assert config.activation_function == "swish" and config.scale_embedding
        self.config, self.generation_config = config, generation_config
        embedding = StoredEmbedding(stored["model.shared.weight"])
        self.model = nn.Module()
        self.model.encoder = Stack(stored, "encoder", embedding, config.encoder_layers, config.encoder_attention_heads)
        self.model.decoder = Stack(stored, "decoder", embedding, config.decoder_layers, config.decoder_attention_heads)
        self.lm_head = stored_linear(stored, "lm_head")
        self.final_logits_bias = nn.Buffer(stored["final_logits_bias"].expanded())

    def get_encoder(self) -> nn.Module:
        return self.model.encoder  # type: ignore[return-value]

    def get_decoder(self) -> nn.Module:
        return self.model.decoder  # type: ignore[return-value]

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head
