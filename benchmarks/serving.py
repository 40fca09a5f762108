"""Speed of `nearmt serve`, compared with CTranslate2 behind the same server and with `nearmt translate`.

    python benchmarks/serving.py --data koran/test.tsv --datastore KORAN --out benchmarks/results/bench-serving.json

Systems: the model alone, kNN-MT, chunks, and CTranslate2 with the same weights. Loads: 1, 8 and 50 clients that send
single sentences, and 8 clients beside a document, which is cancelled after them. `file` is what `nearmt translate` does
with the same sentences as one file, in a process of its own. What was measured before with the same commit, data and
settings stays in the report: systems can be measured one by one.
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
from pathlib import Path
from nearmt.datastore import Datastore
from nearmt.documents import FillConfig, fill_document
from nearmt.translator import Translator
source, out = Path(sys.argv[1]), Path(sys.argv[1]).with_suffix(".out.txt")
plain = Translator("de-en")
memory = plain.with_datastore(Datastore.open(sys.argv[2]), "chunk")
knn = plain.with_datastore(Datastore.open(sys.argv[2]), "knn")
found = {}
for name, translator in (("plain", plain), ("knn", knn), ("chunk", memory)):
    if name in sys.argv[3].split(","):
        translator.translate(source.read_text(encoding="utf-8").splitlines()[:8])
        start = time.perf_counter()
        fill_document(source, out, translator, FillConfig(exact=False))
        found[name] = [time.perf_counter() - start, out.read_text(encoding="utf-8").splitlines()]
print(json.dumps(found))
"""


@contextlib.contextmanager
def server(command: Sequence[str], port: int, threads: int) -> Iterator[int]:
    """A server process that answers on a port while the block runs; its process id."""
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            if process.poll() is not None:
                raise SystemExit(f"the server ended with {process.returncode}: {' '.join(command)}")
            time.sleep(0.2)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def measure(
    port: int, process: int, name: str, texts: list[str], document: list[str], clients: Sequence[int]
) -> dict[str, Any]:
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
        before = memory_of(process)
        load, progress = asyncio.run(beside_a_document(port, texts, 8, document, settings))
        grown = {"grown_mib": memory_of(process) - before}
        print(name, "beside a document", load.summary(), progress, grown, load.errors[:1], file=sys.stderr, flush=True)
        found["8 clients beside a document"] = {**load.summary(), **progress, **grown}
    return found


def memory_of(process: int) -> int:
    """MiB that a process has in memory."""
    line = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) >> 10


def as_file(texts: list[str], datastore: str, methods: Sequence[str], threads: int) -> dict[str, Any]:
    """Seconds and outputs of each method over all texts as one file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.txt"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        command = [sys.executable, "-c", _FILE, str(path), datastore, ",".join(methods)]
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
    if methods:
        with server(command, arguments.port, arguments.threads) as process:
            for name in methods:
                found[name] |= measure(arguments.port, process, name, texts, document, arguments.clients)
    if PEER in arguments.systems.split(","):
        script = str(Path(__file__).parent / "serving_peer.py")
        command = [sys.executable, script, str(arguments.port), "--threads", str(arguments.threads)]
        with server(command, arguments.port, arguments.threads) as process:
            found[PEER] = measure(arguments.port, process, PEER, texts, [], arguments.clients)
    return {system: compared(loads) for system, loads in found.items()}


def compared(loads: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Loads without their texts, but with how many differ from those of the file."""
    expected = loads.get("file", {}).get("texts")
    found = {name: {key: value for key, value in load.items() if key != "texts"} for name, load in loads.items()}
    for name, load in loads.items():
        if expected is not None and "texts" in load:
            pairs = zip(load["texts"], expected, strict=False)
            found[name]["differ_from_file"] = sum(one != other for one, other in pairs)
    return found


def rows_of(measured: dict[str, dict[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """One row for each system and load: medians over the rounds, and their ratios."""
    medians = {
        (system, load): {key: round(statistics.median(cell[key] for cell in cells), 2) for key in cells[0]}
        for system, loads in measured.items()
        for load, cells in loads.items()
    }
    return [
        {"system": system, "load": load, **row, **ratios(medians, system, load)}
        for (system, load), row in medians.items()
    ]


def ratios(medians: dict[tuple[str, str], dict[str, float]], system: str, load: str) -> dict[str, float]:
    speed, late = "sentences_per_second", "p95_ms"
    bases = {
        "of_file": (system, "file", speed),
        "of_plain": ("plain", load, speed),
        "of_peer": (PEER, load, speed),
        "p95_of_8_clients": (system, "8 clients", late),
    }
    row = medians[system, load]
    return {
        name: round(row[key] / medians[other, base][key], 3)
        for name, (other, base, key) in bases.items()
        if key in row and key in medians.get((other, base), {})
    }


def with_rounds(before: dict[str, Any], rounds: Sequence[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """What was measured before, by system and load, and these rounds."""
    measured: dict[str, Any] = dict(before)
    for system in rounds[0]:
        measured[system] = {load: [each[system][load] for each in rounds] for load in rounds[0][system]}
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="TSV whose first column is translated")
    parser.add_argument("--datastore", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=200, help="sentences")
    parser.add_argument("--document", type=int, default=1000, help="sentences of the document")
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 50])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=8971)
    parser.add_argument("--systems", default=f"plain,knn,chunk,{PEER}")
    arguments = parser.parse_args()
    lines = [line.split("\t")[0].strip() for line in arguments.data.read_text(encoding="utf-8").splitlines()]
    texts = lines[: arguments.limit]
    rest = lines[arguments.limit :] or lines
    document = (rest * (1 + arguments.document // max(1, len(rest))))[: arguments.document]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / MEMORY).symlink_to(Path(arguments.datastore).resolve())
        rounds = [one_round(arguments, folder, texts, document) for _ in range(arguments.rounds)]
    data = {"file": f"{arguments.data.parent.name}/{arguments.data.name}", "sentences": len(texts)}
    same = {"benchmark": "serving", "data": data, "threads": arguments.threads, "document": len(document)}
    same |= {"commit": describe_commit(), "machine": describe_machine(ModelConfig(device="cpu"))}
    before = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    kept = before.get("measured", {}) if {key: before.get(key) for key in same} == same else {}
    measured = with_rounds(kept, rounds)
    rows = rows_of(measured)
    write_json(arguments.out, {**same, "rows": rows, "measured": measured})
    for row in rows:
        print("  ".join(f"{key}={value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
