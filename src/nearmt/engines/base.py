"""What an engine computes: one contract per operation, one implementation per device.

`engines/reference` states every operation in torch, on any device. `engines/cpu` (C kernels) and `engines/cuda`
(Triton kernels, CUDA graphs) compute the same faster. `engines/choose.py` picks one per component, when a model or a
store is opened.

Shapes: B rows (hypotheses), S slots (sentences of a batch), R rows of a slot, K neighbours, X candidates, C chunk,
N entries, M cached entries, D key columns, E cache columns, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Evidence, Neighbours, Origin, Scores


@dataclass(frozen=True)
class Mixing:
    """Constant weights and temperatures of equations 2 and 3: one pair for searches, one for the cache."""

    weight: float
    temperature: float
    cache_weight: float
    cache_temperature: float


@dataclass(frozen=True)
class EndRule:
    """Which neighbours may end a sentence: those within a radius, or all where the model finds the end likely.

    A distant neighbour shows that a similar sentence ended there, not that this one is complete; with all of them
    translations become too short. Radii are in the distances of each kind of step. The share of a neighbour that may
    not end the sentence goes to the model.
    """

    search: float
    cache: float
    #: End-of-sentence probability of the model from which all neighbours count.
    likely: float


#: A word that the sentence has; and one that stands where a nearly equal source in the store has a word more, or less.
#: There neighbours do not know of the difference: next to an added *not* they predict the verb. They do not count.
#: A term is a word of the sentence whose neighbours count in spite of the guard.
KNOWN, CONTESTED, TERM = 1, 2, 3


@dataclass(frozen=True)
class AgreementRule:
    """How much a neighbour counts whose own source word does not occur in the sentence (source agreement).

    A neighbour votes for a target token that translates a word of its own source. If the sentence does not have that
    word, it depends on the words nearby: where the sentence has few of them, the neighbour is a paraphrase, and counts
    fully; where it has most of them, the two sentences differ in just this word, and the neighbour does not count.
    Sentences with a near match in the store are translated from that, and need no paraphrases: there the rule applies
    with all its strength, elsewhere with a part of it.
    """

    #: Entries before and after the neighbour, in its pair, whose words are nearby.
    window: int
    #: The share of nearby words in the sentence up to which a neighbour counts fully, and from which it does not count;
    #: linear in between.
    paraphrase: float
    contrast: float
    #: How much of this applies: 0 lets all neighbours count fully.
    strength: float = 1.0
    #: The part of the strength that applies to sentences without a near match.
    elsewhere: float = 1.0


@dataclass(frozen=True)
class SentenceWords:
    """What source agreement needs to know of the sentences in the slots."""

    #: Which codes of words (`models.words`) each has, [S, CODES]: 0, KNOWN, CONTESTED or TERM (uint8).
    known_SX: Tensor
    #: From 0 to 1, whether the store has a near match of the sentence, [S].
    near_S: Tensor
    #: What multiplies the share that neighbours of other words than terms keep, [S].
    trust_S: Tensor

    def of(self, slot: int) -> SentenceWords:
        """What is known of one of them; views."""
        return SentenceWords(*(part[slot : slot + 1] for part in (self.known_SX, self.near_S, self.trust_S)))

    def put(self, slot: int, words: SentenceWords) -> None:
        """Replace what is known of one of them by what is known of another sentence."""
        self.known_SX[slot], self.near_S[slot], self.trust_S[slot] = (
            words.known_SX[0],
            words.near_S[0],
            words.trust_S[0],
        )

    def to(self, device: torch.device) -> SentenceWords:
        """The same on a device."""
        parts = self.known_SX, self.near_S, self.trust_S
        return SentenceWords(*(part.to(device, non_blocking=True) for part in parts))


@dataclass(frozen=True)
class CachePlan:
    """What a sentence cache retrieves, keeps and compares."""

    #: Neighbours of a search.
    k: int
    #: Neighbours recalled from the cache.
    cache_k: int
    #: Tokens of a chunk that a search brings into the cache; 0 keeps nothing.
    chunk: int
    #: Leading key columns that the cache compares.
    columns: int

    @property
    def width(self) -> int:
        """Columns of the result of a step."""
        return max(self.k, self.cache_k)


@dataclass
class Retrieved:
    """The neighbours of every row at one step; entry -1 and distance inf are padding.

    Distances of a search are squared, on all key columns. Distances of the cache are not squared, on its columns.
    """

    asked_B: Tensor  # Origin of each row's neighbours, if it has any
    entry_BK: Tensor
    distance_BK: Tensor
    #: The index could not be asked: rows that search have no neighbours.
    missed: bool = False

    @classmethod
    def nothing(cls, rows: int, k: int, device: torch.device) -> Retrieved:
        """No neighbours for any row."""
        return cls(
            asked_B=torch.full((rows,), int(Origin.MODEL), device=device),
            entry_BK=torch.full((rows, k), -1, device=device),
            distance_BK=torch.full((rows, k), torch.inf, device=device),
        )

    @classmethod
    def all_of(cls, origin: Origin, found: Neighbours, k: int) -> Retrieved:
        """Neighbours of one origin for all rows, padded to k."""
        asked_B = torch.full((len(found.entry_BK),), int(origin), device=found.entry_BK.device)
        found = padded(found, k)
        return cls(asked_B, found.entry_BK, found.distance_BK, found.missed)

    def first(self, rows: int) -> Retrieved:
        """A view of the first rows."""
        return Retrieved(self.asked_B[:rows], self.entry_BK[:rows], self.distance_BK[:rows], self.missed)

    def to(self, device: torch.device) -> Retrieved:
        """The same on another device."""
        if self.entry_BK.device == device:
            return self
        return Retrieved(self.asked_B.to(device), self.entry_BK.to(device), self.distance_BK.to(device), self.missed)

    @property
    def origin_B(self) -> Tensor:
        """Origin of each row; MODEL for a row without neighbours."""
        return torch.where((self.entry_BK >= 0).any(dim=1), self.asked_B, int(Origin.MODEL))

    def put(self, row_R: Tensor | slice, origin: Origin, found: Neighbours) -> None:
        """Set the neighbours of some rows."""
        self.missed |= found.missed
        found = padded(found, self.entry_BK.shape[1])
        entry_RK, distance_RK = found.entry_BK, found.distance_BK
        if isinstance(row_R, slice):
            self.asked_B[row_R], self.entry_BK[row_R], self.distance_BK[row_R] = int(origin), entry_RK, distance_RK
        else:  # assigning a number by index would synchronise with a GPU
            self.asked_B.index_fill_(0, row_R, int(origin))
            self.entry_BK.index_copy_(0, row_R, entry_RK)
            self.distance_BK.index_copy_(0, row_R, distance_RK)


def padded(found: Neighbours, k: int) -> Neighbours:
    """The same neighbours in k columns: -1 and inf where there are fewer."""
    missing, pad = k - found.entry_BK.shape[1], torch.nn.functional.pad
    if not missing:
        return found
    return Neighbours(
        pad(found.entry_BK, (0, missing), value=-1), pad(found.distance_BK, (0, missing), value=torch.inf), found.missed
    )


class Scoring(Protocol):
    """Distributions over the vocabulary and the best continuations, on the model's device."""

    def lease(self, owner: object) -> Scoring:
        """An instance for one request, for as long as `owner` lives; buffers are not shared between requests."""

    def normalise(self, logits_BV: Tensor) -> Scores:
        """The model's own distribution: log softmax."""

    def mix(self, scores: Scores, evidence: Evidence) -> Scores:
        """Equation 3 with a lambda per row; the logits change in place."""

    def mix_neighbours(
        self,
        logits_BV: Tensor,
        found: Retrieved,
        token_BK: Tensor,
        count_BK: Tensor | None,
        mixing: Mixing,
        trust_B: Tensor | None = None,
        rule: EndRule | None = None,
        ends: Sequence[int] = (),
        agreement_BK: Tensor | None = None,
    ) -> Scores:
        """Equations 2 and 3, source agreement and the rule for ends; the logits change in place.

        `token_BK` are the neighbours' tokens (any valid token for padding), `count_BK` what multiplies exp(-d / T) of
        each, `trust_B` what multiplies lambda of each row, `ends` the tokens that end a sentence, `agreement_BK` the
        share of its weight that each neighbour keeps.
        """

    def best(self, scores: Scores, score_B: Tensor, slots: int, count: int) -> Tensor:
        """Scores, rows and tokens of the best continuations of each slot, best first, [S, 3, up to count] doubles.

        Slots have equally many adjacent rows. A continuation scores its row's `score_B` plus its token's
        log-probability. Ties are broken by the slot's own numbers alone.
        """


class RowSearch(Protocol):
    """Searches for some rows of a batch (None: all) and writes what it finds to their rows."""

    def __call__(self, query_BD: Tensor, row_R: np.ndarray | None, entry_BX: Tensor, distance_BX: Tensor, /) -> int:
        """Squared distances; -1 and inf are padding. Returns how many rows have fewer neighbours than wanted."""


class KernelLists(Protocol):
    """Inverted lists that a kernel searches."""

    def row_search(self, keys: Any, k: int) -> RowSearch:
        """A search for k neighbours, measured by the engine's own form of the stored keys."""


class Top(Protocol):
    """The nearest entries among those seen so far."""

    def add(self, distance_BN: Tensor, start: int) -> None:
        """Add a block whose first column is entry `start`; infinite distances are not candidates."""


class KeyScan(Protocol):
    """Keys that queries are compared with, one and all. Several can be scanned as if they were one."""

    @property
    def device(self) -> torch.device: ...

    @property
    def spare(self) -> int:
        """How many candidates more than asked for are nominated, since distances are rounded."""

    def add_to(self, top: Top, query_BD: Tensor, first: int, allowed_N: Tensor | None) -> None:
        """Add all keys; `first` is the number of the first, `allowed_N` which of them are candidates (None: all)."""


class Index(Protocol):
    """Nominates candidates. Distances are computed elsewhere, from the stored keys."""

    @property
    def complete(self) -> bool:
        """Whether it always finds the number of entries asked for, if the index has as many."""

    @property
    def lists(self) -> KernelLists | None:
        """Its inverted lists, where a kernel searches them."""

    @property
    def scan(self) -> KeyScan | None:
        """Its keys, where it compares queries with all of them."""

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        """At least `count` entries likely to be nearest, [B, >=count]; -1 where it found fewer."""


class CentreSearch(Protocol):
    """Finds the clusters of an index with the nearest centres."""

    def nearest(self, code_BD: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Squared distances to the nearest centres, and their numbers, nearest first, [B, count]."""


class SentenceCache(Protocol):
    """The neighbours of one request: searches of the store, and what they brought for each sentence.

    Sentences are numbers chosen by the request. Slots are positions in the running batch: slot s holds the rows
    s * R to (s + 1) * R - 1.
    """

    def seed(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        """Put entries (-1: none) into the caches of sentences that begin."""

    def step(self, query_BD: Tensor, sentences: Sequence[int], due: Sequence[int], rows: int) -> Retrieved:
        """The neighbours of all rows of the sentences in the slots, [B, plan.width]; valid until the next step.

        The first `rows` rows of every slot in `due` search the store; the chunks that begin with what they find join
        their sentence's cache after this step. All other rows recall from their sentence's cache.
        """

    def held(self, sentences: Sequence[int]) -> list[int]:
        """How many entries the caches of sentences have, or at most have."""

    def release(self, sentences: Sequence[int]) -> None:
        """These sentences are finished: their caches are free."""

    def reorder(self, row_B: Tensor) -> None:
        """Row i continues as what was row `row_B[i]`, within its slot."""
