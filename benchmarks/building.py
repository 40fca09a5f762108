"""What building a datastore costs beside the forced decoding that it cannot do without.

    python benchmarks/building.py --data train.tsv --pairs 2000 --out benchmarks/results/bench-building.json

Three ways take turns on the same pairs: forced decoding alone, of batches that were made before the clock started
(the floor); `transformers`' own forward pass over the same batches, without logits; and a whole build: reading
text, tokens, keys, files, index, and what a store measures of itself. Speeds are target tokens a second.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.edit.encode import BATCH_TOKENS, encode_block
from nearmt.models import ModelConfig, TranslationModel, export_embedded, load_model
from nearmt.models.embedded import EMBEDDED
from nearmt.research.bench import BenchConfig, opened
from nearmt.research.bench.generate import load_weights
from nearmt.research.bench.measuring import quartiles
from nearmt.research.bench.tables import markdown
from nearmt.research.experiments.machine import describe_commit, describe_machine
from nearmt.threads import spread
from nearmt.timing import Timings

#: Sources and targets of the pairs that are decoded together.
Batch = tuple[list[list[int]], list[list[int]]]


def made_batches(model: TranslationModel, pairs: list[Pair]) -> list[Batch]:
    """The batches that building makes of these pairs."""
    batches: list[Batch] = []
    decode = model.seq2seq.force_decode

    def note(sources: list[list[int]], targets: list[list[int]]) -> Any:
        batches.append((list(sources), list(targets)))
        return decode(sources, targets)

    model.seq2seq.force_decode = note  # type: ignore[method-assign, assignment]
    try:
        for _ in encode_block(model, pairs):
            pass
    finally:
        with suppress(AttributeError):
            del model.seq2seq.force_decode
    return batches


def forced(model: TranslationModel, batches: list[Batch]) -> None:
    """As building does it: on a CPU batches side by side."""
    tasks = [partial(model.seq2seq.force_decode, sources, targets) for sources, targets in batches]
    for _ in spread(tasks, model.seq2seq.device):
        pass
    if model.seq2seq.device.type == "cuda":
        torch.cuda.synchronize()


@torch.inference_mode()
def forward(weights: Any, model: TranslationModel, batches: list[Batch]) -> None:
    """The same pass by `transformers` itself; the layers only, as keys need no logits."""
    for sources, targets in batches:
        token_BS, mask_BS = model.seq2seq.padded(sources)
        fed_BT = model.seq2seq._fed(targets)
        weights.model(input_ids=token_BS, attention_mask=mask_BS, decoder_input_ids=fed_BT, use_cache=False)
    if model.seq2seq.device.type == "cuda":
        torch.cuda.synchronize()


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def compare(
    model: TranslationModel, weights: Any | None, pairs: list[Pair], repeats: int, folder: Path
) -> dict[str, Any]:
    """Speeds of the three ways, who begins changing from repeat to repeat."""
    batches = made_batches(model, pairs)
    tokens = sum(len(target) for _, targets in batches for target in targets)
    timings = Timings()

    def build() -> None:
        with timings.active():
            Datastore.build(folder / "store", pairs, model, overwrite=True)

    ways: dict[str, Callable[[], object]] = {"forced": lambda: forced(model, batches), "building": build}
    if weights is not None:
        ways["transformers"] = lambda: forward(weights, model, batches)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats):
        names = list(ways)
        for name in [*names[repeat % len(names) :], *names[: repeat % len(names)]]:
            taken[name].append(seconds(ways[name]))
    ratios = [alone / whole for alone, whole in zip(taken["forced"], taken["building"], strict=True)]
    return {
        "precision": model.seq2seq.precision,
        "batch_tokens": BATCH_TOKENS.get(model.seq2seq.device.type, BATCH_TOKENS["cpu"]),
        "tokens": tokens,
        **{name: round(tokens / statistics.median(times), 1) for name, times in taken.items()},
        "ratio": round(statistics.median(ratios), 3),
        "ratio_quartiles": [round(ratio, 3) for ratio in quartiles(ratios)],
        # Of one build, the most first: where what is beside forced decoding goes.
        "build_seconds": {name: round(spent / repeats, 3) for name, spent, _ in timings.rows()},
        "signature": f"model:{model.name}@{model.fingerprint}|precision:{model.seq2seq.precision}",
    }


def run(pairs: list[Pair], arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    cells = []
    exported = arguments.model
    if arguments.model in EMBEDDED:
        exported = str(folder / "exported")
        export_embedded(arguments.model, folder / "exported")
    for precision in arguments.precisions.split(","):
        model = load_model(ModelConfig(arguments.model, precision=precision, device=arguments.device))
        weights = None if precision == "int8" else load_weights(exported, precision, model.seq2seq.device)
        cells.append(compare(model, weights, pairs, arguments.repeats, folder))
    machine = describe_machine(ModelConfig(arguments.model, device=arguments.device))
    del machine["precision"]
    return {
        "benchmark": "building",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": describe_commit(),
        "machine": machine,
        "data": f"{Path(*arguments.data.absolute().parts[-2:])}, {len(pairs):,} pairs",
        "repeats": arguments.repeats,
        "cells": cells,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="pairs to build from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=2000, help="use only the first")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precisions", default="fp32,bf16,int8")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    pairs = list(read_pairs(arguments.data, limit=arguments.pairs))
    if not pairs:
        parser.error(f"{arguments.data}: has no pairs")
    with opened(BenchConfig(threads=arguments.threads)), tempfile.TemporaryDirectory() as folder:
        report = run(pairs, arguments, Path(folder))
    write_json(arguments.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
