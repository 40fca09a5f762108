"""Adapters: low-rank changes of a model's linear layers (LoRA, Hu et al. 2022).

An adapted layer has the weights W + scale * up @ down. They are merged when a model is loaded, so decoding costs
nothing more. A file of an adapter is untrusted input: it holds numbers only, and is compared with the model that it
changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from nearmt.engines.precision import Quantised, StoredLinear, quantised
from nearmt.errors import ModelError
from nearmt.models.families import check_family
from nearmt.opening import opened

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from nearmt.models.marian import StoredMarian

#: Upper bounds of what a file may say; training writes far less.
MOST_RANK, _MOST_SCALE, _MOST_LAYERS = 1024, 1e3, 100_000
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, eq=False)
class LowRank:
    """A change of the weights [O, I] of a layer, in fp16."""

    down_RI: Tensor
    up_OR: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs of the layer."""
        return self.up_OR.shape[0], self.down_RI.shape[1]

    def merged(self, weight_OI: Tensor, scale: float) -> Tensor:
        """The changed weights, in fp32."""
        up_OR, down_RI = self.up_OR.to(weight_OI.device).float(), self.down_RI.to(weight_OI.device).float()
        return weight_OI.float() + scale * (up_OR @ down_RI)

    def is_sound(self) -> bool:
        """Whether shapes and numbers are those of a change."""
        parts = self.down_RI, self.up_OR
        if any(part.dim() != 2 or part.dtype != torch.float16 for part in parts):
            return False
        rank = len(self.down_RI)
        return 0 < rank <= MOST_RANK and self.up_OR.shape[1] == rank and all(bool(p.isfinite().all()) for p in parts)


@dataclass(frozen=True, eq=False)
class Adapter:
    """Changes of some layers of one model."""

    #: Fingerprint of the model without the adapter.
    base: str
    scale: float
    #: By the names of layers in transformers' model.
    layers: Mapping[str, LowRank]
    #: How it was trained, for those who read the file elsewhere.
    notes: Mapping[str, Any] = field(default_factory=dict)
    #: 64-bit hashes of the ids of pairs that it was not trained on: what the model makes of those is what it makes of
    #: new text.
    held_out: frozenset[int] = frozenset()
    #: The pairs of the memory that it was made for, those held out among them.
    pairs: int = 0

    @cached_property
    def identity(self) -> str:
        """A hash of everything in it."""
        digest = hashlib.sha256(self._about().encode())
        for name, layer in sorted(self.layers.items()):
            for part in (layer.down_RI, layer.up_OR):
                digest.update(f"{name} {tuple(part.shape)}".encode())
                digest.update(part.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        """Of the model with the adapter."""
        return f"{self.base}+{self.identity}"

    @property
    def rank(self) -> int:
        return max((len(layer.down_RI) for layer in self.layers.values()), default=0)

    @property
    def gain(self) -> float:
        """By how much it reduced the loss on held-out pairs, in nats a token; 0 if that is not known."""
        before, after = (self.notes.get(name) for name in ("base_loss", "loss"))
        if not isinstance(before, int | float) or not isinstance(after, int | float):
            return 0.0
        return float(before - after)

    def save(self, path: Path) -> None:
        """Write the adapter as safetensors, with its settings in the header."""
        from safetensors.torch import save

        tensors = {f"{name}.{kind}": part for name, layer in self.layers.items() for kind, part in _parts(layer)}
        with opened(path, "wb") as file:
            file.write(save(tensors, metadata={"adapter": self._about()}))

    def _about(self) -> str:
        """All but the layers, as JSON."""
        about = {"base": self.base, "scale": self.scale, "pairs": self.pairs, "held_out": sorted(self.held_out)}
        return json.dumps({**about, "notes": dict(self.notes)}, sort_keys=True)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file; refuse anything that is no adapter."""
        from safetensors import SafetensorError, safe_open

        try:
            # Through its descriptor: a link is not followed.
            with opened(path) as content, safe_open(f"/dev/fd/{content.fileno()}", framework="pt") as file:
                about = json.loads((file.metadata() or {}).get("adapter", ""))
                base, held_out = str(about["base"]), frozenset(about["held_out"])
                found = cls(base, about["scale"], _layers(file), about["notes"], held_out, about["pairs"])
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(f"{path}: not a readable adapter ({error})") from error
        found._check(path)
        return found

    def _check(self, path: Path) -> None:
        sound = type(self.scale) in (int, float) and 0 < self.scale <= _MOST_SCALE
        sound = sound and type(self.pairs) is int and self.pairs >= 0
        sound = sound and _FINGERPRINT.fullmatch(self.base) is not None and isinstance(self.notes, dict)
        sound = sound and all(type(number) is int and 0 <= number < 1 << 64 for number in self.held_out)
        if not sound or not self.layers or not all(layer.is_sound() for layer in self.layers.values()):
            raise ModelError(f"{path}: not a readable adapter (its numbers do not fit)")


def _parts(layer: LowRank) -> list[tuple[str, Tensor]]:
    return [("down", layer.down_RI.cpu().contiguous()), ("up", layer.up_OR.cpu().contiguous())]


def _layers(file: Any) -> dict[str, LowRank]:
    """The layers of an open file; each has both parts, and there is nothing else."""
    names = set(file.keys())
    layers = {name.rpartition(".")[0] for name in names}
    if len(layers) > _MOST_LAYERS or names != {f"{layer}.{kind}" for layer in layers for kind in ("down", "up")}:
        raise ValueError("its tensors have other names")
    return {
        layer: LowRank(file.get_tensor(f"{layer}.down").clone(), file.get_tensor(f"{layer}.up").clone())
        for layer in sorted(layers)
    }


class AdaptedLinear(StoredLinear):
    """A layer in the embedded model's storage format with a change, which is merged when the layer is converted."""

    def __init__(self, stored: StoredLinear, change: LowRank, scale: float) -> None:
        super().__init__(stored.weight, stored.scale_O, stored.bias)
        self._change, self._scale = change, scale

    def expanded(self) -> nn.Linear:
        linear = super().expanded()
        linear.weight = nn.Parameter(self._change.merged(linear.weight, self._scale), requires_grad=False)
        return linear

    def quantised(self) -> Quantised:
        return quantised(self.expanded())


def adaptable(model: PreTrainedModel | StoredMarian) -> dict[str, nn.Linear | StoredLinear]:
    """The layers that adapters change, by name: projections of attention and feed-forward blocks."""
    output = check_family(model.config.model_type).output_projection(model)
    linears = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear | StoredLinear)}
    return {name: linear for name, linear in linears.items() if linear is not output}


def merge(model: PreTrainedModel | StoredMarian, adapter: Adapter, fingerprint: str, name: str) -> None:
    """Change the layers of a model, which has this fingerprint; refuse an adapter of another one."""
    if adapter.base != fingerprint:
        raise ModelError(
            f"the adapter was trained for the model {adapter.base}, not for '{name}' ({fingerprint}); "
            "give the --model that it was trained with"
        )
    linears = adaptable(model)
    for layer, change in adapter.layers.items():
        linear = linears.get(layer)
        if linear is None or change.shape != (linear.out_features, linear.in_features):
            raise ModelError(f"the adapter does not fit the model '{name}': it has no such layer as {layer[:100]!a}")
        if isinstance(linear, StoredLinear):
            set_layer(model, layer, AdaptedLinear(linear, change, adapter.scale))
        else:
            with torch.no_grad():
                linear.weight.copy_(change.merged(linear.weight, adapter.scale))


def set_layer(model: PreTrainedModel | StoredMarian, name: str, layer: nn.Module) -> None:
    """Replace a layer of a model."""
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)
