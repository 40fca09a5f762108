"""Domains of generated text, and a runner of experiments on them with the tiny model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from nearmt.datastore import StoreConfig
from nearmt.decoding import BeamConfig
from nearmt.models import ModelConfig
from nearmt.research.experiments import (
    EXPERIMENTS,
    Artefacts,
    ExperimentConfig,
    Setup,
    WrittenReport,
    run_tasks,
    tasks_of,
    write_report,
)
from tests.conftest import make_pairs

#: Number of pairs in each part of a domain, and of general text.
DOMAIN = {"train": 30, "dev": 90, "test": 3}
GENERAL = {"dev": 60, "test": 3}
#: The smallest possible settings.
SMALL: dict[str, Any] = {
    "dev_limit": 2,
    "tune_budget": 1,
    "fine_tune_epochs": 1,
    "adaptive_updates": 1,
    "batch_size": 2,
    "examples": 2,
}


def write_folder(folder: Path, parts: dict[str, int], seed: int) -> None:
    folder.mkdir(parents=True)
    pairs = iter(make_pairs(sum(parts.values()), seed))
    for part, count in parts.items():
        lines = [f"{pair.source}\t{pair.target}\n" for pair in islice(pairs, count)]
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two domains and general text; read-only."""
    folder = tmp_path_factory.mktemp("experiments") / "data"
    write_folder(folder / "koran", DOMAIN, 1)
    write_folder(folder / "law", DOMAIN, 2)
    write_folder(folder / "news", GENERAL, 3)
    return folder


@dataclass
class Runner:
    """Runs experiments with one OUT."""

    data: Path
    out: Path
    model: str

    def artefacts(self, **changes: Any) -> Artefacts:
        config = ExperimentConfig(**{**SMALL, **changes})
        model = ModelConfig(model=self.model, device="cpu", precision="fp32")
        beam = BeamConfig(beams=2, max_new_tokens=8)
        return Artefacts(Setup(self.data, self.out, config, model, StoreConfig(), beam))

    def measure(self, name: str, **changes: Any) -> int:
        """Run an experiment; return the number of cells measured."""
        artefacts = self.artefacts(**changes)
        return run_tasks(artefacts, tasks_of(artefacts, EXPERIMENTS[name]), "nearmt experiment ...")

    def report(self, name: str, **changes: Any) -> WrittenReport:
        return write_report(self.artefacts(**changes), EXPERIMENTS[name])


MakeRunner = Callable[..., Runner]


@pytest.fixture
def make_runner(data: Path, tiny_folder: Path, tmp_path: Path) -> MakeRunner:
    def make(out: str = "out", data: Path = data) -> Runner:
        return Runner(data, tmp_path / out, str(tiny_folder))

    return make


@pytest.fixture
def runner(make_runner: MakeRunner) -> Runner:
    return make_runner()


@pytest.fixture(scope="session")
def finished(data: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """The experiment main, measured on both domains; tests that add files remove them again."""
    runner = Runner(data, tmp_path_factory.mktemp("finished") / "out", str(tiny_folder))
    assert runner.measure("main") == 16
    return runner
