"""Clients that go away, send slowly or do not read hold nothing."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response

from nearmt.scheduler import Ticket
from nearmt.serve import bodies
from nearmt.serve.app import create_app
from nearmt.serve.connections import TimedProtocol
from nearmt.serve.running import run
from nearmt.serve.service import Service
from tests.serve.live import live


def until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


class Slow:
    """An endpoint whose work lasts until its ticket is cancelled or it is let go."""

    def __init__(self, app: FastAPI) -> None:
        self.ticket, self.started, self.go = Ticket(), threading.Event(), threading.Event()

        @app.post("/slow")
        async def slow(request: Request) -> str:
            await request.body()
            return await run(request, self.work, self.ticket)

    def work(self) -> str:
        self.started.set()
        while not (self.go.is_set() or self.ticket.cancelled):
            time.sleep(0.01)
        return "done"


def test_a_client_that_disconnects_frees_its_place(service: Service) -> None:
    app = create_app(service)
    slow = Slow(app)
    with live(app) as server:
        with server.connect() as connection:
            server.send(connection, "POST /slow HTTP/1.1\nHost: {host}\nContent-Length: 2\n\n{}")
            assert slow.started.wait(30) and app.state.workers.running == 1
        until(lambda: app.state.workers.running == 0)
        assert slow.ticket.cancelled
        until(lambda: "nearmt_cancelled_total 1.0" in httpx.get(f"{server.address}/metrics").text)


def test_work_that_waits_is_dropped_with_its_client(service: Service) -> None:
    service.config = dataclasses.replace(service.config, max_requests=2)
    app = create_app(service)
    slow, never = Slow(app), []

    @app.post("/next")
    async def after(request: Request) -> None:
        await run(request, lambda: never.append(1))

    with live(app) as server, server.connect() as first:
        server.send(first, "POST /slow HTTP/1.1\nHost: {host}\nContent-Length: 0\n\n")
        assert slow.started.wait(30)
        with server.connect() as second:
            server.send(second, "POST /next HTTP/1.1\nHost: {host}\nContent-Length: 0\n\n")
            until(lambda: app.state.workers.waiting == 1)
        until(lambda: app.state.workers.waiting == 0)
        slow.go.set()
        until(lambda: b"done" in _read(first))
    assert never == []


def test_running_work_is_finished_when_the_server_stops(service: Service) -> None:
    app = create_app(service)
    slow = Slow(app)
    with live(app) as server, server.connect() as connection:
        server.send(connection, "POST /slow HTTP/1.1\nHost: {host}\nContent-Length: 0\n\n")
        assert slow.started.wait(30)
        server.signals.append(15)
        until(app.state.stopping.is_set)
        with pytest.raises(ConnectionRefusedError), server.connect():
            pass
        slow.go.set()
        answer = b""
        while part := _read(connection):
            answer += part
        assert b"200 OK" in answer and b"connection: close" in answer and b"done" in answer


def test_streams_end_when_the_server_stops(service: Service) -> None:
    """They would last as long as the job."""
    service.config = dataclasses.replace(service.config, drain=600.0)
    with live(create_app(service)) as server, httpx.Client(base_url=f"{server.address}/api/v1") as client:
        text = " ".join(["die pumpe öffnen und schließen .\n"] * 1000)
        job = client.post("/documents", files={"file": ("long.txt", text)}).json()
        with client.stream("GET", f"/jobs/{job['id']}/events") as events:
            lines = events.iter_lines()
            assert next(lines).startswith("data:")
            server.signals.append(15)
            assert list(lines) is not None


def test_a_second_signal_does_not_wait(service: Service) -> None:
    app = create_app(service)
    slow = Slow(app)
    with live(app) as server, server.connect() as connection:
        server.send(connection, "POST /slow HTTP/1.1\nHost: {host}\nContent-Length: 0\n\n")
        assert slow.started.wait(30)
        server.signals += [15, 15]
    assert slow.ticket.cancelled


@pytest.mark.parametrize("start", ["", "POST /slow HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "])
def test_slow_headers_end_the_connection(service: Service, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    monkeypatch.setattr(TimedProtocol, "header_seconds", 0.5)
    with live(create_app(service)) as server, server.connect() as connection:
        connection.sendall(start.encode())
        assert _read(connection) == b""


def test_the_headers_of_a_second_request_may_not_be_slow_either(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimedProtocol, "header_seconds", 0.5)
    with live(create_app(service)) as server, server.connect() as connection:
        server.send(connection, "GET /health HTTP/1.1\nHost: {host}\n\n")
        until(lambda: b'"ok"' in _read(connection))
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        assert _read(connection) == b""


def test_a_slow_body_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "GRACE", 0.5)
    app = create_app(service)
    Slow(app)
    with live(app) as server, server.connect() as connection:
        server.send(connection, "POST /slow HTTP/1.1\nHost: {host}\nContent-Length: 100\n\na")
        assert b"408 Request Timeout" in connection.recv(4096)


def test_a_client_that_does_not_read_is_dropped(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedProtocol, "reading_seconds", 0.5)
    app, size = create_app(service), 32 << 20

    @app.get("/large")
    async def large() -> Response:
        return Response(b"a" * size)

    with live(app) as server, server.connect() as connection:
        server.send(connection, "GET /large HTTP/1.1\nHost: {host}\n\n")
        time.sleep(1.5)
        read = 0
        while part := _read(connection):
            read += len(part)
    assert 0 < read < size


def test_headers_that_are_too_large_are_refused(service: Service) -> None:
    with live(create_app(service)) as server, server.connect() as connection:
        server.send(connection, "GET /health HTTP/1.1\nHost: {host}\nX-Large: " + "a" * 1_000_000 + "\n\n")
        assert b" 400 " in connection.recv(4096)


def test_connections_beyond_the_limit_are_told_when_to_come_back(service: Service) -> None:
    config = dataclasses.replace(service.config, max_connections=2)
    with live(create_app(service), config) as server, httpx.Client(base_url=server.address) as first:
        assert first.get("/health").status_code == 200
        with httpx.Client(base_url=server.address) as second:
            assert second.get("/health").status_code == 200
            refused = httpx.get(f"{server.address}/health")
            assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
            assert refused.headers["connection"] == "close"
            assert refused.json()["type"] == "urn:nearmt:problem:queue-full"
            assert first.get("/health").status_code == 200
        until(lambda: httpx.get(f"{server.address}/health").status_code == 200)


def test_no_server_header(service: Service) -> None:
    with live(create_app(service)) as server:
        assert "server" not in httpx.get(f"{server.address}/health").headers


def _read(connection: socket.socket) -> bytes:
    """What arrives next; empty once the server has ended the connection."""
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""
