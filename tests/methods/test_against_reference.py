"""Our methods against the slow reference, through fan-out, reorders and finished sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.config.methods import ENDS as SPEAKERS
from nearmt.datastore import Datastore
from nearmt.methods import PRESETS, ChunkConfig, ChunkMethod, KnnConfig, KnnMethod, PlainMethod
from nearmt.methods.retrieving import RetrievingState
from nearmt.models import TranslationModel
from nearmt.retrieval.source import EntrySource
from nearmt.steps import MethodState, Step
from tests.conftest import make_pairs
from tests.methods.reference import Corpus, ReferenceChunk, ReferenceKnn, Settings
from tests.random_stores import random_store
from tests.requests import begun, chunk_method, make_request
from tests.toy_store import ToyStore

SEEDS = (0, 1, 2)
STEPS = 14
BEAMS = 3
VOCABULARY = 23
STATES, COLUMNS = 14, 10
LENGTHS = [5, 20, 9, 2]  # |x|: four different geometric schedules
SOURCES = [[0, 9, 9], [3] * 4, [3, 1], [11]]  # the sentences that are like them: see `ToyStore.similar`
LAST_STEP = {0: STEPS, 1: 6, 2: STEPS, 3: 9}  # when each sentence is finished

#: Public settings of the method under test on top of BASE.
BASE: dict[str, Any] = {
    "k": 4,
    "lambda": 0.7,
    "temperature": 5.0,
    "cache-lambda": 0.45,
    "cache-temperature": 0.8,
    "cache-columns": 6,
    "chunk": 5,
    "schedule": "geometric:2:8",
}
STRATEGIES: dict[str, dict[str, Any]] = {
    **{name: dict(preset) for name, preset in PRESETS.items()},  # the paper's
    "default": {},
    **{
        f"{scope}/{retention}/{duplicates}": {"scope": scope, "retention": retention, "duplicates": duplicates}
        for scope, retention, duplicates in product(
            ("hypothesis", "source", "batch"), ("last", "all"), ("keep", "remove")
        )
    },
}
VARIATIONS: dict[str, dict[str, Any]] = {
    "every:3": {"schedule": "every:3"},
    "every:3 in order": {"schedule": "every:3", "recall": "in-order"},
    "every:3 of beam and batch": {"schedule": "every:3", **PRESETS["beam-batch"]},
    "every:1": {"schedule": "every:1"},
    "one search": {"schedule": "every:20"},
    "one search in order, read to the end": {"schedule": "every:20", "chunk": 9, "recall": "in-order"},
    "geometric:2:16": {"schedule": "geometric:2:16", "chunk": 16},
    "varying chunk": {"varying-chunk": True, "chunk": 8},
    "varying chunk in order": {"varying-chunk": True, "chunk": 8, "recall": "in-order"},
    "varying chunk, single chunk": {"varying-chunk": True, "chunk": 8, **PRESETS["single-chunk"]},
    "all columns": {"cache-columns": COLUMNS},
    "one column": {"cache-columns": 1, "k": 2},
    "one neighbour": {"k": 1, **PRESETS["single-chunk"]},
    "chunk of one": {"chunk": 1, **PRESETS["single-chunk"]},
    "more neighbours than entries": {"k": 90},
    "fewer neighbours from the cache": {"k": 6, "cache-k": 2},
    "more neighbours from the cache": {"k": 2, "cache-k": 20},
    "more neighbours from the cache, in order": {"k": 2, "cache-k": 20, "recall": "in-order"},
    "neighbours alone": {"lambda": 1.0, "cache-lambda": 1.0},
    "searches alone": {"cache-lambda": 0.0},
    "cache alone": {"lambda": 0.0},
}
SEEDED: dict[str, dict[str, Any]] = {
    **{f"seeds, {name}": {**settings, "seeds": 2} for name, settings in STRATEGIES.items() if "/" in name},
    "more seeds than sentences": {"seeds": 50},
    "seeds and no chunks in order": {"seeds": 2, "recall": "in-order"},
    "seeds, one search": {"seeds": 1, "schedule": "every:20", "retention": "last"},
}
#: Hypotheses that search, and what else is done.
SEARCHERS: dict[str, dict[str, Any]] = {
    "one searches": {"search-beams": 1, "seeds": 0},
    "two search": {"search-beams": 2, "seeds": 0},
    "two search, with seeds": {"search-beams": 2, "seeds": 2},
    "all search": {"search-beams": 100, "seeds": 0},
}
SEARCHING: dict[str, dict[str, Any]] = {
    f"{what}, {name}": {**settings, **more}
    for name, settings in STRATEGIES.items()
    if name.startswith(("source/", "batch/"))
    for what, more in SEARCHERS.items()
}

#: Tokens that end a sentence, and what else is done. One token alone changes few steps; with many, all
#: neighbours of a row are dropped at some steps.
ENDS = {"one": (3,), "many": tuple(range(0, VOCABULARY, 2))}
ENDING: dict[str, dict[str, Any]] = {
    **{name: STRATEGIES[name] for name in ("default", "hypothesis/last/keep", "batch/all/keep")},
    **{name: {**PRESETS[name], "ends": "near"} for name in ("in-order", "paper")},
    "all": {"ends": "all"},
    "few columns": {"cache-columns": 3},
    "neighbours alone": VARIATIONS["neighbours alone"],
    "more neighbours than entries": VARIATIONS["more neighbours than entries"],
    "seeds, two search": {"seeds": 2, "search-beams": 2},
}


def chunk_config(settings: dict[str, Any]) -> ChunkConfig:
    """BASE and more; as many neighbours are recalled as are searched for, unless that is what a test is about."""
    given = {**BASE, **settings}
    return ChunkConfig.from_mapping({"cache-k": given["k"], **given})


@dataclass(frozen=True)
class Moment:
    """One step of a batch, and which row each row of the next step continues."""

    time: int
    logits_BV: Tensor
    hidden_BH: Tensor
    sources: list[int]
    rows: list[int]


def make_moments(seed: int, vocabulary: int = VOCABULARY) -> list[Moment]:
    """One row a sentence, then BEAMS; random reorders within a sentence; sentences finish at their own step."""
    generator = torch.Generator().manual_seed(1000 + seed)
    # Hypotheses of a sentence are alike, so that they retrieve the same entries more than once.
    topic_SH = torch.randn(len(LENGTHS), STATES, generator=generator)
    sources = list(range(len(LENGTHS)))
    moments = []
    for time in range(1, STEPS + 1):
        noise_BH = 0.6 * torch.randn(len(sources), STATES, generator=generator)
        logits_BV = 2 * torch.randn(len(sources), vocabulary, generator=generator)
        forbidden_B = torch.randint(0, vocabulary, (len(sources),), generator=generator)
        logits_BV[torch.arange(len(sources)), forbidden_B] = -torch.inf
        rows: list[int] = []
        next_sources: list[int] = []
        for source in dict.fromkeys(sources):
            if LAST_STEP[source] > time:
                mine = [row for row, owner in enumerate(sources) if owner == source]
                chosen = torch.randint(0, len(mine), (BEAMS,), generator=generator).tolist()
                rows += [mine[place] for place in chosen]
                next_sources += [source] * BEAMS
        moments.append(Moment(time, logits_BV, topic_SH[sources] + noise_BH, sources, rows))
        sources = next_sources
    return moments


def corpus_of(store: ToyStore) -> Corpus:
    return Corpus(store.key_ND.double().numpy(), store.token_N.tolist(), store.ends)


def reference_settings(config: ChunkConfig, scale: float = 1.0, ends: Sequence[int] = ()) -> Settings:
    """`scale` is the store's typical distance, the unit of neighbours near the `ends`."""
    assert config.temperature is not None and config.weight is not None
    assert config.cache_temperature is not None and config.cache_weight is not None
    assert config.cache_columns is not None
    return Settings(
        k=config.k,
        weight=config.weight,
        temperature=config.temperature,
        cache_weight=config.cache_weight,
        cache_temperature=config.cache_temperature,
        cache_columns=config.cache_columns,
        cache_k=config.cache_k,
        chunk=config.chunk,
        schedule=config.schedule,
        varying_chunk=config.varying_chunk,
        recall=config.recall,
        scope=config.scope,
        retention=config.retention,
        duplicates=config.duplicates,
        search_beams=config.search_beams or (3 if config.shares_chunks else 100),
        ends=tuple(ends) if config.ends == "near" else (),
        near=(0.5 * scale) ** 2,
        cache_near=0.5 * scale,
    )


def run(state: MethodState, moments: list[Moment], ends: Sequence[int] = ()) -> Iterator[Tensor]:
    """Log-probabilities of every step; `ends` are the tokens that end a sentence."""
    for moment in moments:
        sentences = list(dict.fromkeys(moment.sources))
        times = [moment.time] * len(sentences)
        yield state.scores(Step(moment.logits_BV.clone(), moment.hidden_BH, times, sentences, ends)).log_probs()
        if moment.rows:
            state.reorder(torch.tensor(moment.rows))


def run_reference(
    reference: ReferenceKnn | ReferenceChunk, store: EntrySource, moments: list[Moment]
) -> Iterator[np.ndarray]:
    for moment in moments:
        logits_BV, query_BD = moment.logits_BV.double().numpy(), store.query(moment.hidden_BH).double().numpy()
        yield reference.log_probs(logits_BV, query_BD, moment.time, moment.sources)
        reference.reorder(moment.rows)


def assert_agree(moments: list[Moment], ours: Iterator[Tensor], expected: Iterator[np.ndarray]) -> None:
    for moment, ours_BV, expected_BV in zip(moments, ours, expected, strict=True):
        place = f"step {moment.time}"
        found_BV = ours_BV.double().numpy()
        assert found_BV.shape == expected_BV.shape, place
        np.testing.assert_array_equal(np.isneginf(found_BV), np.isneginf(expected_BV), err_msg=place)
        np.testing.assert_allclose(found_BV, expected_BV, rtol=0, atol=1e-5, err_msg=place)
        np.testing.assert_allclose(np.exp(found_BV).sum(axis=1), 1.0, rtol=0, atol=1e-5, err_msg=place)


def check_chunk(
    store: ToyStore,
    moments: list[Moment],
    settings: dict[str, Any],
    sources: Sequence[Sequence[int]] = (),
    ends: Sequence[int] = (),
) -> tuple[RetrievingState, ReferenceChunk]:
    method = chunk_method(store, chunk_config(settings))
    state = begun(method, LENGTHS, STEPS, sources)
    seeds = [store.similar([source], method.seeds).entry_SX[0].tolist() for source in sources]
    wanted = reference_settings(method.config, store.profile.scale(COLUMNS), ends)
    reference = ReferenceChunk(corpus_of(store), wanted, LENGTHS, STEPS, seeds)
    assert_agree(moments, run(state, moments, ends), run_reference(reference, store, moments))
    return state, reference


def large_store(seed: int) -> ToyStore:
    return random_store(seed, sentences=16, columns=COLUMNS, vocabulary=VOCABULARY, states=STATES)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("k", [1, 4, 90])
def test_knn(seed: int, k: int) -> None:
    store, moments = large_store(seed), make_moments(seed)
    method = KnnMethod(store, KnnConfig(k=k, weight=0.7, temperature=5.0))
    reference = ReferenceKnn(corpus_of(store), Settings(k=k, weight=0.7, temperature=5.0))
    state = begun(method, LENGTHS, STEPS)
    assert_agree(moments, run(state, moments), run_reference(reference, store, moments))
    assert state.searches == [LAST_STEP[source] for source in range(len(LENGTHS))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("k", [1, 4, 90])
def test_knn_where_only_near_neighbours_end_sentences(seed: int, k: int, ends: tuple[int, ...]) -> None:
    store, moments = large_store(seed), make_moments(seed)
    settings = Settings(k=k, weight=0.7, temperature=5.0, ends=ends, near=store.search_scale / 4)
    state = begun(KnnMethod(store, KnnConfig(k=k, weight=0.7, temperature=5.0)), LENGTHS, STEPS)
    reference = ReferenceKnn(corpus_of(store), settings)
    assert_agree(moments, run(state, moments, ends), run_reference(reference, store, moments))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("name", ENDING)
def test_chunks_where_only_near_neighbours_end_sentences(seed: int, name: str, ends: tuple[int, ...]) -> None:
    check_chunk(large_store(seed), make_moments(seed), ENDING[name], SOURCES, ends)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies(seed: int, name: str) -> None:
    check_chunk(large_store(seed), make_moments(seed), STRATEGIES[name])


@pytest.mark.parametrize("seed", SEEDS[:2])
@pytest.mark.parametrize("name", VARIATIONS)
def test_variations(seed: int, name: str) -> None:
    check_chunk(large_store(seed), make_moments(seed), VARIATIONS[name])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SEEDED)
def test_seeds(seed: int, name: str) -> None:
    check_chunk(large_store(seed), make_moments(seed), SEEDED[name], SOURCES)


@pytest.mark.parametrize("seed", SEEDS[:2])
@pytest.mark.parametrize("name", SEARCHING)
def test_few_hypotheses_search_for_all(seed: int, name: str) -> None:
    settings = SEARCHING[name]
    _, reference = check_chunk(large_store(seed), make_moments(seed), settings, SOURCES)
    together = Counter((retrieval.source, retrieval.time) for retrieval in reference.log)
    assert {count for (_, time), count in together.items() if time > 1} == {min(settings["search-beams"], BEAMS)}


@pytest.mark.parametrize("name", ["in-order", "single-chunk", "sentence", "default"])
@pytest.mark.parametrize("sentences", [0, 1, 2])
def test_small_stores_hold_fewer_entries_than_neighbours_are_asked_for(name: str, sentences: int) -> None:
    store = random_store(3, sentences, COLUMNS, VOCABULARY, STATES, longest=3)
    assert len(store) < 8
    check_chunk(store, make_moments(3), {"k": 8, **STRATEGIES[name]})
    check_chunk(store, make_moments(3), {"k": 8, **STRATEGIES[name], "seeds": 3}, SOURCES)


def test_knn_with_an_empty_store_is_the_model_alone() -> None:
    store, moments = random_store(0, 0, COLUMNS, VOCABULARY, STATES), make_moments(0)
    alone = run(PlainMethod().begin(make_request(LENGTHS, STEPS)), moments)
    for ours_BV, plain_BV in zip(run(begun(KnnMethod(store), LENGTHS, STEPS), moments), alone, strict=True):
        assert torch.equal(ours_BV, plain_BV)


def test_varying_chunks_are_as_long_as_the_interval_whatever_the_chunk_size() -> None:
    check_chunk(large_store(0), make_moments(0), {"varying-chunk": True, "chunk": 2})


def unseen_states(model: TranslationModel, count: int) -> Tensor:
    """Decoder states [N, H] of sentences that are in no store."""
    pairs = make_pairs(count, seed=99)
    sources = [model.codec.source_ids(pair.source) for pair in pairs]
    return torch.cat(model.seq2seq.force_decode(sources, [model.codec.target_ids(pair.target) for pair in pairs]))


@pytest.mark.parametrize("ends", SPEAKERS)
@pytest.mark.parametrize("name", ["default", "in-order", "single-chunk", "beam-batch", "sentence"])
def test_a_real_datastore(tiny: TranslationModel, tiny_store: Datastore, name: str, ends: str) -> None:
    """Keys, tokens and sentences as its users see them; temperatures as the store suggests them."""
    entry_N = torch.arange(len(tiny_store))
    snapshot = tiny_store.snapshot()
    token_N = snapshot.tokens(entry_N).tolist()
    (end_of_sentence,) = model_ends = tiny.seq2seq.eos_ids
    sentence_ends = [place + 1 for place, token in enumerate(token_N) if token == end_of_sentence]
    assert len(sentence_ends) == snapshot.pair_count and token_N[-1] == end_of_sentence
    key_ND = snapshot.keys(entry_N, tiny_store.manifest.columns).double().numpy()
    # Random states would lie so far away, in units of T, that fp32 distances alone err by more than 1e-5.
    state_NH = unseen_states(tiny, 20)
    generator = torch.Generator().manual_seed(7)
    moments = [
        replace(moment, hidden_BH=state_NH[torch.randperm(len(state_NH), generator=generator)[: len(moment.sources)]])
        for moment in make_moments(7, vocabulary=max(token_N) + 1)
    ]
    config = ChunkConfig.from_mapping({"k": 8, "chunk": 6, "cache-columns": 8, **STRATEGIES[name], "ends": ends})
    method = chunk_method(tiny_store, config)
    wanted = reference_settings(method.config, snapshot.profile.search_scale**0.5, model_ends)
    wanted = replace(wanted, cache_near=0.5 * snapshot.profile.scale(8))
    reference = ReferenceChunk(Corpus(key_ND, token_N, sentence_ends), wanted, LENGTHS, STEPS)
    state = begun(method, LENGTHS, STEPS)
    assert_agree(moments, run(state, moments, model_ends), run_reference(reference, snapshot, moments))


@pytest.mark.parametrize("name", ["default", "in-order", "single-chunk"])
def test_every_sentence_searches_by_its_own_schedule(name: str) -> None:
    state, reference = check_chunk(large_store(0), make_moments(0), STRATEGIES[name])
    due = [[time for time in steps if time <= LAST_STEP[source]] for source, steps in enumerate(reference.due)]
    assert due[0] != due[1] != due[2]
    assert state.searches == [len(times) for times in due]


def test_a_trace_changes_nothing_and_its_weights_are_distributions() -> None:
    store, moments = large_store(0), make_moments(0)
    method = ChunkMethod(store, chunk_config({}))
    traced = begun(method, LENGTHS, STEPS, trace=True)
    for with_BV, without_BV in zip(run(traced, moments), run(begun(method, LENGTHS, STEPS), moments), strict=True):
        torch.testing.assert_close(with_BV, without_BV, rtol=0, atol=1e-5)
    assert traced.evidence is not None
    assert len(traced.evidence) == STEPS
    for evidence in traced.evidence:
        torch.testing.assert_close(evidence.weight_BK.sum(dim=1), torch.ones(len(evidence.share_B)))


# The tests above can only fail if what they drive tells right from wrong. These show that it does.


def log_probs_of(
    store: ToyStore,
    moments: list[Moment],
    settings: dict[str, Any],
    sources: Sequence[Sequence[int]] = (),
    ends: Sequence[int] = (),
) -> Tensor:
    config = chunk_config(settings)
    state = begun(chunk_method(store, config), LENGTHS, STEPS, sources)
    return torch.cat(list(run(state, moments, ends)))


@pytest.mark.parametrize("recall", ["cache", "in-order"])
def test_ends_that_are_near_and_far_differ_on_these_steps(recall: str) -> None:
    """Rows in which no neighbour, some, or all are dropped as far ends."""
    store, moments = large_store(0), make_moments(0)
    near, everybody = ({"recall": recall, "k": 2, "ends": ends} for ends in SPEAKERS)
    alone = torch.cat([moment.logits_BV.log_softmax(dim=1) for moment in moments]).exp()
    mixed = log_probs_of(store, moments, everybody, ends=ENDS["many"]).exp()
    found = log_probs_of(store, moments, near, ends=ENDS["many"]).exp()
    as_all_B, as_model_B = ((found - other).abs().amax(dim=1) < 1e-6 for other in (mixed, alone))
    assert as_all_B.any() and as_model_B.any() and not (as_all_B | as_model_B).all()
    assert torch.equal(log_probs_of(store, moments, near), log_probs_of(store, moments, everybody))


def test_strategies_differ_on_these_steps() -> None:
    names = [name for name in STRATEGIES if "/" in name] + ["in-order"]
    store, moments = large_store(0), make_moments(0)
    found = {name: log_probs_of(store, moments, STRATEGIES[name]).exp() for name in names}
    for first in names:
        for second in names[names.index(first) + 1 :]:
            assert (found[first] - found[second]).abs().max() > 1e-3, (first, second)
    seeded = log_probs_of(store, moments, {"seeds": 2}, SOURCES).exp()
    assert (found["source/all/remove"] - seeded).abs().max() > 1e-3


def test_named_strategies_are_combinations_of_the_options() -> None:
    store, moments = large_store(0), make_moments(0)
    same = {
        "default": "source/all/remove",
        "single-chunk": "hypothesis/last/keep",
        "beam-batch": "batch/last/keep",
        "sentence": "batch/all/keep",
        "paper": "batch/all/keep",
    }
    for name, combination in same.items():
        settings = ({**STRATEGIES[n], "cache-columns": 64, "search-beams": 100} for n in (name, combination))
        first, second = (log_probs_of(store, moments, given) for given in settings)
        assert torch.equal(first, second), name


@pytest.mark.parametrize("name", ["in-order", "hypothesis/last/keep", "hypothesis/all/remove"])
@pytest.mark.parametrize("mistake", ["rows stay in order", "only the first time"])
def test_a_forgotten_reorder_is_noticed(name: str, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows fan out as they should; after that they no longer follow the beam (as in the released code)."""
    reorder = RetrievingState.reorder
    calls: list[Tensor] = []

    def mistaken(state: RetrievingState, row_B: Tensor) -> None:
        calls.append(row_B)
        if mistake == "rows stay in order":
            reorder(state, row_B.sort().values)
        elif len(calls) == 1:
            reorder(state, row_B)

    monkeypatch.setattr(RetrievingState, "reorder", mistaken)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        check_chunk(large_store(0), make_moments(0), STRATEGIES[name])


@pytest.mark.parametrize("name", ["source/last/keep", "source/all/remove", "batch/last/keep", "batch/all/remove"])
def test_shared_caches_need_no_reorder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetrievingState, "reorder", lambda state, row_B: None)
    check_chunk(large_store(0), make_moments(0), STRATEGIES[name])
