"""Read the input of one module while the model runs: the decoder states that become keys."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class _KeyIsKnown(Exception):
    """Ends the forward pass once the key has been read."""


class KeyProbe:
    """A forward hook; threads that run the same model each see only their own key."""

    def __init__(self, module: nn.Module, time_first: bool) -> None:
        self._time_first = time_first
        self._local = threading.local()
        module.register_forward_pre_hook(self._read)

    def run(self, forward: Callable[[], Any]) -> tuple[Any, Tensor]:
        """The result of the forward pass and the key [B, T, H]."""
        self._local.stop = False
        return forward(), self._take()

    def run_for_key(self, forward: Callable[[], Any]) -> Tensor:
        """The key [B, T, H] alone; nothing after it is computed."""
        self._local.stop = True
        try:
            forward()
        except _KeyIsKnown:
            pass
        finally:
            self._local.stop = False
        return self._take()

    def _read(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._local.key = inputs[0]
        if getattr(self._local, "stop", False):
            raise _KeyIsKnown

    def _take(self) -> Tensor:
        key: Tensor = self._local.key
        self._local.key = None
        return key.transpose(0, 1) if self._time_first else key
