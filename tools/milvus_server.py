"""Install, start and stop a real Milvus server for tests and benchmarks.

    python tools/milvus_server.py install               # into .services/milvus, an environment of its own
    python tools/milvus_server.py start --data DIR      # returns when it is healthy, and prints its address
    python tools/milvus_server.py stop --data DIR
    python tools/milvus_server.py delay --port PORT --target PORT --delay SECONDS    # a slow network

Most ports of Milvus listen on all interfaces, without a password. So a keeper process runs it in a network namespace
of its own, where nothing can reach it, and passes on connections to 127.0.0.1:PORT. Where no namespace can be made
(it takes the rights of root), Milvus runs in that of the machine, and `start` says so.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".services" / "milvus"
#: The last server that is on PyPI. Its package needs older ones beside it.
VERSION = "2.3.5"
PACKAGES = (f"milvus=={VERSION}", "setuptools<80", "marshmallow<4")
#: The programs of the server, unpacked.
UNPACKED = FOLDER / "server"
PORT = 19530
#: Seconds until a server has to be healthy, and until it has to have stopped.
STARTING, STOPPING = 180.0, 20.0
STATE = "nearmt-server.json"

_UNPACK = "import sys, milvus; milvus._initialize_data_files(sys.argv[1])"
# The process becomes the server: its number is that of the server, and nothing is left beside it.
_RUN = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # ends with its keeper
from milvus import MilvusServer
data, unpacked, metrics, *ports = sys.argv[1:]
config = MilvusServer().config
config.configs["data_dir"] = data
config.configs.update((name, int(port)) for name, _, port in (text.partition("=") for text in ports))
config.set("log.level", "warn")
config.resolve()
os.chdir(data)
os.environ |= {"DEPLOY_MODE": "STANDALONE", "METRICS_PORT": metrics, "MILVUS_RUN_DIR": data + "/run",
               "LD_LIBRARY_PATH": unpacked + "/bin"}
os.execv(unpacked + "/bin/milvus", ["milvus", "run", "standalone"])
"""
_PORTS = (
    *("etcd", "root_coord", "proxy", "proxy_internal", "query_coord", "query_node", "index_coord", "index_node"),
    *("data_coord", "data_node"),
)
_CLONE_NEWNET, _PR_SET_PDEATHSIG = 0x40000000, 1


def install() -> None:
    """Install the server, unless it is there."""
    stamp = FOLDER / "installed.json"
    if stamp.is_file() and json.loads(stamp.read_text(encoding="utf-8")) == list(PACKAGES):
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    venv.create(FOLDER, with_pip=True)
    _run(_python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
    _run(_python(), "-c", _UNPACK, str(UNPACKED))
    stamp.write_text(json.dumps(PACKAGES), encoding="utf-8")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ...: {(done.stderr or done.stdout).strip()[-2000:]}")


def _python() -> str:
    return str(FOLDER / "bin" / "python")


class MilvusServer:
    """A server in the background, with its data in a folder; it ends with its keeper."""

    def __init__(self, data: Path, port: int = 0, delay: float = 0.0, *, stays: bool = False) -> None:
        """Port 0 takes a free one. `delay`: seconds by which each direction of a connection is delayed. `stays`:
        whether it outlives this process."""
        self.data, self.port, self.delay, self._stays = data.absolute(), port or free_port(), delay, stays
        self._keeper: subprocess.Popen[str] | None = None
        self.pid = 0
        #: Whether nothing but 127.0.0.1:PORT can be reached.
        self.is_isolated = False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, with the data of earlier starts, and wait until it is healthy."""
        self.data.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "keep", "--data", str(self.data), "--port", str(self.port)]
        with (self.data / "keeper.log").open("a", encoding="utf-8") as log:
            self._keeper = subprocess.Popen(
                [*command, "--delay", str(self.delay), *(["--stays"] if self._stays else [])],
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        deadline = time.monotonic() + STARTING
        while time.monotonic() < deadline and self._keeper.poll() is None:
            state = read_state(self.data)
            if state.get("keeper") == self._keeper.pid and state["healthy"]:
                self.pid, self.is_isolated = state["server"], state["isolated"]
                return
            time.sleep(0.1)
        self.stop()
        raise SystemExit(f"Milvus did not become healthy; see {self.data}/keeper.log and {self.data}/logs")

    def kill(self) -> None:
        """End the server as a crash would. The keeper stays, and refuses connections."""
        os.kill(self.pid, signal.SIGKILL)
        while Path(f"/proc/{self.pid}/cmdline").is_file() and Path(f"/proc/{self.pid}/cmdline").read_bytes():
            time.sleep(0.01)

    def pause(self) -> None:
        """Let the server stand still: connections stay open, and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stop server and keeper."""
        if self._keeper is not None:
            stop_keeper(self._keeper.pid)
            self._keeper.wait()
            self._keeper = None

    def restart(self) -> None:
        self.stop()
        self.start()


def read_state(data: Path) -> dict[str, Any]:
    """What the keeper of a folder wrote; empty if none did."""
    try:
        found: dict[str, Any] = json.loads((data / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def stop_keeper(pid: int) -> None:
    """End a keeper, which ends its server; wait for it."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOPPING
    while _is_keeper(pid):
        if time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _is_keeper(pid: int) -> bool:
    """Whether the process runs, and is a keeper: numbers of processes are used again."""
    with suppress(OSError):
        return b"milvus_server.py\0keep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


class Keeper:
    """Runs a server and passes on connections to it, until it is told to end."""

    def __init__(self, data: Path, port: int, delay: float) -> None:
        self._data, self._delay = data, delay
        # Made before the namespace is left: it stays in that of the machine.
        self._listening = socket.create_server(("127.0.0.1", port))
        self._isolated = _leave_network()
        names = [] if self._isolated else [f"{name}_port={free_port()}" for name in _PORTS]
        self._target = next((int(name.partition("=")[2]) for name in names if name.startswith("proxy_port")), PORT)
        self._metrics = 9091 if self._isolated else free_port()
        command = [_python(), "-c", _RUN, str(data), str(UNPACKED), str(self._metrics), *names]
        with (data / "server.log").open("a", encoding="utf-8") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log)

    async def run(self) -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        async with await relay(self._listening, self._target, self._delay):
            self._tell(False)
            watching = asyncio.create_task(self._watch(ended))
            await ended.wait()
            watching.cancel()
        self._stop()

    async def _watch(self, ended: asyncio.Event) -> None:
        while not await asyncio.to_thread(_is_healthy, self._metrics):
            if self._server.poll() is not None:
                print(f"the server ended with code {self._server.returncode}", flush=True)
                ended.set()
                return
            await asyncio.sleep(0.2)
        self._tell(True)
        await asyncio.to_thread(self._server.wait)  # a server that was killed is not left as a zombie

    def _tell(self, healthy: bool) -> None:
        state = {"keeper": os.getpid(), "server": self._server.pid, "healthy": healthy, "isolated": self._isolated}
        partial = self._data / f"{STATE}.partial"
        partial.write_text(json.dumps(state), encoding="utf-8")
        partial.replace(self._data / STATE)

    def _stop(self) -> None:
        self._server.send_signal(signal.SIGCONT)
        self._server.terminate()
        try:
            self._server.wait(STOPPING / 4)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


async def relay(listening: socket.socket, target: int, delay: float) -> asyncio.Server:
    """Pass on connections to a port of 127.0.0.1; they are closed where it cannot be reached."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(carry(reader, back, delay), carry(there, writer, delay), return_exceptions=True)

    return await asyncio.start_server(pass_on, sock=listening)


async def delay_forever(port: int, target: int, delay: float) -> None:
    """Pass on connections until the process ends."""
    async with await relay(socket.create_server(("127.0.0.1", port)), target, delay) as server:
        await server.serve_forever()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Pass on bytes, each `delay` seconds after it came, until the sender closes."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)

    async def write() -> None:
        while True:
            due, data = await waiting.get()
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            if not data:
                return
            writer.write(data)
            await writer.drain()

    writing = asyncio.create_task(write())
    try:
        data = b"-"
        while data and not writing.done():
            data = await reader.read(1 << 18)
            await waiting.put((loop.time() + delay, data))
        await writing
    finally:
        writing.cancel()
        writer.close()


def _leave_network() -> bool:
    """Move this process, and those that it starts, to a network that has nothing but a loopback device."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        return False
    _run("ip", "link", "set", "lo", "up")
    return True


def _is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return b"OK" in answer.read()
    except (OSError, urllib.error.URLError):
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("install", "start", "stop", "keep", "delay"))
    parser.add_argument("--data", type=Path, help="folder of the server's data")
    parser.add_argument("--port", type=int, default=PORT, help=f"on 127.0.0.1 (default: {PORT})")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds by which answers and requests are delayed")
    parser.add_argument("--target", type=int, default=PORT, help="with delay: the port that is slow behind --port")
    parser.add_argument("--stays", action="store_true", help="outlive the process that started it")
    given = parser.parse_args()
    if given.action == "delay":
        asyncio.run(delay_forever(given.port, given.target, given.delay))
        return
    if given.action != "install" and given.data is None:
        parser.error(f"{given.action} needs --data DIR")
    if given.action == "keep":
        if not given.stays:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        asyncio.run(Keeper(given.data, given.port, given.delay).run())
    elif given.action == "stop":
        stop_keeper(read_state(given.data).get("keeper", 0))
    else:
        install()
    if given.action == "start":
        server = MilvusServer(given.data, given.port, given.delay, stays=True)
        server.start()
        print(f"milvus://{server.address}")
        if not server.is_isolated:
            print("no network namespace could be made: its ports are open on all interfaces", file=sys.stderr)


if __name__ == "__main__":
    main()
