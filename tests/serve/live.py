"""A server in a thread of this process: real connections, without the time that a process takes to start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from fastapi import FastAPI

from nearmt.serve.config import ServeConfig
from nearmt.serve.server import Server


class Live:
    """A running server."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.signals: list[int] = []

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    def connect(self) -> Any:
        """A connection as a context; reading from it times out."""
        return closing(socket.create_connection((self.host, self.port), timeout=30))

    def send(self, connection: socket.socket, text: str) -> None:
        head, _, body = text.partition("\n\n")
        request = head.format(host=f"{self.host}:{self.port}").replace("\n", "\r\n") + "\r\n\r\n" + body
        connection.sendall(request.encode())


@contextmanager
def live(app: FastAPI, config: ServeConfig | None = None) -> Iterator[Live]:
    """Serve an app until the block ends; running requests are finished."""
    bound = socket.create_server(("127.0.0.1", 0))
    running = Live(*bound.getsockname())
    server = Server(app, config or app.state.service.config, running.signals)
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        yield running
    finally:
        running.signals.append(15)
        thread.join(60)
        assert not thread.is_alive()
