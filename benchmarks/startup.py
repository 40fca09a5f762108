"""How long a command takes from the shell to its first translated line, and how long a model takes to load.

    python benchmarks/startup.py --datastore data/koran/store --out benchmarks/results/bench-startup.json

Every case is a process of its own; cases take turns, after one round that is not counted. `--before SRC` adds the same
commands with the package in another checkout's folder `src`, kernels included. Python's bytecode is kept, as it is for
users. `load` is the time of load_model() in int8 for a random Marian of opus-mt's size (75 million parameters), in a
process that has imported torch and transformers; its packed weights are in the cache from the first round on. CPU
seconds are those of all threads: on a busy machine they say more than seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmt.datastore.disk.files import write_json
from nearmt.models import EMBEDDED, ModelConfig, load_model
from nearmt.research.bench.measuring import quartiles
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown

SENTENCE = "Der Hund schläft auf dem Sofa."
_IMPORTS = "import torch, transformers; from transformers import MarianMTModel, MarianTokenizer"
_LOAD = """
import sys, time
import torch, transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel, MarianTokenizer
from nearmt.models import ModelConfig, load_model
began, used = time.perf_counter(), time.process_time()
load_model(ModelConfig(sys.argv[1], precision="int8", device="cpu"))
print(time.perf_counter() - began, time.process_time() - used)
"""


@dataclass
class Case:
    """A command; `reports` says that its first line holds seconds and CPU seconds, instead of being waited for."""

    name: str
    command: Sequence[str]
    cache: Path
    source: Path | None = None
    fresh: bool = False
    reports: bool = False
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def run(self) -> tuple[float, float, str]:
        """Seconds to the first line of output, CPU seconds of the whole process, and that line."""
        if self.fresh:
            for file in self.cache.glob("*.packed"):
                file.unlink()
        environment = {**os.environ, "NEARMT_CACHE": str(self.cache)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if self.source is not None:
            environment["PYTHONPATH"] = str(self.source)
        began, used = time.perf_counter(), _children_seconds()
        quiet = subprocess.DEVNULL
        with subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=quiet, text=True, env=environment) as done:
            assert done.stdout is not None
            line = done.stdout.readline().strip()
            taken = time.perf_counter() - began
            done.stdout.read()
        if done.returncode:
            raise SystemExit(f"{self.name}: failed with exit code {done.returncode}")
        if self.reports:
            seconds, cpu_seconds = map(float, line.split())
            return seconds, cpu_seconds, ""
        return taken, _children_seconds() - used, line

    def cell(self) -> dict[str, Any]:
        return {
            "case": self.name,
            "seconds": round(statistics.median(self.seconds), 3),
            "quartiles": [round(value, 3) for value in quartiles(self.seconds)],
            "least": round(min(self.seconds), 3),
            "cpu_seconds": round(statistics.median(self.cpu_seconds), 3),
        }


def _children_seconds() -> float:
    used = os.times()
    return used.children_user + used.children_system


def cases(arguments: argparse.Namespace, folder: Path) -> list[Case]:
    text, cache, python = folder / "text.txt", folder / "cache", sys.executable
    text.write_text(SENTENCE + "\n", encoding="utf-8")
    translate = [python, "-m", "nearmt", "translate", str(text), "--device", "cpu"]
    store = ["--datastore", str(arguments.datastore)]
    found = [
        Case("import torch", [python, "-c", "import torch; print()"], cache),
        Case("import torch and transformers", [python, "-c", f"{_IMPORTS}; print()"], cache),
    ]
    sources = {"": None} | ({} if arguments.before is None else {"before: ": arguments.before})
    for prefix, source in sources.items():
        for precision in arguments.precisions.split(","):
            command = [*translate, "--precision", precision]
            found.append(Case(f"{prefix}translate, {precision}", command, cache, source))
            found.append(Case(f"{prefix}translate with a store, {precision}", [*command, *store], cache, source))
        opus = str(folder / "opus")
        found.append(Case(f"{prefix}load 75M, int8", [python, "-c", _LOAD, opus], cache, source, reports=True))
    first = [*translate, "--precision", "int8", *store]
    found.append(Case("translate with a store, int8, empty cache", first, folder / "fresh", fresh=True))
    return found


def make_opus(folder: Path) -> None:
    """A random Marian of opus-mt's size with the embedded model's subwords."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    size, embedded = 58_101, EMBEDDED["de-en"]
    vocabulary = json.loads((embedded / "vocab.json").read_bytes())
    del vocabulary["<pad>"]
    vocabulary |= {f"unused{number}": number for number in range(len(vocabulary), size - 1)} | {"<pad>": size - 1}
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    for name in ("source.spm", "target.spm", "tokenizer_config.json"):
        shutil.copyfile(embedded / name, folder / name)
    config = json.loads((embedded / "config.json").read_bytes())
    special = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    model = MarianMTModel(MarianConfig(**{**config, "vocab_size": size, "decoder_vocab_size": size, **special}))
    model.float().save_pretrained(folder)


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    make_opus(folder / "opus")
    (folder / "cache").mkdir()
    (folder / "fresh").mkdir()
    load, all_cases = os.getloadavg(), cases(arguments, folder)
    lines: dict[str, str] = {}
    for repeat in range(arguments.repeats + 1):
        for case in all_cases:
            seconds, cpu_seconds, lines[case.name] = case.run()
            if repeat:
                case.seconds.append(seconds)
                case.cpu_seconds.append(cpu_seconds)
    config = ModelConfig(device="cpu", precision="int8")
    model = load_model(config)
    manifest = json.loads((arguments.datastore / "manifest.json").read_bytes())
    return make_report(
        "startup",
        config,
        "one sentence",
        [case.cell() for case in all_cases],
        datastore={"entries": sum(segment["entries"] for segment in manifest["segments"])},
        signature=f"model:{model.name}@{model.fingerprint}",
        load_average=[round(part, 2) for part in load],
        repeats=arguments.repeats,
        lines={name: line for name, line in lines.items() if line},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datastore", type=Path, required=True, help="a store of the embedded model")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--before", type=Path, help="the folder src of another checkout")
    parser.add_argument("--precisions", default="int8,fp32")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(arguments, Path(folder))
    write_json(arguments.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
