"""Translation of texts: which model and memories, units, matches, explanations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from nearmt.corpus import Unit
from nearmt.datastore import Snapshot
from nearmt.documents import FillConfig, FilledUnit, Filler
from nearmt.errors import ConfigError, DatastoreError, IndexServerError
from nearmt.languages import same_language
from nearmt.models import TranslationModel
from nearmt.scheduler import Scheduler, Ticket
from nearmt.serve.config import ServeConfig
from nearmt.serve.counting import Counts, Span, timing
from nearmt.serve.errors import Busy, Conflict, NotFound
from nearmt.serve.explaining import words_of
from nearmt.serve.keys import Principal
from nearmt.serve.matching import PairFinder, matches_of
from nearmt.serve.memories import Memories
from nearmt.serve.models import Models
from nearmt.serve.systems import MOST_BEAMS, System, system_of
from nearmt.serve.texts import TextParts, check_texts, texts_as_parts
from nearmt.serve.translators import Translators
from nearmt.serve.values import MemoryUse, TextOrigin, Translated, TranslationRequest, TranslationResult
from nearmt.timing import Timings
from nearmt.translator import Translator

#: Of a text whose units are of several origins the first one counts.
_ORIGINS: dict[str, TextOrigin] = {"machine": "machine", "repaired": "repaired", "memory": "memory", "copy": "copied"}
#: Settings of a request that say how units are filled.
_FILLING = ("fuzzy",)
#: Least similarity of a match that comes with a translation.
_LEAST_MATCH = 0.5
MOST_MATCHES = 50
#: Texts of a request that is explained, which takes longer, one such request at a time.
_MOST_EXPLAINED = 50


@dataclass(frozen=True)
class Plan:
    """What a request is translated with."""

    model: TranslationModel
    system: System
    filling: FillConfig


@dataclass(frozen=True)
class Prepared:
    """A plan whose memories are open."""

    plan: Plan
    translator: Translator
    #: The memories by name, as they are now.
    memories: Mapping[str, Snapshot]

    def filler(self, request: TranslationRequest, *, paragraphs: bool) -> Filler:
        return Filler(
            self.translator,
            self.plan.filling,
            paragraphs=paragraphs,
            explain=request.explain,
            terms=request.terms or (),
            alternatives=request.alternatives,
        )


class Translation:
    """Translates texts for principals."""

    def __init__(self, config: ServeConfig, models: Models, memories: Memories, scheduler: Scheduler) -> None:
        self._config, self._models, self._memories, self._scheduler = config, models, memories, scheduler
        self._translators = Translators(memories)
        self.counts = Counts()

    def plan(self, principal: Principal, request: TranslationRequest, *, document: bool = False) -> Plan:
        """Check a request; nothing is loaded. `document`: how sentences are split depends on the format."""
        principal.check("translate")
        check_texts(request.texts, self._config.max_texts, self._config.max_characters)
        _check_count("alternatives", request.alternatives, MOST_BEAMS - 1)
        _check_count("matches", request.matches, MOST_MATCHES)
        if request.explain and len(request.texts) > _MOST_EXPLAINED:
            raise ConfigError(f"explain: at most {_MOST_EXPLAINED} texts at a time, not {len(request.texts)}")
        uses = self._uses(principal, request)
        model = self._model(request, uses)
        settings = dict(request.settings)
        filling = {name: settings.pop(name) for name in _FILLING if name in settings} | {"exact": request.exact}
        if request.format == "text" and not document:
            filling["split-sentences"] = request.split_sentences
        system = system_of(model, uses, request.filter, request.method, settings, request.beams)
        return Plan(model, system, FillConfig.from_mapping(filling))

    @contextmanager
    def prepared(self, plan: Plan, ticket: Ticket) -> Iterator[Prepared]:
        """Open the memories of a plan while the block runs; sentences are decoded with those of other requests."""
        with ExitStack() as stack:
            stores = {use.name: stack.enter_context(self._memories.using(use.name)) for use in plan.system.memories}
            translator = stack.enter_context(self._translators.using(plan.model, plan.system))
            shared = translator.decoding_with(self._scheduler.decoder(ticket))
            stack.enter_context(_explained())
            yield Prepared(plan, shared, {name: store.snapshot() for name, store in stores.items()})

    def translate(self, principal: Principal, request: TranslationRequest, ticket: Ticket) -> TranslationResult:
        start = time.perf_counter()
        before = dict(self._scheduler.timings.seconds)
        plan = self.plan(principal, request)
        own = Timings()
        with self.prepared(plan, ticket) as prepared, own.active():
            ticket.check()
            texts = texts_as_parts(request, plan.model.language_pair, _knower(prepared, request))
            filler = prepared.filler(request, paragraphs=request.format != "text")
            filled = iter(filler.fill([unit for text in texts for unit in text.units]))
            pairs = PairFinder(prepared.memories)
            translations = [
                _translated(text, parts, [next(filled) for _ in parts.units], request, prepared, pairs)
                for text, parts in zip(request.texts, texts, strict=True)
            ]
            signature = prepared.translator.signature()
        self.counts.add(translations)
        spans: tuple[Span, ...] = ((before, dict(self._scheduler.timings.seconds)), ({}, own.seconds))
        seconds = time.perf_counter() - start
        return TranslationResult(
            translations, plan.model.name, *plan.model.language_pair, signature, timing(seconds, *spans)
        )

    def _uses(self, principal: Principal, request: TranslationRequest) -> Sequence[MemoryUse]:
        """The memories of a request; the default one of the principal, if it translates the direction that is asked
        for."""
        if request.memories is not None:
            for use in request.memories:
                principal.check_memory(use.name)
            return request.memories
        name = principal.default_memory
        if name is None or request.method == "plain":
            return ()
        try:
            principal.check_memory(name)
            model = self._memories.model(name)
        except (NotFound, Conflict):
            return ()
        source, target = model.language_pair
        fits = same_language(request.source_lang, source) and same_language(request.target_lang, target)
        return (MemoryUse(name),) if fits else ()

    def _model(self, request: TranslationRequest, uses: Sequence[MemoryUse]) -> TranslationModel:
        models = [self._memories.model(use.name) for use in uses]
        for use, model in zip(uses, models, strict=True):
            source, target = model.language_pair
            if not (same_language(request.source_lang, source) and same_language(request.target_lang, target)):
                asked = f"{request.source_lang or source} to {request.target_lang or target}"
                raise ConfigError(f"memory '{use.name}': translates {source} to {target}, not {asked[:80]}")
        if models:
            return models[0]
        return self._models.find(request.source_lang, request.target_lang, request.texts)


def _knower(prepared: Prepared, request: TranslationRequest) -> Callable[[str], bool]:
    """Whether the memory has a text of several lines as a whole."""
    store = prepared.translator.datastore
    if store is None or not request.exact:
        return lambda text: False
    snapshot = store.snapshot()
    return lambda text: snapshot.exact(text) is not None


def _translated(
    source: str,
    parts: TextParts,
    filled: Sequence[FilledUnit],
    request: TranslationRequest,
    prepared: Prepared,
    pairs: PairFinder,
) -> Translated:
    text = parts.filled([unit.filling for unit in filled])
    found = [unit.translation for unit in filled]
    origins = {unit.filling.origin.value for unit in filled} or {"copy"}
    tokens = [token for translation in found for token in translation.provenance or ()]
    whole = Unit((source,)) if len(parts.units) != 1 else parts.units[0]
    return Translated(
        source=source,
        text=text,
        score=sum(translation.score for translation in found) / max(1, len(found)),
        origin=next(name for origin, name in _ORIGINS.items() if origin in origins),
        truncated=any(translation.truncated for translation in found),
        searches=sum(translation.searches for translation in found),
        missed=sum(translation.missed for translation in found),
        steps=sum(translation.steps for translation in found),
        warnings=tuple(dict.fromkeys(warning for unit in filled for warning in unit.warnings)),
        alternatives=found[0].alternatives if len(found) == 1 and _is_plain(filled[0]) else (),
        matches=matches_of(whole, prepared.memories, request.matches, _LEAST_MATCH) if request.matches else (),
        words=words_of(text, tokens, pairs) if request.explain else (),
    )


def _is_plain(unit: FilledUnit) -> bool:
    """Whether the translation has no tags, which alternatives lack."""
    return all(isinstance(part, str) for part in unit.filling.target)


def _check_count(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise ConfigError(f"{name} = {value}: must be between 0 and {most}")


@contextmanager
def _explained() -> Iterator[None]:
    """A memory that turns out to be damaged."""
    try:
        yield
    except IndexServerError as error:
        raise Busy("the index of the memory does not answer; try again later") from error
    except DatastoreError as error:
        raise Conflict(f"the memory cannot be used: {' '.join(str(error).split())}") from error
