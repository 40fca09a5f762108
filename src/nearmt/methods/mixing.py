"""From neighbours to evidence: how much each counts, and how much all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from nearmt.contracts import Evidence, Scores
from nearmt.engines.base import AgreementRule, EndRule, Mixing, Retrieved, Scoring, SentenceWords
from nearmt.engines.reference.scoring import apply_agreement, apply_end_rule, evidence_of
from nearmt.models import TranslationModel
from nearmt.retrieval.source import EntrySource

#: Familiarity up to which a sentence is foreign to the store, and from which it is all the store's.
TRUSTED = (0.8, 1.0)


class Votes(NamedTuple):
    """The neighbours of a step with the tokens they vote for."""

    found: Retrieved
    #: Their target tokens.
    token_BK: Tensor
    #: What multiplies exp(-d / T) of each; None where all count alike.
    count_BK: Tensor | None
    #: The share of its weight that each keeps, by its source; None for all of it.
    agreement_BK: Tensor | None
    #: The queries, and the keys of the neighbours, for mixers that see them.
    query_BD: Tensor | None = None
    key_BKD: Tensor | None = None


def votes_of(
    found: Retrieved, store: EntrySource, rule: AgreementRule | None = None, words: SentenceWords | None = None
) -> Votes:
    """Look up the tokens of neighbours, how much each counts, and, if the words of the sentences are given, how far it
    agrees with them.

    A store among several has a weight. A pruned store merges entries into others that are found in their stead. Its
    chunks stay whole: an entry that was merged still stands for itself where a chunk brings it into the cache.
    """
    weight_BK = store.weights(found.entry_BK)
    count_BK = None if weight_BK is None else torch.where(weight_BK == 0, 1.0, weight_BK)
    agreement_BK = None if rule is None or words is None else store.agreement(found.entry_BK, words, rule)
    return Votes(found, store.tokens(found.entry_BK), count_BK, agreement_BK)


def keys_of(store: EntrySource, entry_BK: Tensor) -> Tensor:
    """The keys of neighbours, on all columns; any for -1."""
    columns = store.profile.columns
    if not store.profile.entries:
        return torch.zeros(*entry_BK.shape, columns, device=entry_BK.device)
    return store.keys(entry_BK.clamp(min=0).flatten(), columns).view(*entry_BK.shape, columns)


class Mixer(Protocol):
    """Weighs what was retrieved at one step."""

    #: Familiarity of a sentence at which the guard lets neighbours begin to count, and count fully.
    trusted: ClassVar[tuple[float, float]]

    @property
    def sees_keys(self) -> bool:
        """Whether it needs the queries and the keys of the neighbours."""

    @property
    def identity(self) -> str | None:
        """Of a trained network: names its content."""

    def check_model(self, model: TranslationModel) -> None:
        """Refuse a model that the mixer was not made for."""

    def evidence(self, votes: Votes, scores: Scores) -> Evidence:
        """The neighbours' distribution and its share of the mixture; `scores` is the model's distribution."""

    def mix(
        self,
        scoring: Scoring,
        logits_BV: Tensor,
        votes: Votes,
        trust_B: Tensor | None,
        rule: EndRule | None,
        ends: Sequence[int],
    ) -> Scores:
        """Mix the neighbours in; the logits change in place."""


def weighed(
    mixer: Mixer,
    scores: Scores,
    votes: Votes,
    trust_B: Tensor | None,
    rule: EndRule | None,
    ends: Sequence[int],
) -> Evidence:
    """The neighbours' distribution after the guard, source agreement and the rule for ends."""
    evidence = mixer.evidence(votes, scores)
    if trust_B is not None:
        evidence.share_B = evidence.share_B * trust_B
    if votes.agreement_BK is not None:
        apply_agreement(evidence, votes.agreement_BK)
    if rule is not None and ends:
        apply_end_rule(evidence, votes.found, scores, rule, ends)
    return evidence


class EvidenceMixer:
    """Mixes in two steps, what `weighed` makes of the evidence; no engine does both at once."""

    def mix(
        self: Mixer,
        scoring: Scoring,
        logits_BV: Tensor,
        votes: Votes,
        trust_B: Tensor | None,
        rule: EndRule | None,
        ends: Sequence[int],
    ) -> Scores:
        scores = scoring.normalise(logits_BV)
        return scoring.mix(scores, weighed(self, scores, votes, trust_B, rule, ends))


@dataclass(frozen=True)
class FixedMixer(Mixing):
    """Equations 2 and 3 with constant weights and temperatures: one pair for searches, one for the cache."""

    trusted: ClassVar[tuple[float, float]] = TRUSTED
    sees_keys: ClassVar[bool] = False
    identity: ClassVar[str | None] = None

    def check_model(self, model: TranslationModel) -> None:
        """Fits every model."""

    def evidence(self, votes: Votes, scores: Scores) -> Evidence:
        return evidence_of(votes.found, votes.token_BK, votes.count_BK, self)

    def mix(
        self,
        scoring: Scoring,
        logits_BV: Tensor,
        votes: Votes,
        trust_B: Tensor | None,
        rule: EndRule | None,
        ends: Sequence[int],
    ) -> Scores:
        found, token_BK, count_BK, agreement_BK = votes[:4]
        return scoring.mix_neighbours(logits_BV, found, token_BK, count_BK, self, trust_B, rule, ends, agreement_BK)
