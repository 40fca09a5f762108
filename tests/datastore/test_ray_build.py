"""Builds on a Ray cluster; those with a real one are services tests."""

from __future__ import annotations

import builtins
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nearmt.config.building import BuildConfig
from nearmt.config.ray import RayConfig
from nearmt.contracts import Pair
from nearmt.corpus import PairStream
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.ray_build import ShardBuilder, ShardJob, build_with_ray
from nearmt.datastore.edit.shards import Corpus, fit_reduction
from nearmt.errors import DatastoreError, InputError, MissingPackageError
from nearmt.models import ModelConfig, TranslationModel
from tests.conftest import make_pairs
from tests.datastore.helpers import assert_no_strays
from tests.datastore.test_shards import bare, joined_arrays

Read = Callable[[], PairStream]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.tsv"
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in make_pairs(400, seed=7)), encoding="utf-8")
    return path


@pytest.fixture
def read(memory: Path) -> Read:
    return partial(PairStream, [memory])


@pytest.fixture
def settings(tiny_folder: Path) -> ModelConfig:
    return ModelConfig(str(tiny_folder), device="cpu", precision="fp32")


def assert_as_built_at_once(path: Path, read: Read, tiny: TranslationModel) -> None:
    whole = Datastore.build(path.with_name("whole"), read(), tiny)
    merged = Datastore.open(path, verify=True)
    assert list(merged.pairs()) == list(whole.pairs())
    assert joined_arrays(path) == joined_arrays(whole.path)
    assert bare(merged.manifest) == bare(whole.manifest)
    assert_no_strays(path)


def test_without_ray_it_is_named(
    read: Read, tiny: TranslationModel, settings: ModelConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_ray(name: str, *others: Any) -> Any:
        if name.partition(".")[0] == "ray":
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(MissingPackageError, match=r"pip install 'nearmt\[ray\]'"):
        build_with_ray(tmp_path / "store", read, tiny, settings, BuildConfig(), RayConfig())
    assert not (tmp_path / "store").exists()


def test_a_process_builds_parts_and_leaves_finished_ones_alone(
    read: Read, settings: ModelConfig, tmp_path: Path
) -> None:
    job = ShardJob(tmp_path, read, settings, BuildConfig(), Corpus.of(read()), 1, "rules")
    builder, row = ShardBuilder(job), {"number": 1}
    assert builder(row) == {"pairs": 400, "error": "", "text": ""}
    stamp = (tmp_path / "1/manifest.json").stat().st_mtime_ns
    assert builder(row) == {"pairs": 400, "error": "", "text": ""}
    assert (tmp_path / "1/manifest.json").stat().st_mtime_ns == stamp
    assert Datastore.open(tmp_path / "1").manifest.cleaning == "rules"
    assert not (tmp_path / "1.attempts").exists()


def test_a_part_that_loses_its_processes_again_and_again_ends_the_build(
    read: Read, settings: ModelConfig, tmp_path: Path
) -> None:
    job = ShardJob(tmp_path, read, settings, BuildConfig(), Corpus.of(read()), 3, "")
    (tmp_path / "2.attempts").write_text("20", encoding="ascii")
    found = ShardBuilder(job)({"number": 2})
    assert found["error"] == "DatastoreError" and "part 2/3 has lost its process 20 times" in found["text"]
    assert not (tmp_path / "2.attempts").exists()


# With a real cluster.


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU each, and a head that computes nothing."""
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        found.add_node(num_cpus=1)
    found.wait_for_nodes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", found.address)
        yield found
    found.shutdown()


@pytest.mark.services
def test_two_workers_build_what_one_process_does(
    cluster: Any, read: Read, tiny: TranslationModel, settings: ModelConfig, tmp_path: Path
) -> None:
    told: list[int] = []
    build_with_ray(
        tmp_path / "store", read, tiny, settings, BuildConfig(), RayConfig(parts=5),
        progress=lambda done, total: told.append(done),
    )  # fmt: skip
    assert_as_built_at_once(tmp_path / "store", read, tiny)
    assert len(told) == 5 and told[-1] == 400
    assert not (tmp_path / "store.parts").exists()


def writer_of(part: Path) -> int | None:
    """The process that has locked a part and written some of it."""
    if not (part / "building/segment-000001/progress.json").is_file():
        return None
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if any(link.resolve() == part / ".lock" for link in (entry / "fd").iterdir()):
                    return int(entry.name)
            except OSError:
                continue
    return None


@pytest.mark.services
def test_a_killed_worker_is_replaced_and_its_part_goes_on(
    cluster: Any, read: Read, tiny: TranslationModel, settings: ModelConfig, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill() -> None:
        parts, ends = [tmp_path / "store.parts" / str(number) for number in (1, 2, 3)], time.monotonic() + 120
        while not killed and time.monotonic() < ends:
            for part in parts:
                if (pid := writer_of(part)) is not None:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    break

    watch = threading.Thread(target=kill)
    watch.start()
    build_slowly(tmp_path / "store", read, tiny, settings)
    watch.join()
    assert killed
    assert_as_built_at_once(tmp_path / "store", read, tiny)


def build_slowly(path: Path, read: Read, tiny: TranslationModel, settings: ModelConfig) -> None:
    slow, rules = partial(slowly, read), read().signature
    build_with_ray(path, slow, tiny, settings, BuildConfig(), RayConfig(parts=3), cleaning=rules)


def slowly(read: Read) -> Iterator[Pair]:
    """A corpus that takes some seconds to read, and is written in small blocks."""
    import nearmt.datastore.disk.pairs

    nearmt.datastore.disk.pairs.BLOCK = 8
    for pair in read():
        time.sleep(0.005)
        yield pair


@pytest.mark.services
def test_a_node_that_is_lost_does_not_end_the_build(
    cluster: Any, read: Read, tiny: TranslationModel, settings: ModelConfig, tmp_path: Path
) -> None:
    lost = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()

    def remove() -> None:
        while not (tmp_path / "store.parts/2/building/segment-000001/progress.json").is_file():
            time.sleep(0.05)
        cluster.remove_node(lost, allow_graceful=False)

    watch = threading.Thread(target=remove)
    watch.start()
    build_slowly(tmp_path / "store", read, tiny, settings)
    watch.join()
    assert_as_built_at_once(tmp_path / "store", read, tiny)


def broken(read: Read) -> Iterator[Pair]:
    yield from read()
    raise InputError("the share is gone")


@pytest.mark.services
def test_errors_of_workers_are_those_of_the_build(
    cluster: Any, read: Read, tiny: TranslationModel, settings: ModelConfig, tmp_path: Path
) -> None:
    corpus, rules = Corpus.of(read()), read().signature
    fit_reduction(tmp_path / "pca", read(), tiny)
    common = (tiny, settings, BuildConfig(reduction_of=str(tmp_path / "pca")))
    store = tmp_path / "store"
    with pytest.raises(InputError, match="the share is gone"):
        build_with_ray(store, partial(broken, read), *common, RayConfig(parts=2), corpus=corpus, cleaning=rules)
    assert store.with_name("store.parts").exists() and not store.exists()
    # The number of parts stays, whatever is asked for now.
    build_with_ray(store, read, *common, RayConfig(parts=7), corpus=corpus)
    assert len(Manifest.load(store).segments) == 2
    assert_as_built_at_once(store, read, tiny)


@pytest.mark.services
def test_a_cluster_without_a_gpu(
    cluster: Any, read: Read, tiny: TranslationModel, settings: ModelConfig, tmp_path: Path
) -> None:
    config = ModelConfig(settings.model, device="cuda:0")
    with pytest.raises(DatastoreError, match="has no GPU"):
        build_with_ray(tmp_path / "store", read, tiny, config, BuildConfig(), RayConfig())
