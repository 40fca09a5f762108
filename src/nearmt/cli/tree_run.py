"""The translation of several files and folders into a folder, with one model."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nearmt.cli.changing import finishing
from nearmt.cli.checking import check_output_folder
from nearmt.cli.console import complain, explain_run, progress_bar, warn
from nearmt.cli.document_run import Job, RunOptions, RunSettings, UnitProgress, kept, run_document
from nearmt.cli.document_writer import DocumentWriter, check_missed
from nearmt.cli.given import Given
from nearmt.cli.resuming import FinishedFile, FinishedFiles, FinishedWork, digest_of
from nearmt.cli.setup import Loader, make_plan
from nearmt.cli.tree_summary import TreeSummary
from nearmt.corpus import WITH_NOTES, Report, Request, format_of, open_document
from nearmt.corpus.trees import TreeFile, check_inside, check_outputs, find_documents
from nearmt.corpus.unpacking import reading
from nearmt.documents import is_to_fill
from nearmt.errors import ConfigError, InputError, NearmtError, OutputError, writing
from nearmt.models.directions import known_direction
from nearmt.translator import Translator

#: Errors of the disk or the process, which the next file would meet as well.
_OF_ALL_FILES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True)
class _Known:
    """A file that can be read."""

    file: TreeFile
    format_name: str
    #: Units to fill in.
    units: int


def translate_tree(paths: Sequence[Path], output: Path | None, options: RunOptions, given: Given) -> None:
    """Translate the documents of files and folders into a folder, under the same relative paths."""
    output = _checked(paths, output, options)
    tree = find_documents(paths)
    check_outputs(tree, paths, output, FinishedFiles.NAME)
    check_output_folder(output)
    settings = given.settings()
    run_settings = RunSettings.of(settings)
    plan = make_plan(settings, frozenset(given.typed))
    run_settings.check_glossary(known_direction(plan.model))
    about = {"options": [options.everything, options.explain, run_settings.signature()]}
    record = FinishedFiles(output, about, options.resume)
    with _TreeRun(output, record, options, run_settings) as run:
        if record.path.exists() and not options.resume:
            warn(f"{record.path}: names files of an interrupted run and will be replaced (--resume continues it)")
        run.leave(tree.left_alone)
        for path, error in tree.failures:
            run.fail(path, error)
        known = run.survey(tree.files, run_settings.request(known_direction(plan.model)))
        if known:
            run.translate(known, Loader().translator(plan))
        run.finish()


def _checked(paths: Sequence[Path], output: Path | None, options: RunOptions) -> Path:
    """The output folder; refuses what does not go with several files."""
    if Path("-") in paths:
        raise ConfigError("- (standard input) is translated alone, without other files")
    if output is None or str(output) == "-":
        raise ConfigError("several files, or a folder, need a folder to write to: give --output FOLDER")
    if options.format_name and any(path.is_dir() for path in paths):
        raise ConfigError("--format goes with files; in a folder each file has the format of its suffix")
    return output


class _TreeRun:
    """Translates files one after another; an error in one does not stop the others, unless `strict` is set."""

    def __init__(self, output: Path, record: FinishedFiles, options: RunOptions, settings: RunSettings) -> None:
        self._output, self._record, self._options = output, record, options
        self._settings = settings
        self._summary = TreeSummary(output)
        self._work: FinishedWork | None = None  # of the present file
        self._missed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Unlock the records."""
        self._leave_work()
        self._record.close()

    def leave(self, left_alone: Sequence[tuple[Path, str]]) -> None:
        for path, reason in left_alone:
            explain_run(f"{path}: left alone ({reason})")
            self._summary.left_alone.append((path, reason))

    def fail(self, path: Path, error: NearmtError) -> None:
        """Name a file that cannot be translated, or stop there."""
        if self._options.strict or _concerns_all(error):
            raise error
        complain(str(error))
        self._summary.failures.append((path, str(error)))

    def survey(self, files: Sequence[TreeFile], request: Request) -> list[_Known]:
        """Read all files to their ends and count their units, so that errors are reported before a model is loaded."""
        known = []
        with progress_bar("files", len(files)) as bar:
            for number, file in enumerate(files, 1):
                try:
                    format_name = self._options.format_name or format_of(file.path)
                    report = Report(strict=self._options.strict)
                    parts = open_document(file.path, request, report, format_name).parts
                    units = sum(is_to_fill(unit, self._options.everything) for part in parts for unit in part.units)
                    known.append(_Known(file, format_name, units))
                except InputError as error:
                    self.fail(file.path, error)
                if bar:
                    bar(number, len(files))
        return known

    def translate(self, known: Sequence[_Known], translator: Translator) -> None:
        """Translate all files that are not finished, with one progress bar."""
        explain_run(translator.signature())
        with writing(self._output):
            self._output.mkdir(parents=True, exist_ok=True)
        total, done = sum(each.units for each in known), 0
        self._record.begin(translator.signature())
        with self._told(), progress_bar("units", total) as bar:
            progress = UnitProgress(total, bar)
            for each in known:
                progress.done = done
                try:
                    self._translate(each, translator, progress)
                except (InputError, OutputError) as error:
                    self.fail(each.file.path, error)
                    self._leave_work()
                done += each.units

    def finish(self) -> None:
        """Print the summary; an error if files failed."""
        failed = len(self._summary.failures)
        if not failed or not len(self._record):
            self._record.remove()
        self._summary.show(self._options.as_json)
        if failed:
            resumed = "; the same command with --resume leaves out the others" if len(self._record) else ""
            raise InputError(f"{failed:,} of {self._summary.named:,} files could not be translated{resumed}")
        check_missed(self._missed)

    def _translate(self, known: _Known, translator: Translator, progress: UnitProgress) -> None:
        file, target = known.file, self._output / known.file.name
        with writing(target):
            check_inside(target, self._output)
        with reading(file.path):
            digest = digest_of(file.path)
        name = file.name.as_posix()
        before = self._record.find(name, digest, known.format_name)
        if before is not None and target.is_file():
            explain_run(f"{file.path}: was finished before")
            self._summary.add(file, target, before)
            return
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        self._work = self._begun(target, digest, known.format_name, translator.signature())
        with kept(self._work):
            finished = self._filled(known, target, digest, translator, progress)
        with finishing() as interruption:
            self._record.add(name, finished)
            self._work = None
            self._summary.add(file, target, finished)
            interruption.check()
        interruption.check()  # a signal may have come after the check inside

    def _filled(
        self, known: _Known, target: Path, digest: str, translator: Translator, progress: UnitProgress
    ) -> FinishedFile:
        path, options = known.file.path, self._options
        writer = DocumentWriter(self._work)
        explain = options.explain and known.format_name in WITH_NOTES
        flags = (options.everything, explain, options.strict)
        job = Job(path, known.format_name, target, self._work, self._settings, *flags)
        _, report = run_document(job, translator, writer, progress)
        explain_run(f"{path}: written to {target}")
        self._missed += writer.missed
        notes = [*report.notes, *report.problems, *(f"{path}, {note}" for note in writer.notes())]
        return FinishedFile(digest, known.format_name, writer.counts, notes)

    def _leave_work(self) -> None:
        """Unlock what is kept of a file that could not be translated."""
        if self._work is not None:
            self._work.close()
            self._work = None

    def _begun(self, target: Path, digest: str, format_name: str, signature: str) -> FinishedWork:
        """The record of the finished parts of a file; it begins anew for another input or other options."""
        flags = [self._options.everything, self._options.explain, self._settings.signature()]
        about = {"input": digest, "options": [format_name, *flags]}
        if self._options.resume:
            try:
                work = FinishedWork(target, about, True)
                work.begin(signature)
                return work
            except ConfigError as error:
                explain_run(str(error))
        work = FinishedWork(target, about, False)
        work.begin(signature)
        return work

    @contextmanager
    def _told(self) -> Iterator[None]:
        """When the block is interrupted or fails, say what is kept."""
        try:
            yield
        except KeyboardInterrupt as error:
            error.args = (f"interrupted; {self._kept()}",)
            raise
        except Exception:
            if len(self._record):
                warn(self._kept())
            raise

    def _kept(self) -> str:
        parts = 0 if self._work is None else sum(self._work.summary.counts.values())
        if not len(self._record) and not parts:
            self._record.remove()
            return "nothing was finished, and nothing is kept"
        units = f" and {parts:,} finished units of {self._work.output}" if self._work and parts else ""
        what = f"{len(self._record):,} finished files{units}"
        return f"{what} are kept in {self._output}; the same command with --resume continues there"


def _concerns_all(error: NearmtError) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _OF_ALL_FILES:
            return True
        cause = cause.__cause__
    return False
