"""What all methods that retrieve have in common: a retriever finds neighbours, a mixer weighs them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Evidence, Scores, Step
from nearmt.methods.fused import mix_found
from nearmt.methods.mixing import FixedMixer, Mixer
from nearmt.retrieval.distribution import mix
from nearmt.retrieval.ends import NearEnds
from nearmt.retrieval.retriever import Retriever
from nearmt.retrieval.source import EntrySource, SnapshotSource

#: Of sentences that begin: how much of their share the neighbours of each get.
Trust = Callable[[list[int]], list[float]]


class RetrievingState:
    """One request: step in, scores out; keeps the evidence of every step if asked to."""

    def __init__(
        self,
        store: EntrySource,
        retriever: Retriever,
        mixer: Mixer,
        trust: Trust | None,
        trace: bool,
        near: NearEnds | None = None,
        lag: float = math.inf,
    ) -> None:
        #: Names the entries of the evidence.
        self.store = store
        self._retriever, self._mixer = retriever, mixer
        self._trust = trust
        self._near, self._lag = near, lag
        self._trusted: dict[int, float] = {}
        self._latest: tuple[list[int], Tensor | None] | None = None
        self.evidence: list[Evidence] | None = [] if trace else None

    @property
    def searches(self) -> list[int]:
        return self._retriever.searches

    def scores(self, step: Step) -> Scores:
        """log p(y_t | y_<t, x) of equation 3."""
        # First: where the program waits for it, there is not yet much to wait for.
        trust_B = self._trust_of(step)
        found = self._retriever.retrieve(self.store.query(step.hidden_BH), step.times, step.sources)
        # Kernels keep no evidence.
        if self.evidence is None and isinstance(self._mixer, FixedMixer):
            mixed = mix_found(step.logits_BV, found, self.store, self._mixer, trust_B, self._near, step.ends)
            if mixed is not None:
                return mixed
        scores = Scores.of(step.logits_BV)
        evidence = self._mixer.evidence(found, self.store, scores)
        if trust_B is not None:
            evidence.share_B *= trust_B
        if self._near is not None and step.ends:
            self._near.leave(evidence, found, scores, step.ends)
        if self.evidence is not None:
            # What was retrieved may lie where the next step writes.
            self.evidence.append(replace(evidence, entry_BK=evidence.entry_BK.clone()))
        return mix(scores, evidence)

    def lags(self, sources: list[int]) -> list[float]:
        """Where neighbours count for nothing the translation is the model's own, as `generate()` finds it."""
        if self._trust is None or math.isinf(self._lag):
            return [self._lag] * len(sources)
        return [self._lag if trusted else math.inf for trusted in self._trusted_in(sources)]

    def _trust_of(self, step: Step) -> Tensor | None:
        """How much of their share the neighbours of each row get, [B]; None for all of it."""
        if self._trust is None:
            return None
        # Sentences come and go seldom.
        if self._latest is None or self._latest[0] != step.sources:
            self._latest = step.sources, self._trust_in(step.sources, step.logits_BV.device)
        return self._latest[1]

    def _trust_in(self, sources: list[int], device: torch.device) -> Tensor | None:
        trusted = self._trusted_in(sources)
        if min(trusted) == 1.0:
            return None
        return torch.from_numpy(np.array(trusted, dtype=np.float32)).to(device, non_blocking=True)

    def _trusted_in(self, sources: list[int]) -> list[float]:
        assert self._trust is not None
        if new := [source for source in dict.fromkeys(sources) if source not in self._trusted]:
            self._trusted.update(zip(new, self._trust(new), strict=True))
        return list(map(self._trusted.__getitem__, sources))

    def reorder(self, row_B: Tensor) -> None:
        self._retriever.reorder(row_B)

    def leave(self, sources: list[int]) -> None:
        self._retriever.leave(sources)


class RetrievingMethod:
    """A store and a mixer; subclasses say how to retrieve."""

    name: str
    shares_batch = False
    by_sentence = True

    def __init__(self, store: SnapshotSource, mixer: Mixer, guard: bool, near: NearEnds | None, lag: float) -> None:
        self.store, self.mixer, self.guard, self.near, self.lag = store, mixer, guard, near, lag

    def retriever(
        self,
        store: EntrySource,
        source_lengths: Sequence[int],
        max_steps: int,
        sources: Sequence[Sequence[int]] = (),
    ) -> Retriever:
        """A retriever for a request of sentences with these |x| and tokens, from the store as it was at its start."""
        raise NotImplementedError

    def settings(self) -> str:
        """Everything that can change the result, beside the store."""
        raise NotImplementedError

    def begin(
        self, source_lengths: Sequence[int], max_steps: int, trace: bool, sources: Sequence[Sequence[int]] = ()
    ) -> RetrievingState:
        # Whatever is added meanwhile, a request sees one state of the store.
        store = self.store.snapshot()
        retriever = self.retriever(store, source_lengths, max_steps, sources)

        def trust(sentences: list[int]) -> list[float]:
            return store.trust_each([sources[sentence] for sentence in sentences], self.mixer.trusted)

        guard = trust if self.guard and sources else None
        lag = self.lag if store.pair_count else math.inf
        return RetrievingState(store, retriever, self.mixer, guard, trace, self.near, lag)

    def signature(self) -> str:
        return f"method:{self.name}|datastore:{self.store.snapshot().identity}|{self.settings()}"
