"""Errors of requests to the server.

NearmtError
└── RequestError            has an HTTP status
    ├── Unauthorized        401: no key, or one that is not known
    ├── Forbidden           403: the key may not do this
    ├── NotFound            404: also what the key does not have
    ├── Conflict            409: the name exists, or the state does not allow it
    ├── Busy                503: another change is running
    ├── TooLarge            413: more than a limit
    └── TooMany             429: retry after some seconds

`ConfigError` and `InputError` are 400; errors of the scheduler have statuses of their own (`problems.py`).
"""

from __future__ import annotations

from nearmt.errors import NearmtError


class RequestError(NearmtError):
    """A request that is refused."""

    status = 400


class Unauthorized(RequestError):
    """No key was given, or it is not known."""

    status = 401


class Forbidden(RequestError):
    """The key may not do this."""

    status = 403


class NotFound(RequestError):
    """Something that does not exist, or that the key does not have: both look the same."""

    status = 404


class Conflict(RequestError):
    """The request contradicts what exists or what is running."""

    status = 409


class Busy(RequestError):
    """Another change is running that this one has to wait for."""

    status = 503


class TooLarge(RequestError):
    """The request is larger than a limit."""

    status = 413


class TooMany(RequestError):
    """Too many requests; `retry_after` is in seconds."""

    status = 429

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
