"""Domains of made-up text, and a way to run an experiment on them with the tiny model."""

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
    ExperimentConfig,
    Setup,
    Workshop,
    Written,
    run_tasks,
    tasks_of,
    write_report,
)
from tests.conftest import make_pairs

#: Of a domain, and of general text: how many pairs its parts have.
DOMAIN = {"train": 30, "dev": 90, "test": 3}
GENERAL = {"dev": 60, "test": 3}
#: Everything as small as it can be.
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
    """Two domains and general text; nobody changes them."""
    folder = tmp_path_factory.mktemp("experiments") / "data"
    write_folder(folder / "koran", DOMAIN, 1)
    write_folder(folder / "law", DOMAIN, 2)
    write_folder(folder / "news", GENERAL, 3)
    return folder


@dataclass
class Laboratory:
    """Runs experiments of one OUT."""

    data: Path
    out: Path
    model: str

    def workshop(self, **changes: Any) -> Workshop:
        config = ExperimentConfig(**{**SMALL, **changes})
        model = ModelConfig(model=self.model, device="cpu", precision="fp32")
        search = BeamConfig(beams=2, max_new_tokens=8)
        return Workshop(Setup(self.data, self.out, config, model, StoreConfig(), search))

    def measure(self, name: str, **changes: Any) -> int:
        """How many cells were measured."""
        workshop = self.workshop(**changes)
        return run_tasks(workshop, tasks_of(workshop, EXPERIMENTS[name]), "nearmt experiment ...")

    def report(self, name: str, **changes: Any) -> Written:
        return write_report(self.workshop(**changes), EXPERIMENTS[name])


MakeLaboratory = Callable[..., Laboratory]


@pytest.fixture
def make_laboratory(data: Path, tiny_folder: Path, tmp_path: Path) -> MakeLaboratory:
    def make(out: str = "out", data: Path = data) -> Laboratory:
        return Laboratory(data, tmp_path / out, str(tiny_folder))

    return make


@pytest.fixture
def laboratory(make_laboratory: MakeLaboratory) -> Laboratory:
    return make_laboratory()


@pytest.fixture(scope="session")
def finished(data: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """The experiment main, measured on both domains; whoever adds to it removes that again."""
    laboratory = Laboratory(data, tmp_path_factory.mktemp("finished") / "out", str(tiny_folder))
    assert laboratory.measure("main") == 16
    return laboratory
