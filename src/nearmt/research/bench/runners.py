"""Systems that can be timed: texts in, texts and numbers of tokens out. All tokenise with the same codec."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from nearmt.decoding import BeamConfig
from nearmt.models import TranslationModel
from nearmt.translator import Translator


@dataclass(frozen=True)
class Cell:
    """A system, and how it runs."""

    system: str
    precision: str
    batch_size: int
    beams: int

    @property
    def name(self) -> str:
        return f"{self.system} {self.precision}"


@dataclass(frozen=True)
class Output:
    """A translation."""

    text: str
    #: Of the best hypothesis, end of sentence included.
    tokens: int
    #: Steps at which a datastore was searched.
    searches: int = 0


class Runner(Protocol):
    """A loaded system."""

    def translate(self, texts: Sequence[str]) -> list[Output]:
        """In the order of the texts; texts are clean and fit the model's positions."""

    def signature(self) -> str:
        """Everything that can change its speed or its translations, beside the machine."""


class OwnRunner:
    """nearmt itself."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def translate(self, texts: Sequence[str]) -> list[Output]:
        found = self.translator.translate(list(texts))
        return [Output(translation.text, translation.tokens, translation.searches) for translation in found]

    def signature(self) -> str:
        return self.translator.signature()


#: Token ids of the sources of a batch, and their most new tokens.
Batch = tuple[list[list[int]], int]
#: Batches to output token ids, end of sentence included, in the order of all sources.
Decode = Callable[[list[Batch]], list[list[int]]]


@dataclass(frozen=True)
class PeerRunner:
    """Another program on the same weights: sources sorted by length as nearmt sorts them, batch by batch."""

    model: TranslationModel
    cell: Cell
    search: BeamConfig
    decode: Decode
    version: str

    def translate(self, texts: Sequence[str]) -> list[Output]:
        codec = self.model.codec
        sources = [codec.source_ids(text) for text in texts]
        lengths = [codec.source_length(ids) for ids in sources]
        order = list(_by_length(lengths, self.cell.batch_size))
        # One bound for all of a batch: that of the longest, which is no bound in practice.
        limits = [max(self.search.limit(self.model.seq2seq, lengths[place]) for place in batch) for batch in order]
        batches = [([sources[place] for place in batch], limit) for batch, limit in zip(order, limits, strict=True)]
        places = [place for batch in order for place in batch]
        found = {
            place: Output(codec.text(ids), len(ids)) for place, ids in zip(places, self.decode(batches), strict=True)
        }
        return [found[place] for place in range(len(texts))]

    def signature(self) -> str:
        device = self.model.seq2seq.device.type
        parts = [self.version, f"model:{self.model.name}@{self.model.fingerprint}", f"precision:{self.cell.precision}"]
        return "|".join([*parts, f"device:{device}", self.search.signature(), f"batch:{self.cell.batch_size}"])


def _by_length(lengths: list[int], batch_size: int) -> Iterator[list[int]]:
    order = sorted(range(len(lengths)), key=lambda place: lengths[place], reverse=True)
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
