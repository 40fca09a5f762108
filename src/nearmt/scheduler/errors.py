"""Why a request was not translated."""

from __future__ import annotations

from nearmt.errors import NearmtError


class Cancelled(NearmtError):
    """The client does not wait any more."""


class DeadlineExceeded(NearmtError):
    """The deadline of a request has passed."""


class QueueFull(NearmtError):
    """Too many sentences wait already."""


class Stopped(NearmtError):
    """The scheduler does not take new work."""
