"""Shared fixtures: one tiny model folder, one datastore, made once a run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

import tests.interpreter  # noqa: F401
from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.search import similar
from nearmt.engines.cpu import kernels
from nearmt.engines.reference import integer
from nearmt.models import ModelConfig, TranslationModel, load_model
from tests.index.toy_milvus import ToyMilvus
from tests.tiny import WORDS, tiny_marian_folder

# How long an example takes depends on what else the machine does, and says nothing about the code.
settings.register_profile("nearmt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nearmt")

# Tests of the cache name a folder of their own; all others leave the user's alone.
os.environ["NEARMT_CACHE"] = "off"

# A memory of a thousand pairs would take minutes to build: in tests ten are enough to tell what is familiar.
similar.FEWEST_PAIRS = 10

# Where tests run in the background the shell has SIGINT ignored, and so would all programs that they start.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tiny models do not gain from threads, and lose much when tests share the cores.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Whatever an earlier test has set; a process that a test forks could not use more, and would wait for them."""
    torch.set_num_threads(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that take minutes or need other programs, unless they are asked for."""
    for mark in ("slow", "services"):
        if mark not in config.getoption("markexpr"):
            config.hook.pytest_deselected(items=[item for item in items if mark in item.keywords])
            items[:] = [item for item in items if mark not in item.keywords]


def pytest_report_header() -> str:
    return f"seed of campaigns: {_campaign_seed()} (NEARMT_SEED)"


def _campaign_seed() -> int:
    return int(os.environ.get("NEARMT_SEED", "2"))


@pytest.fixture
def campaign_seed() -> int:
    """What the slow campaigns draw from: `make torture` gives a fresh one each time, and prints it."""
    return _campaign_seed()


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a processor that has no kernels."""

    cached = kernels, integer._kernel

    def forget() -> None:
        for function in cached:
            function.cache_clear()

    with monkeypatch.context() as patch:
        patch.setenv("NEARMT_NO_KERNELS", "1")
        forget()
        yield
    forget()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_marian_folder(tmp_path_factory.mktemp("tiny-marian"))


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> TranslationModel:
    """A tiny Marian model with a tokenizer, on the CPU in fp32."""
    return load_model(ModelConfig(model=str(tiny_folder), device="cpu", precision="fp32"))


def make_pairs(count: int, seed: int = 0) -> list[Pair]:
    """Sentences of the tiny vocabulary; sources and targets need not mean the same."""
    generator = torch.Generator().manual_seed(seed)

    def sentence() -> str:
        length = int(torch.randint(2, 9, (1,), generator=generator))
        return " ".join(WORDS[i] for i in torch.randint(0, len(WORDS), (length,), generator=generator).tolist())

    return [Pair(source=sentence(), target=sentence(), origin="made") for _ in range(count)]


@pytest.fixture(scope="session")
def tiny_pairs() -> list[Pair]:
    return make_pairs(60)


@pytest.fixture(scope="session")
def tiny_store(tiny: TranslationModel, tiny_pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory) -> Datastore:
    """A datastore of 60 pairs with the tiny model."""
    return Datastore.build(tmp_path_factory.mktemp("stores") / "store", tiny_pairs, tiny)


@pytest.fixture(scope="session")
def embedded() -> TranslationModel:
    """The embedded model, fp32 on the CPU: for tests marked `embedded`."""
    return load_model(ModelConfig(device="cpu", precision="fp32"))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ToyMilvus:
    """What stands for all Milvus servers."""
    toy = ToyMilvus()
    for module in ("nearmt.index.milvus", "nearmt.datastore.search.index_store"):
        monkeypatch.setattr(f"{module}.connect", lambda address: toy)
    monkeypatch.setattr("nearmt.index.milvus._POLL", 0.001)
    monkeypatch.setattr("nearmt.index.milvus._PAUSE", 0.0)
    monkeypatch.setattr("nearmt.index.milvus._OPENED", {})
    return toy
