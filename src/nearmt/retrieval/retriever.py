"""When to search the store and for whom: the policy of kNN-MT and of chunk-based retrieval (section 3 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nearmt.config.schedule import Schedule, search_steps
from nearmt.engines.base import CachePlan, Retrieved
from nearmt.retrieval.source import EntrySource


class Retriever(Protocol):
    """Finds neighbours for the rows of one request, step by step."""

    #: How often the store was searched for each sentence.
    searches: list[int]
    #: How often that brought nothing, because the server of its index did not answer.
    missed: list[int]
    #: How many entries the rows of each sentence were compared with. A search counts as exact: an approximate index
    #: compares a part of that.
    compared: list[int]

    def begin(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        """Sentences begin; `entry_SX` are the entries of pairs with similar sources (-1: none)."""

    def retrieve(self, query_BD: Tensor, times: Sequence[int], sentences: Sequence[int]) -> Retrieved:
        """The neighbours of all rows of the sentences in the slots, which are at these steps (1 is the first)."""

    def reorder(self, row_B: Tensor) -> None:
        """Row i continues as what was row `row_B[i]`."""

    def release(self, sentences: Sequence[int]) -> None:
        """These sentences are finished."""


@dataclass(frozen=True)
class RetrievalPlan:
    """When a sentence searches (None: never), for how many of its hypotheses, and what its cache does."""

    schedule: Schedule | None
    #: Hypotheses of a sentence that search when it is due, best first. All share what they bring.
    search_beams: int
    cache: CachePlan


class ScheduledRetriever:
    """Searches by schedule; in between, rows recall from their sentence's cache.

    kNN-MT is the schedule that searches at every step, with nothing kept.
    """

    def __init__(
        self, store: EntrySource, plan: RetrievalPlan, lengths: Sequence[int], max_steps: int, device: torch.device
    ) -> None:
        """`lengths` are |x| of all sentences of the request, `device` is the model's."""
        self._rows, self._entries = plan.search_beams, store.profile.entries
        self._schedule, self._lengths, self._max_steps = plan.schedule, lengths, max_steps
        #: The steps at which each sentence searches.
        self._due: list[dict[int, int]] = []
        self._cache = store.new_cache(plan.cache, device)
        self.searches: list[int] = []
        self.missed: list[int] = []
        self.compared: list[int] = []
        self._follow()

    def _follow(self) -> None:
        """Plan the searches of sentences that were appended to the request."""
        for length in self._lengths[len(self._due) :]:
            never = self._schedule is None
            self._due.append({} if never else search_steps(self._schedule, length, self._max_steps))
            self.searches.append(0)
            self.missed.append(0)
            self.compared.append(0)

    def begin(self, sentences: Sequence[int], entry_SX: Tensor) -> None:
        if entry_SX.shape[1]:
            self._cache.seed(sentences, entry_SX)

    def retrieve(self, query_BD: Tensor, times: Sequence[int], sentences: Sequence[int]) -> Retrieved:
        if len(self._due) < len(self._lengths):
            self._follow()
        now = enumerate(zip(times, sentences, strict=True))
        due = [slot for slot, (time, sentence) in now if time in self._due[sentence]]
        self._count(len(query_BD) // len(sentences), sentences, due)
        found = self._cache.step(query_BD, sentences, due, self._rows)
        if found.missed:
            for slot in due:
                self.missed[sentences[slot]] += 1
        return found

    def _count(self, each: int, sentences: Sequence[int], due: Sequence[int]) -> None:
        """Count what the next step of the cache does."""
        held, searching = self._cache.held(sentences), min(self._rows, each)
        for sentence, count in zip(sentences, held, strict=True):
            self.compared[sentence] += each * count
        for slot in due:
            self.searches[sentences[slot]] += 1
            self.compared[sentences[slot]] += searching * (self._entries - held[slot])

    def reorder(self, row_B: Tensor) -> None:
        self._cache.reorder(row_B)

    def release(self, sentences: Sequence[int]) -> None:
        self._cache.release(sentences)
