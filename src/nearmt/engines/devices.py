"""Devices: which there are, and how work is cut for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from nearmt.errors import ConfigError
from nearmt.threads import in_order, side_by_side, workers

Result = TypeVar("Result")

#: Tasks per thread whose results are computed while an earlier one is used.
_AHEAD = 4


@dataclass(frozen=True)
class Device:
    """How much work a device takes at a time."""

    #: Independent requests run on threads; else one after the other.
    concurrent: bool
    #: Sentences that take their first step together before they get slots: to a GPU many cost hardly more than few.
    ahead: int
    #: Batches that one request decodes. Finished sentences are replaced from it, so slots stay full.
    batches: int
    #: Many sentences are compared with all sources by one product.
    sources_at_once: bool
    #: An index from files (FAISS) is searched there; else one that is made of the keys.
    index_files: bool
    #: Most source and target tokens, padding included, of one forced-decoding pass.
    forced_tokens: int
    #: Blocks of pairs that are cut into such passes together: of more pairs, more have the same length.
    forced_blocks: int
    #: Of these, how many are started before the first is waited for.
    forced_ahead: int
    #: Most processes that prepare pairs for it.
    preparers: int


DEVICES = {
    "cpu": Device(
        concurrent=True,
        ahead=1,
        batches=8,
        sources_at_once=False,
        index_files=True,
        forced_tokens=4096,
        forced_blocks=1,
        forced_ahead=0,
        preparers=0,
    ),
    "cuda": Device(
        concurrent=False,
        ahead=128,
        batches=64,
        sources_at_once=True,
        index_files=False,
        forced_tokens=131_072,
        forced_blocks=16,
        forced_ahead=2,
        preparers=12,
    ),
}


def is_same(one: torch.device, other: torch.device) -> bool:
    """Whether two names mean one device: `cuda` is the current GPU, whose tensors say `cuda:0`."""
    return one.type == other.type and (one.index is None or other.index is None or one.index == other.index)


def device_of(device: torch.device) -> Device:
    return DEVICES.get(device.type, DEVICES["cpu"])


def spread(tasks: Sequence[Callable[[], Result]], device: torch.device) -> Iterator[tuple[int, Result]]:
    """The number and the result of each task as it ends: on threads where requests run concurrently, else in order."""
    if device_of(device).concurrent:
        return side_by_side(tasks)
    return ((number, task()) for number, task in enumerate(tasks))


def spread_in_order(tasks: Iterable[Callable[[], Result]], device: torch.device) -> Iterator[Result]:
    """The results of tasks in their order, computed as by `spread`; a few tasks are taken ahead of what is used."""
    if device_of(device).concurrent:
        return in_order(tasks, _AHEAD * workers())
    return (task() for task in tasks)


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
