"""Values that packages exchange.

Shapes: B rows (hypotheses), T target steps, S source length, H decoder state, D key, E cache-key
columns, V vocabulary, K neighbours, C chunk, N entries, M cache entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from nearmt.errors import warn_renamed

if TYPE_CHECKING:  # opening a manifest needs no tensors
    from torch import Tensor

#: Told how many units are done and how many there are (0 when unknown).
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Pair:
    """One unit of a translation memory."""

    source: str
    target: str
    id: str = ""
    origin: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scores:
    """Log-probabilities of all tokens: log p = logits_BV + offset_B[:, None]. An engine's `Scoring` makes them."""

    logits_BV: Tensor
    offset_B: Tensor

    def at(self, token_BK: Tensor) -> Tensor:
        """Log-probabilities of some tokens of each row, [B, K]."""
        return self.logits_BV.gather(1, token_BK) + self.offset_B[:, None]

    def surest(self) -> Tensor:
        """Log-probability of the likeliest token of each row, [B]."""
        return self.logits_BV.amax(dim=1) + self.offset_B

    def likeliest(self, count: int) -> Tensor:
        """Log-probabilities of the likeliest tokens of each row, best first, [B, up to count]."""
        if count == 1:
            return self.surest()[:, None]
        return self.logits_BV.topk(min(count, self.logits_BV.shape[1]), dim=1).values + self.offset_B[:, None]

    def log_probs(self) -> Tensor:
        """A copy of all log-probabilities, [B, V]."""
        return self.logits_BV + self.offset_B[:, None]


@dataclass(frozen=True)
class Neighbours:
    """Entries of a datastore, nearest first; entry -1 and distance inf are padding."""

    entry_BK: Tensor
    distance_BK: Tensor
    #: The index could not be asked, so there are none.
    missed: bool = False


@dataclass(frozen=True)
class StoreProfile:
    """What was measured of a store: defaults of settings are derived from it."""

    #: Changes whenever the content does.
    identity: str
    #: Pairs that can be found.
    pairs: int
    #: Entries that can be found: what a query is compared with.
    entries: int
    #: Columns of the keys, by falling variance.
    columns: int
    #: Typical squared distance of a query to its neighbours: the unit of T.
    search_scale: float
    #: Typical distance, not squared, on the first columns: the unit of T'.
    scale: Callable[[int], float]
    #: Lambda under which the store's own held-out tokens are most likely, if it was measured.
    likely_weight: float | None
    #: How strongly neighbours whose source disagrees are silenced, if it was measured.
    agreement: float | None
    #: Whether similar sources can be found: stores made before nearmt 0.3 have no source tokens.
    knows_sources: bool
    #: Those of some codes of source words (`models.words`) that few pairs have, and that these translate alike.
    terms: Callable[[Iterable[int]], frozenset[int]]


@dataclass(frozen=True)
class CloseSource:
    """A stored source that has at least half in common with a sentence."""

    #: Subword ids.
    ids: list[int]
    #: What the two have in common, in shares of what the sentence has in common with itself.
    share: float


@dataclass(frozen=True)
class SimilarSources:
    """What a store knows that is like some sentences."""

    #: Entries of the pairs with the most similar sources of each sentence, [S, X]; -1 is padding.
    entry_SX: Tensor
    #: How much each sentence has in common with its most similar sources, in units of what the store's own sources
    #: have in common: about 1 for text of the store's kind, inf for a source that is in the store.
    familiarity: list[float]
    #: The share of what each sentence has in common with itself that its most similar source has in common with it.
    closeness: list[float]
    #: The sources that have much in common with each sentence, the most similar first.
    close: list[list[CloseSource]]


class Origin(IntEnum):
    """Where the neighbours of a row came from."""

    MODEL = 0  # no neighbours: the model alone
    SEARCH = 1  # a search of the datastore
    CACHE = 2  # the neighbours' cache or a chunk read in order


@dataclass
class Evidence:
    """The neighbours' distribution of one step, for all rows: enough to mix it in and to explain it."""

    origin_B: Tensor  # Origin of each row
    entry_BK: Tensor  # entries, -1 for none
    token_BK: Tensor  # their target tokens
    weight_BK: Tensor  # their shares of p_kNN; a row sums to 1, or to 0 where there are none
    share_B: Tensor  # lambda or lambda' of each row; 0 where there is no neighbour
    #: The shares that neighbours lost because their source disagrees with the sentence, if any did.
    silenced_BK: Tensor | None = None


@dataclass(frozen=True)
class Witness:
    """A stored pair with a neighbour that predicted an output token, and its share of p_kNN."""

    pair_id: str
    share: float


@dataclass(frozen=True)
class Silenced:
    """A stored pair with a neighbour that predicted a token, but whose source has another word there than the
    sentence; and the share of p_kNN that it lost."""

    pair_id: str
    token: str
    share: float


@dataclass(frozen=True)
class TokenProvenance:
    """Why one output token is there."""

    token: str
    #: `search` or `cache` if neighbours from there spoke for this token, else `model`.
    origin: str
    #: Whether the datastore was searched at this step.
    searched: bool
    #: Probability before and after mixing.
    model_probability: float
    probability: float
    witnesses: tuple[Witness, ...]
    #: Text of the chunks retrieved at this step, nearest first.
    chunks: tuple[str, ...] = ()
    #: Neighbours that did not count, or counted less, by source agreement.
    silenced: tuple[Silenced, ...] = ()
    #: Whether it is part of a mark, for which `token` has the protected span, or nothing if it does not begin it.
    protected: bool = False


@dataclass(frozen=True)
class Translation:
    """One translated unit."""

    source: str
    text: str
    #: Log-probability of the tokens, divided by length ** length penalty.
    score: float
    #: Tokens of the best hypothesis, end of sentence included.
    tokens: int = 0
    #: Steps at which the datastore was searched.
    searches: int = 0
    #: Decoding steps until the beam was done: somewhat more than tokens.
    steps: int = 0
    #: The length bound was reached before the end of the sentence.
    truncated: bool = False
    #: How many parts the source was split into to fit the model.
    source_parts: int = 1
    provenance: tuple[TokenProvenance, ...] | None = None
    #: Other translations that the beam found, best first, if asked for.
    alternatives: tuple[str, ...] = ()
    #: Words with a token that is improbable for the model and, with the memory's neighbours, still is.
    unsure: tuple[str, ...] = ()
    #: Searches that brought nothing, because the server of the index did not answer.
    missed: int = 0
    #: Entries that its hypotheses were compared with, in searches and in caches.
    compared: int = 0

    @property
    def pieces(self) -> int:
        """The old name of `source_parts`."""
        warn_renamed("Translation.pieces", "source_parts")
        return self.source_parts
