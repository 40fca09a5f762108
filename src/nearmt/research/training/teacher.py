"""Teacher forcing: the loss of a model on given translations."""

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

#: The label that cross entropy ignores.
_IGNORED = -100


class Teacher:
    """Computes the loss of a model on whole targets.

    With mixed precision, matrix products on a GPU use bf16; the weights are fp32.
    """

    def __init__(self, model: TrainableModel, mixed_precision: bool) -> None:
        self.weights: PreTrainedModel = model.weights
        seq2seq = model.translation.seq2seq
        self.device = seq2seq.device
        self._prompt = torch.tensor(seq2seq.prompt, device=self.device)
        self.mixed = mixed_precision and self.device.type == "cuda"

    def loss_sum(self, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """Sum the cross entropy of all target tokens, in nats, without padding and forced tokens.

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
        """Mean loss over all batches, without smoothing and dropout."""
        self.weights.eval()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for batch in batches.epoch():
            total += self.loss_sum(batch)
        return float(total) / tokens

    def _logits(self, batch: Batch) -> Tensor:
        """Compute the logits of every target token [B, T, V]; the last target token is not an input."""
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
    """Set the dropout of hidden states; a separate rate of attention is kept."""
    module: Any
    keeps_attention = hasattr(model.config, "attention_dropout")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate
        elif keeps_attention and "Attention" in type(module).__name__:
            continue
        elif isinstance(getattr(module, "dropout", None), int | float):
            module.dropout = rate
