"""The server process: opens everything in an order in which errors come early, listens, and stops in order."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI

from nearmt.errors import ConfigError
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.connections import TimedProtocol
from nearmt.serve.heap import keep_trimmed, settle
from nearmt.serve.key_file import FILE_NAME, KeyFile
from nearmt.serve.logs import log
from nearmt.serve.security import Guard
from nearmt.serve.service import Service
from nearmt.serve.state import owned

#: Most bytes of the first line and the headers of a request; dialects send texts in the first line.
_HEADERS = 1 << 16
#: Seconds that an idle connection is kept open.
_IDLE = 15
_BACKLOG = 512
#: File handles that are enough for thousands of memories.
_HANDLES = 1 << 16
#: Seconds for what still runs after requests have had theirs: jobs, which go on after a restart.
_CLOSING = 2.0


def run(config: ServeConfig, signals: Sequence[int], announce: Callable[[str], None]) -> None:
    """Serve until a number is in `signals`; then let running requests finish. A second number ends them, too."""
    keyring = KeyFile(config.state_folder / FILE_NAME, read_only=config.read_only, default_memory=config.default_memory)
    Guard.of(config.host, config.allowed_host, config.cors_origin, keys=keyring.required)
    with ExitStack() as stack:
        if not config.read_only:
            stack.enter_context(_owned_folders(config))
        bound = stack.enter_context(_bound(config.host, config.port))
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        _allow_handles()
        service = Service.open(config)
        stack.callback(service.close, _CLOSING)
        if config.default_memory is not None:
            service.memories.folder_of(config.default_memory)
        app = create_app(service, keyring)
        stack.callback(app.state.workers.close)
        app.state.workers.start()
        settle()

        def started() -> None:
            for line in _lines(config, service, keyring, _address(bound)):
                announce(line)
            log("start", address=_address(bound), keys=keyring.required, read_only=config.read_only)

        Server(app, config, signals, started).run([bound])
        log("stop")


@contextmanager
def _owned_folders(config: ServeConfig) -> Iterator[None]:
    """Own the memories, and the state where it is elsewhere: two servers may not share either."""
    with owned(config.memories_folder, mode=0o777), ExitStack() as stack:
        if config.state_folder.resolve() != config.memories_folder.resolve():
            stack.enter_context(owned(config.state_folder))
        yield


class Server(uvicorn.Server):
    """uvicorn without handlers of its own for signals."""

    def __init__(
        self, app: FastAPI, config: ServeConfig, signals: Sequence[int], started: Callable[[], None] | None = None
    ) -> None:
        """`started` is called once clients can connect."""
        super().__init__(_settings(app, config))
        self._app, self._signals, self._started = app, signals, started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:  # type: ignore[override]
        """Whoever runs the server hears them."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._started is not None:
            self._started()
        self._trimming = asyncio.ensure_future(keep_trimmed())

    async def on_tick(self, counter: int) -> bool:
        self.should_exit = self.should_exit or bool(self._signals)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log("stopping", connections=len(self.server_state.connections))
        self._app.state.stopping.set()
        self._app.state.service.jobs.stop()  # ends streams that wait for changes of jobs
        self._trimming.cancel()
        watch = asyncio.ensure_future(self._watch())
        try:
            await super().shutdown(sockets)
        finally:
            watch.cancel()

    async def _watch(self) -> None:
        """A second signal does not wait for requests."""
        while len(self._signals) < 2:
            await asyncio.sleep(0.1)
        self.force_exit = True
        for task in list(self.server_state.tasks):
            task.cancel()


def _settings(app: FastAPI, config: ServeConfig) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEADERS,
        limit_concurrency=config.max_connections,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=max(1, round(config.drain)),
    )


def _allow_handles() -> None:
    """Raise the limit of file handles as far as the process may: open memories keep some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _HANDLES if hard == resource.RLIM_INFINITY else min(_HANDLES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket with an address; clients are refused until it listens."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"--host {host}: cannot be used ({error.strerror})") from error
    with bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise ConfigError(f"--host {host} --port {port}: {reason}; give another --port") from error
        yield bound


def _address(bound: socket.socket) -> str:
    host, port, *_ = bound.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _lines(config: ServeConfig, service: Service, keyring: Any, address: str) -> Iterator[str]:
    """What a person should know when the server starts."""
    models = ", ".join(model.name for model in service.models)
    count = len(service.memories.names())
    yield f"serving {models} with {count:,} {'memory' if count == 1 else 'memories'} of {config.memories} at {address}"
    if not keyring.required:
        yield "no keys: this machine only, and everyone on it may do everything (`nearmt keys add` makes a key)"
    if config.read_only:
        yield "read-only: memories do not change, and there are no jobs"
