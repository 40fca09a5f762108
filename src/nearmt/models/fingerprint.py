"""The identity of a model: two models with the same fingerprint produce the same keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

_SAMPLE = 256


class Weights(Protocol):
    """A tensor, in whatever format it is stored."""

    @property
    def shape(self) -> torch.Size: ...

    def sampled(self, stride: int) -> Tensor:
        """Every `stride`-th number, in fp32."""

    def stored(self) -> list[Tensor]:
        """The tensors that hold it."""


class PlainWeights:
    """A tensor of floats."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.detach()

    @property
    def shape(self) -> torch.Size:
        return self._tensor.shape

    def sampled(self, stride: int) -> Tensor:
        return self._tensor.flatten()[::stride].to(torch.float32)

    def stored(self) -> list[Tensor]:
        return [self._tensor]


def fingerprint(kind: str, weights: Mapping[str, Weights], vocabulary: Mapping[str, int]) -> str:
    """A hash over the model type, shapes and a sample of every weight (before any conversion), and the vocabulary.

    Reading all weights would cost seconds at every start; any training or conversion changes nearly every number, so
    evenly spaced samples of each tensor show it.
    """
    digest = hashlib.sha256(kind.encode())
    for name, tensor in sorted(weights.items()):
        stride = max(1, tensor.shape.numel() // _SAMPLE)
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(tensor.sampled(stride).cpu().numpy().tobytes())
    digest.update(json.dumps(sorted(vocabulary.items()), ensure_ascii=False).encode())
    return digest.hexdigest()[:16]


def checksum(weights: Mapping[str, Weights]) -> str:
    """A sum over every bit of the weights, for what is derived from them. Takes milliseconds, unlike a hash."""
    digest = hashlib.sha256()
    sums: dict[int, int] = {}
    for name, tensor in sorted(weights.items()):
        for part in tensor.stored():
            if part.data_ptr() not in sums:  # tied weights are summed once
                sums[part.data_ptr()] = _sum(part)
            digest.update(f"{name} {part.dtype} {tuple(part.shape)} {sums[part.data_ptr()]}\n".encode())
    return digest.hexdigest()[:16]


def _sum(tensor: Tensor) -> int:
    """The bits as 64-bit integers, added up with wrap-around; the last few bytes by themselves."""
    byte_X = tensor.contiguous().flatten().view(torch.uint8)
    if byte_X.storage_offset() % 8:
        byte_X = byte_X.clone()
    whole = len(byte_X) // 8 * 8
    return int(byte_X[:whole].view(torch.int64).sum()) + 31 * int(byte_X[whole:].sum(dtype=torch.int64))
