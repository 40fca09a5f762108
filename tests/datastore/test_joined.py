"""Several stores searched together are one store of all their pairs, but for their weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nearmt.contracts import Neighbours, Pair
from nearmt.datastore import BuildConfig, Datastore, JoinedStore, LiveStore, PruneConfig, prune
from nearmt.datastore.joined import check_alike
from nearmt.decoding import BeamConfig
from nearmt.engines.reference.scoring import neighbour_weights
from nearmt.errors import ConfigError, DatastoreError
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.research.tuning.holdout import hold_out
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.helpers import all_keys, nearest_by_hand, some_queries
from tests.requests import similar_entries, trust_in
from tests.tiny import tiny_marian_folder

BEAM = BeamConfig(beams=2, max_new_tokens=10)
GIVEN = {"lambda": 0.6, "temperature": 20.0, "guard": False, "agreement": 0.5, "ends": "all"}
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("knn", GIVEN),
    ("chunk", {**GIVEN, "cache-lambda": 0.5, "cache-temperature": 3.0, "schedule": "every:2"}),
    ("chunk", {**GIVEN, "cache-lambda": 0.5, "cache-temperature": 3.0, "recall": "in-order"}),
    ("subset", {**GIVEN, "subset": 30}),
    ("sk-mt", {**GIVEN, "lambda": 1.0, "temperature": 60.0, "references": 30}),
    ("retomaton", {**GIVEN, "follow": 1}),
]
TEXTS = ["die pumpe prüfen", "das ventil nicht öffnen", "motor und welle reinigen"]

Build = Callable[..., Datastore]


@pytest.fixture
def build(tiny: TranslationModel, tmp_path: Path) -> Build:
    def made(name: str, pairs: list[Pair], index: str = "exact") -> Datastore:
        return Datastore.build(tmp_path / name, pairs, tiny, BuildConfig(index=index))

    return made


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return make_pairs(40, seed=5)


@pytest.fixture
def domain(build: Build, pairs: list[Pair]) -> Datastore:
    return build("domain", pairs[:30])


@pytest.fixture
def customer(build: Build, pairs: list[Pair]) -> Datastore:
    return build("customer", pairs[30:])


@pytest.fixture
def both(build: Build, pairs: list[Pair]) -> Datastore:
    return build("both", pairs)


def assert_same(found: Neighbours, expected: Neighbours) -> None:
    assert torch.equal(found.entry_BK, expected.entry_BK)
    assert torch.equal(found.distance_BK, expected.distance_BK)


def texts(model: TranslationModel, store: LiveStore, method: str, settings: dict[str, Any]) -> list[tuple[str, float]]:
    found = Translator(model, store, method, settings, BEAM).translate(TEXTS)
    return [(translation.text, translation.score) for translation in found]


# One store behind the other.


@pytest.mark.parametrize("k", [1, 8, 10_000])
def test_neighbours_are_those_of_one_store(domain: Datastore, customer: Datastore, both: Datastore, k: int) -> None:
    joined = JoinedStore([domain, customer])
    query_BD = some_queries(both)
    assert_same(joined.snapshot().search(query_BD, k), both.snapshot().search(query_BD, k))
    there = min(k, len(both))
    assert (
        joined.snapshot().search(query_BD, k).entry_BK[:, :there].numpy() == nearest_by_hand(both, query_BD, there)[0]
    ).all()


def test_everything_else_is_that_of_one_store(
    tiny: TranslationModel, domain: Datastore, customer: Datastore, both: Datastore
) -> None:
    joined = JoinedStore([domain, customer])
    entry_1N = torch.arange(-1, len(both))[None]
    assert len(joined.snapshot()) == len(both) and joined.snapshot().columns == both.snapshot().columns
    assert torch.equal(joined.snapshot().tokens(entry_1N), both.snapshot().tokens(entry_1N))
    assert torch.equal(joined.snapshot().chunks(entry_1N, 5), both.snapshot().chunks(entry_1N, 5))
    assert torch.equal(all_keys(domain), joined.snapshot().keys(torch.arange(len(domain)), joined.snapshot().columns))
    assert joined.snapshot().weights(entry_1N) is None
    assert [joined.snapshot().pair_of(entry) for entry in range(len(both))] == [
        both.snapshot().pair_of(entry) for entry in range(len(both))
    ]
    assert list(joined.snapshot().pairs()) == list(both.pairs())
    assert joined.snapshot().pair_lengths().tolist() == both.snapshot().pair_lengths().tolist()
    for text in TEXTS:
        source = tiny.codec.source_ids(text)
        for count in (1, 3, 100):
            assert similar_entries(joined, source, count).tolist() == similar_entries(both, source, count).tolist()
        assert joined.snapshot().matches(text, 5, 0.1) == both.matches(text, 5, 0.1)


@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_translations_are_those_of_one_store(
    tiny: TranslationModel,
    domain: Datastore,
    customer: Datastore,
    both: Datastore,
    method: str,
    settings: dict[str, Any],
) -> None:
    joined = texts(tiny, JoinedStore([domain, customer]), method, settings)
    assert joined == texts(tiny, both, method, settings)
    assert joined != texts(tiny, domain, method, settings)


def test_an_index_of_each_store_nominates_for_all(build: Build) -> None:
    """Whatever nominates them, distances are those of the stored keys."""
    pairs = make_pairs(44, seed=9)
    parts = [build("a", pairs[:24], "IVF2,SQ8"), build("b", pairs[24:], "IVF2,Flat")]
    whole = build("whole", pairs)
    query_BD = some_queries(whole)
    found, exact = JoinedStore(parts).snapshot().search(query_BD, 5), whole.snapshot().search(query_BD, 5)
    assert (found.entry_BK == exact.entry_BK).float().mean() > 0.9
    key_BKD = whole.snapshot().keys(found.entry_BK.flatten(), whole.snapshot().columns).view(len(query_BD), 5, -1)
    assert torch.allclose(found.distance_BK, (key_BKD - query_BD[:, None]).square().sum(dim=-1), rtol=1e-4)


def test_equal_distances_are_in_order_of_the_stores(build: Build, pairs: list[Pair]) -> None:
    one, two = build("one", pairs[:5]), build("two", pairs[:5])
    found = JoinedStore([one, two]).snapshot().search(all_keys(one), 2)
    assert found.entry_BK.tolist() == [[entry, entry + len(one)] for entry in range(len(one))]


# What changes nothing.


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_one_store_is_itself(tiny: TranslationModel, domain: Datastore, weight: float) -> None:
    joined = JoinedStore([(domain, weight)])
    assert joined.snapshot().identity == domain.snapshot().identity
    assert Translator(tiny, joined).signature() == Translator(tiny, domain).signature()
    assert texts(tiny, joined, "chunk", {}) == texts(tiny, domain, "chunk", {})


def test_an_empty_store_changes_nothing(tiny: TranslationModel, build: Build, domain: Datastore) -> None:
    empty = build("empty", [])
    for stores in ([domain, empty], [empty, domain]):
        joined = JoinedStore(stores)
        assert (joined.snapshot().profile.search_scale, joined.snapshot().calibration.cache_scale) == (
            domain.snapshot().profile.search_scale,
            domain.snapshot().calibration.cache_scale,
        )
        assert (joined.snapshot().profile.likely_weight, joined.snapshot().profile.scale(3)) == (
            domain.snapshot().profile.likely_weight,
            domain.snapshot().profile.scale(3),
        )
        assert [trust_in(joined, tiny.codec.source_ids(text)) for text in TEXTS] == [
            trust_in(domain, tiny.codec.source_ids(text)) for text in TEXTS
        ]
        assert texts(tiny, joined, "chunk", {}) == texts(tiny, domain, "chunk", {})
    assert len(JoinedStore([empty, build("empty-2", [])]).snapshot()) == 0


def test_weight_zero_is_absence(tiny: TranslationModel, domain: Datastore, customer: Datastore) -> None:
    joined = JoinedStore([domain, (customer, 0)])
    assert joined.snapshot().identity == domain.snapshot().identity and len(joined.snapshot()) == len(domain)
    assert texts(tiny, joined, "knn", {}) == texts(tiny, domain, "knn", {})
    with pytest.raises(ConfigError, match="no datastore with a weight above 0"):
        JoinedStore([(domain, 0.0)])


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_impossible_weights_are_refused(domain: Datastore, weight: float) -> None:
    with pytest.raises(ConfigError, match="must be a number of at least 0"):
        JoinedStore([(domain, weight)])


# Weights.


def test_the_weight_multiplies_the_kernel(tiny: TranslationModel, domain: Datastore, customer: Datastore) -> None:
    """Shares of equation 2, computed here, are those of the witnesses."""
    joined = JoinedStore([domain, (customer, 0.25)])
    entry_BK = torch.tensor([[0, len(domain) - 1, len(domain), len(joined.snapshot()) - 1, -1]])
    weight_BK = joined.snapshot().weights(entry_BK)
    assert weight_BK is not None and weight_BK.tolist() == [[1.0, 1.0, 0.25, 0.25, 1.0]]
    explained, alike = 0, {**GIVEN, "agreement": 0}
    for pair in customer.pairs():
        token = Translator(tiny, joined, "knn", alike, BEAM).translate(pair.source, explain=True).provenance
        assert token is not None
        shares = _shares_by_hand(tiny, joined, pair.source, token[0].token, len(domain))
        assert {witness.pair_id: pytest.approx(witness.share, abs=1e-5) for witness in token[0].witnesses} == shares
        explained += len(shares)
    assert explained


def _shares_by_hand(model: TranslationModel, store: LiveStore, text: str, token: str, domain: int) -> dict[str, float]:
    """Equation 2 at the first step with a weight of 0.25 for entries behind the domain's: shares of pairs."""
    hidden_1H = model.seq2seq.force_decode([model.codec.source_ids(text)], [[0]])[0][:1]
    found = store.snapshot().search(store.snapshot().query(hidden_1H), 8)
    entries, squared = found.entry_BK[0].tolist(), found.distance_BK[0].tolist()
    kernels = [(1.0 if e < domain else 0.25) * math.exp(-d / 20.0) for e, d in zip(entries, squared, strict=True)]
    shares: dict[str, float] = {}
    for entry, kernel in zip(entries, kernels, strict=True):
        if model.codec.subwords([int(store.snapshot().tokens(torch.tensor(entry)))]) == [token]:
            identity = store.snapshot().pair_of(entry).id
            shares[identity] = shares.get(identity, 0.0) + kernel / sum(kernels)
    return shares


def test_weights_multiply_those_of_a_pruned_store(tiny: TranslationModel, domain: Datastore, build: Build) -> None:
    pruned = build("pruned", make_pairs(40, seed=8))
    prune(pruned.path, PruneConfig(neighbours=5))
    pruned = Datastore.open(pruned.path)
    entry_N = torch.arange(len(pruned))
    own_N = pruned.snapshot().weights(entry_N)
    assert own_N is not None and (own_N == 0).any() and (own_N > 1).any()
    found_N = JoinedStore([domain, (pruned, 0.5)]).snapshot().weights(entry_N + len(domain))
    # One that was merged away stands for itself where a chunk brings it along.
    assert found_N is not None and torch.equal(found_N, 0.5 * own_N.clamp(min=1.0))
    whole_N = JoinedStore([domain, pruned]).snapshot().weights(entry_N + len(domain))
    assert whole_N is not None and torch.equal(whole_N, own_N)
    expected = texts(tiny, JoinedStore([domain, (pruned, 1.0)]), "knn", GIVEN)
    doubled = texts(tiny, JoinedStore([(domain, 2.0), (pruned, 2.0)]), "knn", GIVEN)
    assert [text for text, _ in doubled] == [text for text, _ in expected]
    # The logarithm of twice a number is rounded otherwise.
    assert [score for _, score in doubled] == pytest.approx([score for _, score in expected], rel=1e-6)


def test_a_vanishing_weight_leaves_the_other_store(domain: Datastore, customer: Datastore) -> None:
    joined = JoinedStore([domain, (customer, 1e-60)])
    entry_BK = torch.tensor([[0, len(domain)]])
    share_BK = neighbour_weights(torch.tensor([[9.0, 1.0]]), 10.0, joined.snapshot().weights(entry_BK))
    assert share_BK.tolist() == [[1.0, pytest.approx(0.0, abs=1e-20)]]


# What was measured of each.


def test_scales_are_means_by_entries(domain: Datastore, customer: Datastore) -> None:
    joined = JoinedStore([domain, customer])
    total, snapshots = len(domain) + len(customer), [domain.snapshot(), customer.snapshot()]
    for name in ("search_scale", "cache_scale"):
        mean = sum(getattr(each.calibration, name) * len(each) for each in snapshots) / total
        assert getattr(joined.snapshot().calibration, name) == pytest.approx(mean)
    # Ten pairs are too few to measure a weight: the other's counts.
    assert (
        customer.snapshot().profile.likely_weight is None
        and joined.snapshot().profile.likely_weight == pytest.approx(domain.snapshot().profile.likely_weight)
    )


def test_a_small_store_does_not_switch_the_guard_off(tiny: TranslationModel, build: Build) -> None:
    """Of few pairs nothing is concluded; the others still say what is strange, but its own sources are familiar."""
    domain = build("guarded", make_pairs(30, seed=3))
    own = Pair("schraube schraube deckel vor nach", "screw screw cover")
    customer = build("few", [own])
    strange, known = (tiny.codec.source_ids(text) for text in ("xyz xyz xyz", own.source))
    joined = JoinedStore([domain, customer])
    assert (trust_in(domain, strange), trust_in(customer, strange), trust_in(joined, strange)) == (
        0.0,
        1.0,
        0.0,
    )
    assert trust_in(domain, known) < 1.0 and trust_in(joined, known) == 1.0


# What lies on top.


def test_the_last_store_has_the_last_word(build: Build) -> None:
    domain = build("d", [Pair("die pumpe", "the pump", id="d1"), Pair("das ventil", "the valve", id="d2")])
    customer = build("c", [Pair("die pumpe", "the Pumpe", id="c1")])
    joined = JoinedStore([domain, customer])
    found = joined.snapshot().exact("die pumpe")
    assert found is not None and found.target == "the Pumpe"
    other = JoinedStore([customer, domain]).snapshot().exact("die pumpe")
    assert other is not None and other.target == "the pump"
    kept = joined.snapshot().exact("das ventil")
    assert kept is not None and kept.id == "d2"
    assert [match.pair_id for match in joined.snapshot().matches("die pumpe", 3, 0.9)] == ["d1", "c1"]


# Growing.


def test_each_store_grows_by_itself(tiny: TranslationModel, domain: Datastore, customer: Datastore) -> None:
    joined = JoinedStore([domain, customer])
    before, identity = joined.snapshot(), joined.snapshot().identity
    assert joined.snapshot() is before
    size, kept = len(joined.snapshot()), [before.pair_of(entry) for entry in (0, len(domain))]
    domain.add([Pair("die welle ersetzen", "replace the shaft")], tiny)
    assert len(joined.snapshot()) > size and joined.snapshot().identity != identity
    assert len(before) == size and [before.pair_of(entry) for entry in (0, size - len(customer))] == kept
    assert joined.snapshot().exact("die welle ersetzen") is not None and before.exact("die welle ersetzen") is None
    assert joined.snapshot().pair_of(len(domain)) == customer.snapshot().pair_of(0)


def test_nothing_is_changed_through_it(tiny: TranslationModel, domain: Datastore, customer: Datastore) -> None:
    joined = JoinedStore([domain, customer])
    for change in (
        lambda: joined.add([Pair("a", "b")], tiny),
        lambda: joined.update("a", "b"),
        lambda: joined.delete(["a"]),
        joined.compact,
    ):
        with pytest.raises(DatastoreError, match="change the datastore itself"):
            change()


def test_pairs_are_held_out_of_all_stores(build: Build) -> None:
    pairs = make_pairs(36, seed=11)
    copy = replace(pairs[0], target="the copy", id="copy")
    joined = JoinedStore([build("big", pairs), build("small", [copy, *make_pairs(5, seed=12)])])
    masked, dev = hold_out(joined, 20)
    hidden = {pair.source for pair in dev}
    assert dev and not hidden & {pair.source for pair in masked.snapshot().pairs()}
    assert len(list(masked.snapshot().pairs())) < len(list(joined.snapshot().pairs()))


# Stores that do not fit.


def test_identities_tell_stores_order_and_weights(domain: Datastore, customer: Datastore) -> None:
    memories = [JoinedStore(stores) for stores in ([domain], [customer], [domain, customer], [customer, domain])]
    memories.append(JoinedStore([domain, (customer, 0.5)]))
    assert len({memory.snapshot().identity for memory in memories}) == 5


def test_stores_of_other_models_are_refused(tmp_path: Path, domain: Datastore) -> None:
    folder = tmp_path / "other-model"
    folder.mkdir()
    model = load_model(ModelConfig(model=str(tiny_marian_folder(folder, seed=3)), device="cpu"))
    other = Datastore.build(tmp_path / "other", make_pairs(5), model)
    with pytest.raises(DatastoreError, match=r"domain and .*other: .*built with models .*nearmt reindex DIR --model"):
        JoinedStore([domain, other])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_lang": "fr"}, "one translates de to en, the other fr to en"),
        ({"key_layer": "ffn"}, "keys of layers"),
        ({"reduction": "0123"}, "reduced differently .*--reduction-of"),
    ],
)
def test_what_differs_is_named(domain: Datastore, change: dict[str, str], message: str) -> None:
    manifest = domain.manifest
    with pytest.raises(DatastoreError, match=f"a and b: cannot be searched together: .*{message}"):
        check_alike([("a", manifest, 9), ("b", replace(manifest, **change), 9)])  # type: ignore[arg-type]


def test_keys_that_are_not_there_cannot_differ(domain: Datastore) -> None:
    other = replace(domain.manifest, reduction="0123")
    check_alike([("a", domain.manifest, 9), ("b", other, 0)])
    check_alike([("b", other, 0), ("a", domain.manifest, 9)])
    check_alike([])


def test_all_stores_are_asked_about_the_model(tiny: TranslationModel, domain: Datastore, customer: Datastore) -> None:
    joined = JoinedStore([domain, customer])
    joined.check_model(tiny)
    with pytest.raises(DatastoreError, match="built with model"):
        joined.check_model(replace(tiny, fingerprint="another"))


def test_what_waits_in_any_store_is_learnt(tiny: TranslationModel, domain: Datastore, customer: Datastore) -> None:
    customer.add([Pair("die welle ersetzen", "replace the shaft", id="waiting")])
    joined = JoinedStore([domain, customer])
    assert joined.pending == 1 and joined.snapshot().exact("die welle ersetzen") is None
    translator = Translator(tiny, joined, "knn", GIVEN, BEAM)
    assert joined.pending == 0 and translator.datastore is joined
    found = joined.snapshot().exact("die welle ersetzen")
    assert found is not None and found.id == "waiting"


def test_other_processes_are_noticed(tiny: TranslationModel, domain: Datastore, customer: Datastore) -> None:
    joined = JoinedStore([domain, customer])
    assert not joined.refresh()
    Datastore.open(domain.path).add([Pair("die welle ersetzen", "replace the shaft")], tiny)
    assert joined.snapshot().exact("die welle ersetzen") is None
    assert joined.refresh() and joined.snapshot().exact("die welle ersetzen") is not None


def test_a_store_takes_the_reduction_of_another(tiny: TranslationModel, tmp_path: Path) -> None:
    """Stores of models without a reduction of their own fit together if one was built for the other."""
    domain = Datastore.build(tmp_path / "domain", make_pairs(80, seed=7), tiny)
    like = BuildConfig(reduction_of=str(domain.path))
    customer = Datastore.build(tmp_path / "customer", make_pairs(5, seed=8), tiny, like)
    assert customer.manifest.reduction == domain.manifest.reduction
    assert len(JoinedStore([domain, customer]).snapshot()) == len(domain) + len(customer)
    with pytest.raises(ConfigError, match="give one of them"):
        BuildConfig(reduction_of="x", fit_reduction=True)
