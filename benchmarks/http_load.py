"""Clients of a translation server, for benchmarks: closed loops over HTTP/1.1 with one connection each.

They are light, because they share the processor with the server that they measure.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: Seconds after which an answer no longer comes.
_PATIENCE = 600.0


@dataclass
class Load:
    """What clients have seen."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        ordered = sorted(self.latencies)

        def percentile(share: float) -> float:
            return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)

        return {
            "sentences": len(ordered),
            "sentences_per_second": round(len(ordered) / self.seconds, 2),
            "mean_ms": round(1000 * statistics.mean(ordered), 1),
            "p50_ms": percentile(0.5),
            "p95_ms": percentile(0.95),
            "p99_ms": percentile(0.99),
            "errors": len(self.errors),
        }


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: object) -> Any:
    """Send JSON and return the JSON of the answer, or raise what the server says."""
    data = json.dumps(body).encode()
    fields = ("Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(data)}")
    writer.write("\r\n".join((f"POST {path} HTTP/1.1", *fields, "", "")).encode() + data)
    await writer.drain()
    header = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status = int(header.split(" ", 2)[1])
    length = next(int(line.split(":")[1]) for line in header.splitlines() if line.lower().startswith("content-length"))
    answer = await reader.readexactly(length)
    if status != 200:
        raise RuntimeError(f"{status}: {answer[:200]!r}")
    return json.loads(answer)


async def single_sentences(port: int, texts: Sequence[str], clients: int, settings: dict[str, Any]) -> Load:
    """Every client sends one sentence after the other, until all are translated."""
    load, left = Load(), iter(enumerate(texts))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number, text in left:
            start = time.perf_counter()
            try:
                answer = await asyncio.wait_for(
                    post(reader, writer, "/api/v1/translate", {"texts": [text], **settings}), _PATIENCE
                )
                load.texts[number] = answer["translations"][0]["text"]
            except (TimeoutError, RuntimeError, OSError, asyncio.IncompleteReadError) as error:
                load.errors.append(str(error))
            load.latencies.append(time.perf_counter() - start)
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    load.seconds = time.perf_counter() - start
    return load


async def beside_a_document(
    port: int, texts: Sequence[str], clients: int, document: Sequence[str], settings: dict[str, Any]
) -> tuple[Load, dict[str, Any]]:
    """Single sentences while a document is translated, which is deleted after them; and how far that came."""
    job = await asyncio.to_thread(_upload, port, document, settings)
    while (started := await asyncio.to_thread(_job, port, job))["state"] == "queued" or not started["done"]:
        await asyncio.sleep(0.1)
    load = await single_sentences(port, texts, clients, settings)
    ended = await asyncio.to_thread(_job, port, job)
    await asyncio.to_thread(_ask, port, "DELETE", f"/api/v1/documents/{job}")
    if ended["state"] not in ("running", "done"):
        load.errors.append(f"the document is {ended['state']}")
    return load, {
        "document_sentences": ended["done"] - started["done"],
        "document_left": ended["total"] - ended["done"],
    }


def _upload(port: int, document: Sequence[str], settings: dict[str, Any]) -> str:
    """Send a document and return the id of its job."""
    fields = {"method": settings["method"], "memories": json.dumps(settings["memories"]), "exact": "false"}
    head = "".join(
        f'--part\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    head += '--part\r\nContent-Disposition: form-data; name="file"; filename="document.txt"\r\n\r\n'
    body = "".join((head, *(f"{line}\n" for line in document), "\r\n--part--\r\n")).encode()
    answer = _ask(port, "POST", "/api/v1/documents", body, "multipart/form-data; boundary=part")
    return str(json.loads(answer)["id"])


def _job(port: int, job: str) -> Any:
    return json.loads(_ask(port, "GET", f"/api/v1/jobs/{job}"))


def _ask(port: int, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
    """The body of an answer; an error status raises."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": kind}, method=method)
    with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
        return bytes(answer.read())
