"""nearmt serve: what is refused before a model is loaded, and a process from start to end."""

from __future__ import annotations

import importlib.util
import json
import socket
import threading
from pathlib import Path

import httpx
import pytest

from nearmt.serve.state import owned
from tests.cli.conftest import Nearmt
from tests.serve.process import ServerProcess


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model would show as another error."""
    monkeypatch.setattr("nearmt.serve.models.load_model", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "without keys it listens on this machine only"),
        (["--cors-origin", "*"], "make a key first"),
        (["--cors-origin", "tool"], "must be like https://"),
        (["--host", "no.such.host.invalid"], "without keys"),
        (["--port", "70000"], "between 0 and 65535"),
        (["--set", "max-body=0"], "at least 1"),
        (["--set", "beams=4"], "no setting 'beams'"),
    ],
)
def test_bad_settings_are_refused(nearmt: Nearmt, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = nearmt("serve", "--memories", tmp_path, *arguments)
    assert result.code == 2 and message in result.err, result.err
    assert len(result.err.splitlines()) == 1


def test_a_second_server_is_refused(nearmt: Nearmt, tmp_path: Path) -> None:
    with owned(tmp_path / ".server"):
        result = nearmt("serve", "--memories", tmp_path, "--port", 0)
    assert result.code == 2
    assert "is in use by another server (process " in result.err and "--read-only" in result.err


def test_one_server_on_memories_whatever_its_state(nearmt: Nearmt, tiny_folder: Path, tmp_path: Path) -> None:
    """Two states do not make two servers on one folder; the lock ends with a killed process."""
    memories = tmp_path / "memories"
    arguments = ("--model", tiny_folder, "--memories", memories)
    with ServerProcess((*arguments, "--state", tmp_path / "one"), tmp_path) as first:
        address = first.wait_until_started()
        made = httpx.post(f"{address}/api/v1/memories", json={"name": "a"}, timeout=60)
        assert made.status_code == 201
        other = ServerProcess((*arguments, "--state", tmp_path / "other"), tmp_path)
        assert other.wait() == 2
        (line,) = other.err.read_text(encoding="utf-8").splitlines()
        assert f"in use by another server (process {first.pid})" in line and "--read-only" in line
        with ServerProcess((*arguments, "--state", tmp_path / "other", "--read-only"), tmp_path) as reader:
            reader.wait_until_started()
        (tmp_path / "new.tsv").write_text("die pumpe\tthe pump\n", encoding="utf-8")
        added = nearmt("add", memories / "a", tmp_path / "new.tsv", "--model", tiny_folder)
        assert added.code == 0, added.err
        pairs = httpx.get(f"{address}/api/v1/memories/a/pairs", timeout=60).json()
        assert [pair["target"] for pair in pairs["pairs"]] == ["the pump"]
        first.kill()
    with ServerProcess((*arguments, "--state", tmp_path / "other"), tmp_path) as next_one:
        next_one.wait_until_started()


def test_a_port_in_use_is_named(nearmt: Nearmt, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        result = nearmt("serve", "--memories", tmp_path, "--port", other.getsockname()[1])
    assert result.code == 2 and "is in use; give another --port" in result.err


def test_a_damaged_key_file_is_an_error(nearmt: Nearmt, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("{", encoding="utf-8")
    result = nearmt("serve", "--memories", tmp_path, "--state", tmp_path)
    assert result.code == 1 and "not a key file" in result.err


def test_missing_packages_are_named(nearmt: Nearmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "nearmt.cli.serve.importlib.util.find_spec", lambda name: None if name == "uvicorn" else found(name)
    )
    result = nearmt("serve", "--memories", tmp_path)
    assert result.code == 1 and "pip install 'nearmt[serve]'" in result.err


def test_a_server_from_start_to_end(tiny_folder: Path, tmp_path: Path) -> None:
    """A request that runs when SIGTERM comes is finished; the exit code is 0. Meanwhile a second server only reads."""
    arguments = ("--model", tiny_folder, "--memories", tmp_path / "memories")
    with ServerProcess(arguments, tmp_path) as server:
        address = server.wait_until_started()
        assert "no keys: this machine only" in server.out.read_text(encoding="utf-8")
        texts = ["die pumpe öffnen .", "der motor nicht immer ."] * 200
        answers = list[httpx.Response]()

        def translate() -> None:
            answers.append(httpx.post(f"{address}/api/v1/translate", json={"texts": texts}, timeout=60))

        client = threading.Thread(target=translate)
        with ServerProcess((*arguments, "--read-only"), tmp_path) as reader:
            body = {"texts": texts[:1]}
            reading = reader.wait_until_started()
            assert httpx.post(f"{reading}/api/v1/translate", json=body).status_code == 200
            # A name is refused before anything is made.
            assert httpx.post(f"{reading}/api/v1/memories", json={"name": "new"}).status_code in (403, 404)
        client.start()
        while 'requests_now{state="running"} 2.0' not in httpx.get(f"{address}/metrics").text and not answers:
            pass
        assert server.stop() == 0
        client.join()
        assert [answer.status_code for answer in answers] == [200]
        assert len(answers[0].json()["translations"]) == len(texts)
        events = [json.loads(line)["event"] for line in server.err.read_text(encoding="utf-8").splitlines()]
    assert events[0] == "start" and events[-2:] == ["request", "stop"] and "stopping" in events
