"""What stores of 10^7 to 10^10 entries need, from measured constants, and a check of the prediction on real stores.

    python benchmarks/capacity.py measure --datastore memory --sizes 566722,2000000 \
        --out benchmarks/results/bench-capacity.json
    python benchmarks/capacity.py table --write

`measure` derives stores of several sizes from a real one, as `growth.py` does, and measures their files, memory and
searches, each in a process of its own. `table` extrapolates from the smallest of them and from the other results
files, compares that with the larger ones, and with `--write` puts both tables into `docs/scale.md`.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from growth import ROWS, Source, make_store, neighbour_spread

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.files import write_json
from nearmt.models import ModelConfig, load_model
from nearmt.research.bench.report import make_report

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- capacity -->", "<!-- end of capacity -->"
SIZES = (10**7, 10**8, 10**9, 10**10)
GPUS = (1, 8, 64)
#: Assumed, since no results file has them; each with its source.
ASSUMED = {
    "gpu_tokens_per_second": (50_000, "a build of 2.9M tokens of IT on one H200"),
    "gpu_dollars_an_hour": (3.5, "an H200 at a cloud provider, 2026"),
    "milvus_milliseconds": (
        54,
        "40 queries, Milvus 2.3.5, IVF_SQ8, 200,000 keys on two cores, and more nodes for more",
    ),
    "round_trip_milliseconds": (0.5, "within a data centre"),
    "node_gigabytes": (256, "memory of a machine"),
    "core_gigaflops": (50, "fp32 products on one core, for assigning keys to clusters"),
}
#: Of a machine's memory, what an index may take.
USABLE = 0.7
SEARCHES = 30


# Measuring.


def anonymous_bytes() -> int:
    """Memory of this process that is not backed by files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1])


def measure_store(path: str, model_config: ModelConfig) -> dict[str, Any]:
    """Memory and times of one store, in a fresh process."""
    torch.set_num_threads(1)
    model = load_model(model_config)
    generator = torch.Generator().manual_seed(0)
    import faiss  # noqa: F401  # libraries are loaded before memory is counted

    before, began = anonymous_bytes(), time.perf_counter()
    store = Datastore.open(path, verify=False)
    opened = time.perf_counter() - began
    snapshot, taken = store.snapshot(), []
    for _ in range(SEARCHES):
        entry_B = torch.randint(len(snapshot), (ROWS,), generator=generator)
        query_BD = snapshot.keys(entry_B, snapshot.columns).float() + 0.05
        began = time.perf_counter()
        snapshot.search(query_BD, 8)
        taken.append(time.perf_counter() - began)
    anonymous = anonymous_bytes() - before
    snapshot.similar([model.codec.source_ids(snapshot.pair(0).source)], 8)
    with_sources = anonymous_bytes() - before
    writer = Datastore.open(path, verify=False)
    follow = []
    for number in range(5):
        pair = snapshot.pair(number)
        writer.add([Pair(pair.source, pair.target, f"new-{number}")], model)
        began = time.perf_counter()
        assert store.refresh()
        follow.append(time.perf_counter() - began)
    segment = store.manifest.segments[0]
    return {
        "entries": segment.entries,
        "pairs": segment.pairs,
        "columns": store.manifest.columns,
        "index": segment.index.get("factory", "exact"),
        "effort": segment.index.get("effort", 0),
        "bytes": {name.partition("-")[0]: file.bytes for name, file in segment.files.items()},
        "anonymous_bytes": anonymous,
        "anonymous_bytes_with_sources": with_sources,
        "open_seconds": round(opened, 3),
        "search_milliseconds": round(1000 * statistics.median(taken[SEARCHES // 6 :]), 2),
        "follow_milliseconds": round(1000 * statistics.median(follow), 2),
    }


def measure(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    manifest = Manifest.load(arguments.datastore)
    languages = manifest.source_lang, manifest.target_lang
    model_config = ModelConfig(manifest.model, *languages, "int8", "cpu", key_layer=manifest.key_layer)
    model = load_model(model_config)
    source, spread_D = Source(arguments.datastore), neighbour_spread(Datastore.open(arguments.datastore))
    signature = f"model:{model.name}@{model.fingerprint}"
    report = make_report("capacity", model_config, arguments.datastore.name, [], signature=signature)
    for entries in map(int, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            path, began = Path(folder) / "store", time.perf_counter()
            make_store(path, source, entries, model, spread_D)
            made = time.perf_counter() - began
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                cell = pool.submit(measure_store, str(path), model_config).result()
            shutil.rmtree(path)
        report["cells"].append({**cell, "written_and_indexed_seconds": round(made, 1)})
        write_json(arguments.out, report)
        print(json.dumps(report["cells"][-1]))


# The model.


def results(name: str) -> dict[str, Any] | None:
    """A results file, if there is one."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


@dataclass(frozen=True)
class Constants:
    """What was measured, or is assumed."""

    #: A store that was measured: entries, files, memory, searches; and a smaller one.
    store: dict[str, Any]
    smaller: dict[str, Any]
    gpu_tokens: float
    core_tokens: float
    #: Sentences a second of a translator with `speed_entries` entries, two CPU threads; and its searches per sentence.
    sentences: float
    speed_entries: int
    speed_threads: int
    searches: float
    milvus_milliseconds: float

    def disk(self, entries: int) -> float:
        return float(sum(self.store["bytes"].values()) / self.store["entries"] * entries)

    def anonymous(self, entries: int) -> float:
        return float(self.store["anonymous_bytes"] / self.store["entries"] * entries)

    def keys(self, entries: int) -> float:
        return float(2 * self.store["columns"] * entries)

    def search_milliseconds(self, entries: int) -> float:
        """Lists grow with the square root of the entries, and so does what is compared in a few of them."""
        return float(self.store["search_milliseconds"] * math.sqrt(entries / self.store["entries"]))

    def follow_milliseconds(self, entries: int) -> float:
        """A new snapshot joins the tokens of all segments anew; the rest of the time does not depend on the size."""
        first, last = self.smaller, self.store
        more = last["follow_milliseconds"] - first["follow_milliseconds"]
        slope = max(0.0, more) / max(1, last["entries"] - first["entries"])
        return float(last["follow_milliseconds"] + slope * (entries - last["entries"]))

    def sentences_with_local_index(self, entries: int) -> float:
        return self._sentences(self.search_milliseconds(entries))

    def sentences_with_milvus(self) -> float:
        return self._sentences(self.milvus_milliseconds + ASSUMED["round_trip_milliseconds"][0])

    def _sentences(self, search_milliseconds: float) -> float:
        """With other searches: each is for the 8 sentences of a batch, and every thread has a batch of its own."""
        more = search_milliseconds - self.search_milliseconds(self.speed_entries)
        return 1 / (1 / self.sentences + self.searches * more / 8000 / self.speed_threads)

    def assigning_core_hours(self, entries: int) -> float:
        """Time of one core to assign all keys to the clusters of an index."""
        lists = 2 ** round(math.log2(4 * math.sqrt(entries)))
        flops = 2.0 * entries * lists * self.store["columns"]
        return float(flops / (ASSUMED["core_gigaflops"][0] * 1e9) / 3600)


def replaced_by_results() -> dict[str, float]:
    """Constants that results files have by now, in place of what is assumed."""
    found: dict[str, float] = {}
    if gpu := results("bench-building-gpu"):
        found["gpu_tokens_per_second"] = max(cell["building"] for cell in gpu["cells"])
    if (milvus := results("bench-milvus")) and "search_milliseconds" in milvus:
        found["milvus_milliseconds"] = milvus["search_milliseconds"]
    return found


def constants(store: dict[str, Any], smaller: dict[str, Any] | None = None) -> Constants:
    speed = results("bench-speed")
    building = results("bench-building") or results("bench-building-4000-pairs")
    assert speed is not None and building is not None
    cell = next(c for c in speed["cells"] if c["system"] == "chunk" and c["precision"] == "int8")
    others = {name: value for name, (value, _) in ASSUMED.items()} | replaced_by_results()
    return Constants(
        store,
        smaller or store,
        others["gpu_tokens_per_second"],
        max(c["building"] for c in building["cells"]),
        cell["tokens_per_second"] / (cell["tokens"] / speed["sentences"]),
        speed["datastore"]["entries"],
        speed["machine"]["threads"],
        cell["searches_per_sentence"],
        others["milvus_milliseconds"],
    )


# The tables.


def duration(hours: float) -> str:
    if hours < 1:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:,.0f} d"


def size(count: float) -> str:
    for unit, value in (("TB", 1e12), ("GB", 1e9)):
        if count >= value:
            return f"{count / value:,.1f} {unit}"
    return f"{count / 1e6:,.0f} MB"


def power(entries: int) -> str:
    return f"10{str(round(math.log10(entries))).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def row_of(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def capacity_table(known: Constants) -> str:
    """One column for each size."""
    node = ASSUMED["node_gigabytes"][0] * 1e9 * USABLE
    dollars = ASSUMED["gpu_dollars_an_hour"][0]

    def build(entries: int, gpus: int) -> str:
        return duration(entries / known.gpu_tokens / gpus / 3600)

    rows: dict[str, list[str]] = {}
    for entries in SIZES:
        column = {
            "build on " + ", ".join(map(str, GPUS)) + " GPUs": ", ".join(build(entries, gpus) for gpus in GPUS),
            "its cost in dollars, any number of GPUs": f"{dollars * entries / known.gpu_tokens / 3600:,.2f}",
            "build on two CPU cores": duration(entries / known.core_tokens / 3600),
            "assigning keys to clusters, core hours": f"{known.assigning_core_hours(entries):,.1f}",
            "disk": size(known.disk(entries)),
            "of these, keys, which the page cache should hold": size(known.keys(entries)),
            "memory of a translator, index in the process": size(known.anonymous(entries)),
            "shards of the index, a node each": f"{math.ceil(known.anonymous(entries) / node):,}",
            "time until an addition is read": f"{known.follow_milliseconds(entries) / 1000:,.2f} s",
            "sentences/s of a translator, index in the process": (
                f"{known.sentences_with_local_index(entries):.1f}"
                if known.anonymous(entries) <= node
                else "does not fit"
            ),
            "sentences/s of a translator, index in Milvus": f"{known.sentences_with_milvus():.1f}",
            "translators for 1,000 sentences/s, with Milvus": f"{math.ceil(1000 / known.sentences_with_milvus())}",
            "breaks first": breaks_first(known, entries, node),
        }
        for name, cell in column.items():
            rows.setdefault(name, []).append(cell)
    head = [row_of(["entries", *map(power, SIZES)]), row_of(["---"] * (1 + len(SIZES)))]
    return "\n".join([*head, *(row_of([name, *cells]) for name, cells in rows.items())])


def breaks_first(known: Constants, entries: int, node: float) -> str:
    """What becomes impossible or unreasonable first at a size, and why."""
    if known.anonymous(entries) + known.keys(entries) <= node / 4:
        return "nothing: keys and index fit into the memory of one machine several times"
    if known.anonymous(entries) <= node:
        return (
            "search: what is compared in an index grows with the square root of the entries. Memory is next: every "
            "process has an index of its own, and keys that are not in the page cache are read from disk"
        )
    if known.assigning_core_hours(entries) < 2000:
        return (
            "the index: no machine holds it, and readers see additions late. Milvus on several nodes; keys on a shared "
            "file system with NVMe"
        )
    return (
        "making an index: assigning keys to clusters takes years of one core; then reading the corpus, which every "
        "part reads as a whole. Divide it into memories by domain, and join those that a text needs"
    )


_CHECKED = {
    "disk": ("MB", 1e6),
    "memory": ("MB", 1e6),
    "search of 40 queries": ("ms", 1),
}


def check_table(stores: Sequence[dict[str, Any]]) -> str:
    """The predictions from each store for larger ones, beside what these have."""
    lines = [row_of(["from", "to", "quantity", "predicted", "measured", "ratio"]), row_of(["---"] * 6)]
    for smaller, store in combinations(stores, 2):
        known, entries = constants(smaller), store["entries"]
        values = {
            "disk": (known.disk(entries), sum(store["bytes"].values())),
            "memory": (known.anonymous(entries), store["anonymous_bytes"]),
            "search of 40 queries": (known.search_milliseconds(entries), store["search_milliseconds"]),
        }
        for name, (predicted, measured) in values.items():
            unit, divisor = _CHECKED[name]
            shown = [f"{value / divisor:,.1f} {unit}" for value in (predicted, measured)]
            sizes = [f"{smaller['entries']:,}", f"{entries:,}"]
            lines.append(row_of([*sizes, name, *shown, f"{predicted / measured:.2f}"]))
    return "\n".join(lines)


def sources(known: Constants) -> str:
    """Where each constant is from."""
    store = known.store
    measured = (
        f"Measured: {sum(store['bytes'].values()) / store['entries']:.0f} bytes an entry on disk, "
        f"{store['anonymous_bytes'] / store['entries']:.0f} in memory, {store['search_milliseconds']} ms for 40 "
        f"queries on one core ({store['entries']:,} entries, `bench-capacity.json`); {known.core_tokens:,.0f} tokens/s "
        f"building on two cores (`bench-building`); {known.sentences:.1f} sentences/s and "
        f"{known.searches} searches a sentence on two cores (`bench-speed.json`, chunks, int8, "
        f"Koran: {known.speed_entries:,} entries)."
    )
    used = {name: value for name, value in ASSUMED.items() if name not in replaced_by_results()}
    listed = "; ".join(f"{name.replace('_', ' ')} {value:,g} ({source})" for name, (value, source) in used.items())
    return f"{measured}\n\nAssumed: {listed}; {USABLE:.0%} of a machine's memory for an index."


def tables() -> str:
    report = results("bench-capacity")
    assert report is not None, "no bench-capacity.json: run `python benchmarks/capacity.py measure`"
    largest = constants(report["cells"][-1], report["cells"][0])
    checked = "The same formulas from the constants of one store, beside what larger ones have:"
    return "\n\n".join([capacity_table(largest), sources(largest), checked, check_table(report["cells"])])


def print_tables(arguments: argparse.Namespace) -> None:
    text = tables()
    if not arguments.write:
        print(text)
        return
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE}: has no {BEGIN} and {END}")
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--datastore", type=Path, required=True, help="a real store")
    measuring.add_argument("--sizes", required=True, help="entries, joined by commas, the smallest first")
    measuring.add_argument("--folder", type=Path, help="folder for temporary stores: 1 KB an entry")
    measuring.add_argument("--out", type=Path, default=RESULTS / "bench-capacity.json")
    measuring.set_defaults(run=measure)
    printing = commands.add_parser("table")
    printing.add_argument("--write", action="store_true", help="write the tables into docs/scale.md")
    printing.set_defaults(run=print_tables)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
