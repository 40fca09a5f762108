"""Time of a search and of a decoding step as a datastore grows.

    python benchmarks/growth.py --datastore memory --data test.tsv --sizes 10000,100000,1000000 \
        --folder /tmp --out benchmarks/results/bench-growth.json

Stores of all sizes are derived from one real store. A smaller store has its first pairs; a larger one repeats its
pairs, with Gaussian noise on the keys whose deviation, column by column, is that of a key from its near neighbours.
Tokens, sentences and sources are real. Each store has the default index for its size. Queries are decoder states of
the test sentences; recall is relative to exact search.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk import Manifest, Segment, SegmentRecord, SegmentWriter
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.search.indexing import index_segments
from nearmt.datastore.search.recall import sample
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.research.bench import BenchConfig, opened
from nearmt.research.bench.quality import queries_of, recall
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.translator import Translator

BATCH, BEAMS, NEIGHBOURS = 8, 5, 8
#: Queries of one search, one for each hypothesis.
ROWS = BATCH * BEAMS
SEARCHES = 60
#: Pairs written at a time.
_BLOCK = 2000
#: Entries sampled to measure the spread of neighbours.
_SPREAD = 512


class Source:
    """Reads pairs, keys and tokens of the first segment of a real store."""

    def __init__(self, path: Path) -> None:
        self.manifest = Manifest.load(path)
        self.path = path
        record = self.manifest.segments[0]
        self.segment = Segment(path / record.name, record, self.manifest.columns)
        self.end_P = np.asarray(self.segment.end_P)

    def write(self, writer: SegmentWriter, first: int, last: int, copy: int, spread_D: np.ndarray) -> None:
        """Append the pairs from `first` up to `last`; copies get noise on their keys."""
        generator = np.random.default_rng((copy, first))
        pairs: list[Pair] = []
        keys, tokens, sources = [], [], []
        for number in range(first, last):
            start, end = (int(self.end_P[number - 1]) if number else 0), int(self.end_P[number])
            key_TD = np.asarray(self.segment.key_ND[start:end])
            if copy:
                noise_TD = generator.standard_normal(key_TD.shape, dtype=np.float32) * spread_D
                key_TD = (key_TD.astype(np.float32) + noise_TD).astype(np.float16)
            pair = self.segment.pair(number)
            pairs.append(dataclasses.replace(pair, id=f"{copy}-{number}"))
            keys.append(key_TD)
            tokens.append(self.segment.token_N[start:end].tolist())
            sources.append(self._source(number))
        writer.append(pairs, keys, tokens, sources, 0)

    def _source(self, number: int) -> list[int]:
        if not len(self.segment.source_S):
            return []
        end_P = self.segment.source_end_P
        found: list[int] = self.segment.source_S[int(end_P[number - 1]) if number else 0 : int(end_P[number])].tolist()
        return found


def neighbour_spread(store: Datastore) -> np.ndarray:
    """Standard deviation of each column between a key and its near, unequal neighbours, [D]."""
    entry_S = sample(len(store), _SPREAD)
    key_SD = store.snapshot().keys(entry_S, store.snapshot().columns)
    found = store.snapshot().search(key_SD, NEIGHBOURS)
    near_SKD = (
        store.snapshot()
        .keys(found.entry_BK.clamp(min=0).flatten(), store.snapshot().columns)
        .view(len(entry_S), NEIGHBOURS, -1)
    )
    other_SK = found.distance_BK > 1e-3
    difference_XD = (near_SKD - key_SD[:, None])[other_SK & torch.isfinite(found.distance_BK)]
    # The difference of two keys has twice the variance of each.
    return (difference_XD.square().mean(dim=0) / 2).sqrt().numpy()


def make_store(
    path: Path, source: Source, entries: int, model: TranslationModel, spread_D: np.ndarray, index: str = "auto"
) -> Datastore:
    """Make a store of about `entries` entries, from whole pairs."""
    Datastore.build(path, [], model, BuildConfig(reduction_of=str(source.path)))
    manifest = Manifest.load(path)
    writer = SegmentWriter(path / "segment-000001", {})
    copy = 0
    while writer.entries < entries:
        left = entries - writer.entries
        last = min(int(np.searchsorted(source.end_P, left)) + 1, len(source.end_P))
        for first in range(0, last, _BLOCK):
            source.write(writer, first, min(first + _BLOCK, last), copy, spread_D)
        copy += 1
    records: list[SegmentRecord] = index_segments(path, [writer.seal()], manifest.columns, index)
    # The real store's calibration: the same weights and temperature at all sizes.
    calibration = dataclasses.replace(source.manifest.calibration, entries=writer.entries)
    dataclasses.replace(manifest, segments=tuple(records), calibration=calibration).save(path)
    return Datastore.open(path, verify=False)


def search_milliseconds(store: Datastore, query_QD: Tensor) -> float:
    """Median time of a search for all rows of a batch."""
    taken = []
    generator = torch.Generator().manual_seed(0)
    for _ in range(SEARCHES):
        query_BD = query_QD[torch.randint(len(query_QD), (ROWS,), generator=generator)]
        began = time.perf_counter()
        store.snapshot().search(query_BD, NEIGHBOURS)
        taken.append(time.perf_counter() - began)
    return round(1000 * statistics.median(taken[SEARCHES // 6 :]), 3)


def step_milliseconds(store: Datastore, model: TranslationModel, sources: list[str], repeats: int) -> dict[str, float]:
    """Median time of a decoding step in whole translations, by method; methods alternate."""
    translators = {"plain": Translator(model, batch_size=BATCH)}
    translators |= {name: Translator(model, store, name, batch_size=BATCH) for name in ("knn", "chunk")}
    batches = [sources[start : start + BATCH] for start in range(0, len(sources), BATCH)]
    taken: dict[str, list[float]] = {name: [] for name in translators}
    for repeat in range(-1, repeats):  # the first is a warm-up
        for batch in batches:
            for name, translator in translators.items():
                began = time.perf_counter()
                found = translator.translate(batch)
                spent = time.perf_counter() - began
                if repeat >= 0:
                    taken[name].append(1000 * spent / max(translation.steps for translation in found))
    return {name: round(statistics.median(times), 2) for name, times in taken.items()}


def measure(path: Path, source: Source, entries: int, model: TranslationModel, pairs: list[Pair], repeats: int,
            spread_D: np.ndarray) -> dict[str, Any]:  # fmt: skip
    began = time.perf_counter()
    store = make_store(path, source, entries, model, spread_D)
    made = time.perf_counter() - began
    hidden_QH = queries_of(model, [pair.source for pair in pairs], [pair.target for pair in pairs])
    index = store.manifest.segments[0].index
    real = source.manifest.segments[0].entries
    return {
        "entries": len(store),
        "keys": "real" if len(store) <= real else f"{real / len(store):.0%} real",
        "index": index.get("factory", "exact"),
        "effort": index.get("effort", 0),
        "recall": recall(store, Datastore.open(path, nominate="torch", verify=False), hidden_QH[:512]),
        "search_milliseconds": search_milliseconds(store, store.snapshot().query(hidden_QH)),
        "step_milliseconds": step_milliseconds(store, model, [pair.source for pair in pairs], repeats),
        "written_and_indexed_seconds": round(made, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datastore", type=Path, required=True, help="a real store")
    parser.add_argument("--data", type=Path, required=True, help="sentences to translate, with references")
    parser.add_argument("--sizes", default="10000,100000,1000000,8000000", help="entries, joined by commas")
    parser.add_argument("--folder", type=Path, help="folder for temporary stores, one at a time: 1 KB an entry")
    parser.add_argument("--limit", type=int, default=24, help="sentences")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    source = Source(arguments.datastore)
    manifest = source.manifest
    model_config = ModelConfig(
        manifest.model,
        manifest.source_lang,
        manifest.target_lang,
        arguments.precision,
        "cpu",
        key_layer=manifest.key_layer,
    )
    pairs = list(read_pairs(arguments.data, limit=arguments.limit))
    if not pairs:
        parser.error(f"{arguments.data}: has no pairs")
    data = f"{Path(*arguments.data.absolute().parts[-2:])}, {len(pairs)} sentences"
    with opened(BenchConfig(threads=arguments.threads)), tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        model = load_model(model_config)
        spread_D = neighbour_spread(Datastore.open(arguments.datastore))
        signature = f"model:{model.name}@{model.fingerprint}|precision:{arguments.precision}|k:{NEIGHBOURS}"
        report = make_report("growth", model_config, f"{data}, batch {BATCH}, beam {BEAMS}", [], signature=signature)
        report["machine"]["precision"] = arguments.precision
        for entries in map(int, arguments.sizes.split(",")):
            path = Path(folder) / str(entries)
            report["cells"].append(measure(path, source, entries, model, pairs, arguments.repeats, spread_D))
            shutil.rmtree(path)
            write_json(arguments.out, report)  # keep the sizes measured so far
    print(markdown(report))


if __name__ == "__main__":
    main()
