"""The translation of one document: read, fill in, write, keep what is finished."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from nearmt.cli.changing import finishing
from nearmt.cli.checking import check_document, check_output, check_terminal
from nearmt.cli.console import explain_run, open_output, progress_bar, shows_bars, warn
from nearmt.cli.document_writer import DocumentWriter, check_missed
from nearmt.cli.given import Given, pick
from nearmt.cli.resuming import FinishedWork, digest_of
from nearmt.cli.setup import Loader, make_plan
from nearmt.contracts import Progress
from nearmt.corpus import (
    WITH_NOTES,
    Document,
    LabelsConfig,
    LimitsConfig,
    Report,
    Request,
    Unit,
    format_of,
    open_document,
)
from nearmt.corpus import check_document as check_whole
from nearmt.corpus.encoding import Encoding
from nearmt.documents import FillConfig, FilledUnit, Filler, filled_parts, is_to_fill
from nearmt.documents.glossary import terms_of
from nearmt.errors import ConfigError, InputError
from nearmt.models.directions import known_direction
from nearmt.translator import Translator

# Formats that are read line by line: the first translation does not wait for the end of standard input.
_STREAMED = ("text", "tsv", "jsonl")


@dataclass(frozen=True)
class RunOptions:
    """The options of `nearmt translate` that are no settings."""

    format_name: str | None = None
    everything: bool = False
    as_json: bool = False
    explain: bool = False
    strict: bool = False
    resume: bool = False


@dataclass(frozen=True)
class RunSettings:
    """How documents are read and filled in."""

    filling: FillConfig
    limits: LimitsConfig
    labels: LabelsConfig

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RunSettings:
        return cls(pick(FillConfig, settings), pick(LimitsConfig, settings), pick(LabelsConfig, settings))

    def check_glossary(self, languages: tuple[str | None, str | None]) -> None:
        """Refuse a glossary that cannot be read, before a model is loaded."""
        terms_of(self.filling, languages)

    def request(self, languages: tuple[str | None, str | None]) -> Request:
        return Request(*languages, limits=self.limits, labels=self.labels)

    def signature(self) -> str:
        """What can change the output."""
        return f"{self.filling.signature()}|{self.labels.signature()}"


@dataclass(frozen=True)
class Job:
    """A document to translate, with the record of its finished parts if they are kept."""

    path: Path
    format_name: str
    output: Path | None
    work: FinishedWork | None
    settings: RunSettings
    everything: bool = False
    explain: bool = False
    strict: bool = False


class UnitProgress:
    """Progress over the units of one document, or of several that share a bar."""

    def __init__(self, total: int = 0, bar: Progress | None = None) -> None:
        #: Units to fill in, and those that are.
        self.total, self.done = total, 0
        self._bar = bar

    @contextmanager
    def window(self, units: int) -> Iterator[Progress | None]:
        """Yield what converts progress in the sentences of a window to progress in units.

        Without a shared bar, one is shown for the window: it is gone before results are printed, which may be on the
        same terminal.
        """
        if self._bar is None:
            with progress_bar("units", self.total, self.done) as bar:
                yield _in_units(bar, units, 0, units)
        else:
            yield _in_units(self._bar, units, self.done, self.total)
        self.done += units


def translate_file(file: Path, output: Path | None, options: RunOptions, given: Given) -> None:
    """Translate a file or standard input (`-`) into a file or to standard output."""
    if str(file) != "-" and not file.is_file():
        raise InputError(f"{file}: no such file")
    format_name = options.format_name or ("text" if str(file) == "-" else format_of(file))
    check_output(output, [file])
    if not options.as_json and not options.explain:
        check_terminal(output, format_name)
    settings = given.settings()
    run_settings = RunSettings.of(settings)
    plan = make_plan(settings, frozenset(given.typed))
    run_settings.check_glossary(known_direction(plan.model))
    check_document(file, run_settings.request(known_direction(plan.model)), options.strict, format_name)
    work = _work(file, output, format_name, options, run_settings.signature())
    with kept(work), _readable(file, format_name) as path:
        if path != file:
            check_whole(path, format_name, run_settings.limits)
        translator = Loader().translator(plan)
        explain_run(translator.signature())
        if work is not None:
            work.begin(translator.signature())
        # A document in a format with notes names the pairs there.
        explained = options.explain and (output is None or format_name not in WITH_NOTES)
        shows_matches = run_settings.filling.matches and output is None and format_name not in WITH_NOTES
        writer = DocumentWriter(work, as_json=options.as_json, as_explanation=explained or shows_matches)
        flags = (options.everything, options.explain, options.strict)
        job = Job(path, format_name, output, work, run_settings, *flags)
        progress = UnitProgress(_count(job, translator.model.language_pair) if shows_bars() else 0)
        document, report = run_document(job, translator, writer, progress)
        writer.summarise(report, document.paragraphs)
    check_missed(writer.missed)


def run_document(
    job: Job, translator: Translator, writer: DocumentWriter, progress: UnitProgress
) -> tuple[Document, Report]:
    """Fill in a document and write it; returns it, read to its end, and what was reported about it."""
    report = Report(strict=job.strict)
    document = open_document(job.path, job.settings.request(translator.model.language_pair), report, job.format_name)
    filler = Filler(translator, job.settings.filling, paragraphs=document.paragraphs, explain=job.explain)
    progress.done += _skip(document, job.everything, 0 if job.work is None else job.work.parts)
    encoding = Encoding() if writer.as_json or writer.as_explanation else document.encoding

    def fill(units: list[Unit]) -> list[FilledUnit]:
        if job.work is not None:  # everything before these units is finished
            with finishing() as interruption:
                writer.keep(job.work, encoding)
                interruption.check()
            interruption.check()  # a signal may have come after the check inside
        with progress.window(len(units)) as in_sentences:
            return filler.fill(units, in_sentences)

    with _opened(job.output, encoding, job.work) as out:
        for part, found in filled_parts(document, filler, fill, everything=job.everything):
            writer.write(out, part, found)
    report.notes += [str(conflict) for conflict in filler.conflicts]
    return document, report


@contextmanager
def kept(work: FinishedWork | None) -> Iterator[None]:
    """When the block fails, say which finished parts are kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        told = "what is not printed is not kept (--output FILE keeps it)" if work is None else work.told
        error.args = (f"interrupted; {told}",)
        raise
    except ConfigError:
        raise
    except Exception as error:
        if work is not None and isinstance(error, InputError) and not isinstance(error.__cause__, OSError):
            work.remove()  # the input has to change before it can be read
        elif work is not None and work.parts:
            warn(work.told)
        raise


def _work(file: Path, output: Path | None, format_name: str, options: RunOptions, settings: str) -> FinishedWork | None:
    """The record of finished parts, where a file is translated into a file."""
    if output is None or str(output) == "-" or str(file) == "-" or (output.exists() and not output.is_file()):
        if options.resume:
            raise ConfigError("--resume needs a FILE to read and a file as --output; nothing else is kept")
        return None
    flags = [options.everything, options.as_json, options.explain, options.strict]
    about = {"input": digest_of(file), "options": [format_name, *flags, settings]}
    work = FinishedWork(output, about, options.resume)
    if work.path.exists() and not options.resume:
        warn(f"{work.path}: holds finished parts of an interrupted run and will be replaced (--resume continues it)")
    return work


@contextmanager
def _readable(file: Path, format_name: str) -> Iterator[Path]:
    """The file itself; a copy of standard input for formats that are read more than once."""
    if str(file) != "-" or format_name in _STREAMED:
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="standard-input-", suffix=f".{format_name}") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


def _skip(document: Document, everything: bool, parts: int) -> int:
    """Skip finished parts and return how many of their units were filled in."""
    finished = islice(document.parts, parts)
    return sum(is_to_fill(unit, everything) for part in finished for unit in part.units)


@contextmanager
def _opened(output: Path | None, encoding: Encoding, work: FinishedWork | None) -> Iterator[TextIO]:
    """Standard output; or a buffer that is written to the file when it is complete, after the parts finished before."""
    if work is None:
        with open_output(output, encoding) as out:
            yield out
        return
    rest = io.StringIO(newline="")
    yield rest
    with open_output(output, encoding) as out:
        for text in work.texts():
            out.write(text)
        out.write(rest.getvalue())
    work.remove()


def _count(job: Job, languages: tuple[str, str]) -> int:
    """Units to fill in, the total of the progress bar; 0 for input that can be read only once."""
    if not job.path.is_file():
        return 0
    document = open_document(job.path, job.settings.request(languages), Report(), job.format_name)
    return sum(is_to_fill(unit, job.everything) for part in document.parts for unit in part.units)


def _in_units(bar: Progress | None, units: int, done: int, total: int) -> Progress | None:
    """Progress in the sentences of a window converted to progress in units."""
    return (lambda count, of: bar(done + units * count // max(1, of), total)) if bar else None
