"""The systems of the paper on one domain: base, kNN-MT, chunk-based kNN-MT, and the paper's own preset.

    python benchmarks/domain.py --data DATA --domain koran --out benchmarks/results/koran.json

DATA/koran holds train.tsv (or train.tsv.xz, train.1.tsv.xz, ...) and test.tsv. Builds the datastore from
all of train, translates all of test with each system in one run, and writes scores, speeds and signatures
with commit and machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.evaluation import evaluate
from nearmt.methods import PRESETS
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.store import Datastore
from nearmt.translator import Translator

#: Name, method, settings beside the common ones.
SYSTEMS: list[tuple[str, str, dict[str, Any]]] = [
    ("base", "plain", {}),
    ("knn", "knn", {}),
    ("chunk", "chunk", {}),
    ("paper", "chunk", dict(PRESETS["paper"])),
]
KNN_SETTINGS = {"lambda", "temperature", "k"}


def main() -> None:
    arguments = parse()
    model = load_model(ModelConfig(precision=arguments.precision, device=arguments.device))
    folder = arguments.data / arguments.domain
    test = list(read_pairs(folder / "test.tsv", limit=arguments.limit))
    with tempfile.TemporaryDirectory() as work:
        store, build_seconds = arguments.store or Path(work) / "store", None
        if not store.exists():
            started = time.perf_counter()
            Datastore.build(store, read_pairs(*sorted(folder.glob("train*"))), model)
            build_seconds = round(time.perf_counter() - started, 1)
        datastore = Datastore.open(store, search=arguments.search, device=str(model.seq2seq.device))
        systems = {name: run(name, arguments, model, datastore, test) for name, _, _ in SYSTEMS}
        result = {
            "command": command(arguments),
            "commit": arguments.commit or commit(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(model),
            # Speeds of a run that shared its machine mean nothing, not even as ratios.
            "speeds_count": not arguments.side_by_side,
            "domain": arguments.domain,
            "train_pairs": datastore.manifest.pairs,
            "entries": len(datastore),
            "build_seconds": build_seconds,
            "index": [segment.index for segment in datastore.manifest.segments],
            "calibration": dataclasses.asdict(datastore.manifest.calibration),
            "systems": systems,
        }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def run(
    name: str, arguments: argparse.Namespace, model: TranslationModel, datastore: Datastore, test: list[Pair]
) -> dict[str, Any]:
    _, method, own = next(system for system in SYSTEMS if system[0] == name)
    common = {key: float(value) for key, value in (item.split("=") for item in arguments.set)}
    allowed = {"plain": set(), "knn": KNN_SETTINGS}.get(method, set(common))
    settings = {**{key: value for key, value in common.items() if key in allowed}, **own}
    translator = Translator(model, None if method == "plain" else datastore, method, settings, batch_size=8)
    # One short translation first, so that nobody pays for warming up.
    translator.translate([pair.source for pair in test[:2]])
    result, _ = evaluate(translator, test)
    print(name, "BLEU", result.bleu, "chrF", result.chrf, "tokens/s", result.tokens_per_second, flush=True)
    return dataclasses.asdict(result)


def machine(model: TranslationModel) -> dict[str, Any]:
    device = model.seq2seq.device
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def command(arguments: argparse.Namespace) -> str:
    """The command line, with names instead of this machine's paths."""
    paths = {str(arguments.data): "DATA", str(arguments.store): "STORE", str(arguments.out): arguments.out.name}
    return " ".join(["python benchmarks/domain.py", *(paths.get(word, word) for word in sys.argv[1:])])


def commit() -> str:
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--domain", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--store", type=Path, help="build here, or use what is here, instead of a temporary folder")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--search", default="auto")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--commit", help="of the code, where git cannot be asked")
    parser.add_argument(
        "--side-by-side", action="store_true", help="other work runs on this machine: speeds do not count"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, e.g. lambda=0.7")
    return parser.parse_args()


if __name__ == "__main__":
    main()
