"""Speed of `nearmt serve`, compared with CTranslate2 behind the same server and with `nearmt translate`.

    python benchmarks/serving.py --data koran/test.tsv --datastore KORAN --out benchmarks/results/bench-serving.json

Systems: the model alone, kNN-MT, chunks, and CTranslate2 with the same weights. Loads: 1, 8 and 50 clients that send
single sentences, and 8 clients beside one that translates a long list. Each round runs all systems and loads in turns;
`file` is `Translator.translate` over the same sentences as one list, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from http_load import beside_a_document, single_sentences

from nearmt.datastore.disk.files import write_json
from nearmt.models import ModelConfig
from nearmt.research.machine import describe_commit, describe_machine

MEMORY = "memory"
METHODS: dict[str, dict[str, Any]] = {
    "plain": {"memories": [], "method": "plain"},
    "knn": {"memories": [{"name": MEMORY}], "method": "knn"},
    "chunk": {"memories": [{"name": MEMORY}], "method": "chunk"},
}
PEER = "ctranslate2"
_FILE = """
import json, sys, time
from nearmt.datastore import Datastore
from nearmt.translator import Translator
texts = json.load(open(sys.argv[1]))
plain = Translator("de-en")
memory = plain.with_datastore(Datastore.open(sys.argv[2]), "chunk")
knn = plain.with_datastore(Datastore.open(sys.argv[2]), "knn")
found = {}
for name, translator in (("plain", plain), ("knn", knn), ("chunk", memory)):
    if name in sys.argv[3].split(","):
        translator.translate(texts[:8])
        start = time.perf_counter()
        outputs = [each.text for each in translator.translate(texts)]
        found[name] = [time.perf_counter() - start, outputs]
print(json.dumps(found))
"""


@contextlib.contextmanager
def server(command: Sequence[str], port: int, threads: int) -> Iterator[None]:
    """A server process that answers on a port while the block runs."""
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            if process.poll() is not None:
                raise SystemExit(f"the server ended with {process.returncode}: {' '.join(command)}")
            time.sleep(0.2)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def measure(port: int, name: str, texts: list[str], document: list[str], clients: Sequence[int]) -> dict[str, Any]:
    """All loads on one system."""
    settings = {"exact": False, **METHODS.get(name, METHODS["plain"])}
    asyncio.run(single_sentences(port, texts[:8], 4, settings))  # warm up
    found: dict[str, Any] = {}
    for count in clients:
        sent = texts[: max(16, len(texts) // 4)] if count == 1 else texts
        load = asyncio.run(single_sentences(port, sent, count, settings))
        print(name, f"{count} clients", load.summary(), load.errors[:1], file=sys.stderr, flush=True)
        found[f"{count} clients"] = {**load.summary(), "texts": [load.texts.get(n, "") for n in range(len(sent))]}
    if document:
        load, outlasted = asyncio.run(beside_a_document(port, texts, 8, document, settings))
        print(name, "beside a document", load.summary(), outlasted, load.errors[:1], file=sys.stderr, flush=True)
        found["8 clients beside a document"] = {**load.summary(), "document_outlasted": outlasted}
    return found


def as_file(texts: list[str], datastore: str, methods: Sequence[str], threads: int) -> dict[str, Any]:
    """Seconds and outputs of each method over all texts as one list."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(texts, file)
        file.flush()
        command = [sys.executable, "-c", _FILE, file.name, datastore, ",".join(methods)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def one_round(
    arguments: argparse.Namespace, folder: Path, texts: list[str], document: list[str]
) -> dict[str, dict[str, Any]]:
    """Every system once."""
    methods = [name for name in arguments.systems.split(",") if name != PEER]
    found: dict[str, dict[str, Any]] = {}
    for name, (seconds, outputs) in as_file(texts, arguments.datastore, methods, arguments.threads).items():
        found[name] = {"file": {"sentences_per_second": round(len(texts) / seconds, 2), "texts": outputs}}
    command = [sys.executable, "-m", "nearmt", "serve", "--port", str(arguments.port), "--memories", str(folder)]
    with server(command, arguments.port, arguments.threads):
        for name in methods:
            found[name] |= measure(arguments.port, name, texts, document, arguments.clients)
    if PEER in arguments.systems.split(","):
        script = str(Path(__file__).parent / "serving_peer.py")
        command = [sys.executable, script, str(arguments.port), "--threads", str(arguments.threads)]
        with server(command, arguments.port, arguments.threads):
            found[PEER] = measure(arguments.port, PEER, texts, [], arguments.clients)
    return found


def summary(rounds: Sequence[dict[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row for each system and load: medians over the rounds, and ratios within each round."""
    return [row_of(rounds, system, load) for system in rounds[0] for load in rounds[0][system]]


def row_of(rounds: Sequence[dict[str, dict[str, Any]]], system: str, load: str) -> dict[str, Any]:
    cells = [each[system][load] for each in rounds]
    row: dict[str, Any] = {"system": system, "load": load}
    for key in ("sentences_per_second", "p50_ms", "p95_ms", "p99_ms", "errors"):
        if key in cells[0]:
            row[key] = round(statistics.median(cell[key] for cell in cells), 2)
    speed, late = "sentences_per_second", "p95_ms"
    compared = {
        "of_file": (system, "file", speed),
        "of_plain": ("plain", load, speed),
        "of_peer": (PEER, load, speed),
        "p95_of_8_clients": (system, "8 clients", late),
    }
    for name, (other, base, key) in compared.items():
        if key in cells[0] and key in rounds[0].get(other, {}).get(base, {}):
            ratios = [cell[key] / each[other][base][key] for cell, each in zip(cells, rounds, strict=True)]
            row[name] = round(statistics.median(ratios), 3)
    if "texts" in cells[0] and "file" in rounds[0][system]:
        pairs = zip(cells[0]["texts"], rounds[0][system]["file"]["texts"], strict=False)
        row["differ_from_file"] = sum(one != other for one, other in pairs)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="TSV whose first column is translated")
    parser.add_argument("--datastore", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=200, help="sentences")
    parser.add_argument("--document", type=int, default=1000, help="sentences of the long list")
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 50])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=8971)
    parser.add_argument("--systems", default=f"plain,knn,chunk,{PEER}")
    arguments = parser.parse_args()
    lines = [line.split("\t")[0].strip() for line in arguments.data.read_text(encoding="utf-8").splitlines()]
    texts = lines[: arguments.limit]
    document = (lines[arguments.limit :] * (1 + arguments.document // max(1, len(lines))))[: arguments.document]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / MEMORY).symlink_to(Path(arguments.datastore).resolve())
        rounds = [one_round(arguments, folder, texts, document) for _ in range(arguments.rounds)]
    rows = summary(rounds)
    machine = describe_machine(ModelConfig(device="cpu"))
    data = {"file": f"{arguments.data.parent.name}/{arguments.data.name}", "sentences": len(texts)}
    settings = {"rounds": arguments.rounds, "threads": arguments.threads, "document": len(document)}
    report = {"benchmark": "serving", "data": data, **settings, "rows": rows}
    write_json(arguments.out, {**report, "commit": describe_commit(), "machine": machine})
    for row in rows:
        print("  ".join(f"{key}={value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
