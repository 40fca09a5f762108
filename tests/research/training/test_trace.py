"""The trace equals decoding that is forced to the same tokens, so training sees what inference sees."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from nearmt.contracts import Evidence, Origin, Pair, Scores
from nearmt.datastore import Datastore, PruneConfig, prune
from nearmt.decoding import BeamConfig, beam_search
from nearmt.engines.base import EndRule, Retrieved, Scoring
from nearmt.methods import make_method
from nearmt.methods.mixing import FixedMixer, Mixer, Votes
from nearmt.methods.retrieving import RetrievingMethod, RetrievingState
from nearmt.models import TranslationModel
from nearmt.research.training.trace import LIKELIEST, Trace, trace_pairs
from nearmt.retrieval.source import LiveSource
from nearmt.steps import Request, Step
from tests.conftest import make_pairs

PAIRS = make_pairs(9, seed=21)
CHUNK: dict[str, Any] = {"cache-k": 4, "k": 4, "chunk": 5, "schedule": "geometric:2:8"}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "knn": ("knn", {"k": 5}),
    "more neighbours than entries": ("knn", {"k": 1000}),
    "chunk": ("chunk", CHUNK),
    "short chunks": ("chunk", {**CHUNK, "chunk": 1, "k": 2, "seeds": 0, "retention": "last"}),
    "hypothesis scope": ("chunk", {**CHUNK, "scope": "hypothesis", "retention": "last"}),
    "batch scope": ("chunk", {**CHUNK, "scope": "batch"}),
    "in order": ("chunk", {**CHUNK, "recall": "in-order"}),
    "efficient": ("efficient", {"k": 4, "reuse-scope": "source"}),
}


class RecordingMixer:
    """A mixer that records its inputs and delegates to another."""

    trusted: ClassVar[tuple[float, float]] = FixedMixer.trusted
    sees_keys: ClassVar[bool] = True

    def __init__(self, mixer: Mixer) -> None:
        self._mixer, self.identity = mixer, mixer.identity
        self.found: list[Retrieved] = []
        self.log_probs: list[Tensor] = []
        self.queries: list[Tensor] = []

    def evidence(self, votes: Votes, scores: Scores) -> Evidence:
        return self._mixer.evidence(votes, scores)

    def mix(
        self,
        scoring: Scoring,
        logits_BV: Tensor,
        votes: Votes,
        trust_B: Tensor | None,
        rule: EndRule | None,
        ends: Sequence[int],
    ) -> Scores:
        assert votes.query_BD is not None
        self.found.append(votes.found)
        self.queries.append(votes.query_BD)
        self.log_probs.append(logits_BV.log_softmax(dim=1))
        return self._mixer.mix(scoring, logits_BV, votes, trust_B, rule, ends)

    def check_model(self, model: TranslationModel) -> None:
        self._mixer.check_model(model)


class ForcedMethod:
    """A method that retrieves as another does and outputs given tokens."""

    shares_batch = per_sentence = False
    store = None
    chunk = 1

    def __init__(self, method: RetrievingMethod, targets: list[list[int]]) -> None:
        self._method, self._targets = method, targets
        self.sources: list[list[int]] = []  # of the rows, at every step

    def check_model(self, model: TranslationModel) -> None:
        self._method.check_model(model)

    def begin(self, request: Request) -> ForcedState:
        return ForcedState(self._method.begin(request), self)

    def signature(self) -> str:
        return "forced"


class ForcedState:
    """Retrieves, and gives the target's token all probability."""

    evidence = store = None

    def __init__(self, state: RetrievingState, method: ForcedMethod) -> None:
        self._state, self._method = state, method

    @property
    def missed(self) -> Sequence[int]:
        return self.searches

    @property
    def compared(self) -> Sequence[int]:
        return self._state.compared

    @property
    def searches(self) -> Sequence[int]:
        return self._state.searches

    def begin(self, sentences: Sequence[int]) -> list[float]:
        return self._state.begin(sentences)

    def scores(self, step: Step) -> Scores:
        self._state.scores(step)
        self._method.sources.append(list(step.sentences))
        forced_BV = torch.full_like(step.logits_BV, -torch.inf)
        for row, sentence in enumerate(step.sentences):
            forced_BV[row, self._method._targets[sentence][step.times[row] - 1]] = 0.0
        return Scores(forced_BV, torch.zeros(len(forced_BV)))

    def reorder(self, row_B: Tensor) -> None:
        self._state.reorder(row_B)

    def release(self, sentences: Sequence[int]) -> None:
        self._state.release(sentences)


def decoded(model: TranslationModel, method: RetrievingMethod, pairs: list[Pair]) -> Trace:
    """Record the same values from beam search with one hypothesis a sentence."""
    encoded = [(model.codec.source_ids(pair.source), model.codec.target_ids(pair.target)) for pair in pairs]
    encoded.sort(key=lambda pair: len(pair[1]))
    sources, targets = [s for s, _ in encoded], [t for _, t in encoded]
    method.mixer = recording = RecordingMixer(method.mixer)
    forced = ForcedMethod(method, targets)
    lengths = [model.codec.source_length(source) for source in sources]
    config = BeamConfig(beams=1, max_new_tokens=max(map(len, targets)))
    hypotheses = beam_search(model.seq2seq, forced, sources, lengths, config)[0]
    assert [h.tokens for h in hypotheses] == targets
    rows, store = [], method.store.snapshot()
    for step, (found, log_prob_BV) in enumerate(zip(recording.found, recording.log_probs, strict=True)):
        for row, source in enumerate(forced.sources[step]):
            if int(found.origin_B[row]) == int(Origin.MODEL):
                continue
            token_K = store.tokens(found.entry_BK[row])
            count_K = store.weights(found.entry_BK[row])
            gold = targets[source][step]
            rows.append(
                Trace(
                    origin_X=found.origin_B[row],
                    distance_XK=found.distance_BK[row],
                    token_XK=token_K,
                    count_XK=torch.ones(len(token_K)) if count_K is None else count_K.clamp(min=1.0),
                    log_prob_XK=log_prob_BV[row][token_K],
                    likeliest_XR=log_prob_BV[row].sort(descending=True).values[:LIKELIEST],
                    gold_X=torch.tensor(gold),
                    gold_log_prob_X=log_prob_BV[row][gold],
                    entry_XK=found.entry_BK[row],
                    query_XD=recording.queries[step][row],
                )
            )
    return Trace(*(torch.stack([getattr(row, name) for row in rows]) for name in Trace.__dataclass_fields__))


def made(name: str, store: LiveSource, settings: dict[str, Any]) -> RetrievingMethod:
    method = make_method(name, store, settings)
    assert isinstance(method, RetrievingMethod)
    return method


def assert_same(trace: Trace, expected: Trace) -> None:
    assert len(trace) == len(expected)
    for name in ("origin_X", "gold_X", "count_XK"):
        assert torch.equal(getattr(trace, name), getattr(expected, name)), name
    for name in ("distance_XK", "likeliest_XR", "gold_log_prob_X", "query_XD"):
        assert torch.allclose(getattr(trace, name), getattr(expected, name), atol=2e-3, rtol=1e-4), name
    there_XK = trace.distance_XK.isfinite()
    for name in ("token_XK", "entry_XK"):
        assert torch.equal(getattr(trace, name)[there_XK], getattr(expected, name)[there_XK]), name
    assert torch.allclose(trace.log_prob_XK[there_XK], expected.log_prob_XK[there_XK], atol=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_trace_equals_forced_decoding(tiny: TranslationModel, tiny_store: Datastore, way: str) -> None:
    name, settings = WAYS[way]
    trace = trace_pairs(tiny, made(name, tiny_store, settings), PAIRS)
    assert_same(trace, decoded(tiny, made(name, tiny_store, settings), PAIRS))
    origins = set(trace.origin_X.tolist())
    assert origins == ({int(Origin.SEARCH)} if name == "knn" else {int(Origin.SEARCH), int(Origin.CACHE)})
    if way != "in order":  # there, steps beyond the chunks have no neighbours
        assert len(trace) == sum(len(tiny.codec.target_ids(pair.target)) for pair in PAIRS)
    fewer = way in ("more neighbours than entries", "in order", "short chunks")
    assert bool(trace.distance_XK.isinf().any()) == fewer


def test_trace_of_a_pruned_store_has_multiplicities(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    shutil.copytree(tiny_store.path, tmp_path / "store")
    prune(tmp_path / "store", PruneConfig(neighbours=16))
    store = Datastore.open(tmp_path / "store")
    for name, settings in (WAYS["knn"], WAYS["chunk"]):
        trace = trace_pairs(tiny, made(name, store, settings), PAIRS)
        assert_same(trace, decoded(tiny, made(name, store, settings), PAIRS))
        assert float(trace.count_XK.max()) > 1 and float(trace.count_XK.min()) == 1


def test_trace_does_not_depend_on_the_batch_size(
    tiny: TranslationModel, tiny_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of one sentence give the same tokens in another order."""
    together = trace_pairs(tiny, made("chunk", tiny_store, CHUNK), PAIRS)
    monkeypatch.setattr("nearmt.research.training.trace._BATCH_SIZE", {"cpu": 1})
    seen: list[tuple[int, int]] = []
    apart = trace_pairs(
        tiny, made("chunk", tiny_store, CHUNK), PAIRS, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(number, len(PAIRS)) for number in range(1, len(PAIRS) + 1)]
    for name in ("gold_log_prob_X", "likeliest_XR"):
        found, expected = (getattr(trace, name).sort(dim=0).values for trace in (apart, together))
        assert torch.allclose(found, expected, atol=1e-3)
    assert int((apart.origin_X == int(Origin.SEARCH)).sum()) == int((together.origin_X == int(Origin.SEARCH)).sum())


def test_overlong_pairs_are_left_out(tiny: TranslationModel, tiny_store: Datastore) -> None:
    endless = "pumpe " * 200
    method = made("knn", tiny_store, {"k": 3})
    alone = trace_pairs(tiny, method, PAIRS[:2])
    mixed = trace_pairs(tiny, method, [Pair(endless, "pump"), PAIRS[0], Pair("pumpe", endless), PAIRS[1]])
    assert torch.equal(mixed.gold_X, alone.gold_X)
    assert len(trace_pairs(tiny, method, [Pair(endless, "pump")])) == len(trace_pairs(tiny, method, [])) == 0


def test_empty_target_has_one_token(tiny: TranslationModel, tiny_store: Datastore) -> None:
    trace = trace_pairs(tiny, made("knn", tiny_store, {"k": 3}), [Pair("pumpe", "")])
    assert trace.gold_X.tolist() == tiny.codec.target_ids("") and len(trace) == 1


def test_trace_of_an_empty_store_is_empty(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", [], tiny)
    assert len(trace_pairs(tiny, made("chunk", store, CHUNK), PAIRS)) == 0
