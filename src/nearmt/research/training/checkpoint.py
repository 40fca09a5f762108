"""A file from which an interrupted training goes on as if it had not been interrupted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nearmt.datastore.disk.files import sync
from nearmt.errors import InputError, writing
from nearmt.opening import opened

FILE = "training.safetensors"
#: Seconds between two checkpoints.
SECONDS = 60.0


@dataclass(frozen=True)
class Saved:
    """The state of a training."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def named(self, kind: str) -> dict[str, Tensor]:
        """The tensors of a kind, by the rest of their names."""
        return {name.partition(" ")[2]: part for name, part in self.tensors.items() if name.startswith(f"{kind} ")}


class Checkpoint:
    """Keeps the latest state of one training in a folder; it is replaced atomically."""

    def __init__(self, folder: Path, key: str, seconds: float = SECONDS) -> None:
        """`key` names everything that the result depends on."""
        self._path, self._key, self._seconds = folder / FILE, key, seconds
        self._next = time.monotonic() + seconds

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._next

    def save(self, state: Saved) -> None:
        from safetensors.torch import save

        tensors = {name: part.detach().to("cpu", copy=True).contiguous() for name, part in state.tensors.items()}
        content = save(tensors, metadata={"key": self._key, "values": json.dumps(state.values)})
        partial = self._path.with_name(FILE + ".partial")
        with writing(self._path):
            partial.unlink(missing_ok=True)
            with opened(partial, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
            sync(self._path.parent)
        self._next = time.monotonic() + self._seconds

    def load(self) -> Saved | None:
        """The state that was saved last; None if there is none. That of another training is refused."""
        from safetensors import safe_open

        with self.readable():
            try:
                content = opened(self._path)
            except FileNotFoundError:
                return None
            with content, safe_open(f"/dev/fd/{content.fileno()}", framework="pt") as file:
                about = file.metadata() or {}
                if about.get("key") != self._key:
                    raise InputError(
                        f"{self._path.parent}: is a training of other pairs, another model or other settings; "
                        "remove it to begin anew"
                    )
                return Saved({name: file.get_tensor(name) for name in file.keys()}, json.loads(about["values"]))  # noqa: SIM118

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Whatever is wrong with the file is told in one line."""
        from safetensors import SafetensorError

        try:
            yield
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            told = f"{self._path}: cannot be continued ({' '.join(str(error).split())[:200]}); remove it to begin anew"
            raise InputError(told) from error


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of the random numbers that dropout draws from."""
    found = {"random cpu": torch.get_rng_state()}
    return found | ({"random cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def restore_random_state(saved: Saved, device: torch.device) -> None:
    states = saved.named("random")
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


def copy_into(weights: dict[str, Tensor], saved: dict[str, Tensor]) -> None:
    """Give weights their saved numbers; both have the same names and shapes."""
    if weights.keys() != saved.keys() or any(weights[name].shape != part.shape for name, part in saved.items()):
        raise ValueError("its weights do not fit")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(saved[name])


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimizer knows of each weight."""
    state = optimizer.state_dict()["state"]
    return {f"optimizer {number}.{kind}": part for number, parts in state.items() for kind, part in parts.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, saved: Saved) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, part in saved.named("optimizer").items():
        number, _, kind = name.partition(".")
        state.setdefault(int(number), {})[kind] = part
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
