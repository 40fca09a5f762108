"""Text in, translations out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, overload

from nearmt import __version__
from nearmt.contracts import Progress, Translation
from nearmt.corpus import clean
from nearmt.corpus.marks import MARKS, MarkedText, Terms, marked, marks_in
from nearmt.datastore import Datastore, LiveStore
from nearmt.decoding import BeamConfig, Hypothesis, beam_search
from nearmt.decoding.marks import MarkRule
from nearmt.engines.devices import device_of, spread
from nearmt.errors import ConfigError, NearmtError, NearmtWarning, warn_renamed
from nearmt.methods import make_method
from nearmt.models import ModelConfig, TranslationModel, load_model, split_to_fit
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


_WITHOUT_MARKS = (
    "the datastore was made before nearmt 0.6: it knows placeholders and tags as text, so it helps less in sentences "
    "that have any; `nearmt reindex DIR --model MODEL` encodes it anew"
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
        self.model = load_model(model) if isinstance(model, ModelConfig) else model
        if isinstance(datastore, str):
            datastore = Datastore.open(datastore, device=str(self.model.seq2seq.device))
        if datastore is not None:
            datastore.check_model(self.model)
            _learn_pending(datastore, self.model)
            if self.model.writes_marks and datastore.marks != MARKS:
                warnings.warn(_WITHOUT_MARKS, NearmtWarning, stacklevel=2)
        self.datastore = datastore
        if method is None:
            method = "plain" if datastore is None else "chunk"
        self._asked_for = method, dict(settings or {})
        self.method = self._make_method()
        self.beam = beam or BeamConfig()
        self.batch_size = batch_size

    @property
    def search(self) -> BeamConfig:
        """The old name of `beam`."""
        warn_renamed("Translator.search", "beam")
        return self.beam

    def _make_method(self) -> Method:
        """The method, with what was not asked for taken from the datastore."""
        method, settings = self._asked_for
        self._calibration = None if self.datastore is None else self.datastore.snapshot().calibration
        made = make_method(method, self.datastore, settings) if isinstance(method, str) else method
        made.check_model(self.model)
        return made

    def _follow_datastore(self) -> None:
        """A datastore that has grown may have been measured anew: what is derived from it follows."""
        if self.datastore is not None and self.datastore.snapshot().calibration != self._calibration:
            self.method = self._make_method()

    def with_datastore(
        self, datastore: LiveStore, method: str = "chunk", settings: Mapping[str, Any] | None = None
    ) -> Translator:
        """The same model with a memory."""
        return Translator(self.model, datastore, method, settings, self.beam, self.batch_size)

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
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        *,
        explain: bool = False,
        progress: Progress | None = None,
        printf: Flags = None,
        terms: Terms | None = None,
    ) -> Translation | list[Translation]:
        """Translate one unit or several; the results stand in the order of the inputs.

        Protected spans (`corpus.spans`), such as placeholders, tags and URLs, are in the translation exactly once.
        `printf` says whether `%s` is a placeholder, of all units or of each; None if that is not known. `terms` have
        their own translations, wherever the model puts them.
        """
        if isinstance(text, str):
            return self.translate([text], explain=explain, printf=printf, terms=terms)[0]
        self._follow_datastore()
        units = [clean(unit) for unit in text]
        flags = [printf] * len(units) if printf is None or isinstance(printf, bool) else printf
        marked_units = [self._marked(unit, flag, terms) for unit, flag in zip(units, flags, strict=True)]
        parts: list[list[Translation]] = [[] for _ in units]
        sources = [part for number, unit in enumerate(marked_units) if unit.text for part in self._parts(number, unit)]
        done: dict[int, Translation] = {}
        for batch, translations in self._decode_all(sources, explain):
            done.update(zip(batch, translations, strict=True))
            if progress:
                progress(len(done), len(sources))
        for position, source in enumerate(sources):
            parts[source.unit].append(done[position])
        whole = [joined(unit, found) for unit, found in zip(units, parts, strict=True)]
        return [restored(translation, unit) for translation, unit in zip(whole, marked_units, strict=True)]

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

    def _decode_all(self, sources: list[SourcePart], explain: bool) -> Iterator[tuple[list[int], list[Translation]]]:
        """Positions and translations of each request when it is finished; on a CPU several run at a time."""
        requests = self._requests(sources, explain)
        tasks = [partial(self._decode, [sources[position] for position in request], explain) for request in requests]
        yield from ((requests[number], found) for number, found in spread(tasks, self.model.seq2seq.device))

    def _decode(self, parts: list[SourcePart], explain: bool) -> list[Translation]:
        sources, lengths = [part.ids for part in parts], [part.length for part in parts]
        words = [] if self.datastore is None else [SourceWords.of(self.model.codec, source) for source in sources]
        rule = None
        if any(part.marks for part in parts):
            rule = MarkRule(self.model.mark_tokens, [part.marks for part in parts], self.model.seq2seq.eos_ids)
        best, state = beam_search(
            self.model.seq2seq, self.method, sources, lengths, self.beam, explain, self.batch_size, words, rule
        )
        return [self._translation(hypothesis, state, explain) for hypothesis in best]

    def _translation(self, hypothesis: Hypothesis, state: MethodState, explain: bool) -> Translation:
        provenance = None
        if explain:
            provenance = explain_hypothesis(
                hypothesis, state.evidence, self.model.codec, state.store, self.method.chunk
            )
        return Translation(
            source="",
            text=self.model.codec.text(hypothesis.tokens),
            score=hypothesis.score,
            tokens=len(hypothesis.tokens),
            searches=hypothesis.searches,
            steps=hypothesis.steps,
            truncated=hypothesis.truncated,
            provenance=provenance,
        )


def _learn_pending(datastore: LiveStore, model: TranslationModel) -> None:
    """Take in what was logged without a model; where that cannot be done now, translate without it."""
    if datastore.pending:
        try:
            datastore.catch_up(model)
        except NearmtError as error:
            told = f"{datastore.pending} logged pairs are not used yet: {error}"
            warnings.warn(told, NearmtWarning, stacklevel=3)


def marks_of(unit: MarkedText, text: str) -> Marks | None:
    """The marks that the translation of a part of a unit has to have."""
    numbers = frozenset(marks_in(text)) if unit.spans else frozenset()
    pairs = ((number, opener) for number, opener in enumerate(unit.opened_by, 1) if opener)
    return Marks(numbers, tuple(pair for pair in pairs if numbers.issuperset(pair))) if numbers else None


def restored(translation: Translation, unit: MarkedText) -> Translation:
    """A translation with the spans of its source in place of marks."""
    if not unit.spans:
        return translation
    return replace(translation, text=unit.restored(translation.text))


def joined(source: str, parts: Sequence[Translation]) -> Translation:
    """The translation of a unit from those of its parts."""
    if not parts:
        return Translation(source=source, text="", score=0.0)
    provenance = None
    if parts[0].provenance is not None:
        provenance = tuple(token for part in parts for token in part.provenance or ())
    return Translation(
        source=source,
        text=" ".join(part.text for part in parts),
        score=sum(part.score for part in parts) / len(parts),
        tokens=sum(part.tokens for part in parts),
        searches=sum(part.searches for part in parts),
        steps=sum(part.steps for part in parts),
        truncated=any(part.truncated for part in parts),
        source_parts=sum(part.source_parts for part in parts),
        provenance=provenance,
    )
