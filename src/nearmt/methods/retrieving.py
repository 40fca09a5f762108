"""What all methods that retrieve have in common: a retriever finds neighbours, a mixer weighs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearmt.contracts import Evidence, Scores, SimilarSources
from nearmt.datastore.search.agreement import SlotWords, between, sentence_words
from nearmt.engines.base import AgreementRule, EndRule, SentenceWords
from nearmt.methods.mixing import Mixer, Votes, keys_of, votes_of, weighed
from nearmt.models import TranslationModel
from nearmt.models.words import SourceWords
from nearmt.retrieval.retriever import Retriever
from nearmt.retrieval.source import EntrySource, LiveSource
from nearmt.steps import Request, Step

Array = NDArray[np.float32]


#: The likely weight of a store up to which its pairs are unrelated, and from which they are related; up to which the
#: model knows its domain, and from which it does not. Tuned on memories of 50 to 500 short strings, and of law, medical
#: and IT (docs/log.md).
RELATED = (0.08, 0.16)
KNOWN_DOMAIN = (0.4, 0.5)
#: Where the model knows the domain: the familiarity that sentences have to have.
FAMILIAR_WHERE_KNOWN = (0.9, 1.2)
#: Up to this familiarity, a sentence is of another domain than the memory's: where an adapter taught the model little
#: (up to the first of these gains, in nats a token), and where much (from the second on; docs/log.md).
FOREIGN, GAIN = (1.1, 0.8), (0.4, 0.9)
#: Sentences that are compared with a store together.
_COMPARED = 256
#: How close the most similar source has to be to a sentence, so that neighbours count in spite of that.
SIMILAR = (0.3, 0.5)


class RetrievingState:
    """One request: step in, scores out; keeps the evidence of every step if asked to."""

    def __init__(self, method: RetrievingMethod, store: EntrySource, retriever: Retriever, request: Request) -> None:
        #: Names the entries of the evidence.
        self.store = store
        self.evidence: list[Evidence] | None = [] if request.trace else None
        self._method, self._retriever, self._request = method, retriever, request
        #: Tolerance of early stopping. An empty store changes nothing, so the beam stops where `generate()` does.
        self._tolerance = method.tolerance if store.profile.pairs else math.inf
        #: How much of lambda the guard leaves to the neighbours of each sentence.
        self._trust: dict[int, float] = {}
        #: What source agreement knows of each sentence, and of those in the slots.
        self._words_of: dict[int, SentenceWords] = {}
        self._slot_words = SlotWords()
        self._latest: tuple[tuple[Sequence[int], int], Tensor | None] | None = None

    @property
    def searches(self) -> Sequence[int]:
        return self._retriever.searches

    @property
    def missed(self) -> Sequence[int]:
        return self._retriever.missed

    @property
    def compared(self) -> Sequence[int]:
        return self._retriever.compared

    def begin(self, sentences: Sequence[int]) -> list[float]:
        seeds, guard = self._method.seeds, self._method.guard
        agreement = self._method.agreement is not None and bool(self._request.words)
        if self._request.sources and (seeds or guard or agreement):
            sources = [self._request.sources[sentence] for sentence in sentences]
            similar = self.store.similar(sources, seeds, self._method.candidates)
            self._retriever.begin(sentences, similar.entry_SX)
            trust = self._guarded_by(similar) if guard else [1.0] * len(sentences)
            if agreement:
                mine = [self._request.words[sentence] for sentence in sentences]
                terms = self._terms_of(mine, trust)
                words = sentence_words(mine, similar.close, self._request.device, terms)
                self._words_of.update((sentence, words.of(slot)) for slot, sentence in enumerate(sentences))
                trust = [1.0 if slot in terms else one for slot, one in enumerate(trust)]
            self._trust.update(zip(sentences, trust, strict=True))
        # Without trust the translation is the model's own, as `generate()` finds it.
        return [self._tolerance if self._trust.get(sentence, 1.0) else math.inf for sentence in sentences]

    def _guarded_by(self, similar: SimilarSources) -> list[float]:
        """How much of lambda the guard leaves to the neighbours of sentences with these similar sources."""
        trust = [between(familiarity, self._method.mixer.trusted) for familiarity in similar.familiarity]
        likely = self.store.profile.likely_weight
        if likely is None or not self.store.profile.knows_sources:
            return trust
        # Where pairs of the store do not help each other, or the model, they help sentences that are similar to one.
        related, unknown = between(likely, RELATED), between(likely, KNOWN_DOMAIN)
        without = [
            min(related, max(unknown, between(familiarity, FAMILIAR_WHERE_KNOWN)))
            for familiarity in similar.familiarity
        ]
        alike = [between(closeness, SIMILAR) for closeness in similar.closeness]
        return [min(one, max(others)) for one, *others in zip(trust, without, alike, strict=True)]

    def _terms_of(
        self, words: Sequence[SourceWords], trust: Sequence[float]
    ) -> dict[int, tuple[float, frozenset[int]]]:
        """Of sentences that the guard doubts and that have terms of the store: what it leaves of their other
        neighbours, and the terms."""
        doubted = ((slot, one) for slot, one in enumerate(trust) if one < 1.0)
        found = {slot: (one, self.store.profile.terms(words[slot].codes)) for slot, one in doubted}
        return {slot: (one, terms) for slot, (one, terms) in found.items() if terms}

    def scores(self, step: Step) -> Scores:
        """log p(y_t | y_<t, x) of equation 3."""
        trust_B = self._trust_of(step)
        scoring, mixer, rule = self._request.scoring, self._method.mixer, self._method.end_rule
        query_BD = self.store.query(step.hidden_BH)
        found = self._retriever.retrieve(query_BD, step.times, step.sentences)
        words = self._words(step)
        votes = votes_of(found, self.store, self._method.agreement, words)
        if mixer.sees_keys:
            votes = votes._replace(query_BD=query_BD, key_BKD=keys_of(self.store, found.entry_BK))
        if self.evidence is None:
            return mixer.mix(scoring, step.logits_BV, votes, trust_B, rule, step.ends)
        scores = scoring.normalise(step.logits_BV)
        evidence = weighed(mixer, scores, votes, trust_B, rule, step.ends)
        # The next step may overwrite what was retrieved.
        silenced_BK = self._disagreeing(evidence, votes, words)
        self.evidence.append(replace(evidence, entry_BK=evidence.entry_BK.clone(), silenced_BK=silenced_BK))
        return scoring.mix(scores, evidence)

    def _disagreeing(self, evidence: Evidence, votes: Votes, words: SentenceWords | None) -> Tensor | None:
        """Of the shares that neighbours lost, what the guard did not take from them."""
        rule = self._method.agreement
        if evidence.silenced_BK is None or votes.agreement_BK is None or rule is None or words is None:
            return evidence.silenced_BK
        trusted = replace(words, trust_S=torch.ones_like(words.trust_S))
        agreement_BK = self.store.agreement(votes.found.entry_BK, trusted, rule)
        if agreement_BK is None:
            return evidence.silenced_BK
        return evidence.silenced_BK * (1.0 - agreement_BK) / (1.0 - votes.agreement_BK).clamp(min=1e-9)

    def _words(self, step: Step) -> SentenceWords | None:
        """What is known of the words of the sentences; None where agreement is not asked for."""
        return self._slot_words.of(step.sentences, self._words_of) if self._words_of else None

    def _trust_of(self, step: Step) -> Tensor | None:
        """What multiplies lambda of each row, [B]; None for 1 everywhere."""
        repeating = step.repeating if self._method.break_loops else None
        if repeating is not None:
            # Neighbours would go on repeating: each repetition is nearer to what it repeats.
            row_trust_B = self._guarded(step).repeat(step.rows_each)
            row_trust_B[list(repeating)] = 0.0
            return _on(step.logits_BV.device, row_trust_B)
        # Sentences change seldom.
        if self._latest is None or self._latest[0] != (step.sentences, step.rows_each):
            trust_S = self._guarded(step)
            trust_B = None if trust_S.min() == 1.0 else _on(step.logits_BV.device, trust_S.repeat(step.rows_each))
            self._latest = (step.sentences, step.rows_each), trust_B
        return self._latest[1]

    def _guarded(self, step: Step) -> Array:
        """What the guard leaves of lambda in each sentence, [S]."""
        return np.array([self._trust.get(sentence, 1.0) for sentence in step.sentences], dtype=np.float32)

    def reorder(self, row_B: Tensor) -> None:
        self._retriever.reorder(row_B)

    def release(self, sentences: Sequence[int]) -> None:
        self._retriever.release(sentences)
        for sentence in sentences:
            self._words_of.pop(sentence, None)


def _on(device: torch.device, value_B: Array) -> Tensor:
    return torch.from_numpy(value_B).to(device, non_blocking=True)


class RetrievingMethod:
    """A store and a mixer; subclasses say how to retrieve."""

    name: str
    shares_batch = False
    #: Whether neighbours do not count where a hypothesis repeats itself.
    break_loops = False
    per_sentence = True
    #: Tokens of a retrieved chunk.
    chunk = 1
    #: Pairs with similar sources whose entries are retrieved when a sentence begins; and among how many of them those
    #: with the fewest edits are chosen, if they are.
    seeds = 0
    candidates = 0

    def __init__(
        self,
        store: LiveSource,
        mixer: Mixer,
        guard: bool,
        agreement: AgreementRule | None,
        end_rule: EndRule | None,
        tolerance: float,
    ) -> None:
        self.store, self.mixer, self.guard, self.agreement = store, mixer, guard, agreement
        self.end_rule, self.tolerance = end_rule, tolerance

    def retriever(self, store: EntrySource, request: Request) -> Retriever:
        """A retriever for a request, over a snapshot of the store."""
        raise NotImplementedError

    def settings(self) -> str:
        """Everything that can change the result, apart from the store."""
        raise NotImplementedError

    def check_model(self, model: TranslationModel) -> None:
        self.mixer.check_model(model)

    def begin(self, request: Request) -> RetrievingState:
        # A request sees one state of the store, whatever is added meanwhile.
        store = self.store.snapshot()
        return RetrievingState(self, store, self.retriever(store, request), request)

    def foreign(self, sources: Sequence[Sequence[int]], gain: float) -> list[bool]:
        """Which sentences (subword ids) are of another domain than the memory's, so that an adapter with this gain is
        not trusted there. The more it taught, the more a sentence of the domain would lose without it."""
        if not self.guard or not sources:
            return [False] * len(sources)
        store = self.store.snapshot()
        some = (sources[start : start + _COMPARED] for start in range(0, len(sources), _COMPARED))
        bound = FOREIGN[0] + (FOREIGN[1] - FOREIGN[0]) * between(gain, GAIN)
        return [familiarity <= bound for part in some for familiarity in store.similar(part, 0).familiarity]

    def signature(self) -> str:
        return f"method:{self.name}|datastore:{self.store.snapshot().profile.identity}|{self.settings()}"
