"""Weighing and mixing by one kernel against the same in torch, and translations with kernels against those without."""

from __future__ import annotations

import math
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from nearmt.methods.fused import NO_RULE, EndRule, mix_found, mix_gathered
from nearmt.retrieval.ends import NearEnds
from nearmt.retrieval.kernel_chunked import KernelChunked
from torch import Tensor

from nearmt.config.methods import KnnConfig
from nearmt.contracts import Neighbours, Origin, Scores, Step, Translation
from nearmt.datastore import Datastore, MaskedStore, PruneConfig, prune
from nearmt.datastore.search import indexing
from nearmt.decoding import BeamConfig
from nearmt.engines.cuda import gathered
from nearmt.engines.reference.scoring import mix
from nearmt.index import PieceIndex
from nearmt.methods import fused
from nearmt.methods.chunk import ChunkMethod
from nearmt.methods.knn import KnnConfig, KnnMethod
from nearmt.methods.mixing import FixedMixer
from nearmt.models import TranslationModel
from nearmt.retrieval import entry_cache
from nearmt.retrieval.retriever import Retrieved
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.toy_store import ToyStore, gathered_from

# The interpreter of kernels says of numpy what a GPU does not say: where log 0 is meant.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.*")

VOCABULARY, ENTRIES, ROWS, K = 40, 30, 6, 5
MIXER = FixedMixer(weight=0.6, temperature=4.0, cache_weight=0.3, cache_temperature=0.7)
WHOLE = FixedMixer(weight=1.0, temperature=4.0, cache_weight=1.0, cache_temperature=0.7)
#: Who may end a sentence whatever the model thinks, among neighbours at distances between 0 and 9: some, none, all;
#: only some that were searched for or only some that were recalled; and a token of which nobody speaks.
ANYHOW = 2.0
RULES = {
    "some": EndRule(0, 3.0, 5.0, ANYHOW),
    "none": EndRule(0, 0.0, 0.0, ANYHOW),
    "all": EndRule(0, 9.0, 9.0, ANYHOW),
    "searched": EndRule(0, 3.0, 0.0, ANYHOW),
    "recalled": EndRule(0, 0.0, 5.0, ANYHOW),
    "unspoken": EndRule(VOCABULARY - 1, 0.0, 0.0, ANYHOW),
}
#: Some, and all where the model thinks an end likely.
LIKELY = EndRule(0, 3.0, 5.0, 0.02)


class CountingStore(ToyStore):
    """Entries that stand for several, or were merged into others."""

    times_N: Tensor | None = None

    def weights(self, entry: Tensor) -> Tensor | None:
        if self.times_N is None:
            return None
        return torch.where(entry < 0, 1.0, self.times_N[entry.clamp(min=0)])


def made_store(weighted: bool = False, tokens: int = VOCABULARY) -> CountingStore:
    generator = torch.Generator().manual_seed(3)
    token_N = torch.randint(0, tokens, (ENTRIES,), generator=generator, dtype=torch.int32)
    store = CountingStore(torch.zeros(ENTRIES, 2), token_N.long(), [ENTRIES])
    if weighted:
        store.times_N = torch.randint(0, 4, (ENTRIES,), generator=generator).float()
        assert not store.times_N.all()
    return store


def random_found(seed: int) -> Retrieved:
    """Rows from searches and from the cache, with all neighbours, with some, and (the last) with none."""
    generator = torch.Generator().manual_seed(seed)
    found = Retrieved.nothing(ROWS, K, torch.device("cpu"))
    for row in range(ROWS):
        there = [K, K, 2, 1, K, 0][row]
        entry = torch.randperm(ENTRIES, generator=generator)[None, :there]
        distance = torch.rand(1, there, generator=generator).mul(9).sort(dim=1).values
        found.put(torch.tensor([row]), (Origin.SEARCH, Origin.CACHE)[row % 2], Neighbours(entry, distance))
    return found


def random_logits(seed: int, rows: int = ROWS) -> Tensor:
    return 4 * torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed))


def leaving(found: Retrieved, store: ToyStore, rule: EndRule) -> Tensor:
    """Which neighbours may not say that the sentence ends, [B, K]."""
    near = {int(Origin.SEARCH): rule.search, int(Origin.CACHE): rule.cache}
    near_B1 = torch.tensor([near.get(asked, math.inf) for asked in found.asked_B.tolist()])[:, None]
    ends_BK = (found.entry_BK >= 0) & (store.tokens(found.entry_BK) == rule.token)
    return ends_BK & (found.distance_BK > near_B1)


def by_torch(
    logits_BV: Tensor,
    found: Retrieved,
    store: ToyStore,
    mixer: FixedMixer,
    trust_B: Tensor | None,
    rule: EndRule = NO_RULE,
) -> Scores:
    scores = Scores.of(logits_BV.clone())
    evidence = mixer.evidence(found, store, scores)
    if trust_B is not None:
        evidence.share_B *= trust_B
    if rule is not NO_RULE:
        NearEnds(*rule[1:]).leave(evidence, found, scores, [rule.token])
    return mix(scores, evidence)


def assert_mixes_alike(
    logits_BV: Tensor,
    found: Retrieved,
    store: ToyStore,
    mixer: FixedMixer = MIXER,
    trust_B: Tensor | None = None,
    rule: EndRule = NO_RULE,
) -> Tensor:
    """The log-probabilities, which are the same by both ways and make a distribution."""
    expected = by_torch(logits_BV, found, store, mixer, trust_B, rule).log_probs()
    mine = mix_gathered(logits_BV.clone(), found, gathered_from(store), mixer, trust_B, rule).log_probs()
    torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine.exp().sum(dim=1), torch.ones(len(mine)))
    return mine


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("trusted", [False, True])
def test_it_mixes_as_in_torch(seed: int, weighted: bool, trusted: bool) -> None:
    trust_B = torch.tensor([0.0, 1.0, 0.5, 0.25, 0.9, 0.5]) if trusted else None
    found, logits_BV = random_found(seed), random_logits(seed)
    mixed = assert_mixes_alike(logits_BV, found, made_store(weighted), trust_B=trust_B)
    alone = torch.log_softmax(logits_BV, dim=1)
    untouched = [(mixed[row] - alone[row]).abs().max() < 1e-5 for row in range(ROWS)]
    assert untouched == [trusted, False, False, False, False, True]


@pytest.mark.parametrize("block", [4, 64])
def test_logits_are_read_in_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_BLOCK", block)
    assert_mixes_alike(random_logits(1), random_found(1), made_store())
    assert_mixes_alike(random_logits(1), random_found(1), made_store(), FixedMixer(1.0, 4.0, 1.0, 0.7))


@pytest.mark.parametrize("weighted", [False, True])
def test_neighbours_with_the_same_token_add_up(weighted: bool) -> None:
    mixed = assert_mixes_alike(random_logits(2), random_found(2), made_store(weighted, tokens=2))
    assert float(mixed[0, :2].exp().sum()) > 0.6


def test_a_share_of_nothing_is_the_model_alone() -> None:
    mixed = assert_mixes_alike(random_logits(0), random_found(0), made_store(), FixedMixer(0.0, 4.0, 0.0, 0.7))
    torch.testing.assert_close(mixed, torch.log_softmax(random_logits(0), dim=1))


@pytest.mark.parametrize("whole", [1.0, 1])
def test_a_share_of_all_leaves_nothing_to_the_model(whole: float) -> None:
    """At searches alone, in between alone, and where trust takes some of it back."""
    store, found, logits_BV = made_store(), random_found(0), random_logits(0)
    searched = assert_mixes_alike(logits_BV, found, store, FixedMixer(whole, 4.0, 0.3, 0.7))
    spoken = set(store.tokens(found.entry_BK[0]).tolist())
    assert {token for token in range(VOCABULARY) if searched[0, token] > -math.inf} == spoken
    assert bool((searched[1] > -math.inf).all())
    recalled = assert_mixes_alike(logits_BV, found, store, FixedMixer(0.6, 4.0, whole, 0.7))
    assert bool((recalled[0] > -math.inf).all()) and not bool((recalled[1] > -math.inf).all())
    # Who has no neighbours has the model all the same.
    assert bool((recalled[5] > -math.inf).all())
    trust_B = torch.tensor([1.0, 1.0, 0.5, 0.5, 0.0, 1.0])
    assert_mixes_alike(logits_BV, found, store, FixedMixer(whole, 4.0, whole, 0.7), trust_B)


def test_what_the_model_forbids_neighbours_may_say() -> None:
    store, found, logits_BV = made_store(), random_found(4), random_logits(4)
    logits_BV[:, : VOCABULARY // 2] = -math.inf
    token = int(store.tokens(found.entry_BK[0])[0])
    logits_BV[0, token] = -math.inf
    mixed = assert_mixes_alike(logits_BV, found, store)
    assert mixed[0, token] > -math.inf
    torch.testing.assert_close(mixed[5].isinf(), logits_BV[5].isinf())


def test_logits_may_be_rows_of_a_wider_tensor() -> None:
    wide_BV, store, found = torch.zeros(ROWS, VOCABULARY + 7), made_store(), random_found(5)
    wide_BV[:, :VOCABULARY] = random_logits(5)
    expected = by_torch(wide_BV[:, :VOCABULARY], found, store, MIXER, None).log_probs()
    mine = mix_gathered(wide_BV[:, :VOCABULARY], found, gathered_from(store), MIXER, None)
    torch.testing.assert_close(mine.log_probs(), expected, rtol=1e-4, atol=1e-5)
    assert mine.logits_BV.data_ptr() == wide_BV.data_ptr() and not wide_BV[:, VOCABULARY:].any()


def test_far_neighbours_count_as_much_as_others_as_far() -> None:
    """exp(-d / T) alone would be 0 for all of them."""
    found = random_found(6)
    found.distance_BK += 1e4
    assert_mixes_alike(random_logits(6), found, made_store())


# Where sentences end.

TRUST = [0.0, 1.0, 0.5, 0.25, 0.9, 0.5]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [*RULES, "likely"])
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("trusted", [False, True])
def test_far_ends_leave_their_share_as_in_torch(
    seed: int, name: str, tokens: int, weighted: bool, trusted: bool
) -> None:
    rule, trust_B = RULES.get(name, LIKELY), torch.tensor(TRUST) if trusted else None
    found, logits_BV, store = random_found(seed), random_logits(seed), made_store(weighted, tokens)
    for mixer in (MIXER, WHOLE):
        assert_mixes_alike(logits_BV, found, store, mixer, trust_B, rule)


def test_there_are_rows_in_which_nobody_leaves_some_do_and_all_do() -> None:
    """Else the tests that use them would know nothing of it."""
    seen = set()
    for seed, tokens, name in product(range(3), (1, 3), ("some", "none")):
        found, store = random_found(seed), made_store(tokens=tokens)
        left_B = leaving(found, store, RULES[name]).sum(dim=1)
        there_B = (found.entry_BK >= 0).sum(dim=1)
        for asked, left, there in zip(found.asked_B.tolist(), left_B.tolist(), there_B.tolist(), strict=True):
            seen.add((Origin(asked), "nobody" if left == 0 else "all" if left == there else "some"))
    assert seen == set(product((Origin.SEARCH, Origin.CACHE), ("nobody", "some", "all")))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mixer", [MIXER, WHOLE], ids=["share", "whole"])
def test_where_all_neighbours_leave_the_model_keeps_every_bit(weighted: bool, mixer: FixedMixer) -> None:
    logits_BV, found, gathered = random_logits(3), random_found(3), gathered_from(made_store(weighted, tokens=1))
    nobody = Retrieved.nothing(ROWS, K, torch.device("cpu"))
    alone = mix_gathered(logits_BV.clone(), nobody, gathered, mixer, None)
    mine = mix_gathered(logits_BV.clone(), found, gathered, mixer, None, RULES["none"])
    assert torch.equal(mine.logits_BV, logits_BV) and torch.equal(mine.offset_B, alone.offset_B)
    assert not torch.equal(mix_gathered(logits_BV.clone(), found, gathered, mixer, None).logits_BV, logits_BV)


@pytest.mark.parametrize("mixer", [MIXER, WHOLE], ids=["share", "whole"])
def test_where_nobody_leaves_rows_keep_every_bit(mixer: FixedMixer) -> None:
    logits_BV, found, store = random_logits(1), random_found(1), made_store(tokens=3)
    without = mix_gathered(logits_BV.clone(), found, gathered_from(store), mixer, None)
    mine = mix_gathered(logits_BV.clone(), found, gathered_from(store), mixer, None, RULES["some"])
    same_B = (mine.logits_BV == without.logits_BV).all(dim=1) & (mine.offset_B == without.offset_B)
    assert same_B.tolist() == (~leaving(found, store, RULES["some"]).any(dim=1)).tolist()
    assert same_B.any() and not same_B.all()


def test_a_share_of_all_leaves_the_model_what_ends_had() -> None:
    """And with it all tokens of which no neighbour speaks."""
    logits_BV, found, store = random_logits(1), random_found(1), made_store(tokens=3)
    mixed = assert_mixes_alike(logits_BV, found, store, WHOLE, None, RULES["none"])
    weight_BK = WHOLE.evidence(found, store, Scores.of(logits_BV.clone())).weight_BK
    left_B = (weight_BK * leaving(found, store, RULES["none"])).sum(dim=1)
    some_B = (left_B > 0) & (left_B < 0.999)
    assert some_B.any()
    alone = logits_BV.softmax(dim=1)
    for row in some_B.nonzero()[:, 0].tolist():
        unspoken = [0, *range(3, VOCABULARY)]
        torch.testing.assert_close(mixed[row].exp()[unspoken], left_B[row] * alone[row, unspoken])


def hardly_any(rows: int = 200, k: int = 12) -> tuple[Retrieved, ToyStore]:
    """Neighbours of which the last ends the sentence: so far away that the others add up to 1, or more by rounding."""
    generator = torch.Generator().manual_seed(0)
    distance_BK = 9 * torch.rand(rows, k, generator=generator)
    distance_BK[:, -1] += 72
    token_BK = torch.randint(1, VOCABULARY, (rows, k), generator=generator)
    token_BK[:, -1] = 0
    store = ToyStore(torch.zeros(rows * k, 2), token_BK.flatten(), [rows * k])
    asked_B = torch.full((rows,), int(Origin.SEARCH))
    return Retrieved(asked_B, torch.arange(rows * k).view(rows, k), distance_BK), store


def test_what_is_left_may_be_next_to_nothing() -> None:
    """Shares are rounded, but never above what they were: a model with a share below 0 would say nothing."""
    found, store = hardly_any()
    logits_BV = random_logits(1, len(found.asked_B))
    mine = mix_gathered(logits_BV, found, gathered_from(store), WHOLE, None, RULES["some"]).log_probs()
    torch.testing.assert_close(mine.exp().sum(dim=1), torch.ones(len(mine)))


def test_one_token_is_what_kernels_know_of_ends() -> None:
    logits_BV, found, store = random_logits(2), random_found(2), made_store(tokens=3)
    store.gathered = gathered_from(store)
    near = NearEnds(3.0, 5.0, ANYHOW)
    one = mix_found(logits_BV.clone(), found, store, MIXER, None, near, [0])
    assert one is not None
    expected = by_torch(logits_BV, found, store, MIXER, None, RULES["some"]).log_probs()
    torch.testing.assert_close(one.log_probs(), expected, rtol=1e-4, atol=1e-5)
    assert mix_found(logits_BV.clone(), found, store, MIXER, None, near, [0, 1]) is None
    # Where all may speak it does not matter how many there are; where there is none, who may.
    plain = by_torch(logits_BV, found, store, MIXER, None).log_probs()
    for speakers, ends in ((None, [0, 1]), (near, [])):
        everybody = mix_found(logits_BV.clone(), found, store, MIXER, None, speakers, ends)
        assert everybody is not None
        torch.testing.assert_close(everybody.log_probs(), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ends", [[0], [0, 1], [0, 1, 2], [5]])
def test_a_method_leaves_several_ends_to_torch(ends: list[int]) -> None:
    generator = torch.Generator().manual_seed(4)
    key_ND = torch.randn(ENTRIES, 4, generator=generator)
    token_N = torch.randint(0, 3, (ENTRIES,), generator=generator)
    query_BD, logits_BV = torch.randn(ROWS, 4, generator=generator), random_logits(4)

    def mixed(kernels: bool, speakers: str) -> Tensor:
        store = ToyStore(key_ND, token_N, [ENTRIES])
        store.search_scale = 4.0
        if kernels:
            store.gathered = gathered_from(store, steady=False)
        method = KnnMethod(store, KnnConfig(k=K, ends=speakers))
        step = Step(logits_BV.clone(), query_BD, [1] * ROWS, list(range(ROWS)), ends)
        return method.begin([3] * ROWS, 9, trace=False).scores(step).log_probs()

    torch.testing.assert_close(mixed(True, "near"), mixed(False, "near"), rtol=1e-4, atol=1e-5)
    assert torch.allclose(mixed(False, "near"), mixed(False, "all")) == (ends == [5])


# Through the whole search.

SEARCH = BeamConfig(beams=2, max_new_tokens=6)
TEXTS = [pair.source for pair in make_pairs(3, seed=5)]


@pytest.fixture
def stores(tiny_store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stores:
    shutil.copytree(tiny_store.path, tmp_path / "s")
    monkeypatch.setattr(entry_cache, "_ROOM", 256)
    monkeypatch.setattr(fused, "_BLOCK", 64)
    return Stores(tmp_path / "s", monkeypatch)


class Stores:
    """One store on disk, opened with kernels or without."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path, self._patch = path, patch

    def opened(self, kernels: bool) -> Datastore:
        for module in (gathered, indexing):
            self._patch.setattr(module, "has_kernels", lambda device: kernels)
        store = Datastore.open(self.path)
        assert (store.snapshot().gathered is not None) == kernels
        return store


def translate(
    model: TranslationModel, store: Any, method: str, batch: int = 4, explain: bool = False, **settings: Any
) -> list[Translation]:
    return Translator(model, store, method, settings, SEARCH, batch).translate(TEXTS, explain=explain)


def assert_same(found: list[Translation], expected: list[Translation]) -> None:
    for mine, other in zip(found, expected, strict=True):
        assert (mine.text, mine.tokens, mine.steps, mine.searches) == (
            other.text,
            other.tokens,
            other.steps,
            other.searches,
        )
        assert mine.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_translations_are_those_without_kernels(method: str, tiny: TranslationModel, stores: Stores) -> None:
    expected = translate(tiny, stores.opened(False), method)
    store = stores.opened(True)
    assert_same(translate(tiny, store, method), expected)
    assert [found.text for found in expected] != [found.text for found in translate(tiny, None, "plain")]
    if method == "chunk":
        assert isinstance(ChunkMethod(store).retriever(store.snapshot(), [3], 9), KernelChunked)


def test_translations_where_sentences_follow_others(tiny: TranslationModel, stores: Stores) -> None:
    settings: dict[str, Any] = {"schedule": "every:3", "seeds": 3, "cache-k": 4}
    expected = translate(tiny, stores.opened(False), "chunk", **settings)
    assert_same(translate(tiny, stores.opened(True), "chunk", batch=2, **settings), expected)


def test_translations_with_pairs_that_came_later(tiny: TranslationModel, stores: Stores) -> None:
    stores.opened(False).add(make_pairs(6, seed=31), tiny)
    expected = translate(tiny, stores.opened(False), "chunk", seeds=3)
    store = stores.opened(True)
    gathered = store.snapshot().gathered
    assert gathered is not None and len(gathered.keys.more_MD)
    assert_same(translate(tiny, store, "chunk", seeds=3), expected)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_translations_of_a_pruned_store(method: str, tiny: TranslationModel, stores: Stores) -> None:
    prune(stores.path, PruneConfig(device="cpu"))
    expected = translate(tiny, stores.opened(False), method)
    store = stores.opened(True)
    gathered = store.snapshot().gathered
    assert gathered is not None and gathered.weight_N is not None and gathered.steady
    assert_same(translate(tiny, store, method), expected)


def test_translations_of_a_part_of_a_store(tiny: TranslationModel, stores: Stores) -> None:
    """Where pairs are hidden searches are not always alike: only the mixing is done by a kernel."""
    expected = translate(tiny, MaskedStore(stores.opened(False), range(20)), "chunk")
    store = MaskedStore(stores.opened(True), range(20))
    gathered = store.snapshot().gathered
    assert gathered is not None and not gathered.steady
    assert_same(translate(tiny, store, "chunk"), expected)


def test_translations_of_a_store_that_is_searched_in_pieces(
    tiny: TranslationModel, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = translate(tiny, stores.opened(False), "chunk", schedule="every:5")
    monkeypatch.setattr(indexing, "MANY", 1)
    # All pieces: what is found is exact.
    monkeypatch.setattr(indexing, "tune_pieces", lambda index: setattr(index, "probes", 1 << 20))
    store = stores.opened(True)
    snapshot = store.snapshot()
    assert [type(index) for index in snapshot._searcher.indexes] == [PieceIndex]
    assert_same(translate(tiny, store, "chunk", schedule="every:5"), expected)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_explanations_are_those_without_kernels(method: str, tiny: TranslationModel, stores: Stores) -> None:
    settings: dict[str, Any] = {"schedule": "every:3", "seeds": 3} if method == "chunk" else {}
    expected = translate(tiny, stores.opened(False), method, explain=True, **settings)
    found = translate(tiny, stores.opened(True), method, explain=True, **settings)
    assert_same(found, expected)
    for mine, other in zip(found, expected, strict=True):
        assert mine.provenance is not None and other.provenance is not None
        for token, same in zip(mine.provenance, other.provenance, strict=True):
            assert (token.token, token.origin, token.searched) == (same.token, same.origin, same.searched)
            assert token.chunks == same.chunks
            assert token.probability == pytest.approx(same.probability, abs=1e-4)
            assert token.model_probability == pytest.approx(same.model_probability, abs=1e-4)
            assert [witness.pair_id for witness in token.witnesses] == [witness.pair_id for witness in same.witnesses]
            shares = [witness.share for witness in same.witnesses]
            assert [witness.share for witness in token.witnesses] == pytest.approx(shares, abs=1e-4)
    origins = {token.origin for mine in found for token in mine.provenance or ()}
    assert "search" in origins and ("cache" in origins) == (method == "chunk")


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_an_empty_store_is_the_model_alone(method: str, tiny: TranslationModel, stores: Stores, tmp_path: Path) -> None:
    Datastore.build(tmp_path / "empty", [], tiny)
    stores._patch.setattr(gathered, "has_kernels", lambda device: True)
    found = translate(tiny, Datastore.open(tmp_path / "empty"), method)
    alone = translate(tiny, None, "plain")
    assert [mine.text for mine in found] == [other.text for other in alone]
    assert [mine.score for mine in found] == pytest.approx([other.score for other in alone], abs=1e-5)
