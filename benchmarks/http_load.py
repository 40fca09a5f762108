"""Clients of a translation server, for benchmarks: closed loops over HTTP/1.1 with one connection each.

They are light, because they share the processor with the server that they measure.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
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
) -> tuple[Load, bool]:
    """Single sentences while another client translates a long list; and whether the list outlasted them."""

    async def bulk() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await post(reader, writer, "/api/v1/translate", {"texts": list(document), **settings})
        writer.close()

    running = asyncio.create_task(bulk())
    await asyncio.sleep(1.0)  # its first sentences are being decoded
    load = await single_sentences(port, texts, clients, settings)
    outlasted = not running.done()
    running.cancel()
    try:
        await running
    except (asyncio.CancelledError, RuntimeError, OSError, asyncio.IncompleteReadError) as error:
        if isinstance(error, RuntimeError):
            load.errors.append(str(error))
    return load, outlasted
