"""Speed of building a datastore, relative to the forced decoding that it needs at least.

    python benchmarks/building.py --data train.tsv --pairs 2000 --out benchmarks/results/bench-building.json

Three variants alternate on the same pairs: forced decoding alone, with batches prepared in advance; the forward pass
of `transformers` over the same batches, without logits; and a whole build: tokenisation, keys, files, index and
calibration. Speeds are in target tokens a second.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.edit.encode import encode_block
from nearmt.engines.devices import device_of, spread
from nearmt.models import ModelConfig, TranslationModel, export_embedded, load_model
from nearmt.models.embedded import EMBEDDED
from nearmt.research.bench import BenchConfig, opened
from nearmt.research.bench.generate import load_weights
from nearmt.research.bench.measuring import quartiles
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.timing import Timings

#: Sources and targets of a batch.
Batch = tuple[list[list[int]], list[list[int]]]


def building_batches(model: TranslationModel, pairs: list[Pair]) -> list[Batch]:
    """Record the batches that a build makes of these pairs."""
    batches: list[Batch] = []
    decode = model.seq2seq.force_aligned

    def record(sources: list[list[int]], targets: list[list[int]]) -> Any:
        batches.append((list(sources), list(targets)))
        return decode(sources, targets)

    model.seq2seq.force_aligned = record  # type: ignore[method-assign, assignment]
    try:
        for _ in encode_block(model, pairs):
            pass
    finally:
        with suppress(AttributeError):
            del model.seq2seq.force_aligned
    return batches


def forced(model: TranslationModel, batches: list[Batch]) -> None:
    """Force-decode as a build does: on a CPU, batches run in parallel."""
    tasks = [partial(model.seq2seq.force_aligned, sources, targets) for sources, targets in batches]
    for _ in spread(tasks, model.seq2seq.device):
        pass
    if model.seq2seq.device.type == "cuda":
        torch.cuda.synchronize()


@torch.inference_mode()
def forward(weights: Any, model: TranslationModel, batches: list[Batch]) -> None:
    """Run the forward pass of `transformers`, without logits, which keys do not need."""
    for sources, targets in batches:
        token_BS, mask_BS = model.seq2seq.padded(sources)
        fed_BT = model.seq2seq._fed(targets)
        weights.model(input_ids=token_BS, attention_mask=mask_BS, decoder_input_ids=fed_BT, use_cache=False)
    if model.seq2seq.device.type == "cuda":
        torch.cuda.synchronize()


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and CPU seconds of all threads."""
    began, used = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began, time.process_time() - used


def compare(
    model: TranslationModel, weights: Any | None, pairs: list[Pair], repeats: int, folder: Path
) -> dict[str, Any]:
    """Time the three variants; another one begins in each repeat."""
    batches = building_batches(model, pairs)
    tokens = sum(len(target) for _, targets in batches for target in targets)
    timings = Timings()

    def build() -> None:
        with timings.active():
            Datastore.build(folder / "store", pairs, model, overwrite=True)

    variants: dict[str, Callable[[], object]] = {"forced": lambda: forced(model, batches), "building": build}
    if weights is not None:
        variants["transformers"] = lambda: forward(weights, model, batches)
    taken: dict[str, list[float]] = {name: [] for name in variants}
    used: dict[str, list[float]] = {name: [] for name in variants}
    for repeat in range(repeats):
        names = list(variants)
        for name in [*names[repeat % len(names) :], *names[: repeat % len(names)]]:
            for measured, value in zip((taken, used), seconds(variants[name]), strict=True):
                measured[name].append(value)
    ratios, cpu_ratios = (
        [alone / whole for alone, whole in zip(measured["forced"], measured["building"], strict=True)]
        for measured in (taken, used)
    )
    return {
        "precision": model.seq2seq.precision,
        "batch_tokens": device_of(model.seq2seq.device).forced_tokens,
        "tokens": tokens,
        **{name: round(tokens / statistics.median(times), 1) for name, times in taken.items()},
        "ratio": round(statistics.median(ratios), 3),
        "ratio_quartiles": [round(ratio, 3) for ratio in quartiles(ratios)],
        # By CPU seconds, which other load on the machine changes less.
        "cpu_ratio": round(statistics.median(cpu_ratios), 3),
        # Timers of one build, longest first.
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
    config = ModelConfig(arguments.model, device=arguments.device)
    data = f"{Path(*arguments.data.absolute().parts[-2:])}, {len(pairs):,} pairs"
    return make_report("building", config, data, cells, repeats=arguments.repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="pairs to build from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=2000, help="number of pairs to use")
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
