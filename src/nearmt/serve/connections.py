"""HTTP connections that end when a client stops sending or reading.

uvicorn limits how long a connection may be idle between requests. This protocol also limits the time from the first
byte of a request to the last of its headers, and the time that a client may leave an answer unread. Requests of more
connections than may be open reach the application, which answers them as it answers other errors.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds for the headers of a request, and for the rest of a body that is not read.
HEADERS = 10.0
#: Seconds after which a client must have read something of an answer that waits, at `SLOWEST` bytes a second.
READING = 30.0
SLOWEST = 1024
#: What requests have in their state: a function that tells whether too many connections are open.
CROWDED = "crowded"


class TimedProtocol(H11Protocol):
    """A connection with timers."""

    header_seconds = HEADERS
    reading_seconds = READING

    _headers_timer: asyncio.TimerHandle | None = None
    _reading_timer: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._most_connections, self.limit_concurrency = self.limit_concurrency, None
        self.app_state = {**self.app_state, CROWDED: self._is_crowded}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_headers()
        self._stop_reading()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading_timer is None:
            self._await_reading()

    def resume_writing(self) -> None:
        self._stop_reading()
        super().resume_writing()

    def _is_crowded(self) -> bool:
        return self._most_connections is not None and len(self.connections) > self._most_connections

    def _await_headers(self) -> None:
        """Run the timer while no request is being answered; more data does not start it again."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.transport.is_closing():
            self._stop_headers()
        elif self._headers_timer is None:
            self._headers_timer = self.loop.call_later(self.header_seconds, self.transport.abort)

    def _await_reading(self) -> None:
        before = self.transport.get_write_buffer_size()
        self._reading_timer = self.loop.call_later(self.reading_seconds, self._has_read, before)

    def _has_read(self, before: int) -> None:
        """End the connection unless the client has read enough of what waits for it."""
        if before - self.transport.get_write_buffer_size() < self.reading_seconds * SLOWEST:
            self.transport.abort()
        else:
            self._await_reading()

    def _stop_headers(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None

    def _stop_reading(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None
