"""Equations 2 and 3, the neighbours' cache and the four strategies, slow and obvious.

Written from the paper and from the decisions in DESIGN.md and FIELD.md, not from `src`: plain loops,
lists and dicts in float64, nothing batched, nothing shared. A hypothesis is an object of its own that
is copied with everything it remembers when the beam reorders.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

#: A distance and the entry it belongs to.
Neighbour = tuple[float, int]
#: A model that gives an end of the sentence this probability lets all neighbours speak for it.
LIKELY = 0.1


def log_softmax(logits_V: np.ndarray) -> list[float]:
    """log p_NMT."""
    largest = max(float(x) for x in logits_V)
    total = sum(math.exp(float(x) - largest) for x in logits_V)
    return [float(x) - largest - math.log(total) for x in logits_V]


def shares(neighbours: list[Neighbour], temperature: float) -> list[float]:
    """The softmax of -d / T over the neighbours."""
    nearest = min((distance for distance, _ in neighbours), default=0.0)
    share = [math.exp(-(distance - nearest) / temperature) for distance, _ in neighbours]
    return [part / sum(share) for part in share]


def equation_2(neighbours: list[Neighbour], token_N: list[int], temperature: float) -> dict[int, float]:
    """p_kNN: neighbours with the same token add up."""
    probability: dict[int, float] = {}
    for (_, entry), part in zip(neighbours, shares(neighbours, temperature), strict=True):
        token = token_N[entry]
        probability[token] = probability.get(token, 0.0) + part
    return probability


def equation_3(log_prob_V: list[float], neighbours_say: dict[int, float], weight: float) -> list[float]:
    """log((1 - lambda) p_NMT + lambda p_kNN), token by token over the whole vocabulary."""
    mixed = []
    for token, log_prob in enumerate(log_prob_V):
        p = (1 - weight) * math.exp(log_prob) + weight * neighbours_say.get(token, 0.0)
        mixed.append(math.log(p) if p > 0 else -math.inf)
    return mixed


def mixture(
    log_prob_V: list[float],
    neighbours: list[Neighbour],
    token_N: list[int],
    temperature: float,
    weight: float,
    ends: Sequence[int] = (),
    near: float = math.inf,
) -> list[float]:
    """Equations 2 and 3; the share of far neighbours that predict the end of the sentence goes to the model, unless
    it finds an end likely."""
    if sum(math.exp(log_prob_V[end]) for end in ends) >= LIKELY:
        ends = ()
    say: dict[int, float] = {}
    left = 0.0
    for (distance, entry), part in zip(neighbours, shares(neighbours, temperature), strict=True):
        token = token_N[entry]
        if token in ends and distance > near:
            left += part
        else:
            say[token] = say.get(token, 0.0) + part
    if not say:
        return log_prob_V
    kept = sum(say.values())
    return equation_3(log_prob_V, {token: part / kept for token, part in say.items()}, weight * (1 - left))


@dataclass(frozen=True)
class Corpus:
    """Entries (key, token) in corpus order; `ends` are the positions after the last entry of each sentence."""

    key_ND: np.ndarray
    token_N: list[int]
    ends: list[int]

    def squared_distances(self, query_D: np.ndarray) -> list[float]:
        """Squared L2 on the full keys, one entry at a time."""
        return [float(((query_D - key_D) ** 2).sum()) for key_D in self.key_ND]

    def cache_distances(self, query_D: np.ndarray, columns: int) -> list[float]:
        """L2, not squared, on the first columns."""
        return [math.sqrt(float(((query_D[:columns] - key_D[:columns]) ** 2).sum())) for key_D in self.key_ND]

    def search(self, query_D: np.ndarray, k: int) -> list[Neighbour]:
        distances = self.squared_distances(query_D)
        return sorted((distance, entry) for entry, distance in enumerate(distances))[:k]

    def chunk(self, entry: int, size: int) -> list[int]:
        """y_t:(t+c-1) as entries: it stops where its sentence does."""
        end = min(end for end in self.ends if end > entry)
        return list(range(entry, min(entry + size, end)))


def intervals(schedule: str, source_length: int, max_steps: int) -> dict[int, int]:
    """Step t_k of every search with the interval i_k behind it (equation 6, or every i steps)."""
    kind, *numbers = schedule.split(":")
    found = {}
    time = 1
    while time <= max_steps:
        if kind == "every":
            interval = int(numbers[0])
        else:
            i_min, i_max = int(numbers[0]), int(numbers[1])
            rate = (0.5 * i_max) / source_length
            interval = math.floor(min(i_max, i_min * 2 ** (rate * time)))
        found[time] = interval
        time += interval
    return found


@dataclass(frozen=True)
class Settings:
    """The options by the paper's letters."""

    k: int
    weight: float  # lambda
    temperature: float  # T
    cache_weight: float = 0.0  # lambda'
    cache_temperature: float = 1.0  # T'
    cache_columns: int = 1  # E
    cache_k: int | None = None  # neighbours recalled from the cache, if these are not k
    chunk: int = 1  # c
    schedule: str = "every:1"
    varying_chunk: bool = False  # c_k = i_k
    recall: str = "cache"
    scope: str = "source"
    retention: str = "all"
    duplicates: str = "remove"
    search_beams: int = 100  # rows of a sentence, best first, that search when it is due
    ends: tuple[int, ...] = ()  # tokens that end a sentence, of which only near neighbours speak
    near: float = math.inf  # how far these may be, in squared distances
    cache_near: float = math.inf  # and in those of the cache


@dataclass(frozen=True)
class Retrieval:
    """What one hypothesis found at one search."""

    time: int
    source: int
    neighbours: list[Neighbour]
    chunks: list[list[int]]


@dataclass
class Hypothesis:
    """A row and everything it has retrieved itself, or inherited from the rows it descends from."""

    retrievals: list[Retrieval] = field(default_factory=list)


class ReferenceKnn:
    """kNN-MT: a search at every step."""

    def __init__(self, corpus: Corpus, settings: Settings) -> None:
        self.corpus, self.settings = corpus, settings

    def log_probs(self, logits_BV: np.ndarray, query_BD: np.ndarray, time: int, sources: list[int]) -> np.ndarray:
        return np.array([self._row(logits_V, query_D) for logits_V, query_D in zip(logits_BV, query_BD, strict=True)])

    def _row(self, logits_V: np.ndarray, query_D: np.ndarray) -> list[float]:
        settings = self.settings
        neighbours = self.corpus.search(query_D, settings.k)
        weighing = settings.temperature, settings.weight, settings.ends, settings.near
        return mixture(log_softmax(logits_V), neighbours, self.corpus.token_N, *weighing)

    def reorder(self, rows: list[int]) -> None:
        """Nothing is remembered."""


class ReferenceChunk:
    """Chunk-based kNN-MT: a search where the schedule says so, what it brought in between."""

    def __init__(
        self,
        corpus: Corpus,
        settings: Settings,
        source_lengths: list[int],
        max_steps: int,
        seeds: list[list[int]] | None = None,
    ) -> None:
        """`seeds` are the entries that each sentence has from the start."""
        self.corpus, self.settings = corpus, settings
        self.seeds = seeds or [[] for _ in source_lengths]
        self.due = [intervals(settings.schedule, length, max_steps) for length in source_lengths]
        self.rows = [Hypothesis() for _ in source_lengths]
        #: Every retrieval of the batch, also of hypotheses that have been dropped since.
        self.log: list[Retrieval] = []

    def log_probs(self, logits_BV: np.ndarray, query_BD: np.ndarray, time: int, sources: list[int]) -> np.ndarray:
        result: list[list[float]] = [[] for _ in sources]
        searching = [
            row
            for row, source in enumerate(sources)
            if time in self.due[source] and sources[:row].count(source) < self.settings.search_beams
        ]
        # Rows that do not search recall what earlier steps brought ...
        rest = [row for row in range(len(sources)) if row not in searching]
        for row in rest:
            result[row] = self._recall(row, sources[row], time, logits_BV[row], query_BD[row])
        # ... and those that are due search.
        for row in searching:
            result[row] = self._search(row, sources[row], time, logits_BV[row], query_BD[row])
        return np.array(result)

    def searches(self, source: int) -> int:
        """Steps at which one hypothesis or another of a sentence searched."""
        return len({retrieval.time for retrieval in self.log if retrieval.source == source})

    def reorder(self, rows: list[int]) -> None:
        self.rows = [copy.deepcopy(self.rows[row]) for row in rows]

    def _search(self, row: int, source: int, time: int, logits_V: np.ndarray, query_D: np.ndarray) -> list[float]:
        settings = self.settings
        neighbours = self.corpus.search(query_D, settings.k)
        size = self.due[source][time] if settings.varying_chunk else settings.chunk
        chunks = [self.corpus.chunk(entry, size) for _, entry in neighbours]
        retrieval = Retrieval(time, source, neighbours, chunks)
        self.rows[row].retrievals.append(retrieval)
        self.log.append(retrieval)
        # The search step itself speaks with the first token of each chunk.
        return self._mixed(logits_V, neighbours, settings.temperature, settings.weight, settings.near)

    def _recall(self, row: int, source: int, time: int, logits_V: np.ndarray, query_D: np.ndarray) -> list[float]:
        settings = self.settings
        if settings.recall == "in-order":
            neighbours = self._read_in_order(row, time)
            return self._mixed(logits_V, neighbours, settings.temperature, settings.cache_weight, settings.near)
        neighbours = self._nearest_cached(row, source, query_D)[: settings.cache_k or settings.k]
        weighing = settings.cache_temperature, settings.cache_weight, settings.cache_near
        return self._mixed(logits_V, neighbours, *weighing)

    def _nearest_cached(self, row: int, source: int, query_D: np.ndarray) -> list[Neighbour]:
        distances = self.corpus.cache_distances(query_D, self.settings.cache_columns)
        return sorted((distances[entry], entry) for entry in self.cached_entries(row, source))

    def _read_in_order(self, row: int, time: int) -> list[Neighbour]:
        """The j-th token of each chunk of the row's last search, at that search's distances."""
        last = self.rows[row].retrievals[-1]
        steps_since = time - last.time
        return [
            (distance, chunk[steps_since])
            for (distance, _), chunk in zip(last.neighbours, last.chunks, strict=True)
            if steps_since < len(chunk)
        ]

    def cached_entries(self, row: int, source: int) -> list[int]:
        """M: the entries of all tokens of all chunks that this row may look at."""
        if self.settings.scope == "hypothesis":
            visible = self.rows[row].retrievals
        elif self.settings.scope == "source":
            visible = [retrieval for retrieval in self.log if retrieval.source == source]
        else:
            visible = self.log
        if self.settings.retention == "last":
            # A sentence's new search replaces its own earlier chunks, not those of other sentences.
            newest: dict[int, int] = {}
            for retrieval in visible:
                newest[retrieval.source] = max(retrieval.time, newest.get(retrieval.source, 0))
            visible = [retrieval for retrieval in visible if retrieval.time == newest[retrieval.source]]
        entries = [entry for retrieval in visible for chunk in retrieval.chunks for entry in chunk]
        # No search replaces the seeds.
        entries += [
            entry for part in (self.seeds if self.settings.scope == "batch" else [self.seeds[source]]) for entry in part
        ]
        return sorted(set(entries)) if self.settings.duplicates == "remove" else entries

    def _mixed(
        self, logits_V: np.ndarray, neighbours: list[Neighbour], temperature: float, weight: float, near: float
    ) -> list[float]:
        weighing = temperature, weight, self.settings.ends, near
        return mixture(log_softmax(logits_V), neighbours, self.corpus.token_N, *weighing)
