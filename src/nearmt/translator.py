"""Text in, translations out."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Protocol, overload

from nearmt import __version__
from nearmt.contracts import Progress, Translation
from nearmt.corpus import clean
from nearmt.corpus.marks import MARKS, MarkedText, Terms, marked
from nearmt.datastore import Datastore, LiveStore
from nearmt.datastore.live_store import learn_pending
from nearmt.decoding import BeamConfig, Hypothesis, beam_search
from nearmt.decoding.forbidden import ForbiddenRule
from nearmt.decoding.marks import MarkRule
from nearmt.engines.devices import device_of, spread
from nearmt.errors import ConfigError, NearmtWarning, warn_renamed
from nearmt.marking import joined, marks_of, restored, unsure_words, with_chosen_forms
from nearmt.methods import make_method
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import ModelConfig, TranslationModel, load_model, resolve_device, split_to_fit
from nearmt.models.marks import Marks
from nearmt.models.words import SourceWords
from nearmt.provenance import explain_hypothesis
from nearmt.steps import Method, MethodState
from nearmt.threads import workers

#: Whether `%s` and similar are placeholders, of all units or of each; None if that is not known.
Flags = bool | Sequence[bool | None] | None


@dataclass(frozen=True)
class SourcePart:
    """A unit, or a part of one that is longer than the model's positions."""

    unit: int
    ids: list[int]
    length: int  # |x|
    #: Those of its marks that its translation has to have; None if it has no marks.
    marks: Marks | None = None
    #: What its translation must not have.
    forbidden: re.Pattern[str] | None = None


class PartDecoder(Protocol):
    """Decodes sentences elsewhere: `nearmt.scheduler` does it together with those of other requests."""

    def decode(self, translator: Translator, parts: Sequence[SourcePart]) -> Iterator[tuple[int, Hypothesis]]:
        """The position and the best hypothesis of each part, as it is finished."""

    def alone(self) -> AbstractContextManager[None]:
        """Wait until nothing else is decoded by a request of its own: for what cannot share a batch."""


_OTHER_MARKS = (
    "the datastore was made by an older nearmt: it has placeholders and tags in another form, so it helps less in "
    "sentences that have any; `nearmt reindex DIR --model MODEL` encodes it anew"
)


class Translator:
    """A frozen model, optionally a datastore (or several: `JoinedStore`), a method and a beam search.

    `method` is `plain`, `knn` or `chunk` (the default with a datastore) with `settings` by their
    public names, or a method object. `search` is the old name of `beam`.
    """

    def __init__(
        self,
        model: str | ModelConfig | TranslationModel = "de-en",
        datastore: LiveStore | str | None = None,
        method: str | Method | None = None,
        settings: Mapping[str, Any] | None = None,
        beam: BeamConfig | None = None,
        batch_size: int = 8,
        *,
        search: BeamConfig | None = None,
    ) -> None:
        if search is not None:
            warn_renamed("Translator(search=...)", "beam")
            beam = search
        if batch_size < 1:
            raise ConfigError(f"batch-size = {batch_size}: must be at least 1")
        if isinstance(model, str):
            model = ModelConfig(model=model)
        if isinstance(datastore, str):
            device = resolve_device(model.device) if isinstance(model, ModelConfig) else str(model.seq2seq.device)
            datastore = Datastore.open(datastore, device=device)
        if isinstance(model, ModelConfig):
            model = load_model(model, None if datastore is None else datastore.adapter)
        self.model = model
        if datastore is not None:
            datastore.check_model(self.model)
            learn_pending(datastore, self.model)
            if self.model.writes_marks and datastore.marks != MARKS:
                warnings.warn(_OTHER_MARKS, NearmtWarning, stacklevel=2)
        self.datastore = datastore
        if method is None:
            method = "plain" if datastore is None else "chunk"
        self._asked_for = method, dict(settings or {})
        self.method = self._make_method()
        self.beam = beam or BeamConfig()
        self.batch_size = batch_size
        self._decoder: PartDecoder | None = None

    @property
    def search(self) -> BeamConfig:
        """The old name of `beam`."""
        warn_renamed("Translator.search", "beam")
        return self.beam

    def _make_method(self) -> Method:
        """The method, with what was not asked for taken from the datastore."""
        method, settings = self._asked_for
        now = None if self.datastore is None else self.datastore.snapshot()
        self._calibration = None if now is None else now.calibration
        self._identity = None if now is None else now.identity
        made = make_method(method, self.datastore, settings) if isinstance(method, str) else method
        made.check_model(self.model)
        return made

    def _follow_datastore(self) -> None:
        """Other processes may have added to the datastore, measured it anew, or built it again: follow them."""
        if self.datastore is None:
            return
        self.datastore.refresh(wait=False)
        now = self.datastore.snapshot()
        if now.identity != self._identity:
            self.datastore.check_model(self.model)
            self._identity = now.identity
        if now.calibration != self._calibration:
            self.method = self._make_method()

    def with_datastore(
        self, datastore: LiveStore, method: str = "chunk", settings: Mapping[str, Any] | None = None
    ) -> Translator:
        """The same model with a memory."""
        return Translator(self.model, datastore, method, settings, self.beam, self.batch_size)

    def decoding_with(self, decoder: PartDecoder) -> Translator:
        """The same translator, whose sentences another decoder decodes: together with those of others."""
        if self.method.shares_batch:
            raise ConfigError("with these settings sentences share neighbours: not with those of other requests")
        self._follow_datastore()
        other = copy(self)
        other._decoder = decoder
        return other

    def signature(self) -> str:
        """Everything that can change a translation."""
        model = self.model
        parts = [
            f"nearmt:{__version__}",
            f"model:{model.name}@{model.fingerprint}",
            f"precision:{model.seq2seq.precision}",
            f"device:{model.seq2seq.device.type}",
            self.method.signature(),
            *([f"cleaning:[{self.datastore.cleaning}]"] if self.datastore is not None else []),
            self.beam.signature(),
            f"batch:{self.batch_size}",
        ]
        return "|".join(parts)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a sequence of str
        self,
        text: str,
        *,
        explain: bool = False,
        progress: Progress | None = None,
        printf: Flags = None,
        terms: Terms | None = None,
        alternatives: int = 0,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Sequence[str],
        *,
        explain: bool = False,
        progress: Progress | None = None,
        printf: Flags = None,
        terms: Terms | None = None,
        alternatives: int = 0,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        *,
        explain: bool = False,
        progress: Progress | None = None,
        printf: Flags = None,
        terms: Terms | None = None,
        alternatives: int = 0,
    ) -> Translation | list[Translation]:
        """Translate one unit or several; the results stand in the order of the inputs.

        Protected spans (`corpus.spans`), such as placeholders, tags and URLs, are in the translation exactly once.
        `printf` says whether `%s` is a placeholder, of all units or of each; None if that is not known. `terms` have
        their own translations (`corpus.phrases.FixedTerms`), wherever the model puts them. Up to `alternatives` other
        translations come with each unit, if the beam found as many, and if the unit is not longer than the model's
        positions.
        """
        if isinstance(text, str):
            return self.translate([text], explain=explain, printf=printf, terms=terms, alternatives=alternatives)[0]
        self._follow_datastore()
        units = [clean(unit) for unit in text]
        flags = [printf] * len(units) if printf is None or isinstance(printf, bool) else printf
        marked_units = [self._marked(unit, flag, terms) for unit, flag in zip(units, flags, strict=True)]
        parts: list[list[Translation]] = [[] for _ in units]
        forbidden = [None if terms is None else terms.forbidden(unit) for unit in units]
        sources = [
            replace(part, forbidden=forbidden[number])
            for number, unit in enumerate(marked_units)
            for part in (self._parts(number, unit) if unit.text else ())
        ]
        done: dict[int, Translation] = {}
        for batch, translations in self._decode_all(sources, explain, alternatives):
            done.update(zip(batch, translations, strict=True))
            if progress:
                progress(len(done), len(sources))
        for position, source in enumerate(sources):
            parts[source.unit].append(done[position])
        whole = [joined(unit, found) for unit, found in zip(units, parts, strict=True)]
        if self._decoder is None and (missed := sum(translation.missed > 0 for translation in whole)):
            told = f"{missed:,} units lack neighbours of the memory: the server of its index did not answer"
            warnings.warn(told, NearmtWarning, stacklevel=2)
        marked_units = with_chosen_forms(self.model, marked_units, [translation.text for translation in whole])
        language = self.model.language_pair[1]
        return [restored(translation, unit, language) for translation, unit in zip(whole, marked_units, strict=True)]

    def _marked(self, unit: str, printf: bool | None, terms: Terms | None) -> MarkedText:
        return marked(unit, printf, terms) if self.model.writes_marks else MarkedText(unit)

    def _parts(self, number: int, unit: MarkedText) -> Iterator[SourcePart]:
        codec = self.model.codec
        ids_of = cache(codec.source_ids)
        for text in split_to_fit(unit.text, lambda text: len(ids_of(text)), self.model.seq2seq.positions):
            yield SourcePart(number, ids_of(text), codec.source_length(ids_of(text)), marks_of(unit, text))

    def _requests(self, sources: list[SourcePart], explain: bool) -> list[list[int]]:
        """The positions of each request's sources: batches of similar length, unless results depend on the batch.

        Where finished sentences can be replaced, a request is several batches, and requests take about equally long.
        """
        order, size = list(range(len(sources))), self.batch_size
        if not self.method.shares_batch:
            order.sort(key=lambda position: sources[position].length, reverse=True)
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        if explain or not self.method.per_sentence:
            return batches
        device = device_of(self.model.seq2seq.device)
        at_a_time = workers() if device.concurrent else 1
        rounds = -(-len(batches) // (device.batches * at_a_time))
        count = min(rounds * at_a_time, len(batches))
        requests: list[list[int]] = [[] for _ in range(count)]
        work = [0] * count
        for batch in batches:  # the longest first, each to the request with the least work
            least = work.index(min(work))
            requests[least] += batch
            work[least] += 1 + sum(sources[position].length for position in batch)
        return requests

    def _decode_all(
        self, sources: list[SourcePart], explain: bool, alternatives: int
    ) -> Iterator[tuple[list[int], list[Translation]]]:
        """Positions and translations of sources as they are finished."""
        for translator, positions in self._translators(sources):
            part = [sources[position] for position in positions]
            for found, translations in translator._decode_sources(part, explain, alternatives):
                yield [positions[number] for number in found], translations

    def _translators(self, sources: list[SourcePart]) -> Iterator[tuple[Translator, list[int]]]:
        """What translates which sources: what the memory knows nothing about goes to the model without its adapter."""
        if self.model.adapter is None or not isinstance(self.method, RetrievingMethod):
            yield self, list(range(len(sources)))
            return
        foreign = self.method.foreign([source.ids for source in sources], self.model.adapter.gain)
        for is_foreign in (False, True):
            positions = [position for position, each in enumerate(foreign) if each == is_foreign]
            if positions:
                yield self._without_adapter() if is_foreign else self, positions

    def _without_adapter(self) -> Translator:
        """The model alone, which no adapter has changed."""
        other = Translator(self.model.base, beam=self.beam, batch_size=self.batch_size)
        other._decoder = self._decoder
        return other

    def _decode_sources(
        self, sources: list[SourcePart], explain: bool, alternatives: int
    ) -> Iterator[tuple[list[int], list[Translation]]]:
        if self._decoder is not None and not explain and self.method.per_sentence:
            for position, hypothesis in self._decoder.decode(self, sources):
                yield [position], [self._translation(hypothesis, alternatives)]
            return
        # On a CPU several requests run at a time.
        requests = self._requests(sources, explain)
        tasks = [
            partial(self._decode, [sources[position] for position in request], explain, alternatives)
            for request in requests
        ]
        with nullcontext() if self._decoder is None else self._decoder.alone():
            yield from ((requests[number], found) for number, found in spread(tasks, self.model.seq2seq.device))

    def _decode(self, parts: list[SourcePart], explain: bool, alternatives: int) -> list[Translation]:
        sources, lengths = [part.ids for part in parts], [part.length for part in parts]
        words = [] if self.datastore is None else [SourceWords.of(self.model.codec, source) for source in sources]
        rule = None
        if any(part.marks for part in parts):
            rule = MarkRule(self.model.mark_tokens, [part.marks for part in parts], self.model.seq2seq.eos_ids)
        patterns = [part.forbidden for part in parts]
        ban = ForbiddenRule(self.model.codec.subwords, patterns) if any(patterns) else None
        best, state = beam_search(
            self.model.seq2seq, self.method, sources, lengths, self.beam, explain, self.batch_size, words, rule, ban
        )
        return [self._translation(hypothesis, alternatives, state if explain else None) for hypothesis in best]

    def _translation(
        self, hypothesis: Hypothesis, alternatives: int, explained_by: MethodState | None = None
    ) -> Translation:
        provenance, text_of = None, self.model.codec.text
        if explained_by is not None:
            provenance = explain_hypothesis(
                hypothesis, explained_by.evidence, self.model.codec, explained_by.store, self.method.chunk
            )
        return Translation(
            source="",
            text=text_of(hypothesis.tokens),
            score=hypothesis.score,
            tokens=len(hypothesis.tokens),
            searches=hypothesis.searches,
            missed=hypothesis.missed,
            compared=hypothesis.compared,
            steps=hypothesis.steps,
            truncated=hypothesis.truncated,
            provenance=provenance,
            unsure=unsure_words(self.model.codec.subwords(hypothesis.tokens), hypothesis.log_probs),
            alternatives=tuple(text_of(other.tokens) for other in hypothesis.others[:alternatives]),
        )
