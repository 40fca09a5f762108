"""Cost of adding pairs to a store of a million entries, one by one and in blocks of 250, and of the store in RAM.

    OMP_NUM_THREADS=1 python benchmarks/learning.py --out benchmarks/results/learning.json

The store has random keys with the variances of the model's reduction; added pairs are encoded by the embedded model.
Each pair is force-decoded once alone and once by `Datastore.add`, alternately. The time of the sync depends on the
disk and is reported separately. RAM is the anonymous memory (RssAnon) of a separate process, after it opens and
searches the store, and after a first translation, which builds the index of similar sources; with SQ8 and with PQ.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from segments import anonymous_bytes

from nearmt.contracts import Pair
from nearmt.datastore import Datastore, reindex
from nearmt.datastore.disk import Manifest, SegmentWriter
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.edit.encode import encode_block
from nearmt.datastore.search.indexing import index_segment
from nearmt.index.faiss import import_faiss
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.reduction import Reduction
from nearmt.research.machine import describe_commit, describe_machine
from nearmt.timing import Timings
from nearmt.translator import Translator

#: Entries of a generated pair.
SENTENCE = 30
BLOCK = 250
_WRITTEN = 60_000
_GERMAN = (
    "der Mäher die Klinge das Kabel ein Schalter wird ist nicht vor nach dem Laden Betrieb prüfen Sie den Akku".split()
)
_ENGLISH = (
    "the mower the blade the cable a switch is not before after charging running check the battery at once".split()
)


def random_pairs(count: int, seed: int, words: int = 18) -> list[Pair]:
    chance = random.Random(seed)
    texts = ([" ".join(chance.choices(side, k=words)) for side in (_GERMAN, _ENGLISH)] for _ in range(count))
    return [Pair(source, target, id=f"{seed}-{number}") for number, (source, target) in enumerate(texts)]


def random_store(path: Path, entries: int, model: TranslationModel, factory: str) -> Datastore:
    """Make a store with one sealed segment of random keys."""
    Datastore.build(path, [], model)
    manifest = Manifest.load(path)
    reduction = Reduction.load(path / manifest.reduction_name)
    deviation_D = reduction.variance_D.sqrt().numpy()
    generator = np.random.default_rng(0)
    writer = SegmentWriter(path / "segment-000001", {})
    while writer.entries + SENTENCE <= entries:
        count = min(_WRITTEN, entries - writer.entries) // SENTENCE
        key_ND = generator.standard_normal((count * SENTENCE, reduction.columns), dtype=np.float32) * deviation_D
        pairs = [dataclasses.replace(pair, id=f"{writer.pairs}-{pair.id}") for pair in random_pairs(count, 0)]
        tokens = generator.integers(10, 15_000, (count, SENTENCE)).tolist()
        writer.append(pairs, list(key_ND.astype(np.float16).reshape(count, SENTENCE, -1)), tokens, tokens, 0)
    record = index_segment(path, writer.seal(), reduction.columns, factory)
    calibration = dataclasses.replace(manifest.calibration, entries=entries, likely_weight=0.3)
    dataclasses.replace(manifest, segments=(record,), calibration=calibration).save(path)
    return Datastore.open(path)


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def encode(model: TranslationModel, pairs: list[Pair]) -> None:
    """Force-decode pairs."""
    for _ in encode_block(model, pairs):
        pass


def learn_pairs(store: Datastore, model: TranslationModel, count: int) -> dict[str, float]:
    """Median milliseconds of a pair's forced decoding alone, and of adding it until it is visible."""
    store.add(random_pairs(1, seed=1), model)  # warm-up: the first change creates files
    alone, whole, logged = [], [], []
    for pair in random_pairs(count, seed=2):
        alone.append(seconds(partial(encode, model, [pair])))
        timings = Timings()
        with timings.active():
            whole.append(seconds(partial(store.add, [pair], model)))
        logged.append(timings.seconds["store/log"])
    rest = [total - forced - log for total, forced, log in zip(whole, alone, logged, strict=True)]
    named = {"forced decoding": alone, "confirmed to visible": whole, "log and its sync": logged, "beside both": rest}
    return {name: round(1000 * statistics.median(times), 2) for name, times in named.items()}


def learn_blocks(store: Datastore, model: TranslationModel, count: int) -> dict[str, float]:
    """Seconds of adding blocks, sealing and merging included, and their ratio to forced decoding alone."""
    taken = {"alone": 0.0, "whole": 0.0}
    for number in range(count):
        block = random_pairs(BLOCK, seed=10 + number)
        variants: list[tuple[str, Callable[[], object]]] = [
            ("alone", partial(encode, model, block)),
            ("whole", partial(store.add, block, model)),
        ]
        # Alternate the order: the second variant benefits from warm caches.
        for name, action in variants if number % 2 else reversed(variants):
            taken[name] += seconds(action)
    alone, whole = taken["alone"], taken["whole"]
    return {"forced decoding": round(alone, 2), "learning": round(whole, 2), "ratio": round(whole / alone, 3)}


def next_translation(store: Datastore, model: TranslationModel, count: int) -> dict[str, float]:
    """Milliseconds of translating a sentence again, and right after a pair was added."""
    translator = Translator(model, store)
    source = random_pairs(1, seed=3)[0].source
    translator.translate(source)
    again, after = [], []
    for pair in random_pairs(count, seed=4):
        again.append(seconds(lambda: translator.translate(source)))
        store.add([pair], model)
        after.append(seconds(lambda: translator.translate(source)))
    return {
        "again": round(1000 * statistics.median(again), 1),
        "after learning": round(1000 * statistics.median(after), 1),
    }


def anonymous_an_entry(path: Path) -> dict[str, float]:
    """Anonymous bytes for each entry, measured in a separate process."""
    model = load_model(ModelConfig(device="cpu", precision="fp32"))
    # Load libraries and model before counting.
    Translator(model).translate(random_pairs(1, seed=3)[0].source)
    import_faiss()
    before = anonymous_bytes()
    store = Datastore.open(path)
    store.snapshot().search(store.snapshot().keys(torch.arange(8), store.snapshot().columns), 8)
    opened = anonymous_bytes() - before
    Translator(model, store).translate(random_pairs(1, seed=3)[0].source)
    found = {"opened": opened, "after a translation": anonymous_bytes() - before}
    return {name: round(taken / len(store), 1) for name, taken in found.items()}


def memory(path: Path) -> dict[str, float]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(anonymous_an_entry, path).result()


def memory_by_index(path: Path, product: str) -> dict[str, dict[str, float]]:
    """Measure with the store's index, and with product quantisation."""
    found = {Manifest.load(path).segments[0].index.get("factory", "exact"): memory(path)}
    reindex(path, product)
    return {**found, product: memory(path)}


def run(folder: Path, entries: int, pairs: int, blocks: int, factory: str) -> dict[str, Any]:
    model = load_model(ModelConfig(device="cpu", precision="fp32"))
    store = random_store(folder / "store", entries, model, factory)
    found = {
        "entries": entries,
        "index": store.manifest.segments[0].index.get("factory", "exact"),
        "pair_milliseconds": learn_pairs(store, model, pairs),
        "translation_milliseconds": next_translation(store, model, 10),
        "block": {"pairs": BLOCK, "blocks": blocks, **learn_blocks(store, model, blocks)},
        "segments": [record.entries for record in store.manifest.segments],
    }
    store.compact()
    return {**found, "anonymous_bytes_an_entry": memory_by_index(store.path, "IVF2048,PQ64")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=30, help="pairs learned one by one")
    parser.add_argument("--blocks", type=int, default=6, help=f"blocks of {BLOCK} pairs learned")
    parser.add_argument("--index", default="auto", help="FAISS factory string")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), arguments.entries, arguments.pairs, arguments.blocks, arguments.index)
    machine = describe_machine(ModelConfig(device="cpu"))
    write_json(arguments.out, {**found, "commit": describe_commit(), "machine": machine})
    rest, ratio = found["pair_milliseconds"]["beside both"], found["block"]["ratio"]
    print(f"without forced decoding and log: {rest} ms a pair; a block of {BLOCK}: {ratio} times its forced decoding")


if __name__ == "__main__":
    main()
