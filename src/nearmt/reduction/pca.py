"""PCA of decoder states.

key = (state - mean) @ components, columns ordered by variance, neither rotated nor whitened: so the
cache key is simply the first columns of the key, and distances are those of the states themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from nearmt.engines.choose import affine
from nearmt.errors import DatastoreError
from nearmt.opening import opened

#: Columns of a reduced key (the paper follows Martins et al. 2022b).
KEY_COLUMNS = 256
#: Fewer states than this many times their size say little about the directions of variance.
STATES_PER_DIMENSION = 20
# States are far smaller, and squares of what is larger would not be numbers any more.
_LARGEST = 1e12


@dataclass(frozen=True)
class Reduction:
    """A fitted projection. Where too few states were there to fit one, states are kept whole."""

    mean_H: Tensor
    component_HD: Tensor
    variance_D: Tensor  # of the fitting states, by column
    fitted: bool  # False: the identity

    @classmethod
    def fit(cls, sample: FittingSample, columns: int = KEY_COLUMNS) -> Self:
        mean_H, covariance_HH = sample.moments()
        variance_H, vector_HH = torch.linalg.eigh(covariance_HH)  # ascending
        columns = min(columns, len(variance_H))
        component_HD = vector_HH.flip(1)[:, :columns]
        # Fix the signs, which are arbitrary, so that the same states always give the same keys.
        largest_D = component_HD.gather(0, component_HD.abs().argmax(dim=0)[None])
        component_HD = component_HD * largest_D.sign()
        variance_D = variance_H.flip(0)[:columns].clamp(min=0)
        return cls(mean_H.float(), component_HD.float().contiguous(), variance_D.float(), fitted=True)

    @classmethod
    def identity_of(cls, size: int) -> Self:
        return cls(torch.zeros(size), torch.eye(size), torch.ones(size), fitted=False)

    @property
    def columns(self) -> int:
        return self.component_HD.shape[1]

    @cached_property
    def identity(self) -> str:
        """The same for the same projection, wherever it was loaded from."""
        digest = hashlib.sha256(self.mean_H.cpu().numpy().tobytes())
        digest.update(self.component_HD.cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def _offset_D(self) -> Tensor:
        """What the mean takes away from every key."""
        return -(self.mean_H @ self.component_HD)

    def apply(self, hidden_BH: Tensor) -> Tensor:
        """Keys [B, D] of states [B, H]."""
        if not self.fitted:
            return hidden_BH
        return self._affine(hidden_BH)

    @cached_property
    def _affine(self) -> Callable[[Tensor], Tensor]:
        """Applied at every step."""
        return affine(self.component_HD.T, self._offset_D)

    def to(self, device: torch.device) -> Reduction:
        if self.mean_H.device == device:
            return self
        return Reduction(self.mean_H.to(device), self.component_HD.to(device), self.variance_D.to(device), self.fitted)

    def save(self, path: Path) -> None:
        from safetensors.torch import save

        tensors = {"mean": self.mean_H, "component": self.component_HD, "variance": self.variance_D}
        with opened(path, "wb") as file:
            file.write(save(tensors, metadata={"fitted": str(self.fitted)}))

    @classmethod
    def load(cls, path: Path, columns: int | None = None) -> Self:
        """Load a projection; refuse other files, and another number of columns."""
        from safetensors import SafetensorError, safe_open

        try:
            # Through its descriptor: a link is not followed.
            with opened(path) as content, safe_open(f"/dev/fd/{content.fileno()}", framework="pt") as file:
                fitted = (file.metadata() or {}).get("fitted") == "True"
                mean, component, variance = (file.get_tensor(name) for name in ("mean", "component", "variance"))
        except (SafetensorError, OSError) as error:
            raise DatastoreError(f"{path}: not a readable reduction ({error})") from error
        found = cls(mean, component, variance, fitted)
        if not found._is_sound() or columns not in (None, found.columns):
            raise DatastoreError(f"{path}: not a readable reduction (its numbers do not fit); build the store again")
        return found

    def _is_sound(self) -> bool:
        """Whether shapes and numbers are those of a projection: kernels do not ask."""
        tensors = self.mean_H, self.component_HD, self.variance_D
        if self.component_HD.dim() != 2 or any(tensor.dtype != torch.float32 for tensor in tensors):
            return False
        size, columns = self.component_HD.shape
        if not 0 < columns <= size or self.mean_H.shape != (size,) or self.variance_D.shape != (columns,):
            return False
        small = all(bool((tensor.abs() <= _LARGEST).all()) for tensor in tensors)
        return small and bool((self.variance_D >= 0).all()) and (self.fitted or columns == size)


class FittingSample:
    """Gathers first and second moments of states, so that any number of them fits in memory."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self._sum_H = torch.zeros(size, dtype=torch.float64)
        self._product_HH = torch.zeros(size, size, dtype=torch.float64)

    def add(self, hidden_NH: Tensor) -> None:
        states = hidden_NH.to("cpu", torch.float64)
        self.count += len(states)
        self._sum_H += states.sum(dim=0)
        self._product_HH += states.T @ states

    @property
    def enough(self) -> bool:
        return self.count >= STATES_PER_DIMENSION * len(self._sum_H)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean [H] and covariance [H, H]."""
        mean_H = self._sum_H / self.count
        return mean_H, self._product_HH / self.count - mean_H[:, None] * mean_H[None, :]
