"""Systems that can be timed: texts in, texts and token counts out. All use the same tokeniser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from nearmt.decoding import BeamConfig
from nearmt.models import TranslationModel
from nearmt.translator import Translator


@dataclass(frozen=True)
class Variant:
    """A system in one precision, at one batch size and beam size."""

    system: str
    precision: str
    batch_size: int
    beams: int

    @property
    def name(self) -> str:
        return f"{self.system} {self.precision}"


@dataclass(frozen=True)
class Output:
    """A translation and its counts."""

    text: str
    #: Tokens of the best hypothesis, end of sentence included.
    tokens: int
    #: Steps with a search of the datastore.
    searches: int = 0


class Runner(Protocol):
    """A loaded system."""

    def translate(self, texts: Sequence[str]) -> list[Output]:
        """Translate in the order of the texts, which are clean and fit the model's positions."""

    def signature(self) -> str:
        """Identify everything but the machine that can change speed or translations."""


class OwnRunner:
    """A system of nearmt."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def translate(self, texts: Sequence[str]) -> list[Output]:
        found = self.translator.translate(list(texts))
        return [Output(translation.text, translation.tokens, translation.searches) for translation in found]

    def signature(self) -> str:
        return self.translator.signature()


#: Source token ids of a batch, and its maximum of new tokens.
Batch = tuple[list[list[int]], int]
#: Maps batches to output token ids, end of sentence included, in the order of all sources.
Decode = Callable[[list[Batch]], list[list[int]]]


@dataclass(frozen=True)
class PeerRunner:
    """Another program with the same weights; sources are sorted by length and batched as in nearmt."""

    model: TranslationModel
    variant: Variant
    beam: BeamConfig
    decode: Decode
    version: str

    def translate(self, texts: Sequence[str]) -> list[Output]:
        codec = self.model.codec
        sources = [codec.source_ids(text) for text in texts]
        lengths = [codec.source_length(ids) for ids in sources]
        order = list(_by_length(lengths, self.variant.batch_size))
        # The limit of a batch is that of its longest sentence; it is not reached in practice.
        limits = [max(self.beam.limit(self.model.seq2seq, lengths[index]) for index in batch) for batch in order]
        batches = [([sources[index] for index in batch], limit) for batch, limit in zip(order, limits, strict=True)]
        indexes = [index for batch in order for index in batch]
        found = {
            index: Output(codec.text(ids), len(ids)) for index, ids in zip(indexes, self.decode(batches), strict=True)
        }
        return [found[index] for index in range(len(texts))]

    def signature(self) -> str:
        device = self.model.seq2seq.device.type
        parts = [
            self.version,
            f"model:{self.model.name}@{self.model.fingerprint}",
            f"precision:{self.variant.precision}",
        ]
        return "|".join([*parts, f"device:{device}", self.beam.signature(), f"batch:{self.variant.batch_size}"])


def _by_length(lengths: list[int], batch_size: int) -> Iterator[list[int]]:
    order = sorted(range(len(lengths)), key=lambda index: lengths[index], reverse=True)
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
