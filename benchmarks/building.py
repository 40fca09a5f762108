"""Speed of building a datastore, relative to the forced decoding that it needs at least.

    python benchmarks/building.py --data train.tsv --pairs 2000 --out benchmarks/results/bench-building.json

Three variants alternate on the same pairs: forced decoding alone, with batches prepared in advance; the forward pass
of `transformers` over the same batches, without logits (`--transformers`); and a whole build: reading, tokenisation,
keys, files, index and calibration. Speeds are in target tokens a second. Loading and a first build of a few pairs are
not measured. `--stages` also measures parts of a build alone: reading, preparing (tokens and words), and encoding
(forced decoding, reduction, copies to main memory).
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.edit import build as building
from nearmt.datastore.edit.encode import Encoder, encode_blocks, processes
from nearmt.datastore.edit.preparing import PreparedPairs, Preparers
from nearmt.datastore.edit.pretrained import pretrained_reduction
from nearmt.engines.devices import DEVICES, device_of, spread
from nearmt.models import ModelConfig, TranslationModel, export_embedded, load_model
from nearmt.models.embedded import EMBEDDED
from nearmt.models.forced import ForcedPairs
from nearmt.research.bench import BenchConfig, opened
from nearmt.research.bench.generate import load_weights
from nearmt.research.bench.measuring import quartiles
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.timing import Timings

#: Pairs of a first build, and batches of a first pass, that are not measured.
_WARM_UP = 64
_WARM_BATCHES = 8
#: Rows of the profiler's tables.
_ROWS = 25

Read = Callable[[], Iterator[Pair]]


def building_batches(model: TranslationModel, blocks: list[list[Pair]]) -> list[ForcedPairs]:
    """The batches that a build makes of these pairs."""
    encoder, device = Encoder(model, None), model.seq2seq.device
    batches: list[ForcedPairs] = []
    with Preparers(encoder.prepare, iter(blocks), processes(device)) as preparers:
        prepared = iter(preparers)
        while parts := list(islice(prepared, device_of(device).forced_blocks)):
            block = encoder.begun(parts)
            batches += [block.prepared.forced.take(batch) for batch in block.batches]
    return batches


def forced(model: TranslationModel, batches: list[ForcedPairs]) -> None:
    """Force-decode as a build does: on a CPU, batches run in parallel."""
    for _ in spread([partial(model.seq2seq.force_entries, batch) for batch in batches], model.seq2seq.device):
        pass
    synchronise(model)


def synchronise(model: TranslationModel) -> None:
    if model.seq2seq.device.type == "cuda":
        torch.cuda.synchronize()


@torch.inference_mode()
def forward(weights: Any, model: TranslationModel, batches: list[ForcedPairs]) -> None:
    """Run the forward pass of `transformers`, without logits, which keys do not need."""
    own = model.seq2seq
    for batch in batches:
        token_BS, mask_BS = own.padded([row.tolist() for row in batch.source.rows()])
        fed_BT = own.sent(batch.fed(own.prompt, own.pad_id))
        weights.model(input_ids=token_BS, attention_mask=mask_BS, decoder_input_ids=fed_BT, use_cache=False)
    synchronise(model)


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and CPU seconds of all threads."""
    began, used = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began, time.process_time() - used


def compare(
    model: TranslationModel, weights: Any | None, read: Read, arguments: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """Time the variants; another one begins in each repeat."""
    began = time.perf_counter()
    blocks = list(blocks_of(with_ids(read())))
    reading = time.perf_counter() - began
    batches = building_batches(model, blocks)
    tokens = sum(int(batch.target.length_R.sum()) for batch in batches)
    timings, pairs_seconds, steady = Timings(), list[float](), list[float]()
    count = sum(map(len, blocks))

    def build() -> None:
        told: list[tuple[float, int]] = []
        with timings.active(), timed_pairs(pairs_seconds):
            progress = lambda done, total: told.append((time.perf_counter(), done))  # noqa: E731
            Datastore.build(folder / "store", read(), model, overwrite=True, progress=progress)
        steady.append(steady_speed(told, tokens / count))

    variants: dict[str, Callable[[], object]] = {"forced": lambda: forced(model, batches), "building": build}
    if weights is not None:
        variants["transformers"] = lambda: forward(weights, model, batches)
    warm_up(model, blocks, batches, folder)
    taken, used = alternated(variants, arguments.repeats)
    cell = cell_of(model, batches, taken, used)
    # From the first pair that is read to the last that is written: without index, calibration and checks.
    cell["pairs"] = round(cell["tokens"] / statistics.median(pairs_seconds), 1)
    # The same for the last three quarters of the pairs: without starting processes.
    cell["pairs_steady"] = round(statistics.median(steady), 1)
    # Timers of one build, longest first.
    cell["build_seconds"] = {name: round(spent / arguments.repeats, 3) for name, spent, _ in timings.rows()}
    if arguments.stages:
        cell["stages"] = stages(model, blocks, cell["tokens"], reading)
    cell["peak_megabytes"] = peak_megabytes(model)
    cell["store_bytes"] = sum(file.stat().st_size for file in (folder / "store").rglob("*") if file.is_file())
    return cell


def cell_of(
    model: TranslationModel, batches: list[ForcedPairs], taken: dict[str, list[float]], used: dict[str, list[float]]
) -> dict[str, Any]:
    """Speeds of the variants by their seconds, and what a build reaches of forced decoding."""
    tokens = sum(int(batch.target.length_R.sum()) for batch in batches)
    ratios, cpu_ratios = (
        [alone / whole for alone, whole in zip(measured["forced"], measured["building"], strict=True)]
        for measured in (taken, used)
    )
    return {
        "precision": model.seq2seq.precision,
        "batch_tokens": device_of(model.seq2seq.device).forced_tokens,
        "batches": len(batches),
        "padding": padding_of(batches),
        "tokens": tokens,
        **{name: round(tokens / statistics.median(times), 1) for name, times in taken.items()},
        "ratio": round(statistics.median(ratios), 3),
        "ratio_quartiles": [round(ratio, 3) for ratio in quartiles(ratios)],
        # By CPU seconds, which other load on the machine changes less.
        "cpu_ratio": round(statistics.median(cpu_ratios), 3),
        "signature": f"model:{model.name}@{model.fingerprint}|precision:{model.seq2seq.precision}",
    }


def alternated(
    variants: dict[str, Callable[[], object]], repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds and CPU seconds of each variant."""
    taken: dict[str, list[float]] = {name: [] for name in variants}
    used: dict[str, list[float]] = {name: [] for name in variants}
    for repeat in range(repeats):
        names = list(variants)
        for name in [*names[repeat % len(names) :], *names[: repeat % len(names)]]:
            for measured, value in zip((taken, used), seconds(variants[name]), strict=True):
                measured[name].append(value)
    return taken, used


def warm_up(model: TranslationModel, blocks: list[list[Pair]], batches: list[ForcedPairs], folder: Path) -> None:
    """Load what is loaded on first use, and let a GPU allocate memory."""
    began = time.perf_counter()
    forced(model, batches[:: max(1, len(batches) // _WARM_BATCHES)])
    Datastore.build(folder / "store", blocks[0][:_WARM_UP], model, overwrite=True)
    print(f"warm-up: {time.perf_counter() - began:.1f} s", flush=True)


def steady_speed(told: list[tuple[float, int]], tokens_each: float) -> float:
    """Tokens a second of the last three quarters of a build's pairs."""
    later = [(when, done) for when, done in told if 4 * done >= told[-1][1]]
    (began, first), (ended, last) = later[0], later[-1]
    return tokens_each * (last - first) / max(1e-9, ended - began)


@contextmanager
def timed_pairs(found: list[float]) -> Iterator[None]:
    """Tell how long the pairs of a build take."""
    real = building.write_pairs

    def write_pairs(*given: Any) -> None:
        began = time.perf_counter()
        real(*given)
        found.append(time.perf_counter() - began)

    with mock.patch.object(building, "write_pairs", write_pairs):
        yield


def stages(model: TranslationModel, blocks: list[list[Pair]], tokens: int, reading: float) -> dict[str, float]:
    """Tokens a second of parts of a build alone."""
    reduction = pretrained_reduction(model)
    assert reduction is not None
    reduction = reduction.to(model.seq2seq.device)
    device = model.seq2seq.device
    prepared: list[tuple[list[Pair], PreparedPairs]] = []

    def prepare() -> None:
        with Preparers(Encoder(model, reduction).prepare, iter(blocks), processes(device)) as preparers:
            for made in preparers:
                prepared.append(made)
                preparers.read_ahead()

    def encode() -> None:
        ready = iter([made for _, made in prepared])

        def task(self: Preparers, block: list[Pair]) -> Callable[[], PreparedPairs]:
            made = next(ready)
            return lambda: made

        with mock.patch.object(Preparers, "_task", task):
            for _ in encode_blocks(model, iter(blocks), reduction):
                pass

    preparing, encoding = seconds(prepare)[0], seconds(encode)[0]
    found = {"reading": reading, "preparing": preparing, "encoding": encoding}
    return {name: round(tokens / spent, 1) for name, spent in found.items()}


def padding_of(batches: list[ForcedPairs]) -> float:
    """The share of positions that are padding."""
    whole = sum(len(b.source) * int(rows.length_R.max()) for b in batches for rows in (b.source, b.target))
    return round(1 - sum(int(rows.length_R.sum()) for b in batches for rows in (b.source, b.target)) / whole, 3)


def peak_megabytes(model: TranslationModel) -> dict[str, int]:
    """The most memory that the program took so far, in the machine and on the GPU."""
    peak = {"machine": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}
    if model.seq2seq.device.type == "cuda":
        peak["gpu"] = torch.cuda.max_memory_allocated() >> 20
    return peak


def profiled(model: TranslationModel, batches: list[ForcedPairs]) -> None:
    """Print what a few batches of the middle cost."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = model.seq2seq.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    middle = batches[len(batches) // 2 :][:3]
    began = time.perf_counter()
    forced(model, middle)
    tokens = sum(int(batch.target.length_R.sum()) for batch in middle)
    print(f"profiled: {len(middle)} batches, {tokens} tokens, {time.perf_counter() - began:.4f} s without profiler")
    for batch in middle:
        shape = len(batch.source), int(batch.source.length_R.max()), int(batch.target.length_R.max())
        began = time.perf_counter()
        model.seq2seq.force_entries(batch)
        launched = time.perf_counter() - began
        synchronise(model)
        print(
            f"pairs, source, target {shape}: started in {launched:.4f} s, done in {time.perf_counter() - began:.4f} s"
        )
    with profile(activities=activities) as profiler:
        forced(model, middle)
    averages = profiler.key_averages()
    # The name depends on the version of torch.
    on_device = "self_device_time_total" if hasattr(averages[0], "self_device_time_total") else "self_cuda_time_total"
    orders = (on_device, "self_cpu_time_total") if on_gpu else ("self_cpu_time_total",)
    for order in orders:
        print(averages.table(sort_by=order, row_limit=_ROWS, max_name_column_width=60), flush=True)


def run(read: Read, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    cells = []
    exported = arguments.model
    if arguments.model in EMBEDDED and arguments.transformers:
        exported = str(folder / "exported")
        export_embedded(arguments.model, folder / "exported")
    for precision in arguments.precisions.split(","):
        began = time.perf_counter()
        model = load_model(ModelConfig(arguments.model, precision=precision, device=arguments.device))
        print(f"{precision}: loaded in {time.perf_counter() - began:.1f} s", flush=True)
        with_weights = arguments.transformers and precision != "int8"
        weights = load_weights(exported, precision, model.seq2seq.device) if with_weights else None
        cells.append(compare(model, weights, read, arguments, folder))
        print(json.dumps(cells[-1], indent=1), flush=True)
        if arguments.profile:
            profiled(model, building_batches(model, list(islice(blocks_of(with_ids(read())), 16))))
    config = ModelConfig(arguments.model, device=arguments.device)
    names = ", ".join(str(Path(*path.absolute().parts[-2:])) for path in arguments.data)
    data = f"{names}, {arguments.pairs:,} pairs" if arguments.pairs else names
    return make_report("building", config, data, cells, repeats=arguments.repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="pairs to build from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=2000, help="number of pairs to use, 0 for all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precisions", default="fp32,bf16,int8")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--transformers", action="store_true", help="compare with the forward pass of transformers")
    parser.add_argument("--stages", action="store_true", help="measure parts of a build alone")
    parser.add_argument("--profile", action="store_true", help="print what a few batches of forced decoding cost")
    parser.add_argument("--batch-tokens", type=int, help="source and target tokens of a batch, padding included")
    parser.add_argument("--folder", type=Path, help="where datastores are built, instead of the temporary folder")
    arguments = parser.parse_args()

    def read() -> Iterator[Pair]:
        return iter(read_pairs(*arguments.data, limit=arguments.pairs or None))

    if next(read(), None) is None:
        parser.error(f"{arguments.data[0]}: has no pairs")
    devices = DEVICES if arguments.batch_tokens is None else {
        name: replace(device, forced_tokens=arguments.batch_tokens) for name, device in DEVICES.items()
    }  # fmt: skip
    with (
        opened(BenchConfig(threads=arguments.threads)),
        tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
        mock.patch.dict(DEVICES, devices),
    ):
        report = run(read, arguments, Path(folder))
    write_json(arguments.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
