"""The values that cross rooms, and the contracts between them.

Shapes: B rows (hypotheses), T target steps, S source length, H decoder state, D key, E cache-key
columns, V vocabulary, K neighbours, C chunk, N entries, M cache entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

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
class Step:
    """What the model says at one decoding step, for all rows."""

    #: They belong to the method, which may change them.
    logits_BV: Tensor
    hidden_BH: Tensor
    #: Of each row: 1 for the first token that is not forced.
    times: list[int]
    #: Which sentence of the request each row translates.
    sources: list[int]
    #: Tokens that end a sentence.
    ends: Sequence[int] = ()


@dataclass(frozen=True)
class Scores:
    """Log-probabilities of all tokens: log p = logits_BV + offset_B[:, None]."""

    logits_BV: Tensor
    offset_B: Tensor

    @classmethod
    def of(cls, logits_BV: Tensor) -> Scores:
        """The model's own distribution, its softmax."""
        from nearmt.engines.cpu import scores  # opening a manifest needs no tensors

        if scores.serves(logits_BV):
            return cls(logits_BV, -scores.log_of_sum(logits_BV))
        # In one pass, as `generate()` does it; the logarithm of the sum alone takes twice as long.
        return cls(logits_BV.log_softmax(dim=1), logits_BV.new_zeros(len(logits_BV)))

    def at(self, token_BK: Tensor) -> Tensor:
        """Log-probabilities of some tokens of each row, [B, K]."""
        return self.logits_BV.gather(1, token_BK) + self.offset_B[:, None]

    def surest(self) -> Tensor:
        """Log-probability of the likeliest token of each row, [B]."""
        return self.logits_BV.amax(dim=1) + self.offset_B

    def log_probs(self) -> Tensor:
        """All log-probabilities, [B, V], as numbers of their own."""
        return self.logits_BV + self.offset_B[:, None]


@dataclass(frozen=True)
class Neighbours:
    """Entries of a datastore, nearest first; entry -1 and distance inf where there are fewer than K."""

    entry_BK: Tensor
    distance_BK: Tensor


class Origin(IntEnum):
    """Where the second distribution of a step came from."""

    MODEL = 0  # there was none: the model alone
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


class MethodState(Protocol):
    """What a method remembers while one request is decoded."""

    def scores(self, step: Step) -> Scores:
        """log p(y_t | y_<t, x) of every row."""

    def lags(self, sources: list[int]) -> list[float]:
        """Of sentences that begin: how much worse than the best that ended, as a share, hypotheses are still waited
        for; infinite where `generate()` would wait, too."""

    def reorder(self, row_B: Tensor) -> None:
        """Row i continues as what was row `row_B[i]`."""

    def leave(self, sources: list[int]) -> None:
        """These sentences are done."""


class Method(Protocol):
    """A way to turn the model's distribution into the one that is searched."""

    @property
    def shares_batch(self) -> bool:
        """Whether a sentence's result depends on what is translated beside it."""

    @property
    def by_sentence(self) -> bool:
        """Whether all it remembers belongs to single sentences: then others can take the places of those done."""

    def begin(
        self, source_lengths: Sequence[int], max_steps: int, trace: bool, sources: Sequence[Sequence[int]] = ()
    ) -> MethodState:
        """Start a request of some sentences: their |x| and, for those who look at them, their tokens."""

    def signature(self) -> str:
        """The method and everything that can change its result."""


class Index(Protocol):
    """Nominates candidates. Distances are computed elsewhere, from the stored keys."""

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        """At least `count` entries likely to be nearest, [B, >=count]; -1 where it found fewer."""


@dataclass(frozen=True)
class Witness:
    """A stored pair that spoke for an output token, and its share of p_kNN."""

    pair_id: str
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
    #: How many pieces the source was split into to fit the model.
    pieces: int = 1
    provenance: tuple[TokenProvenance, ...] | None = None
