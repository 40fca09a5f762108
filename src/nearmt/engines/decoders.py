"""Which engine runs a model: chosen once, when the model is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from nearmt.engines.cpu.decoder import KernelDecoder
from nearmt.engines.cpu.encoder import KernelEncoder
from nearmt.engines.cpu.library import kernels
from nearmt.engines.parts import DecoderParts, EncoderParts, WholePass
from nearmt.engines.reference.decoder_state import DecoderState
from nearmt.engines.reference.step_decoder import JoinedLinears


class Encoder(Protocol):
    """An encoder on one device."""

    def encode(self, token_SF: Tensor, mask_SF: Tensor, lengths: Sequence[int]) -> Tensor:
        """States of sentences of these lengths, padded on the right, [S, F, H]."""


class DecoderLayers(Protocol):
    """A decoder on one device. It holds weights only; the state of a request is a `DecoderState`."""

    def begin(self, encoded_SFH: Tensor, mask_SF: Tensor, lengths: list[int]) -> DecoderState:
        """A batch with a slot for each encoded source, one row each."""

    def step(self, state: DecoderState, token_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Feed all rows their newest tokens: logits of the next token [B, V] and keys [B, H], in fp32.

        The next step may overwrite them.
        """

    def force(self, state: DecoderState, token_ST: Tensor) -> Tensor:
        """Feed whole targets to a new state: the key at every position, [S, T, H] in fp32."""

    def force_aligned(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Feed whole targets to a new state: keys [S, T, H] in fp32, and the attention of the lower half of the layers,
        mean of all heads: of every position to its source, [S, T, F]."""

    def force_with_logits(self, state: DecoderState, token_ST: Tensor) -> tuple[Tensor, Tensor]:
        """Feed whole targets to a new state: logits [S, T, V] and keys [S, T, H], in the model's precision."""


class Network:
    """Encoder and decoder of one model on one device."""

    def __init__(self, encoder: Encoder, decoder: DecoderLayers) -> None:
        self.encoder, self.decoder = encoder, decoder
        self.step, self.force = decoder.step, decoder.force
        self.force_aligned, self.force_with_logits = decoder.force_aligned, decoder.force_with_logits

    def encode(self, token_SF: Tensor, mask_SF: Tensor, lengths: list[int]) -> DecoderState:
        """Encode sentences of these lengths, padded on the right: a batch with a slot for each, one row each."""
        return self.decoder.begin(self.encoder.encode(token_SF, mask_SF, lengths), mask_SF, lengths)


class WholePassEncoder:
    """The encoder of the model's own library."""

    def __init__(self, whole: WholePass) -> None:
        self._whole = whole

    def encode(self, token_SF: Tensor, mask_SF: Tensor, lengths: Sequence[int]) -> Tensor:
        return self._whole.encode(token_SF, mask_SF)


def open_network(
    encoder: EncoderParts | None,
    decoder: DecoderParts,
    joined: JoinedLinears,
    key_layer: str,
    device: torch.device,
    whole: WholePass,
) -> Network:
    """C kernels where they can read all parts, captured CUDA graphs on a GPU, torch elsewhere.

    `encoder` is None where only the model's library can run it. Weights are in their precision and on their device.
    """
    if encoder is not None and KernelEncoder.supports(encoder) and KernelDecoder.supports(decoder, joined):
        return Network(KernelEncoder(encoder), KernelDecoder(decoder, joined, key_layer))
    # Imported here: most starts need neither.
    from nearmt.engines.cuda.decoder import GraphDecoder
    from nearmt.engines.cuda.forcing import TorchEncoder
    from nearmt.engines.reference.decoder import TorchDecoder

    layers = TorchDecoder(decoder, joined, key_layer, whole)
    if device.type != "cuda":
        return Network(WholePassEncoder(whole), layers)
    # cuDNN plans its attention anew for every shape, and every step has another one.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return Network(WholePassEncoder(whole) if encoder is None else TorchEncoder(encoder), GraphDecoder(layers))


def kernels_support(precision: str, device: str) -> bool:
    """Whether C kernels run models of known families in this precision on this device."""
    return torch.device(device).type == "cpu" and precision in ("fp32", "int8") and kernels() is not None
