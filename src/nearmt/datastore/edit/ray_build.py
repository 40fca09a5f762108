"""A build in parts that Ray Data spreads over the processes of a cluster; a lost process is replaced.

Every part is built by `build_shard` in `DIR.parts/I`, on a file system that all machines share. When its process is
lost, another one continues it. At the end the parts are merged and removed.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt import errors
from nearmt.config.building import BuildConfig
from nearmt.config.model import ModelConfig
from nearmt.config.ray import RayConfig
from nearmt.config.shard import Shard
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.edit.build import check_free
from nearmt.datastore.edit.merge_shards import merge_shards
from nearmt.datastore.edit.reductions import known_reduction
from nearmt.datastore.edit.shards import Corpus, build_shard, fit_reduction, signature_of
from nearmt.errors import DatastoreError, MissingPackageError, NearmtError, writing
from nearmt.models import TranslationModel, load_model

#: Parts per process: the last ones are short, and what a lost process had not written is little.
_PARTS = 4
#: How often a part is begun before the build fails: its processes may be lost because of the part.
_ATTEMPTS = 20


@dataclass(frozen=True)
class ShardJob:
    """What all parts of a build have in common; it is sent to every process."""

    folder: Path
    #: Reads the corpus; has to be known to the processes, such as a `functools.partial` of a reader.
    read: Callable[[], Any]
    model: ModelConfig
    config: BuildConfig
    corpus: Corpus
    count: int
    cleaning: str

    def part(self, number: int) -> Path:
        return self.folder / str(number)


class ShardBuilder:
    """Builds parts in one process of a cluster, with a model that is loaded once."""

    def __init__(self, job: ShardJob) -> None:
        self._job = job
        self._model: TranslationModel | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """`row` has the number of a part; returns the number of pairs, or the name and the text of an error."""
        shard = Shard(int(row["number"]), self._job.count)
        try:
            with _attempt(self._job.folder / f"{shard.number}.attempts", shard):
                return {"pairs": self._build(self._job, shard), "error": "", "text": ""}
        except NearmtError as error:  # Ray would wrap it in errors of its own
            return {"pairs": 0, "error": type(error).__name__, "text": str(error)}

    def _build(self, job: ShardJob, shard: Shard) -> int:
        if self._model is None:
            self._model = load_model(job.model)
        manifest = build_shard(
            job.part(shard.number),
            job.read,
            self._model,
            shard,
            job.config,
            corpus=job.corpus,
            overwrite=True,  # a part of another corpus
            cleaning=job.cleaning,
        )
        return manifest.pairs


@contextmanager
def _attempt(record: Path, shard: Shard) -> Iterator[None]:
    """Count attempts in a file, which is removed when one ends, whether with an error or not."""
    attempts = 1 + (int(record.read_text(encoding="ascii")) if record.exists() else 0)
    try:
        if attempts > _ATTEMPTS:
            raise DatastoreError(f"part {shard} has lost its process {_ATTEMPTS} times; is there enough memory for it?")
        with writing(record):
            record.write_text(str(attempts), encoding="ascii")
        yield
    finally:
        record.unlink(missing_ok=True)


def build_with_ray(
    path: Path,
    read: Callable[[], Any],
    model: TranslationModel,
    model_config: ModelConfig,
    config: BuildConfig,
    ray_config: RayConfig,
    *,
    corpus: Corpus | None = None,
    overwrite: bool = False,
    cleaning: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the datastore `path` on a Ray cluster: that of RAY_ADDRESS, or one on this machine.

    `model` is the model of `model_config` in this process. The same call continues a build that was interrupted.
    """
    import_ray()
    check_free(path, overwrite)
    cleaning = signature_of(read) if cleaning is None else cleaning
    folder = path.with_name(path.name + ".parts").absolute()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if known_reduction(model, config) is None:
        fit_reduction(folder / "reduction", _pairs(read), model, overwrite=True, cleaning=cleaning)
        config = dataclasses.replace(config, fit_reduction=False, reduction_of=str(folder / "reduction"))
    elif config.reduction_of is not None:
        config = dataclasses.replace(config, reduction_of=str(Path(config.reduction_of).absolute()))
    corpus = corpus or Corpus.of(_pairs(read))
    with _cluster() as ray:
        model_config, workers, resources = _resources(ray, model_config, ray_config)
        count = _count(folder, corpus, ray_config.parts or _PARTS * workers)
        job = ShardJob(folder, read, model_config, config, corpus, count, cleaning)
        _build_parts(ray, job, workers, resources, progress)
    parts = [job.part(number) for number in range(1, job.count + 1)]
    manifest = merge_shards(path, parts, model, config.index, overwrite=overwrite)
    with writing(folder):
        shutil.rmtree(folder)
    return manifest


def _count(folder: Path, corpus: Corpus, wanted: int) -> int:
    """The number of parts: that of an unfinished build of the same corpus, however many processes there are now."""
    plan = folder / "plan.json"
    try:
        known = json.loads(plan.read_bytes())
        if known["digest"] == corpus.digest and isinstance(known["parts"], int):
            return max(1, known["parts"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    write_json(plan, {"digest": corpus.digest, "parts": wanted})
    return wanted


def _pairs(read: Callable[[], Any]) -> Iterator[Pair]:
    yield from read()


def _build_parts(ray: Any, job: ShardJob, workers: int, resources: dict[str, float], progress: Progress | None) -> None:
    """Build all parts; those that are finished take no time."""
    rows = [{"number": number} for number in range(1, job.count + 1)]
    built = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        ShardBuilder,
        fn_constructor_args=(job,),
        # Idle processes end, so that one that is to replace a lost one finds room. Ray Data replaces lost ones, and
        # begins their tasks again, by itself.
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers, max_tasks_in_flight_per_actor=1),
        **resources,
    )
    done = 0
    with _explained():
        for row in built.iter_rows():
            if row["error"]:
                raise getattr(errors, row["error"], DatastoreError)(row["text"])
            done += int(row["pairs"])
            if progress:
                progress(done, job.corpus.pairs)


def _resources(ray: Any, model: ModelConfig, config: RayConfig) -> tuple[ModelConfig, int, dict[str, float]]:
    """The model's settings in the processes, how many processes there are, and what each of them gets."""
    there = ray.cluster_resources()
    on_gpu = model.device.startswith("cuda") or (model.device == "auto" and there.get("GPU", 0) > 0)
    share: dict[str, float] = {"num_cpus": 1, "num_gpus": 1} if on_gpu else {"num_cpus": 1}
    count = int(there.get("GPU" if on_gpu else "CPU", 0))
    if not count:
        raise DatastoreError(f"the Ray cluster has no {'GPU' if on_gpu else 'CPU'} to build on")
    device = "cuda" if on_gpu else "cpu"
    return dataclasses.replace(model, device=device), min(config.workers or count, count), share


def import_ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingPackageError("Ray is not installed: `pip install 'nearmt[ray]'`") from error
    return ray


@contextmanager
def _cluster() -> Iterator[Any]:
    """Ray, connected to a cluster; a cluster that was started here ends here."""
    ray = import_ray()
    ours, quiet = not ray.is_initialized(), {"logging_level": logging.ERROR, "log_to_driver": False}
    if ours and os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
    elif ours:
        ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        # Ray prints what happens to processes to standard output.
        with redirect_stdout(sys.stderr):
            yield ray
    finally:
        if ours:
            ray.shutdown()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of Ray into one line."""
    try:
        yield
    except NearmtError:
        raise
    except Exception as error:
        cause: BaseException = error
        while (inner := getattr(cause, "cause", None) or cause.__cause__) is not None:
            cause = inner
        reason = f"{type(cause).__name__}: {str(cause).strip().splitlines()[0] if str(cause).strip() else ''}"
        raise DatastoreError(f"Ray could not build all parts ({reason}); the same command goes on") from error
