"""Teacher forcing: how surprised a model is by given translations."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nearmt.models import TrainableModel
from nearmt.research.training.batches import Batch, Batches

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: What cross entropy passes over.
_IGNORED = -100


class Teacher:
    """Feeds whole targets to a model and sums the loss of its predictions.

    On a GPU matrices are multiplied in bf16 where that is asked for; the weights are fp32 everywhere.
    """

    def __init__(self, model: TrainableModel, mixed_precision: bool) -> None:
        self.weights: PreTrainedModel = model.weights
        seq2seq = model.translation.seq2seq
        self.device = seq2seq.device
        self._prompt = torch.tensor(seq2seq.prompt, device=self.device)
        self.mixed = mixed_precision and self.device.type == "cuda"

    def loss_sum(self, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """The summed cross entropy of all target tokens, in nats; padding and forced tokens have no part in it.

        With smoothing s and a vocabulary of V: (1 - s) * -log p(token) + s / V * sum over v of -log p(v).
        """
        with self._precision():
            logits_BTV = self._logits(batch)
        label_BT = batch.target_BT.masked_fill(~batch.target_mask_BT, _IGNORED)
        return functional.cross_entropy(
            logits_BTV.flatten(0, 1).float(),
            label_BT.flatten(),
            ignore_index=_IGNORED,
            label_smoothing=smoothing,
            reduction="sum",
        )

    @torch.no_grad()
    def loss_per_token(self, batches: Batches, tokens: int) -> float:
        """The mean loss over all batches, without smoothing and without dropout."""
        self.weights.eval()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for batch in batches.epoch():
            total += self.loss_sum(batch)
        return float(total) / tokens

    def _logits(self, batch: Batch) -> Tensor:
        """What the model says before every target token. The last target token is predicted, never fed."""
        prompt_BP = self._prompt.expand(len(batch.target_BT), -1)
        model: Any = self.weights
        output = model(
            input_ids=batch.source_BS,
            attention_mask=batch.source_mask_BS.long(),
            decoder_input_ids=torch.cat([prompt_BP, batch.target_BT[:, :-1]], dim=1),
            use_cache=False,
        )
        logits_BTV: Tensor = output.logits[:, len(self._prompt) - 1 :]
        return logits_BTV

    def _precision(self) -> AbstractContextManager[object]:
        return torch.autocast("cuda", dtype=torch.bfloat16) if self.mixed else nullcontext()


def set_dropout(model: PreTrainedModel, rate: float) -> None:
    """Another dropout of the hidden states; where attention has a rate of its own, that stays."""
    part: Any
    apart = hasattr(model.config, "attention_dropout")
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = rate
        elif apart and "Attention" in type(part).__name__:
            continue
        elif isinstance(getattr(part, "dropout", None), int | float):
            part.dropout = rate
