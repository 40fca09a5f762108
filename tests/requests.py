"""Requests and methods as beam search makes them, for tests that run a method step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.datastore.search.agreement import between
from nearmt.engines import choose
from nearmt.methods import ChunkConfig, ChunkMethod
from nearmt.methods.mixing import FixedMixer
from nearmt.methods.retrieving import RELATED, SIMILAR, RetrievingMethod, RetrievingState
from nearmt.research.methods.paper_chunk import PaperChunkMethod
from nearmt.retrieval.source import LiveSource
from nearmt.steps import Request

CPU = torch.device("cpu")


def make_request(
    lengths: Sequence[int], max_steps: int, sources: Sequence[Sequence[int]] = (), trace: bool = False
) -> Request:
    """A request on a CPU; without sources nothing is similar to its sentences."""
    return Request(sources, lengths, max_steps, CPU, choose.scoring(CPU), trace)


def begun(
    method: RetrievingMethod,
    lengths: Sequence[int],
    max_steps: int,
    sources: Sequence[Sequence[int]] = (),
    trace: bool = False,
) -> RetrievingState:
    """A request of which all sentences have begun."""
    state = method.begin(make_request(lengths, max_steps, sources, trace))
    state.begin(range(len(lengths)))
    return state


def chunk_method(store: LiveSource, config: ChunkConfig | None = None) -> ChunkMethod:
    """With the engines' caches, or the paper's where the config asks for them."""
    config = config or ChunkConfig()
    return PaperChunkMethod(store, config) if config.is_variant else ChunkMethod(store, config)


def trust_in(store: LiveSource, source: Sequence[int], trusted: tuple[float, float] | None = None) -> float:
    """How much of lambda the guard leaves to the neighbours of a sentence that is so familiar to a store."""
    now = store.snapshot()
    (familiarity,) = now.similar([source], 0).familiarity
    return between(familiarity, trusted or FixedMixer(0.5, 1.0, 0.5, 1.0).trusted(now.profile.likely_weight))


def left_by_guard(store: LiveSource, source: Sequence[int], trusted: tuple[float, float] | None = None) -> float:
    """The same, less where the pairs of the store do not help each other."""
    now = store.snapshot()
    related = 1.0 if now.profile.likely_weight is None else between(now.profile.likely_weight, RELATED)
    (closeness,) = now.similar([source], 0).closeness
    return min(trust_in(store, source, trusted), max(related, between(closeness, SIMILAR)))


def similar_entries(store: LiveSource, source: Sequence[int], count: int) -> Tensor:
    """The entries of the pairs with the most similar sources, [X]."""
    return store.snapshot().similar([source], count).entry_SX[0]
