"""The model as transformers runs it, for what nearmt's engines do not compute. No other module calls it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nearmt.models.probe import KeyProbe

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from nearmt.models.families import Family


class TransformersModules:
    """Loaded on first use: most runs of the embedded model never need it."""

    def __init__(self, load: Callable[[], PreTrainedModel], family: Family, key_layer: str) -> None:
        self._load, self._family, self._key_layer = load, family, key_layer
        self._lock = threading.Lock()
        self._loaded: tuple[PreTrainedModel, KeyProbe] | None = None

    @property
    def model(self) -> PreTrainedModel:
        return self._ready()[0]

    def encode(self, token_BS: Tensor, mask_BS: Tensor) -> Tensor:
        """States of sentences that are padded on the right, [B, S, H]."""
        encoder: Any = self.model.get_encoder()
        encoded_BSH: Tensor = encoder(input_ids=token_BS, attention_mask=mask_BS).last_hidden_state
        return encoded_BSH

    def keys(self, encoded_BSH: Tensor, mask_BS: Tensor, token_BT: Tensor) -> Tensor:
        """The key at every position that is fed, [B, T, H]; nothing after it is computed."""
        model, probe = self._ready()
        return probe.run_for_key(lambda: model(**_inputs(encoded_BSH, mask_BS, token_BT)))

    def logits_and_keys(self, encoded_BSH: Tensor, mask_BS: Tensor, token_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, T, V] and keys [B, T, H] at every position that is fed."""
        model, probe = self._ready()
        output, key_BTH = probe.run(lambda: model(**_inputs(encoded_BSH, mask_BS, token_BT)))
        return output.logits, key_BTH

    def keys_and_attention(self, encoded_BSH: Tensor, mask_BS: Tensor, token_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Keys [B, T, H] and the attention of the decoder's lower half to the source, mean of all heads, [B, T, S]."""
        layers = [layer.cross for layer in self._family.decoder(self.model).layers]
        layers = layers[: (len(layers) + 1) // 2]
        with _outputs_of([part for layer in layers for part in (layer.query, layer.key)]) as output_of:
            key_BTH = self.keys(encoded_BSH, mask_BS, token_BT)
        if self._family.time_first:
            output_of = {part: output.transpose(0, 1) for part, output in output_of.items()}
        weights = [layer.weights(output_of[layer.query], output_of[layer.key], mask_BS) for layer in layers]
        return key_BTH, torch.stack(weights).mean(dim=0)

    def _ready(self) -> tuple[PreTrainedModel, KeyProbe]:
        with self._lock:
            if self._loaded is None:
                model, at_output = self._load(), self._key_layer == "output"
                locate = self._family.output_projection if at_output else self._family.last_feed_forward
                self._loaded = model, KeyProbe(locate(model), time_first=self._family.time_first and not at_output)
            return self._loaded


def _inputs(encoded_BSH: Tensor, mask_BS: Tensor, token_BT: Tensor) -> dict[str, Any]:
    """A forward pass of the decoder over whole targets with encoded sources."""
    from transformers.modeling_outputs import BaseModelOutput

    return {
        # Not read, but without it FSMT masks no later positions.
        "input_ids": mask_BS,
        "encoder_outputs": BaseModelOutput(last_hidden_state=encoded_BSH),
        "attention_mask": mask_BS,
        "decoder_input_ids": token_BT,
        "use_cache": False,
    }


_hooks_change = threading.Lock()


@contextmanager
def _outputs_of(modules: Sequence[nn.Module]) -> Iterator[dict[nn.Module, Tensor]]:
    """Outputs of modules while this thread runs the block; other threads may run the modules, too."""
    reader = threading.get_ident()
    output_of: dict[nn.Module, Tensor] = {}

    def read(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if threading.get_ident() == reader:
            output_of[module] = output

    with _hooks_change:  # two threads could be given the same number for their hooks
        hooks = [module.register_forward_hook(read) for module in modules]
    try:
        yield output_of
    finally:
        with _hooks_change:
            for hook in hooks:
                hook.remove()
