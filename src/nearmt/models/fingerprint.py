"""The identity of a model: two models with the same fingerprint produce the same keys."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SAMPLE = 256


def fingerprint(model: PreTrainedModel, vocabulary: dict[str, int]) -> str:
    """A hash over shapes and a sample of every weight (taken in fp32, before any conversion), and the vocabulary.

    Reading all weights would cost seconds at every start; any training or conversion changes
    nearly every number, so evenly spaced samples of each tensor show it.
    """
    digest = hashlib.sha256(str(model.config.model_type).encode())
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().flatten()
        stride = max(1, flat.numel() // _SAMPLE)
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(flat[::stride].to(torch.float32).cpu().numpy().tobytes())
    digest.update(json.dumps(sorted(vocabulary.items()), ensure_ascii=False).encode())
    return digest.hexdigest()[:16]
