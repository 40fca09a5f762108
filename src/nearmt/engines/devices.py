"""How work is cut for a device: numbers that depend on it, in one table."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Device:
    """How much work a device takes at a time."""

    #: Independent requests run on threads; else one after the other.
    concurrent: bool
    #: Sentences that take their first step together before they get slots: to a GPU many cost hardly more than few.
    ahead: int
    #: Batches that one request decodes. Finished sentences are replaced from it, so slots stay full.
    batches: int
    #: An index from files (FAISS) is searched there; else one that is made of the keys.
    index_files: bool


DEVICES = {
    "cpu": Device(concurrent=True, ahead=1, batches=8, index_files=True),
    "cuda": Device(concurrent=False, ahead=128, batches=64, index_files=False),
}


def is_same(one: torch.device, other: torch.device) -> bool:
    """Whether two names mean one device: `cuda` is the current GPU, whose tensors say `cuda:0`."""
    return one.type == other.type and (one.index is None or other.index is None or one.index == other.index)


def device_of(device: torch.device) -> Device:
    return DEVICES.get(device.type, DEVICES["cpu"])
