"""Documents that are translated in the background."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from nearmt.contracts import Pair
from nearmt.corpus import DOCUMENTS, Report, format_of, plain_text
from nearmt.corpus.document import text_with_markup
from nearmt.corpus.encoding import is_text
from nearmt.corpus.glossary import Term, TermStatus
from nearmt.errors import InputError, did_you_mean, writing
from nearmt.scheduler import Priority, Ticket
from nearmt.serve import learning
from nearmt.serve.config import ServeConfig
from nearmt.serve.errors import Conflict, NotFound
from nearmt.serve.jobs import Job, JobRun, Jobs
from nearmt.serve.keys import Principal
from nearmt.serve.memories import Memories
from nearmt.serve.open_documents import OpenDocument, OpenDocuments, Upload
from nearmt.serve.translation import Translation
from nearmt.serve.unit_records import UnitRecord
from nearmt.serve.uploads import safe_name, save
from nearmt.serve.values import DocumentUnit, LearntPair, MemoryUse, TranslationRequest, UnitPage

#: Units that are translated at a time: few at first, so that there is something to see; and their characters.
_FIRST_WINDOW, _LARGEST_WINDOW, _WINDOW_CHARACTERS = 8, 256, 1 << 18
#: Units of a page.
MOST_UNITS_SHOWN = 1000
_LONGEST_TARGET = 1 << 20
_RESULT = "result"


@dataclass(frozen=True)
class DocumentResult:
    """A translated document in its own format."""

    path: Path
    #: The name of the upload.
    filename: str
    media_type: str


class Documents:
    """Documents by the id of their job."""

    def __init__(self, config: ServeConfig, jobs: Jobs, translation: Translation, memories: Memories) -> None:
        self._config, self._jobs, self._translation, self._memories = config, jobs, translation, memories
        self._open = OpenDocuments(self._upload_of)
        jobs.register("document", self._translate)

    def submit(
        self,
        principal: Principal,
        filename: str,
        stream: BinaryIO,
        request: TranslationRequest,
        format: str | None = None,
        everything: bool = False,
    ) -> Job:
        """Store an upload and translate it in the background; `request.texts` is ignored.

        `everything`: also units that have a translation.
        """
        plan = self._translation.plan(principal, replace(request, texts=()), document=True)
        name = safe_name(filename)
        if format is not None and format not in DOCUMENTS:
            hint = did_you_mean(format[:40], DOCUMENTS)
            raise InputError(f"format '{format[:40]}': must be one of {', '.join(DOCUMENTS)}{hint}")
        identity = self._jobs.new_id(principal)
        folder = self._jobs.folder_of(identity)
        upload = Upload(folder, name, format or format_of(Path(name)), plan.model.language_pair, everything)
        # What the request left open is decided now, whatever becomes of the key's defaults.
        fixed = replace(request, texts=(), memories=plan.system.memories)
        try:
            size = save(stream, upload.path, self._config.max_upload << 20)
            upload.check()
            arguments = {
                "file": name,
                "filename": filename[-200:].encode("utf-8", "replace").decode(),
                "format": upload.format,
                "languages": list(upload.languages),
                "everything": everything,
                "request": request_to_json(fixed),
            }
            return self._jobs.add(principal, identity, "document", arguments=arguments, bytes=size)
        except BaseException:
            self._jobs.files.remove(identity)
            raise

    def get(self, principal: Principal, id: str) -> Job:
        with suppress(NotFound):
            job = self._jobs.get(principal, id)
            if job.kind == "document":
                return job
        raise NotFound(f"no document '{id[:64]}'")

    def units(self, principal: Principal, id: str, offset: int = 0, limit: int = 50) -> UnitPage:
        """Units that are translated so far are shown with their translations."""
        self.get(principal, id)
        if offset < 0 or not 0 <= limit <= MOST_UNITS_SHOWN:
            raise InputError(f"offset must be at least 0, and limit between 0 and {MOST_UNITS_SHOWN}")
        with self._open.using(id) as document:
            total = len(document.units)
            shown = tuple(document.shown(number) for number in range(min(offset, total), min(offset + limit, total)))
            return UnitPage(shown, total)

    def edit(
        self, principal: Principal, id: str, number: int, target: str, confirmed: bool, learn: str | None = None
    ) -> DocumentUnit:
        """Change a unit; `learn` names a memory that learns it."""
        self.get(principal, id)
        if not is_text(target) or len(target) > _LONGEST_TARGET:
            raise InputError(f"target: has half a character, or more than {_LONGEST_TARGET:,}")
        with self._open.using(id) as document:
            unit = document.unit(number)
            learnt = None
            if learn is not None:
                principal.check("learn")
                principal.check_memory(learn)
                self._check_direction(learn, document)
                learnt = self._learn(learn, document, number, target)
            record = document.edit(number, target, confirmed)
            return replace(record.shown(unit), learnt=learnt)

    def retranslate(self, principal: Principal, id: str, units: Sequence[int] | None = None) -> Job:
        """Translate units that are not confirmed again, with what was learnt since.

        By default those that were not edited.
        """
        job = self.get(principal, id)
        with self._open.using(id) as document:
            if not document.translate_again(units) and job.state == "done":
                return job
        return self._jobs.again(principal, id)

    def result(self, principal: Principal, id: str) -> DocumentResult:
        """The document with its translations and edits; a conflict while it is not finished."""
        job = self.get(principal, id)
        if job.state != "done":
            raise Conflict(f"the document is {job.state}, not done")
        upload = self._upload_of(id)
        path = upload.folder / _RESULT / upload.file
        with writing(path):
            path.parent.mkdir(exist_ok=True, mode=0o700)
        with self._open.using(id) as document:
            document.write(path)
        kind, packing = mimetypes.guess_type(upload.file)
        media_type = kind if kind and not packing else "application/octet-stream"
        return DocumentResult(path, str(job.arguments["filename"]), media_type)

    def delete(self, principal: Principal, id: str) -> None:
        """Delete a document, its translations and its result."""
        self.get(principal, id)
        self._jobs.remove(principal, id)
        self._open.close(id)

    def close(self) -> None:
        """Close the files of documents that are not in use."""
        self._open.close_all()

    # Doing

    def _translate(self, run: JobRun) -> Mapping[str, Any]:
        request = request_from_json(run.job.arguments["request"])
        owner = Principal(
            run.job.owner, frozenset(use.name for use in request.memories or ()), frozenset(["translate"])
        )
        with self._open.using(run.job.id) as document:
            source_lang, target_lang = document.upload.languages
            request = replace(request, source_lang=source_lang, target_lang=target_lang)
            run.report(*document.counts())
            for window in _windows(document):
                run.check()
                self._fill(run, owner, request, document, window)
                run.report(*document.counts())
            run.check()
            return self._summary(document)

    def _fill(
        self, run: JobRun, owner: Principal, request: TranslationRequest, document: OpenDocument, window: list[int]
    ) -> None:
        """Translate some units and keep them."""
        ticket = Ticket(owner.name, Priority.BULK)
        run.waiting_for(ticket)
        version = document.version(window)
        plan = self._translation.plan(owner, request, document=True)
        with self._translation.prepared(plan, ticket) as prepared:
            filler = prepared.filler(request, paragraphs=document.paragraphs)
            filled = filler.fill([document.units[number] for number in window])
        records = [UnitRecord.of(number, unit) for number, unit in zip(window, filled, strict=True)]
        document.keep(records, version)

    def _summary(self, document: OpenDocument) -> dict[str, Any]:
        report = Report()
        document.upload.read(report)
        filled, _ = document.counts()
        problems = [problem.replace(f"{document.upload.path}", document.upload.file) for problem in report.problems]
        return {
            "units": len(document.units),
            "filled": filled,
            "problems": problems[:20],
            "problem_count": report.problem_count,
        }

    def _upload_of(self, id: str) -> Upload:
        found = self._jobs.find(id)
        if found is None:
            raise NotFound(f"no document '{id[:64]}'")
        given = found.arguments
        source_lang, target_lang = given["languages"]
        folder = self._jobs.folder_of(id)
        return Upload(folder, given["file"], given["format"], (source_lang, target_lang), given["everything"])

    def _check_direction(self, memory: str, document: OpenDocument) -> None:
        info = self._memories.info(memory)
        if (info.source_lang, info.target_lang) != document.upload.languages:
            raise Conflict(f"memory '{memory}': translates {info.source_lang} to {info.target_lang}")

    def _learn(self, memory: str, document: OpenDocument, number: int, target: str) -> LearntPair:
        unit = document.unit(number)
        text = plain_text(UnitRecord.edited(number, unit, target, True, None, document.upload.languages).target)
        context = {"context": unit.context} if unit.context else {}
        pair = Pair(plain_text(unit.source), text, "", document.upload.file, context)
        pair, before = learning.learn_and_tell(self._memories, memory, pair)
        return LearntPair(memory, pair.id, None if before is None else before.target)


def _windows(document: OpenDocument) -> Iterator[list[int]]:
    """Numbers of units that wait, some at a time."""
    size = _FIRST_WINDOW
    while waiting := document.waiting(size):
        window, characters = list[int](), 0
        for number in waiting:
            window.append(number)
            characters += len(text_with_markup(document.units[number].source))
            if characters > _WINDOW_CHARACTERS:
                break
        yield window
        size = min(2 * size, _LARGEST_WINDOW)


def request_to_json(request: TranslationRequest) -> dict[str, Any]:
    """A request without its texts, to be kept on disk."""
    terms = [[term.source, term.target, term.status.value] for term in request.terms or ()]
    return {**asdict(replace(request, texts=(), terms=None)), "terms": terms}


def request_from_json(raw: Mapping[str, Any]) -> TranslationRequest:
    memories = None if raw["memories"] is None else tuple(MemoryUse(**use) for use in raw["memories"])
    terms = tuple(Term(source, target, TermStatus(status)) for source, target, status in raw["terms"])
    return TranslationRequest(**{**raw, "memories": memories, "terms": terms or None})
