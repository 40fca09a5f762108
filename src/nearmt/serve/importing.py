"""Jobs that change or check a memory: import, compact, verify."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from nearmt.contracts import Pair, Progress
from nearmt.corpus import LimitsConfig, PairStream, Report, read_pairs
from nearmt.corpus.formats import READERS
from nearmt.corpus.unpacking import COMPRESSED, inner_suffix
from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.edit.build import build
from nearmt.datastore.upkeep.verify import verify
from nearmt.errors import InputError, NearmtError, did_you_mean
from nearmt.models import TranslationModel
from nearmt.opening import BUILDING
from nearmt.serve.config import ServeConfig
from nearmt.serve.errors import Busy
from nearmt.serve.jobs import Job, JobRun, Jobs
from nearmt.serve.keys import Principal
from nearmt.serve.memories import Memories
from nearmt.serve.uploads import safe_name, save

#: Pairs that are added at a time: others change the memory in between.
_BLOCK = 256
#: Seconds after which a job that waits for a memory looks whether it is still wanted.
_LOOK = 1.0
#: Problems of a file that are told.
_TOLD = 20


@dataclass(frozen=True)
class ImportRequest:
    """A file to import."""

    memory: str
    filename: str
    #: The suffix of a format that the name does not say.
    format: str | None = None
    source_lang: str | None = None
    target_lang: str | None = None


class MemoryJobs:
    """Begins and does the jobs of memories."""

    def __init__(self, config: ServeConfig, jobs: Jobs, memories: Memories) -> None:
        self._config, self._jobs, self._memories = config, jobs, memories
        jobs.register("import", self._import, self._clean_up)
        jobs.register("compact", self._compact)
        jobs.register("verify", self._verify)

    def import_file(self, principal: Principal, request: ImportRequest, stream: BinaryIO) -> Job:
        """Store an upload and add its pairs in the background."""
        name = _named(request)
        identity = self._jobs.new_id(principal)
        try:
            size = save(stream, self._jobs.folder_of(identity) / name, self._config.max_upload << 20)
        except BaseException:
            self._jobs.files.remove(identity)
            raise
        arguments = asdict(request) | {"file": name}
        return self._jobs.add(principal, identity, "import", memory=request.memory, arguments=arguments, bytes=size)

    def compact(self, principal: Principal, memory: str) -> Job:
        return self._jobs.add(principal, self._jobs.new_id(principal), "compact", memory=memory)

    def verify(self, principal: Principal, memory: str) -> Job:
        self._memories.folder_of(memory)
        return self._jobs.add(principal, self._jobs.new_id(principal), "verify", memory=memory)

    def cancel_all(self, memory: str) -> None:
        """End the jobs of a memory."""
        self._jobs.cancel_of_memory(memory)

    # Doing

    def _import(self, run: JobRun) -> Mapping[str, Any]:
        request, path = _request_of(run.job), run.folder / run.job.arguments["file"]
        if not path.exists():
            raise InputError("the uploaded file is gone; send it again")
        return self._imported(run, request, path)

    def _imported(self, run: JobRun, request: ImportRequest, path: Path) -> Mapping[str, Any]:
        name = request.memory
        model = self._memories.model(name)
        counting = _stream(path, request, model)
        for _ in counting:
            run.check()
        total = counting.report.pairs
        if not total:
            raise InputError(_nothing(counting.report))

        def progress(done: int, _: int) -> None:
            run.check()
            run.report(min(done, total), total)

        progress(0, total)
        with self._memories.using(name) as store:
            is_empty = not store.total_pairs
        stream = _stream(path, request, model)
        if is_empty:
            added = self._when_free(run, name, lambda store: _built(store, stream, model, progress))
        else:
            added = self._added(run, name, with_ids(stream), model, progress)
        return {"pairs": total, "added": added, **_summary(counting.report)}

    def _added(self, run: JobRun, name: str, pairs: Iterable[Pair], model: TranslationModel, progress: Progress) -> int:
        """Add pairs block by block, and return how many were new or changed."""
        added = done = 0
        pairs = iter(pairs)
        while block := list(islice(pairs, _BLOCK)):
            run.check()
            added += self._when_free(run, name, lambda store: store.add(block, model, skip_unchanged=True))
            done += len(block)
            progress(done, 0)
        return added

    def _compact(self, run: JobRun) -> Mapping[str, Any]:
        name = run.job.memory or ""
        model = self._memories.model(name)
        before = self._memories.info(name).bytes
        self._when_free(run, name, lambda store: store.compact(model))
        return {"bytes_before": before, "bytes": self._memories.info(name).bytes}

    def _verify(self, run: JobRun) -> Mapping[str, Any]:
        found = verify(self._memories.folder_of(run.job.memory or ""))
        damaged = sum(finding.damaged for finding in found)
        return {"damaged": damaged, "files": [asdict(finding) for finding in found]}

    def _clean_up(self, job: Job) -> None:
        """Leave no text of a file that was imported, or was not wanted."""
        (self._jobs.folder_of(job.id) / job.arguments["file"]).unlink(missing_ok=True)
        with suppress(NearmtError), self._memories.editing(job.arguments["memory"], 0.0) as store:
            shutil.rmtree(store.path / BUILDING, ignore_errors=True)

    def _when_free(self, run: JobRun, name: str, change: Callable[[Datastore], Any]) -> Any:
        """Change a memory when those who asked earlier are done."""
        while True:
            run.check()
            try:
                with self._memories.editing(name, _LOOK) as store:
                    return change(store)
            except Busy:
                continue


def _named(request: ImportRequest) -> str:
    """The name of the uploaded file on disk, whose suffix is known."""
    known = sorted({suffix.removeprefix(".") for suffix in READERS})
    if request.format is not None:
        if request.format not in known:
            hint = did_you_mean(request.format[:40], known)
            raise InputError(f"format '{request.format[:40]}': must be one of {', '.join(known)}{hint}")
        packed = Path(request.filename).suffix.lower()
        return safe_name(request.filename, f".{request.format}{packed if packed in COMPRESSED else ''}")
    name = safe_name(request.filename)
    if inner_suffix(Path(name)) not in READERS:
        raise InputError(f"{name}: of an unknown format; known are {', '.join(known)} (say which one as format)")
    return name


def _request_of(job: Job) -> ImportRequest:
    names = ImportRequest.__dataclass_fields__
    return ImportRequest(**{name: value for name, value in job.arguments.items() if name in names})


def _stream(path: Path, request: ImportRequest, model: TranslationModel) -> PairStream:
    source, target = model.language_pair
    own = f"{request.source_lang or source}:{request.target_lang or target}"
    labels = own if request.source_lang or request.target_lang else None
    return read_pairs(
        path, source_lang=source, target_lang=target, strict=False, limits=LimitsConfig(), file_languages=labels
    )


def _built(store: Datastore, pairs: PairStream, model: TranslationModel, progress: Progress) -> int:
    """Build an empty memory from pairs, which is faster than adding them and fits the reduction to them.

    The same build goes on where an earlier one was interrupted.
    """
    config = BuildConfig(keep_replaced=store.manifest.keep_replaced)
    build(store.path, pairs, model, config, overwrite=True, progress=progress)
    store.refresh()
    return store.total_pairs


def _summary(report: Report) -> dict[str, Any]:
    return {
        "units": report.units,
        "skipped": dict(report.skipped),
        "dropped": dict(report.dropped),
        "problems": [_without_folder(problem) for problem in report.problems[:_TOLD]],
        "problem_count": report.problem_count,
    }


def _nothing(report: Report) -> str:
    """Why a file has no pairs."""
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in (report.skipped + report.dropped).items())
    told = [_without_folder(report.problems[0])] if report.problems else []
    told += [f"left out: {left_out}"] if left_out else []
    return "; ".join(["the file has no pairs that can be imported", *told])


def _without_folder(problem: str) -> str:
    """A problem without the folder of the file."""
    where, colon, rest = problem.partition(": ")
    return where.rpartition("/")[2] + colon + rest
