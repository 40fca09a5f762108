"""Which devices this machine has."""

from __future__ import annotations

import torch

from nearmt.errors import ConfigError


def resolve_device(device: str) -> str:
    """The device that a setting names; `auto` is a GPU if there is one. A device that is not there is refused."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise ConfigError(f"device = {device!r}: unknown; give cpu, cuda, cuda:0, ... or auto") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device = {device!r}: no usable GPU here; give cpu or auto")
    return device
