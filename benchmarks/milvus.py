"""Translation with an index in Milvus beside the local index: quality, speed with a slow network, memory.

    python tools/milvus_server.py start --data /tmp/milvus --port 19530
    python benchmarks/milvus.py prepare --datastore memory --work /tmp/stores
    python benchmarks/milvus.py speed --data test.tsv --work /tmp/stores --out benchmarks/results/bench-milvus.json
    python benchmarks/milvus.py memory --data test.tsv --work /tmp/stores --out benchmarks/results/bench-milvus.json

`prepare` copies a store and gives the copy an index in Milvus, and derives stores of 100,000 entries and of several
times the entries of the original (repeated, with noise on the keys, as `growth.py` does). `speed` translates the same
lines with the local index and with Milvus behind a relay that adds to the round trip; the runs alternate. `memory`
translates in processes of their own and compares their anonymous memory. Server and translator share the machine.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from growth import Source, make_store, neighbour_spread

from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore, reindex
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.search.index_store import Indexing
from nearmt.decoding import BeamConfig
from nearmt.index.milvus import RemoteUse
from nearmt.index.vector_server import Address
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.research.bench.quality import queries_of, recall
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.translator import Translator

BATCH, BEAMS = 8, 5
METHODS = ("chunk", "knn")
#: Seconds that are added to the round trip.
DELAYS = (0.0, 0.005, 0.02)
#: The local index, the same store in Milvus, and stores of other sizes there.
LOCAL, REMOTE, SMALL, LARGE = "local", "milvus", "milvus-small", "milvus-large"
SMALL_ENTRIES = 100_000
#: Settings of the index of each, by their address.
KINDS = {REMOTE: "", SMALL: "?type=IVF_SQ8", LARGE: "?type=IVF_SQ8"}
TOOL = Path(__file__).parent.parent / "tools" / "milvus_server.py"


def load(path: Path) -> TranslationModel:
    manifest = Datastore.open(path, nominate="torch", verify=False).manifest
    return load_model(ModelConfig(manifest.model, precision="int8", device="cpu", key_layer=manifest.key_layer))


# Stores


def prepare(given: argparse.Namespace) -> None:
    """Make the stores that are not there."""
    source, model = Source(given.datastore), load(given.datastore)
    spread_D = neighbour_spread(Datastore.open(given.datastore))
    real = source.manifest.segments[0].entries
    if not (given.work / LOCAL).exists():
        shutil.copytree(given.datastore, given.work / LOCAL)
    for name, kind in KINDS.items():
        path = given.work / name
        if (path / "indexed.json").is_file():
            continue
        shutil.rmtree(path, ignore_errors=True)
        if name == REMOTE:
            shutil.copytree(given.datastore, path)
        else:
            make_store(path, source, SMALL_ENTRIES if name == SMALL else given.times * real, model, spread_D, "exact")
        began = time.perf_counter()
        manifest = reindex(path, Indexing(f"{given.server}{kind}", tell=lambda text: print(text, flush=True)))
        (record,) = manifest.segments
        found = {"entries": record.entries, "seconds": round(time.perf_counter() - began, 1), **record.index}
        (path / "indexed.json").write_text(json.dumps(found), encoding="utf-8")
        print(name, found, flush=True)


# Speed


@contextmanager
def delayed(server: str, delay: float) -> Iterator[str]:
    """The address of the server behind a relay, half of the delay in each direction."""
    address = Address.parse(server)
    if not delay:
        yield server
        return
    port = 1 + address.port
    arguments = ["delay", "--port", str(port), "--target", str(address.port), "--delay", str(delay / 2)]
    relay = subprocess.Popen([sys.executable, str(TOOL), *arguments])
    try:
        time.sleep(1)
        yield f"milvus://{address.host}:{port}/{address.database}"
    finally:
        relay.terminate()
        relay.wait()


def translator_of(work: Path, name: str, method: str, model: TranslationModel, server: str) -> Translator:
    store = Datastore.open(work / name, verify=False, remote=RemoteUse(30.0, server=server))
    return Translator(model, store, method, {}, BeamConfig(beams=BEAMS), BATCH)


def timed_run(translator: Translator, texts: list[str]) -> dict[str, float]:
    began = time.perf_counter()
    found = translator.translate(texts)
    seconds = time.perf_counter() - began
    assert not any(translation.missed for translation in found)
    tokens, searches = sum(each.tokens for each in found), sum(each.searches for each in found)
    return {"tokens_per_second": tokens / seconds, "searches": searches / len(found), "seconds": seconds}


def speed(given: argparse.Namespace) -> list[dict[str, Any]]:
    """The speed of each method with each index, and what Milvus keeps of that of the local index."""
    model = load(given.work / LOCAL)
    texts = [pair.source for pair in read_pairs(given.data, limit=given.limit)]
    cells = []
    for delay in given.delays:
        with delayed(given.server, delay) as server:
            ways = [(method, name) for method in METHODS for name in (LOCAL, REMOTE)]
            makers = {way: translator_of(given.work, way[1], way[0], model, server) for way in ways}
            runs: dict[tuple[str, str], list[dict[str, float]]] = {way: [] for way in ways}
            for repeat in range(-1, given.repeats):  # the first is a warm-up
                for way, translator in makers.items():
                    run = timed_run(translator, texts[: BATCH if repeat < 0 else None])
                    if repeat >= 0:
                        runs[way].append(run)
        for method in METHODS:
            local, remote = ([run["tokens_per_second"] for run in runs[method, name]] for name in (LOCAL, REMOTE))
            ratios = [there / here for there, here in zip(remote, local, strict=True)]
            cells.append(
                {
                    "part": "speed",
                    "method": method,
                    "delay_milliseconds": 1000 * delay,
                    "local_tokens_per_second": round(statistics.median(local), 1),
                    "tokens_per_second": round(statistics.median(remote), 1),
                    "ratio": round(statistics.median(ratios), 3),
                    "ratios": [round(ratio, 3) for ratio in ratios],
                    "searches_per_sentence": round(runs[method, REMOTE][0]["searches"], 2),
                    "signature": makers[method, REMOTE].signature(),
                }
            )
            print(cells[-1], flush=True)
    return cells


def quality(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Recall@8 of each store in Milvus, for decoder states of the test sentences, beside that of the local index."""
    model = load(given.work / LOCAL)
    pairs = list(read_pairs(given.data, limit=given.limit))
    hidden_QH = queries_of(model, [pair.source for pair in pairs], [pair.target for pair in pairs])[:512]
    cells = []
    for name in (LOCAL, *KINDS):
        path = given.work / name
        if not path.exists():
            continue
        store = Datastore.open(path, verify=False, remote=RemoteUse(60.0))
        exact = Datastore.open(path, nominate="torch", verify=False)
        made = path / "indexed.json"
        index = store.manifest.segments[0].index
        cells.append(
            {
                "part": "quality",
                "store": name,
                "entries": len(store),
                "index": index["factory"].rpartition("?")[2],
                "effort": index["effort"],
                "recall": recall(store, exact, hidden_QH),
                "own_recall": index["recall"],
                **({"indexed_seconds": json.loads(made.read_text())["seconds"]} if made.is_file() else {}),
            }
        )
        print(cells[-1], flush=True)
    return cells


# Memory


def anonymous_mib() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"^RssAnon:\s*(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return round(int(found.group(1)) / 1024, 1)


def translate_alone(given: argparse.Namespace) -> None:
    """In a process of its own: print the memory after, and at most during, a translation."""
    peak, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peak[0] = max(peak[0], anonymous_mib())

    watching = threading.Thread(target=watch)
    watching.start()
    path = given.work / given.store
    translator = translator_of(given.work, given.store, "chunk", load(path), given.server)
    texts = [pair.source for pair in read_pairs(given.data, limit=given.limit)]
    missed = sum(found.missed for found in translator.translate(texts))
    ended.set()
    watching.join()
    entries = len(translator.datastore.snapshot()) if translator.datastore else 0  # type: ignore[arg-type]
    print(json.dumps({"entries": entries, "after_mib": anonymous_mib(), "peak_mib": peak[0], "missed": missed}))


def memory(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Anonymous memory of translators with a small and a large memory in Milvus."""
    cells: list[dict[str, Any]] = []
    for name in (SMALL, REMOTE, LARGE):
        command = [sys.executable, __file__, "alone", "--store", name, "--work", str(given.work)]
        command += ["--data", str(given.data), "--limit", str(given.limit), "--server", given.server]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        assert not found.pop("missed")
        base = cells[0]["after_mib"] if cells else found["after_mib"]
        cells.append({"part": "memory", "store": name, **found, "to_small": round(found["after_mib"] / base, 3)})
        print(cells[-1], flush=True)
    return cells


PARTS = {"speed": speed, "quality": quality, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("prepare", "alone", *PARTS))
    parser.add_argument("--datastore", type=Path, help="a real store with a local index")
    parser.add_argument("--data", type=Path, help="sentences to translate, with references")
    parser.add_argument("--work", type=Path, required=True, help="folder of the stores")
    parser.add_argument("--server", default="milvus://127.0.0.1:19530")
    parser.add_argument("--times", type=int, default=4, help="entries of the large store, in those of the real one")
    parser.add_argument("--limit", type=int, default=48, help="sentences")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--delays", type=lambda text: [float(part) for part in text.split(",")], default=list(DELAYS))
    parser.add_argument("--store", help="with alone: which one")
    parser.add_argument("--out", type=Path, help="report; cells of other parts and delays that it has are kept")
    given = parser.parse_args()
    if given.action not in PARTS:
        given.work.mkdir(parents=True, exist_ok=True)
        (prepare if given.action == "prepare" else translate_alone)(given)
        return
    cells = PARTS[given.action](given)
    known = json.loads(given.out.read_text(encoding="utf-8"))["cells"] if given.out and given.out.is_file() else []
    delays = {cell.get("delay_milliseconds") for cell in cells}
    kept = [cell for cell in known if cell["part"] != given.action or cell.get("delay_milliseconds") not in delays]
    data = f"{Path(*given.data.absolute().parts[-2:])}, {given.limit} sentences, batch {BATCH}, beam {BEAMS}"
    report = make_report("milvus", ModelConfig(device="cpu"), data, [*kept, *cells], server="Milvus 2.3.5")
    if given.out:
        write_json(given.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
