"""The guard: neighbours count less in sentences that are strange to the store."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearmt.contracts import Pair, SimilarSources
from nearmt.datastore import Datastore, MaskedStore
from nearmt.decoding import BeamConfig, Hypothesis, beam_search
from nearmt.methods import PlainMethod, make_method
from nearmt.methods.adaptive import Head, HeadShape, save_adaptive
from nearmt.methods.mixing import TRUSTED
from nearmt.methods.retrieving import FAMILIAR_WHERE_KNOWN, KNOWN_DOMAIN, SIMILAR
from nearmt.models import Seq2SeqModel, TranslationModel
from nearmt.models.words import SourceWords, stem_code
from nearmt.steps import Method
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.methods.test_equivalences import assert_differ, assert_same, store_of
from tests.requests import left_by_guard, trust_in
from tests.tiny import random_sources, tiny_model
from tests.toy_store import ToyStore

BEAM = BeamConfig(beams=4, max_new_tokens=15)
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "knn": ("knn", {"k": 4}),
    "efficient": ("efficient", {"k": 4, "reuse-scope": "source"}),
    "chunk": ("chunk", {"k": 4, "chunk": 6, "schedule": "geometric:2:8", "seeds": 3}),
    "hypotheses": ("chunk", {"k": 4, "chunk": 6, "schedule": "every:3", "scope": "hypothesis", "retention": "last"}),
    "in order": ("chunk", {"k": 4, "chunk": 6, "schedule": "every:3", "recall": "in-order"}),
    "subset": ("subset", {"k": 4, "subset": 20}),
    "sk-mt": ("sk-mt", {"k": 2, "references": 16, "candidates": 20}),
    "retomaton": ("retomaton", {"k": 4, "follow": 1}),
}


class TrustingStore(ToyStore):
    """A store that trusts sources as it is told to."""

    rule: Callable[[Sequence[int]], float] = staticmethod(lambda source: 1.0)

    def similar(self, sources: Sequence[Sequence[int]], count: int, candidates: int = 0) -> SimilarSources:
        strange, familiar = TRUSTED
        edges = {0.0: 0.0, 1.0: math.inf}
        trusts = [self.rule(source) for source in sources]
        familiarity = [edges.get(trust, strange + trust * (familiar - strange)) for trust in trusts]
        return replace(super().similar(sources, count, candidates), familiarity=familiarity)


def world(family: str = "marian", seed: int = 3, count: int = 8) -> tuple[Seq2SeqModel, TrustingStore, list[list[int]]]:
    model = Seq2SeqModel(tiny_model(family, seed))
    known = store_of(model)
    store = TrustingStore(known.key_ND, known.token_N, known.ends)
    store.search_scale, store.likely_weight = known.search_scale, KNOWN_DOMAIN[1]
    return model, store, random_sources(seed, count=count)


def search(model: Seq2SeqModel, method: Method, sources: list[list[int]]) -> list[Hypothesis]:
    return beam_search(model, method, sources, [len(source) for source in sources], BEAM)[0]


def mixed_trust(source: Sequence[int]) -> float:
    return (0.0, 0.35, 1.0, 0.8)[sum(source) % 4]


@pytest.mark.parametrize("name", METHODS)
def test_trust_in_all_is_no_guard_to_the_bit(name: str) -> None:
    model, store, sources = world()
    method, settings = METHODS[name]
    guarded = search(model, make_method(method, store, settings), sources)
    assert_same(guarded, search(model, make_method(method, store, {**settings, "guard": False}), sources))
    # Also where one sentence of the batch is strange: the others are as they were.
    store.rule = lambda source: 0.0 if source is sources[2] else 1.0
    found = search(model, make_method(method, store, settings), sources)
    assert_same(found[:2] + found[3:], guarded[:2] + guarded[3:])
    assert_differ(found, guarded)


@pytest.mark.parametrize("family", ["marian", "nllb"])
@pytest.mark.parametrize("name", METHODS)
def test_no_trust_is_the_model_alone_to_the_bit(name: str, family: str) -> None:
    model, store, sources = world(family)
    store.rule = lambda source: 0.0
    method, settings = METHODS[name]
    alone = search(model, PlainMethod(), sources)
    assert_same(search(model, make_method(method, store, settings), sources), alone)
    assert_differ(search(model, make_method(method, store, {**settings, "guard": False}), sources), alone)


@pytest.mark.parametrize("trust", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("name", METHODS)
def test_in_between_it_scales_lambda(name: str, trust: float) -> None:
    model, store, sources = world()
    method, usual = METHODS[name]
    settings = {**usual, "break-loops": False}  # a random model repeats itself
    weights = {"lambda": 0.8} | ({"cache-lambda": 0.6} if method == "chunk" else {})
    scaled = {setting: weight * trust for setting, weight in weights.items()}
    expected = search(model, make_method(method, store, {**settings, **scaled, "guard": False}), sources)
    store.rule = lambda source: trust
    guarded = make_method(method, store, {**settings, **weights})
    assert_same(search(model, guarded, sources), expected, 1e-5)
    store.rule = lambda source: 1.0
    found = search(model, guarded, sources)
    assert [hypothesis.score for hypothesis in found] != pytest.approx([each.score for each in expected], abs=1e-4)


def test_a_sentence_is_scaled_by_its_own_trust() -> None:
    """Sentence by sentence, a batch is kNN-MT with as many lambdas."""
    model, store, sources = world()
    store.rule = mixed_trust
    assert {mixed_trust(source) for source in sources} == {0.0, 0.35, 1.0, 0.8}
    found = search(model, make_method("knn", store, {"k": 4, "lambda": 0.7}), sources)
    for source, hypothesis in zip(sources, found, strict=True):
        own = make_method("knn", store, {"k": 4, "lambda": 0.7 * mixed_trust(source), "guard": False})
        assert_same([hypothesis], search(model, own, [source]), 1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_batch_of_8_is_batch_of_1(name: str) -> None:
    """With beams that reorder and sentences that end at different times."""
    model, store, sources = world()
    store.rule = mixed_trust
    method, settings = METHODS[name]
    made = make_method(method, store, settings)
    together = search(model, made, sources)
    assert_same(together, [search(model, made, [source])[0] for source in sources], 1e-4)
    backwards = search(model, made, sources[::-1])
    assert_same(backwards[::-1], together, 1e-4)


def test_a_network_is_guarded_as_well(tiny: TranslationModel, tmp_path: Path) -> None:
    model, store, sources = world()
    torch.manual_seed(0)
    heads = {name: Head(HeadShape(4, False, store.search_scale), store.search_scale) for name in ("search", "cache")}
    save_adaptive(tmp_path / "net", heads, {"model": tiny.fingerprint})
    settings = {"k": 4, "cache-k": 4, "adaptive": str(tmp_path / "net"), "seeds": 2}
    alone = search(model, PlainMethod(), sources)
    unguarded = search(model, make_method("chunk", store, {**settings, "guard": False}), sources)
    assert_differ(unguarded, alone)
    assert_same(search(model, make_method("chunk", store, settings), sources), unguarded)
    store.rule = lambda source: 0.0
    assert_same(search(model, make_method("chunk", store, settings), sources), alone)


@pytest.mark.parametrize("name", METHODS)
def test_the_guard_is_part_of_the_signature(name: str) -> None:
    _, store, _ = world()
    method, settings = METHODS[name]
    on, off = (make_method(method, store, {**settings, "guard": guard}).signature() for guard in (True, False))
    assert "|guard:True" in on and "|guard:False" in off


def test_where_the_model_knows_the_domain_sentences_have_to_be_familiar_or_similar() -> None:
    model, store, sources = world()
    begin, full = FAMILIAR_WHERE_KNOWN
    assert TRUSTED[0] < begin < TRUSTED[1] < full
    store.rule = lambda source: (begin - TRUSTED[0]) / (TRUSTED[1] - TRUSTED[0])
    alone, settings = search(model, PlainMethod(), sources), {"k": 4, "lambda": 0.9}
    method = make_method("knn", store, settings)
    doubted = search(model, method, sources)
    assert_differ(doubted, alone)
    store.likely_weight = KNOWN_DOMAIN[0]
    assert_same(search(model, method, sources), alone)
    store.server.closeness = SIMILAR[1]
    assert_same(search(model, method, sources), doubted)


class UnrelatedStore(ToyStore):
    """A store whose pairs do not help each other; `close` tells how close its most similar source is to a source."""

    close: Callable[[Sequence[int]], float] = staticmethod(lambda source: 0.0)

    def similar(self, sources: Sequence[Sequence[int]], count: int, candidates: int = 0) -> SimilarSources:
        strangers = [math.inf] * len(sources)  # as in a small store, which knows nothing of familiarity
        closeness = [self.close(source) for source in sources]
        return replace(super().similar(sources, count, candidates), familiarity=strangers, closeness=closeness)


def test_unrelated_pairs_help_only_similar_sentences() -> None:
    model, known, sources = world()
    store = UnrelatedStore(known.key_ND, known.token_N, known.ends)
    store.search_scale, store.likely_weight = known.search_scale, 0.01
    settings = {"k": 4, "lambda": 0.7}
    alone = search(model, PlainMethod(), sources)
    unguarded = search(model, make_method("knn", store, {**settings, "guard": False}), sources)
    assert_differ(alone, unguarded)
    store.close = lambda source: 0.6 if source is sources[1] else 0.2
    found = search(model, make_method("knn", store, settings), sources)
    assert_same(found, [*alone[:1], unguarded[1], *alone[2:]])
    store.likely_weight = 0.2
    assert_same(search(model, make_method("knn", store, settings), sources), unguarded)


class KnowingStore(TrustingStore):
    """A store that knows the words of its entries."""

    def __init__(self, known: TrustingStore, codes: Sequence[int]) -> None:
        super().__init__(known.key_ND, known.token_N, known.ends)
        self.search_scale, self.likely_weight = known.search_scale, known.likely_weight
        self.server.word_N = np.array(codes)[np.arange(len(self)) % len(codes)]


@pytest.mark.parametrize("name", METHODS)
def test_neighbours_of_terms_count_in_sentences_that_the_guard_doubts(name: str) -> None:
    model, known, sources = world()
    one, other = stem_code("pumpe"), stem_code("welle")
    store = KnowingStore(known, [one, one, other])
    words = [SourceWords(tuple(source), [0, 1], ["pumpe", "welle"], None) for source in sources]  # type: ignore[arg-type]

    def found(settings: dict[str, Any]) -> list[Hypothesis]:
        method = make_method(METHODS[name][0], store, {**METHODS[name][1], "lambda": 0.7, **settings})
        return beam_search(model, method, sources, [len(source) for source in sources], BEAM, words=words)[0]

    usual, alone = found({}), search(model, PlainMethod(), sources)
    store.rule = lambda source: 0.0
    assert_same(found({}), alone)
    # All words are terms: nothing is left to doubt. With one of two, its neighbours count alone.
    store.server.terms = frozenset({one, other})
    assert_same(found({}), usual, 1e-5)
    store.server.terms = frozenset({one})
    some = found({})
    assert_differ(some, alone)
    assert_differ(some, usual)
    assert_same(found({"agreement": 0}), alone)


def test_what_the_guard_takes_is_not_named_as_disagreement() -> None:
    """The sentence has the word of all entries but a third, whose word it lacks."""
    model, known, sources = world(count=1)
    one, other = stem_code("pumpe"), stem_code("welle")
    shares = []
    for codes in ([one, one, one], [one, one, other]):
        store = KnowingStore(known, codes)
        store.rule, store.server.terms = (lambda source: 0.25), frozenset({stem_code("ventil")})
        words = [SourceWords(tuple(sources[0]), [0, 1], ["pumpe", "ventil"], None)]  # type: ignore[arg-type]
        method, length = make_method("knn", store, {"k": 4, "lambda": 0.7}), [len(sources[0])]
        state = beam_search(model, method, sources, length, BEAM, trace=True, words=words)[1]
        assert state.evidence and all(float(each.share_B.max()) <= 0.7 * 0.25 + 1e-6 for each in state.evidence)
        shares.append(max(float(each.silenced_BK.max()) for each in state.evidence if each.silenced_BK is not None))
    assert shares[0] == 0.0 and shares[1] > 0.0


# Through datastores.

TEXTS = ["die pumpe prüfen", "welle " * 9, "nicht ein close after and", "xyz 12 ???", "the cover after the shaft"]


def test_a_store_decides_by_its_own_trust(tiny: TranslationModel, tiny_store: Datastore) -> None:
    """Each text is what kNN-MT makes of it with so much of lambda."""
    trusts = [left_by_guard(tiny_store, tiny.codec.source_ids(text)) for text in TEXTS]
    assert 0.0 in trusts and 1.0 in trusts and any(0 < trust < 1 for trust in trusts)
    beam = BeamConfig(beams=3, max_new_tokens=10)
    found = Translator(tiny, tiny_store, "knn", {"lambda": 0.8}, beam).translate(TEXTS)
    for text, trust, translation in zip(TEXTS, trusts, found, strict=True):
        settings = {"lambda": 0.8 * trust, "guard": False}
        expected = Translator(tiny, tiny_store, "knn", settings, beam).translate(text)
        assert translation.text == expected.text and translation.score == pytest.approx(expected.score, abs=1e-4)


def test_evidence_says_how_much_the_neighbours_counted(tiny: TranslationModel, tiny_store: Datastore) -> None:
    """Who asks for an explanation learns the share that they had, not the one they might have had."""
    masked = MaskedStore(tiny_store, range(30))
    text = next(t for t in TEXTS if trust_in(masked, tiny.codec.source_ids(t)) == 0.0)
    method = make_method("knn", masked, {"k": 3, "lambda": 0.9})
    sources = [tiny.codec.source_ids(text)]
    state = beam_search(tiny.seq2seq, method, sources, [len(sources[0])], BEAM, trace=True)[1]
    assert state.evidence and all(not evidence.share_B.any() for evidence in state.evidence)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_a_network_wants_sentences_that_are_more_familiar(
    method: str, tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    """From the usual familiarity (no neighbours) to 1.3 times that (all that the boosted network gives them)."""
    torch.manual_seed(0)
    scale = tiny_store.snapshot().profile.search_scale
    save_adaptive(
        tmp_path / "net",
        {name: Head(HeadShape(4, False, scale), scale) for name in ("search", "cache")},
        {"model": tiny.fingerprint},
    )
    settings: dict[str, Any] = {"k": 4, "adaptive": str(tmp_path / "net"), "adaptive-boost": 1.0}
    settings |= {"cache-k": 4} if method == "chunk" else {}
    # Sentences of the store's kind, some of them cut, some with a word that it does not know.
    known = [tiny.codec.source_ids(pair.source) for pair in make_pairs(30, seed=22)]
    tried = [[*ids[: 1 + number % len(ids)], *[50] * (number % 4)] for number, ids in enumerate(known)]
    trusts = [left_by_guard(tiny_store, ids, (1.0, 1.3)) for ids in tried]
    assert any(0 < trust < 1 == trust_in(tiny_store, ids) for ids, trust in zip(tried, trusts, strict=True))

    def first_share(ids: list[int], guard: bool) -> float:
        made = make_method(method, tiny_store, {**settings, "guard": guard})
        state = beam_search(tiny.seq2seq, made, [ids], [len(ids)], BEAM, trace=True)[1]
        assert state.evidence is not None
        return float(state.evidence[0].share_B[0])

    for ids, trust in zip(tried, trusts, strict=True):
        assert first_share(ids, True) == pytest.approx(trust * first_share(ids, False), abs=1e-6)


COOKING = [
    ("Schneiden Sie die Zwiebeln in feine Würfel.", "Cut the onions into fine cubes."),
    ("Braten Sie die Zwiebeln in der Butter an.", "Fry the onions in the butter."),
    ("Geben Sie das Mehl in die Schüssel.", "Put the flour into the bowl."),
    ("Verrühren Sie das Mehl mit der Milch.", "Mix the flour with the milk."),
    ("Lassen Sie die Butter in der Pfanne schmelzen.", "Let the butter melt in the pan."),
    ("Würzen Sie die Suppe mit Salz und Pfeffer.", "Season the soup with salt and pepper."),
    ("Schneiden Sie das Fleisch in feine Streifen.", "Cut the meat into fine strips."),
    ("Braten Sie das Fleisch in der Pfanne an.", "Fry the meat in the pan."),
    ("Geben Sie die Kartoffeln in die Suppe.", "Put the potatoes into the soup."),
    ("Schneiden Sie die Kartoffeln in Würfel.", "Cut the potatoes into cubes."),
    ("Geben Sie die Milch in die Pfanne.", "Put the milk into the pan."),
    ("Verrühren Sie die Eier mit dem Zucker.", "Mix the eggs with the sugar."),
    ("Geben Sie den Zucker in die Schüssel.", "Put the sugar into the bowl."),
    ("Lassen Sie die Suppe kochen.", "Let the soup boil."),
    ("Würzen Sie das Fleisch mit Salz.", "Season the meat with salt."),
    ("Geben Sie die Eier in die Schüssel.", "Put the eggs into the bowl."),
]
FAMILIAR = "Geben Sie die Zwiebeln in die Schüssel."
STRANGE = "Der Anwalt beantragte gestern überraschend Akteneinsicht beim zuständigen Landgericht."


@pytest.mark.embedded
def test_a_store_of_recipes_leaves_lawyers_alone(embedded: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "recipes", [Pair(*pair) for pair in COOKING], embedded)
    familiar, strange = (embedded.codec.source_ids(text) for text in (FAMILIAR, STRANGE))
    assert trust_in(store, familiar) == 1.0 and trust_in(store, strange) < 0.2
    beam = BeamConfig(beams=2)
    alone = Translator(embedded, beam=beam)
    for method in ("knn", "chunk"):
        # Neighbours that have everything to say would put recipes into the lawyer's mouth.
        settings: dict[str, Any] = {"lambda": 1.0, "k": 4} | ({"cache-lambda": 1.0} if method == "chunk" else {})
        guarded = Translator(embedded, store, method, settings, beam)
        unguarded = Translator(embedded, store, method, {**settings, "guard": False}, beam)
        assert unguarded.translate(STRANGE).text != alone.translate(STRANGE).text
        assert guarded.translate(FAMILIAR).text == unguarded.translate(FAMILIAR).text
        if trust_in(store, strange) == 0.0:
            assert guarded.translate(STRANGE).text == alone.translate(STRANGE).text


@pytest.mark.embedded
def test_a_hidden_pair_does_not_vouch_for_itself(embedded: TranslationModel, tmp_path: Path) -> None:
    pairs = [Pair(*pair) for pair in COOKING] + [
        Pair(STRANGE, "Yesterday the lawyer unexpectedly asked for the files.")
    ]
    store = Datastore.build(tmp_path / "recipes", pairs, embedded)
    masked = MaskedStore(store, [len(COOKING)])
    strange = embedded.codec.source_ids(STRANGE)
    assert store.snapshot().similar_pairs(strange, 1) == [len(COOKING)]
    assert len(COOKING) not in masked.snapshot().similar_pairs(strange, 99)
    assert trust_in(masked, strange) < 0.2 and trust_in(store, strange) == 1.0
    assert trust_in(masked, embedded.codec.source_ids(FAMILIAR)) == 1.0
