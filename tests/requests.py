"""Requests and methods as beam search makes them, for tests that run a method step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.datastore.search.agreement import between
from nearmt.engines import choose
from nearmt.methods import ChunkConfig, ChunkMethod
from nearmt.methods.mixing import TRUSTED
from nearmt.methods.retrieving import (
    FAMILIAR_WHERE_KNOWN,
    KNOWN_DOMAIN,
    RELATED,
    SIMILAR,
    RetrievingMethod,
    RetrievingState,
)
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


def trust_in(store: LiveSource, source: Sequence[int], trusted: tuple[float, float] = TRUSTED) -> float:
    """How much of lambda the guard leaves to the neighbours of a sentence that is so familiar to a store."""
    (familiarity,) = store.snapshot().similar([source], 0).familiarity
    return between(familiarity, trusted)


def left_by_guard(store: LiveSource, source: Sequence[int], trusted: tuple[float, float] = TRUSTED) -> float:
    """The same, less where the pairs of the store do not help each other, or the model knows their domain."""
    now = store.snapshot()
    found, likely = now.similar([source], 0), now.profile.likely_weight
    if likely is None:
        return trust_in(store, source, trusted)
    unknown = max(between(likely, KNOWN_DOMAIN), between(found.familiarity[0], FAMILIAR_WHERE_KNOWN))
    helped = max(min(between(likely, RELATED), unknown), between(found.closeness[0], SIMILAR))
    return min(trust_in(store, source, trusted), helped)


def similar_entries(store: LiveSource, source: Sequence[int], count: int) -> Tensor:
    """The entries of the pairs with the most similar sources, [X]."""
    return store.snapshot().similar([source], count).entry_SX[0]
