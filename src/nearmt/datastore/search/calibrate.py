"""Calibrating a store on its own entries: typical distances of neighbours, and their best weight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Neighbours
from nearmt.datastore.disk import Calibration
from nearmt.datastore.search.agreement import AGREEMENT, sentence_words
from nearmt.datastore.search.recall import NEIGHBOURS, QUERIES, sample
from nearmt.datastore.search.searcher import Searcher
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.engines.base import Index, SentenceWords
from nearmt.engines.choose import exact_index
from nearmt.engines.devices import spread
from nearmt.engines.reference.entries import EntryTable
from nearmt.models import TranslationModel
from nearmt.models.words import SourceWords
from nearmt.reduction import Reduction

#: T in units of the typical squared distance between a query and its neighbours.
TEMPERATURE_SHARE = 0.5
# Sampled entries find themselves and their own sentence first, so more neighbours are searched.
_OWN_SENTENCE = 24
# For the likely weight: pairs scored, batch size, fewest pairs for an estimate, EM iterations.
_SCORED_PAIRS = 160
_SCORED_TOGETHER = 8
_FEWEST_PAIRS = 20
_EM_STEPS = 60
#: Estimates from fewer pairs are capped at this weight, which gives the default lambda of 0.6: 25 short messages were
#: estimated at .6, and translations of new messages repeated one word until the length limit.
FEW_PAIRS = 100
FEW_PAIRS_CAP = 0.43
# Strengths of source agreement that are tried, and how much less likely (nats a token) the greatest may be.
_STRENGTHS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
_NEARLY = 0.02


def measured(
    store: Snapshot, before: Calibration, cache_columns: int, recall: float | None, model: TranslationModel | None
) -> Calibration:
    """A new calibration of a store. Without a model, `likely_weight` is kept."""
    found = distances(store, cache_columns)
    likely = {name: getattr(before, name) for name in ("likely_weight", "agreement")}
    if model is not None:
        likely = likely_settings(model, store, found.search_scale)
    return replace(found, recall=recall, familiar=store.typical_familiarity(), **likely)


def distances(store: Snapshot, cache_columns: int) -> Calibration:
    """Median distances of sampled entries to their nearest neighbours in other sentences, by exact search."""
    entries = store.entries
    fallback = expected(store.reduction, cache_columns)
    found_N, findable = store.findable_N(), store.findable()
    if not findable:
        return fallback
    sample_Q = sample(findable, QUERIES).to(entries.device)
    if found_N is not None:
        sample_Q = found_N.nonzero().flatten()[sample_Q]
    query_QD = entries.keys(sample_Q, store.columns)
    exact = [exact_index(key_ND) for key_ND in entries.keys_by_segment]
    searcher = Searcher(entries, list[Index](exact), store.columns)
    found = searcher.search(query_QD, NEIGHBOURS + _OWN_SENTENCE, found_N)
    found = _of_other_sentences(entries, sample_Q, found)
    there_QK = ~torch.isinf(found.distance_BK)
    squared = found.distance_BK[there_QK]
    if not len(squared):
        return replace(fallback, entries=findable)
    own_QK = torch.arange(len(sample_Q), device=entries.device)[:, None].expand_as(there_QK)[there_QK]
    cache_key_XE = entries.keys(found.entry_BK[there_QK], cache_columns)
    distance_X = (cache_key_XE - query_QD[own_QK, :cache_columns]).square().sum(dim=1).sqrt()
    # In a store of repetitions the median is zero, which is no scale for a temperature.
    return Calibration(
        search_scale=float(squared.median()) or fallback.search_scale,
        cache_scale=float(distance_X.median()) or fallback.cache_scale,
        queries=len(sample_Q),
        k=NEIGHBOURS,
        entries=findable,
    )


def likely_settings(model: TranslationModel, store: Snapshot, search_scale: float) -> dict[str, float | None]:
    """Settings under which a sample of the store's sentences is likely, each left out of its own search.

    `likely_weight` is the most likely lambda of equation 3. It is large where neighbours predict tokens that the model
    does not, that is, for domains the model was not trained on. `agreement` is the strength of source agreement.
    """
    entries, everything = store.entries, _new_to(model, store)
    chosen = [everything[index] for index in sample(len(everything), _SCORED_PAIRS, seed=1).tolist()]
    numbers = [number for number in chosen if len(entries.of_pair(number))]
    # Pairs of similar length are scored together.
    numbers.sort(key=lambda number: len(entries.of_pair(number)))
    if len(numbers) < _FEWEST_PAIRS:
        return {"likely_weight": None, "agreement": None}
    temperature = TEMPERATURE_SHARE * search_scale
    tasks = [partial(_knn_probabilities, store, number, temperature, model) for number in numbers]
    found = dict(spread(tasks, model.seq2seq.device))
    parts = zip(*(found[index] for index in range(len(tasks))), strict=True)
    neighbours = [torch.cat([part.cpu() for part in of_all]) for of_all in parts]
    held_out = _Sample(_model_probabilities(model, store, numbers), *neighbours)
    most = 1.0 if len(numbers) >= FEW_PAIRS else FEW_PAIRS_CAP
    return {
        "likely_weight": min(held_out.likely(0.0)[0], most),
        "agreement": _strongest({strength: held_out.likely(strength)[1] for strength in _STRENGTHS}),
    }


def _new_to(model: TranslationModel, store: Snapshot) -> list[int]:
    """The pairs that say how the model does on new text: all, but of an adapted model those that were held out. Those
    that it was trained on, it knows better."""
    numbers = list(store.numbers())
    if model.adapter is None or not numbers:
        return numbers
    held_out = np.array(sorted(model.adapter.held_out), dtype=np.uint64)
    new_P = np.isin(np.concatenate([segment.id_P for segment in store.segments]), held_out)
    return [number for number in numbers if new_P[number]]


@dataclass(frozen=True)
class _Sample:
    """Tokens of the store's own sentences, [X], each sentence left out of its own search."""

    #: Their probabilities by the model, and by the neighbours (equation 2).
    model_X: Tensor
    neighbour_X: Tensor
    #: How much of the latter full source agreement takes away, and how much of all neighbours' weight.
    silenced_X: Tensor
    lost_X: Tensor

    def likely(self, strength: float) -> tuple[float, float]:
        """The most likely lambda with this strength of agreement, and the mean log-likelihood."""
        # What neighbours lose goes to the model.
        mixed_X = self.neighbour_X + strength * (self.lost_X * self.model_X - self.silenced_X)
        weight = _most_likely(self.model_X, mixed_X)
        total_X = weight * mixed_X + (1 - weight) * self.model_X
        return round(weight, 3), float(total_X.clamp(min=1e-30).log().mean())


def _model_probabilities(model: TranslationModel, store: Snapshot, numbers: list[int]) -> Tensor:
    """p_NMT of the tokens of stored pairs, [X]."""

    def probabilities(batch: list[int]) -> list[Tensor]:
        sources = [_source_of(model, store, n) for n in batch]
        targets = [store.entries.tokens(store.entries.of_pair(n)).tolist() for n in batch]
        return [score.exp().cpu() for score in model.seq2seq.score(sources, targets)]

    starts = range(0, len(numbers), _SCORED_TOGETHER)
    tasks = [partial(probabilities, numbers[start : start + _SCORED_TOGETHER]) for start in starts]
    parts = dict(spread(tasks, model.seq2seq.device))
    return torch.cat([part_T for number in range(len(tasks)) for part_T in parts[number]])


def _strongest(likelihood: dict[float, float]) -> float:
    """The greatest strength that is nearly as likely as the best.

    Likelihood alone would choose a smaller one: sampled sentences seldom differ from stored ones in just a word.
    """
    best = max(likelihood.values())
    return max(strength for strength, found in likelihood.items() if found >= best - _NEARLY)


def _knn_probabilities(
    store: Snapshot, number: int, temperature: float, model: TranslationModel
) -> tuple[Tensor, Tensor, Tensor]:
    """p_kNN (equation 2) of each token of a stored pair, from neighbours in other sentences; how much of it full source
    agreement takes away; and how much of all neighbours' weight. Each [T]."""
    entries = store.entries
    entry_T = entries.of_pair(number)
    found = store.search(entries.keys(entry_T, store.columns), NEIGHBOURS + _OWN_SENTENCE)
    found = _of_other_sentences(entries, entry_T, found)
    same_TK = entries.tokens(found.entry_BK) == entries.tokens(entry_T)[:, None]
    score_TK = -found.distance_BK / temperature
    merged_TK = entries.weights(found.entry_BK)
    if merged_TK is not None:
        score_TK = score_TK + merged_TK.log()
    # The softmax over no neighbours is undefined; such tokens get probability 0.
    weight_TK = torch.softmax(score_TK, dim=1).nan_to_num(0.0)
    words = _words_of(store, number, model, weight_TK.device)
    agreement_TK = store.agreement(found.entry_BK, words, replace(AGREEMENT, elsewhere=1.0))
    lost_TK = torch.zeros_like(weight_TK) if agreement_TK is None else weight_TK * (1.0 - agreement_TK)
    return (weight_TK * same_TK).sum(dim=1), (lost_TK * same_TK).sum(dim=1), lost_TK.sum(dim=1)


def _source_of(model: TranslationModel, store: Snapshot, number: int) -> list[int]:
    """The source tokens of a pair; stores made before nearmt 0.3 do not have them."""
    return store.source(number) or model.codec.source_ids(store.pair(number).source)


def _words_of(store: Snapshot, number: int, model: TranslationModel, device: torch.device) -> SentenceWords:
    """What source agreement knows of the source of a stored pair, which is left out of the store."""
    source = _source_of(model, store, number)
    close = store.close_sources(source, without=number)
    return sentence_words([SourceWords.of(model.codec, source)], [close], device)


def _most_likely(model_X: Tensor, neighbour_X: Tensor) -> float:
    """argmax over lambda of sum log((1 - lambda) p_NMT + lambda p_kNN), by expectation maximisation."""
    weight = 0.5
    for _ in range(_EM_STEPS):
        share_X = weight * neighbour_X
        weight = float((share_X / (share_X + (1 - weight) * model_X).clamp(min=1e-30)).mean())
    return weight


def _of_other_sentences(entries: EntryTable, sample_Q: Tensor, found: Neighbours) -> Neighbours:
    """The nearest neighbours without those from a query's own sentence."""
    own_Q1 = entries.pair_numbers(sample_Q)[:, None]
    is_own = entries.pair_numbers(found.entry_BK.clamp(min=0)) == own_Q1
    distance = found.distance_BK.masked_fill(is_own | (found.entry_BK < 0), torch.inf)
    nearest = distance.argsort(dim=1, stable=True)[:, :NEIGHBOURS]
    return Neighbours(found.entry_BK.gather(1, nearest), distance.gather(1, nearest))


def expected(reduction: Reduction, cache_columns: int) -> Calibration:
    """The calibration of an empty store: half the expected squared distance of two states of the fitting text."""
    return Calibration(
        search_scale=float(reduction.variance_D.sum()),
        cache_scale=float(reduction.variance_D[:cache_columns].sum().sqrt()),
        queries=0,
        k=NEIGHBOURS,
    )
