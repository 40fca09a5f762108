"""What all endpoints call; knows no HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from nearmt.contracts import Pair
from nearmt.corpus.stop_words import likely_languages
from nearmt.documents.sentences import sentence_spans
from nearmt.errors import ConfigError
from nearmt.languages import same_language
from nearmt.scheduler import Priority, Scheduler, Ticket
from nearmt.serve import learning
from nearmt.serve.config import ServeConfig
from nearmt.serve.documents import Documents
from nearmt.serve.errors import Conflict
from nearmt.serve.glossaries import Glossaries
from nearmt.serve.importing import ImportRequest, MemoryJobs
from nearmt.serve.jobs import Job, Jobs
from nearmt.serve.keys import Principal
from nearmt.serve.learning import ExportFormat
from nearmt.serve.limits import Limits
from nearmt.serve.matching import matches_of
from nearmt.serve.memories import Memories
from nearmt.serve.models import Direction, Models
from nearmt.serve.texts import check_texts
from nearmt.serve.translation import MOST_MATCHES, Translation
from nearmt.serve.values import (
    MemoryInfo,
    MemoryMatch,
    MemoryUse,
    PairPage,
    Statistics,
    Translated,
    TranslationRequest,
    TranslationResult,
)

__all__ = ["MemoryUse", "Service", "Translated", "TranslationRequest", "TranslationResult"]

#: Memories in which one request looks for matches.
_MOST_SEARCHED = 100


class Service:
    """Models, memories, jobs and glossaries of a server."""

    def __init__(self, config: ServeConfig, models: Models) -> None:
        """Unfinished jobs go on, unless the server only reads."""
        self.config, self.models = config, models
        self.memories = Memories(
            config.memories_folder,
            models,
            config.memory_budget << 20,
            read_only=config.read_only,
            keep_replaced=config.keep_replaced,
            searching=config.store_config,
        )
        self.scheduler = Scheduler(device=next(iter(models)).seq2seq.device)
        self.translation = Translation(config, models, self.memories, self.scheduler)
        self.jobs = Jobs(config.state_folder / "jobs", config.max_jobs, read_only=config.read_only)
        self.documents = Documents(config, self.jobs, self.translation, self.memories)
        self.memory_jobs = MemoryJobs(config, self.jobs, self.memories)
        self.glossaries = Glossaries(config.state_folder / "glossaries", read_only=config.read_only)
        self.limits = Limits(config.requests, config.characters)
        self.jobs.start()

    @classmethod
    def open(cls, config: ServeConfig) -> Service:
        """Load the models."""
        return cls(config, Models.load(config.model_configs()))

    def close(self, drain: float = 30.0) -> None:
        """Let running work finish, at most for some seconds; unfinished jobs go on after a restart."""
        self.jobs.stop()
        self.scheduler.close(drain)
        self.jobs.close()
        self.documents.close()
        self.memories.close()

    # Translation

    def ticket(self, principal: Principal, request: TranslationRequest) -> Ticket:
        """The ticket of a request; cancelling it ends the request."""
        bulk = request.bulk or len(request.texts) >= self.config.bulk_from
        if request.deadline is not None and not request.deadline > 0:
            raise ConfigError(f"deadline = {request.deadline:g}: must be more than 0 seconds")
        return Ticket(principal.name, Priority.BULK if bulk else Priority.INTERACTIVE, request.deadline)

    def translate(
        self, principal: Principal, request: TranslationRequest, ticket: Ticket | None = None
    ) -> TranslationResult:
        if wait := self.limits.text(principal, sum(map(len, request.texts))):
            time.sleep(wait)  # the key is a little too fast
        return self.translation.translate(principal, request, ticket or self.ticket(principal, request))

    def direction(self, principal: Principal, request: TranslationRequest) -> Direction:
        """The languages that a request is translated from and into."""
        return self.translation.plan(principal, request).model.language_pair

    def sentences(self, principal: Principal, text: str, language: str) -> list[tuple[int, int]]:
        """Where the sentences of a text begin and end."""
        principal.check("translate")
        check_texts([text], 1, self.config.max_characters)
        return sentence_spans(text, language)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Languages of the loaded models with the likelihood that a text is in them, the likeliest first."""
        return likely_languages(text, [language for direction in self.directions() for language in direction])

    def directions(self) -> list[Direction]:
        return self.models.directions()

    def statistics(self, principal: Principal) -> Statistics:
        """What the server has done for all, so for keys that may do everything."""
        principal.check("admin")
        return self.translation.counts.statistics(self.scheduler)

    # Memories

    def memory_infos(self, principal: Principal) -> list[MemoryInfo]:
        return [self.memories.info(name) for name in self._visible(principal)]

    def memory_info(self, principal: Principal, name: str) -> MemoryInfo:
        principal.check_memory(name)
        return self.memories.info(name)

    def create_memory(
        self, principal: Principal, name: str, source_lang: str | None = None, target_lang: str | None = None
    ) -> MemoryInfo:
        """Make an empty memory of a direction, by default that of the first model."""
        principal.check("admin")
        principal.check_memory(name)
        return self.memories.create(name, self.models.find(source_lang, target_lang))

    def delete_memory(self, principal: Principal, name: str) -> None:
        """Delete a memory, its files and its jobs."""
        principal.check("admin")
        principal.check_memory(name)
        self.memories.folder_of(name)
        self.memory_jobs.cancel_all(name)
        self.memories.delete(name)

    def pairs(self, principal: Principal, name: str, query: str = "", offset: int = 0, limit: int = 50) -> PairPage:
        """Pairs whose source or target contains a text, in corpus order."""
        principal.check_memory(name)
        return learning.page(self.memories, name, query, offset, limit)

    def pair(self, principal: Principal, name: str, id: str) -> Pair:
        principal.check_memory(name)
        return learning.pair(self.memories, name, id)

    def add_pairs(self, principal: Principal, name: str, pairs: Sequence[Pair]) -> list[Pair]:
        """Add pairs, or replace those with the same ids; on disk and used when the call returns."""
        self._check_learning(principal, name)
        if len(pairs) > self.config.max_texts:
            raise ConfigError(f"{len(pairs):,} pairs: a request may have {self.config.max_texts:,}; import a file")
        return learning.add(self.memories, name, pairs)

    def update_pair(self, principal: Principal, name: str, id: str, target: str) -> Pair:
        self._check_learning(principal, name)
        return learning.update(self.memories, name, id, target)

    def delete_pair(self, principal: Principal, name: str, id: str) -> None:
        """Delete a pair: no translation uses it any longer. `compact` removes its text from disk."""
        self._check_learning(principal, name)
        learning.delete(self.memories, name, id)

    def learn(
        self,
        principal: Principal,
        source: str,
        target: str,
        source_lang: str | None = None,
        target_lang: str | None = None,
        memory: str | None = None,
        id: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Pair:
        """Add a corrected translation to a memory; on disk and used when the call returns.

        By default it is the principal's memory, or the only one of the direction. Without an id, the pair replaces
        what was learnt for the same source before.
        """
        principal.check("learn")
        name = memory or self._memory_to_learn(principal, source_lang, target_lang)
        self._check_learning(principal, name)
        info = self.memories.info(name)
        if not (same_language(source_lang, info.source_lang) and same_language(target_lang, info.target_lang)):
            raise ConfigError(f"memory '{name}': translates {info.source_lang} to {info.target_lang}")
        return learning.learn(self.memories, name, Pair(source, target, id, "server", dict(metadata or {})))

    def matches(
        self,
        principal: Principal,
        text: str,
        limit: int = 5,
        threshold: float = 0.5,
        memories: Sequence[str] | None = None,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> list[MemoryMatch]:
        """Exact and similar pairs of some memories, or of all that the principal sees, best first."""
        principal.check("translate")
        if not 0 <= limit <= MOST_MATCHES or not 0 <= threshold <= 1:
            raise ConfigError(f"limit must be between 0 and {MOST_MATCHES}, and threshold between 0 and 1")
        if memories is None:
            memories = self._of_direction(principal, source_lang, target_lang)[:_MOST_SEARCHED]
        found: list[MemoryMatch] = []
        for name in dict.fromkeys(memories):
            principal.check_memory(name)
            with self.memories.using(name) as store:
                found += matches_of(text, {name: store.snapshot()}, limit, threshold)
        return sorted(found, key=lambda match: -match.score)[:limit]

    def export(self, principal: Principal, name: str, format: ExportFormat = "tmx") -> Iterator[bytes]:
        principal.check_memory(name)
        return learning.export(self.memories, name, format)

    # Jobs of memories

    def import_file(
        self,
        principal: Principal,
        name: str,
        filename: str,
        stream: BinaryIO,
        *,
        format: str | None = None,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> Job:
        """Add the pairs of a file to a memory in the background; the format follows the name of the file.

        The languages are those of a file that does not say them, or says them wrong.
        """
        self._check_learning(principal, name)
        request = ImportRequest(name, filename, format, source_lang, target_lang)
        return self.memory_jobs.import_file(principal, request, stream)

    def compact(self, principal: Principal, name: str) -> Job:
        """Remove the text of deleted pairs from disk, in the background."""
        self._check_learning(principal, name)
        return self.memory_jobs.compact(principal, name)

    def verify(self, principal: Principal, name: str) -> Job:
        """Compare the files of a memory with their checksums, in the background."""
        principal.check_memory(name)
        return self.memory_jobs.verify(principal, name)

    def _visible(self, principal: Principal) -> list[str]:
        return [name for name in self.memories.names() if principal.sees(name)]

    def _of_direction(self, principal: Principal, source_lang: str | None, target_lang: str | None) -> list[str]:
        """The memories of a principal that can be used and translate a direction."""
        infos = [self.memories.info(name) for name in self._visible(principal)]
        return [
            info.name
            for info in infos
            if not info.problem
            and same_language(source_lang, info.source_lang)
            and same_language(target_lang, info.target_lang)
        ]

    def _memory_to_learn(self, principal: Principal, source_lang: str | None, target_lang: str | None) -> str:
        fitting = self._of_direction(principal, source_lang, target_lang)
        if principal.default_memory is not None and principal.default_memory in fitting:
            return principal.default_memory
        if len(fitting) != 1:
            raise Conflict(f"{len(fitting)} memories translate this direction; name the one that learns")
        return fitting[0]

    def _check_learning(self, principal: Principal, name: str) -> None:
        principal.check("learn")
        principal.check_memory(name)
        self.memories.check_writable()
        self.memories.folder_of(name)
