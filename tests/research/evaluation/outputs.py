"""Translations of fake systems, and the command lines of sacrebleu and COMET."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

WORDS = "the a pump motor valve shaft check turn clean replace old new slowly, never. again (see below)".split()


def made_references(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 20))) for _ in range(count)]


def worsened(references: Sequence[str], share: float, seed: int) -> list[str]:
    """Replace some words of the references."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < share else word for word in text.split()) for text in references
    ]


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def sacrebleu_command(*arguments: object) -> str:
    """Return the output of `python -m sacrebleu` with these arguments."""
    command = [sys.executable, "-m", "sacrebleu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout


def sacrebleu_p_values(reference: Path, baseline: Path, system: Path) -> list[float]:
    """Return the p-values of BLEU, chrF and TER by paired bootstrap resampling, to four digits."""
    arguments = (reference, "-i", baseline, system, "-m", "bleu", "chrf", "ter", "-w", 4, "--paired-bs", "-f", "text")
    return [float(value) for value in re.findall(r"\(p = ([\d.]+)\)", sacrebleu_command(*arguments))]


#: Behaves like comet-score 2.2: its arguments, notes on stderr, a line for each system, one GPU by default.
_PROGRAM = """#!{python}
import argparse, os, pathlib, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("-s", "--sources", required=True)
parser.add_argument("-t", "--translations", nargs="+", required=True)
parser.add_argument("-r", "--references", required=True)
parser.add_argument("--gpus", type=int, default=1)
parser.add_argument("--model", default="Unbabel/wmt22-comet-da")
parser.add_argument("--quiet", action="store_true")
parser.add_argument("--only_system", action="store_true")
given = parser.parse_args()
read = lambda path: pathlib.Path(path).read_text(encoding="utf-8").split("\\n")[:-1]
sources, references = read(given.sources), read(given.references)
systems = [read(path) for path in given.translations]
assert all(len(lines) == len(sources) == len(references) for lines in systems)
print("Seed set to 1", file=sys.stderr)
if given.gpus:
    sys.exit("MisconfigurationException: No supported gpu backend found!")
{extra}
for path, lines in zip(given.translations, systems):
    right = [float(line == wanted) for line, wanted in zip(lines, references)]
    if not given.only_system:
        for number, score in enumerate(right):
            print("{{}}\\tSegment {{}}\\tscore: {{:.4f}}".format(path, number, score))
    print("{{}}\\tscore: {{:.4f}}".format(path, sum(right) / len(right)))
"""


def fake_comet(folder: Path, extra: str = "", name: str = "comet-score") -> Path:
    """Write a fake COMET program whose score is the share of perfect translations; `extra` runs first."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(_PROGRAM.format(python=sys.executable, extra=extra), encoding="utf-8")
    path.chmod(0o755)
    return path
