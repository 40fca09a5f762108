"""Time of a search in one sealed segment and in several segments that share a quantiser.

    OMP_NUM_THREADS=1 python benchmarks/segments.py --out benchmarks/results/segments.json

Keys are random: clusters, with column variances that fall off like those of real keys. Both stores have the same
number of entries; that with several segments has a few thousand of them in a live segment, which is searched exactly.
Both use the same quantiser and the same number of probes, alternately. Anonymous memory (RssAnon) is that of a
separate process that opens a store and searches it once.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore.disk import Segment, SegmentRecord, SegmentWriter
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.indexing import index_segment, index_segments, open_index
from nearmt.datastore.search.searcher import Searcher
from nearmt.engines.base import Index
from nearmt.index import SharedIndex
from nearmt.index.faiss import import_faiss
from nearmt.models import ModelConfig
from nearmt.research.machine import describe_commit, describe_machine

COLUMNS = 256
#: Average entries of a cluster: uses of the same words in similar contexts.
CLUSTER = 50
#: Entries of a pair.
SENTENCE = 25
BATCH = 40
NEIGHBOURS = 8
ROUNDS = 40
#: Numbers of probes, in addition to the calibrated one.
EFFORTS = (8, 32)
_BLOCK = 100_000
#: Variances of the columns of a PCA fall off about like 1/rank.
DEVIATION_D = np.arange(1, COLUMNS + 1, dtype=np.float32) ** np.float32(-0.5)


@dataclass(frozen=True)
class Keys:
    """Generates keys; the same arguments give the same keys."""

    clusters: int
    seed: int = 0

    def make(self, start: int, count: int) -> np.ndarray:
        """Return `count` fp16 keys from `start` on."""
        centre_CD = np.random.default_rng(self.seed).standard_normal((self.clusters, COLUMNS), dtype=np.float32)
        generator = np.random.default_rng((self.seed, start))
        key_ND = generator.standard_normal((count, COLUMNS), dtype=np.float32) * 0.5
        key_ND += centre_CD[generator.integers(0, self.clusters, count)]
        return (key_ND * DEVIATION_D).astype(np.float16)


def write_segment(folder: Path, number: int, keys_of: Keys, start: int, entries: int) -> SegmentRecord:
    name = f"segment-{number:06d}"
    writer = SegmentWriter(folder / name, {})
    for first in range(start, start + entries, _BLOCK):
        key_ND = keys_of.make(first, min(_BLOCK, start + entries - first))
        keys = [key_ND[begin : begin + SENTENCE] for begin in range(0, len(key_ND), SENTENCE)]
        pairs = [Pair("s", "t", id=f"{first}-{number}") for number in range(len(keys))]
        writer.append(pairs, keys, [[1] * len(key) for key in keys], [[1]] * len(keys), 0)
    return writer.seal()


def opened(folder: Path, records: list[SegmentRecord]) -> Searcher:
    segments = [Segment(folder / record.name, record, COLUMNS) for record in records]
    entries = open_entries(segments, torch.device("cpu"))
    keys = entries.keys_by_segment
    indexes: list[Index] = [open_index(segment, key, "auto") for segment, key in zip(segments, keys, strict=True)]
    return Searcher(entries, indexes, COLUMNS)


def batches(searcher: Searcher, count: int) -> list[Tensor]:
    """Make batches of queries near entries of all segments."""
    generator = torch.Generator().manual_seed(1)
    entry_X = torch.randint(len(searcher.entries), (count * BATCH,), generator=generator)
    key_XD = searcher.entries.keys(entry_X, COLUMNS)
    noise_XD = torch.randn(key_XD.shape, generator=generator) * torch.from_numpy(DEVIATION_D) * 0.2
    return list((key_XD + noise_XD).split(BATCH))


def compare(searchers: dict[str, Searcher], masks: dict[str, Tensor | None]) -> dict[str, float]:
    """Median milliseconds of a search; searchers alternate, so that other load affects all alike."""
    taken: dict[str, list[float]] = {name: [] for name in searchers}
    for query_BD in batches(next(iter(searchers.values())), ROUNDS):
        for name, searcher in searchers.items():
            began = time.perf_counter()
            searcher.search(query_BD, NEIGHBOURS, masks.get(name))
            taken[name].append(1000 * (time.perf_counter() - began))
    return {name: round(statistics.median(times), 3) for name, times in taken.items()}


def set_effort(searchers: Iterable[Searcher], effort: int) -> None:
    for searcher in searchers:
        for index in searcher.indexes:
            if isinstance(index, SharedIndex):
                index.effort = effort


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def memory_an_entry(folder: Path, records: list[SegmentRecord]) -> float:
    """Anonymous bytes for each entry of an opened and searched store, measured in a separate process."""
    small = torch.zeros(BATCH, COLUMNS)
    import_faiss()  # load libraries before counting
    before = anonymous_bytes()
    searcher = opened(folder, records)
    searcher.search(small, NEIGHBOURS)
    return (anonymous_bytes() - before) / len(searcher.entries)


def in_new_process(folder: Path, records: list[SegmentRecord]) -> float:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return round(pool.submit(memory_an_entry, folder, records).result(), 1)


def run(folder: Path, entries: int, sealed: int, live: int, factory: str) -> dict[str, Any]:
    keys = Keys(max(1, entries // CLUSTER))
    one = index_segments(folder, [write_segment(folder, 1, keys, 0, entries)], COLUMNS, factory)
    each, several = (entries - live) // sealed, []
    for number in range(sealed):
        record = write_segment(folder, number + 2, keys, number * each, each)
        several.append(index_segment(folder, record, COLUMNS, "auto", existing=one))
    several.append(write_segment(folder, sealed + 2, keys, entries - live, live))
    searchers = {"one": opened(folder, one), "several": opened(folder, several)}
    searchers["several with deleted"] = searchers["several"]
    seen_N = torch.rand(len(searchers["several"].entries), generator=torch.Generator().manual_seed(2)) >= 0.01
    tuned = one[0].index["effort"]
    # With fewer probes, the overhead of several segments weighs more.
    by_effort = {}
    for effort in sorted({*EFFORTS, tuned}):
        set_effort(searchers.values(), effort)
        by_effort[effort] = compare(searchers, {"several with deleted": seen_N})
    return {
        "entries": entries,
        "segments": [record.entries for record in several],
        "index": one[0].index["factory"],
        "effort": tuned,
        "recall": one[0].index["recall"],
        "milliseconds": by_effort,
        "ratio": {effort: round(times["several"] / times["one"], 3) for effort, times in by_effort.items()},
        "anonymous_bytes_an_entry": {
            "one": in_new_process(folder, one),
            "several": in_new_process(folder, several),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--sealed", type=int, default=5, help="sealed segments of the store that has grown")
    parser.add_argument("--live", type=int, default=5000, help="entries of its live segment")
    parser.add_argument("--index", default="auto", help="FAISS factory string")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), arguments.entries, arguments.sealed, arguments.live, arguments.index)
    machine = describe_machine(ModelConfig(device="cpu"))
    write_json(arguments.out, {**found, "commit": describe_commit(), "machine": machine})
    ratio, memory = found["ratio"][found["effort"]], found["anonymous_bytes_an_entry"]["several"]
    print(f"{ratio} times one segment; {memory} bytes an entry")


if __name__ == "__main__":
    main()
