"""After deleting and compacting, a server has no text of a pair any more: on disk, in answers, in its log."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.process import ServerProcess

pytestmark = pytest.mark.services

#: Words of the pairs that are to be forgotten, and of one that stays.
SECRETS = ("geheime", "secret")
SOURCE, TARGET = "die geheime pumpe .", "the secret pump ."
KEPT = "die welle ."
MEMORY = "/api/v1/memories/a"


class Files:
    """Everything that a server may write."""

    def __init__(self, folder: Path) -> None:
        self.memories, self.temporary = folder / "memories", folder / "temporary"
        self.temporary.mkdir()

    def process(self, model: Path) -> ServerProcess:
        arguments = ("--model", model, "--memories", self.memories)
        return ServerProcess(arguments, self.memories.parent, {"TMPDIR": str(self.temporary)})

    def having(self, server: ServerProcess, word: str) -> list[str]:
        """Files that have a word, those among them that are deleted but open or mapped, and outputs of the process."""
        spellings = [word.encode(), word.encode("utf-16-le"), word.encode("utf-16-be")]
        found = []
        for path in self._files(server):
            content = _content(path)
            if any(spelling in content for spelling in spellings):
                found.append(str(path))
        return found

    def _files(self, server: ServerProcess) -> Iterator[Path]:
        for folder in (self.memories, self.temporary):
            yield from (path for path in folder.rglob("*") if path.is_file())
        yield from (server.out, server.err)
        for kind in ("fd", "map_files"):
            for link in Path(f"/proc/{server.pid}/{kind}").glob("*"):
                name = _target(link)
                if name.endswith("(deleted)") and str(self.memories.parent) in name:
                    yield link


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:  # removed or closed meanwhile
        return b""
    return gzip.decompress(content) if path.suffix == ".gz" else content


class Client:
    """Requests that have to succeed."""

    def __init__(self, address: str) -> None:
        self._http = httpx.Client(base_url=address, timeout=60)

    def ask(self, method: str, path: str, status: int = 200, **request: Any) -> httpx.Response:
        answer = self._http.request(method, path, **request)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer

    def upload(self, path: str, name: str, content: bytes, state: str = "done") -> str:
        """Send a file, and return its job when that is finished."""
        return self.job(self.ask("POST", path, 202, files={"file": (name, content)}), state)

    def job(self, answer: httpx.Response, state: str = "done") -> str:
        identity: str = answer.json()["id"]
        end = time.monotonic() + 60
        while (job := self.ask("GET", f"/api/v1/jobs/{identity}").json())["state"] in ("queued", "running"):
            assert time.monotonic() < end, job
            time.sleep(0.02)
        assert job["state"] == state, job
        return identity


def spread(client: Client) -> None:
    """Bring the texts wherever a server may keep them."""
    client.ask("POST", "/api/v1/memories", 201, json={"name": "a"})
    pairs = [{"source": SOURCE, "target": "x"}, {"source": KEPT, "target": "the shaft ."}]
    first = client.ask("POST", f"{MEMORY}/pairs", 201, json={"pairs": pairs}).json()["pairs"][0]["id"]
    client.ask("PUT", f"{MEMORY}/pairs/{first}", json={"target": TARGET})
    client.ask("POST", "/suggest", data={"q": f"{SOURCE} !", "s": f"{TARGET} !", "source": "de", "target": "en"})
    rows = f"{SOURCE[:-1]}?\t{TARGET[:-1]}?\n{SOURCE} without a target\n".encode()
    client.upload(f"{MEMORY}/import", "pairs.tsv", rows)
    client.upload(f"{MEMORY}/import", "more.tsv.gz", gzip.compress(rows.replace(b"pumpe", b"welle")))
    client.upload(f"{MEMORY}/import", "broken.tmx", f"<tmx><body><tu>{SOURCE}{TARGET}".encode(), "failed")
    client.ask("GET", f"{MEMORY}/export?format=tmx")
    client.ask("GET", f"{MEMORY}/pairs", params={"query": "geheime"})
    client.ask("GET", f"{MEMORY}/pairs/geheime", 405)
    client.ask("POST", "/api/v1/translate", 422, json={"texts": [{"text": SOURCE}]})
    translate(client)
    document = client.upload("/api/v1/documents", "text.txt", f"{SOURCE}\n{SOURCE} {KEPT}\n".encode())
    unit = {"target": TARGET, "confirmed": True, "learn": "a"}
    client.ask("PUT", f"/api/v1/documents/{document}/units/0", json=unit)
    client.ask("GET", f"/api/v1/documents/{document}/result")
    client.ask("DELETE", f"/api/v1/documents/{document}", 204)


def translate(client: Client) -> dict[str, Any]:
    """With matches and the pairs behind the words."""
    body = {"texts": [SOURCE[:-1], SOURCE], "memories": [{"name": "a"}], "matches": 5, "explain": True}
    answer: dict[str, Any] = client.ask("POST", "/api/v1/translate", json=body).json()
    return answer


def delete(client: Client) -> None:
    found = client.ask("GET", f"{MEMORY}/pairs", params={"query": "geheime", "limit": 1000}).json()["pairs"]
    assert len(found) >= 4
    for pair in found:
        client.ask("DELETE", f"{MEMORY}/pairs", 204, params={"id": pair["id"]})
    client.job(client.ask("POST", f"{MEMORY}/compact", 202))


def check_answers(client: Client) -> None:
    """Nothing that a client can ask for has the texts."""
    for path in (f"{MEMORY}/pairs", f"{MEMORY}/export", MEMORY, "/api/v1/jobs", "/metrics", "/tmserver/de/en/unit/die"):
        text = client.ask("GET", path).text
        assert not any(secret in text for secret in SECRETS), (path, text)
    assert KEPT in client.ask("GET", f"{MEMORY}/pairs").text
    for found in translate(client)["translations"]:
        assert found["origin"] == "machine" and "secret" not in found["text"]
        assert all("geheime" not in match["source"] for match in found["matches"])
        witnesses = [witness["source"] for word in found["words"] for witness in word["witnesses"]]
        assert all("geheime" not in source for source in witnesses)


def test_a_deleted_pair_is_nowhere_after_compacting(tiny_folder: Path, tmp_path: Path) -> None:
    files = Files(tmp_path)
    with files.process(tiny_folder) as server:
        client = Client(server.wait_until_started())
        spread(client)
        assert files.having(server, "geheime"), "the test would find it"
        delete(client)
        check_answers(client)
        for secret in SECRETS:
            assert files.having(server, secret) == []
        assert files.having(server, KEPT)
    with files.process(tiny_folder) as server:
        check_answers(Client(server.wait_until_started()))
        for secret in SECRETS:
            assert files.having(server, secret) == []
