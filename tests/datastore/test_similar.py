"""Similar sources against BM25 written out, and how familiar a sentence is to a store."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.datastore import Datastore, MaskedStore, PruneConfig, prune, reindex
from nearmt.datastore.disk import Segment, SegmentWriter
from nearmt.datastore.disk.manifest import FILE_NAME
from nearmt.datastore.disk.segment import SOURCE, SOURCE_END
from nearmt.datastore.search.similar import Postings, SourceIndex
from nearmt.decoding import BeamConfig
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.helpers import assert_no_strays
from tests.requests import similar_entries, trust_in

#: Subwords of one source.
Source = list[int]


def bm25(query: Sequence[int], sources: Sequence[Source]) -> list[float]:
    """The score of every source, one occurrence of one subword at a time."""
    k1, b = 1.2, 0.75
    pairs = len(sources)
    mean_length = max(1.0, sum(map(len, sources)) / pairs) if pairs else 1.0
    scores = [0.0] * pairs
    for subword in query:
        holding = sum(subword in source for source in sources)
        if holding > max(1000, pairs // 10):
            continue
        rarity = math.log(1 + (pairs - holding + 0.5) / (holding + 0.5))
        for number, source in enumerate(sources):
            times = source.count(subword)
            long = 1 - b + b * len(source) / mean_length
            scores[number] += rarity * times * (k1 + 1) / (times + k1 * long)
    return scores


def familiarity_by_hand(query: Sequence[int], sources: Sequence[Source], left_out: Sequence[int] = ()) -> float:
    """The mean of the eight best scores, in shares of what the query itself would score."""
    scores = [0.0 if number in left_out else score for number, score in enumerate(bm25(query, sources))]
    best = sorted(scores, reverse=True)[:8]
    return sum(best) / len(best) / own_score_by_hand(query, sources)


def own_score_by_hand(query: Sequence[int], sources: Sequence[Source]) -> float:
    """As a pair with this source would score in a store that is otherwise the same."""
    k1, b = 1.2, 0.75
    mean_length = max(1.0, sum(map(len, sources)) / len(sources))
    total = 0.0
    for subword in query:
        holding = sum(subword in source for source in sources)
        if holding <= max(1000, len(sources) // 10):
            times = query.count(subword)
            gain = times * (k1 + 1) / (times + k1 * (1 - b + b * len(query) / mean_length))
            total += math.log(1 + (len(sources) - holding + 0.5) / (holding + 0.5)) * gain
    return total


def trust_by_hand(
    query: Sequence[int], sources: Sequence[Source], usual: float | None, strange: float = 0.8, familiar: float = 1.0
) -> float:
    """None below four fifths of the usual familiarity, all where it is reached, or where the very source is known."""
    assert usual is not None
    own = own_score_by_hand(query, sources)
    if max(score / own for score in bm25(query, sources)) > 0.99:
        return 1.0
    reached = familiarity_by_hand(query, sources) / usual
    return min(1.0, max(0.0, (reached - strange) / (familiar - strange)))


def segments_of(folder: Path, *parts: Sequence[Source]) -> list[Segment]:
    """A segment for each list of sources; every pair has one entry."""
    made = []
    for number, sources in enumerate(parts, 1):
        writer = SegmentWriter(folder / f"segment-{number:06d}", {})
        pairs = [Pair(f"q{place}", f"t{place}", id=f"{number}-{place}") for place in range(len(sources))]
        key = np.ones((1, 2), dtype=np.float32)
        writer.append(pairs, [key] * len(pairs), [[1]] * len(pairs), list(sources), 0)
        made.append(Segment(writer.folder, writer.seal(), 2))
    return made


def sources_of(segments: Sequence[Segment], seen_P: np.ndarray | None = None) -> SourceIndex:
    return SourceIndex([Postings(segment) for segment in segments], seen_P)


def random_texts(seed: int, count: int, vocabulary: int = 30, longest: int = 12) -> list[Source]:
    """Subwords of unequal frequency; some sources are empty."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, longest, count)
    return [(vocabulary * generator.random(length) ** 2).astype(int).tolist() for length in lengths]


SOURCES = random_texts(0, 120)
#: The number of a stored source like most.
ONE = max(range(120), key=lambda number: len(set(SOURCES[number])))
QUERIES = [*random_texts(1, 20), [99, 98], [0, 99, 0, 0], [], SOURCES[ONE], SOURCES[ONE] * 3]


@pytest.fixture
def similar(tmp_path: Path) -> SourceIndex:
    return sources_of(segments_of(tmp_path, SOURCES[:50], SOURCES[50:51], SOURCES[51:]))


def test_scores_are_bm25(similar: SourceIndex) -> None:
    for query in QUERIES:
        np.testing.assert_allclose(similar.scores(query), bm25(query, SOURCES), rtol=1e-5, atol=1e-6)


@given(
    sources=st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=12),
    query=st.lists(st.integers(0, 8), max_size=6),
    cut=st.integers(0, 11),
)
def test_scores_of_any_sources_in_any_segments(
    sources: list[Source], query: Source, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parts = [part for part in (sources[:cut], sources[cut:]) if part]
    made = sources_of(segments_of(tmp_path_factory.mktemp("similar"), *parts))
    expected = bm25(query, sources)
    np.testing.assert_allclose(made.scores(query), expected, rtol=1e-5, atol=1e-6)
    assert made.own_score(query) == pytest.approx(own_score_by_hand(query, sources))
    best = made.best(query, 3).tolist()
    assert len(best) == min(3, sum(score > 0 for score in expected))
    assert sorted((expected[number] for number in best), reverse=True) == pytest.approx(
        sorted((score for score in expected if score > 0), reverse=True)[:3]
    )


def test_segments_leave_no_trace(similar: SourceIndex, tmp_path: Path) -> None:
    whole = sources_of(segments_of(tmp_path / "whole", SOURCES))
    for query in QUERIES:
        np.testing.assert_array_equal(whole.scores(query), similar.scores(query))
        np.testing.assert_array_equal(whole.best(query, 9), similar.best(query, 9))
        assert whole.familiarity(query) == similar.familiarity(query)


def test_the_best_come_first(similar: SourceIndex) -> None:
    for query in QUERIES:
        score = similar.scores(query)
        found = similar.best(query, 10).tolist()
        expected = sorted((n for n in range(120) if score[n] > 0), key=lambda n: (-score[n], n))
        assert found == expected[:10]
        assert similar.best(query, 10_000).tolist() == expected
        assert similar.best(query, 0).tolist() == []


def test_equals_stand_in_corpus_order(tmp_path: Path) -> None:
    twins = [[5, 6], [1, 2, 3], [5, 6], [7, 8], [5, 6]]
    made = sources_of(segments_of(tmp_path, twins, twins))
    copies = [number for number in range(10) if [*twins, *twins][number] == [5, 6]]
    assert copies == [0, 2, 4, 5, 7, 9]
    for count in range(1, 8):
        assert made.best([6, 5], count).tolist() == copies[:count]
        assert made.best([5, 6, 8], count).tolist() == [3, 8, *copies][:count]


def test_unknown_subwords_and_empty_sources(similar: SourceIndex) -> None:
    for query in ([], [99], [98, 99]):
        assert not similar.scores(query).any() and similar.best(query, 5).tolist() == []
    empty = {number for number, source in enumerate(SOURCES) if not source}
    assert empty and not empty & set(similar.best(list(range(30)), 1000).tolist())


def test_an_empty_store() -> None:
    made = SourceIndex([])
    assert made.pairs == 0 and made.best([1, 2], 5).tolist() == [] and made.scores([1]).shape == (0,)
    assert made.familiarity([1, 2]) == 0.0
    assert made.typical_familiarity() is None


@pytest.mark.parametrize("seen", [range(120), range(1, 120, 3), range(60), range(49, 52), [ONE], []])
def test_hidden_sources_are_as_if_they_were_not_there(
    seen: Sequence[int], similar: SourceIndex, tmp_path: Path
) -> None:
    """Neither found nor counted: as in a store of the others, but for the numbers."""
    seen_P = np.isin(np.arange(120), list(seen))
    masked = SourceIndex(similar._parts, seen_P)
    rest = [SOURCES[number] for number in seen]
    alone = sources_of(segments_of(tmp_path / "rest", rest) if rest else [])
    for query in QUERIES:
        score_P = masked.scores(query)
        np.testing.assert_allclose(score_P[seen_P], bm25(query, rest), rtol=1e-5, atol=1e-6)
        assert not score_P[~seen_P].any()
        for count in (4, 1000):
            assert masked.best(query, count).tolist() == [seen[place] for place in alone.best(query, count)]
        assert masked.own_score(query) == pytest.approx(alone.own_score(query))
        assert masked.familiarity(query) == pytest.approx(alone.familiarity(query), rel=1e-5)
        assert masked.best_shares(query) == pytest.approx(alone.best_shares(query), rel=1e-5)


def test_a_stored_source_scores_its_own_score(similar: SourceIndex) -> None:
    for number, source in enumerate(SOURCES):
        assert similar.own_score(source) == pytest.approx(float(similar.scores(source)[number]), rel=1e-5)
        assert similar.own_score(source) == pytest.approx(own_score_by_hand(source, SOURCES))


def test_familiarity(similar: SourceIndex) -> None:
    for query in QUERIES:
        if query:
            assert similar.familiarity(query) == pytest.approx(familiarity_by_hand(query, SOURCES), rel=1e-5)
            for number in (0, ONE, 119):
                expected = familiarity_by_hand(query, SOURCES, [number])
                assert similar.familiarity(query, without=number) == pytest.approx(expected, rel=1e-5)
    assert similar.familiarity([97, 98, 99]) == 0.0
    assert 0 < similar.familiarity(SOURCES[ONE], without=ONE) < similar.familiarity(SOURCES[ONE]) <= 1


def test_familiarity_in_a_store_of_fewer_pairs_than_are_compared(tmp_path: Path) -> None:
    few = [[1, 2, 3], [1, 2, 4], [5]]
    made = sources_of(segments_of(tmp_path, few))
    assert made.familiarity([1, 2, 3]) == pytest.approx(familiarity_by_hand([1, 2, 3], few), rel=1e-5)
    copies = sources_of(segments_of(tmp_path / "copies", [[1, 2, 3]] * 5))
    assert copies.familiarity([1, 2, 3]) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(("pairs", "most"), [(1500, 1000), (10_029, 1002)])
def test_subwords_that_nearly_all_have_tell_nothing(pairs: int, most: int, tmp_path: Path) -> None:
    """In up to 1000 pairs, or a tenth of them, a subword counts; in one more it does not."""
    # 1 stands in `most` pairs, 2 in one more, 3 in all; each pair has a subword of its own.
    sources = [[3, *([1] if n < most else []), *([2] if n <= most else []), 10 + n] for n in range(pairs)]
    made = sources_of(segments_of(tmp_path, sources))
    assert np.count_nonzero(made.scores([1])) == most == len(made.best([1], pairs))
    for common in ([2], [3], [2, 3, 3]):
        assert not made.scores(common).any() and not len(made.best(common, 9)) and made.own_score(common) == 0
    assert made.best([3, 2, 12], 5).tolist() == [2]
    assert made.own_score(sources[2]) == pytest.approx(float(made.scores(sources[2])[2]), rel=1e-5)
    # What is made of nothing else is not strange.
    assert made.familiarity([3, 2, 3]) == 1.0 and made.familiarity([3, 7]) == 0.0


def test_the_same_every_time(tmp_path: Path) -> None:
    one, other = (sources_of(segments_of(tmp_path / name, SOURCES)) for name in "ab")
    for query in QUERIES:
        np.testing.assert_array_equal(one.scores(query), other.scores(query))
        np.testing.assert_array_equal(one.scores(query), one.scores(query))
        assert one.familiarity(query) == other.familiarity(query)


def twentieth_quantile(values: list[float]) -> float:
    """Between the two values around a twentieth of the way."""
    place, ordered = 0.05 * (len(values) - 1), sorted(values)
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(values) - 1)] - ordered[low])


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_typical_familiarity_leaves_each_source_out(parts: int, tmp_path: Path) -> None:
    reached = [familiarity_by_hand(source, SOURCES, [number]) for number, source in enumerate(SOURCES) if source]
    size = len(SOURCES) // parts
    segments = segments_of(tmp_path, *(SOURCES[start : start + size] for start in range(0, len(SOURCES), size)))
    assert len(segments) == parts
    assert sources_of(segments).typical_familiarity() == pytest.approx(twentieth_quantile(reached), abs=6e-5)


def test_typical_familiarity_of_a_large_store_is_that_of_a_sample(tmp_path: Path) -> None:
    sources = random_texts(3, 600, vocabulary=200)
    segments = segments_of(tmp_path, sources)
    made = sources_of(segments)
    found = made.typical_familiarity()
    assert found is not None and found == made.typical_familiarity() == sources_of(segments).typical_familiarity()
    reached = [made.familiarity(source, without=number) for number, source in enumerate(sources) if source]
    assert float(np.quantile(reached, 0.01)) <= found <= float(np.quantile(reached, 0.15))


def test_typical_familiarity_of_hardly_anything(tmp_path: Path) -> None:
    def typical(name: str, sources: list[Source]) -> float | None:
        return sources_of(segments_of(tmp_path / name, sources)).typical_familiarity()

    assert typical("few", SOURCES[:8]) is None
    assert typical("empty", [[]] * 20) is None
    assert typical("strange", [[n] for n in range(20)]) == 0.0


def test_typical_familiarity_is_that_of_the_seen(tmp_path: Path) -> None:
    seen_P = np.arange(len(SOURCES)) % 3 > 0
    rest = [source for source, seen in zip(SOURCES, seen_P, strict=True) if seen]
    masked = sources_of(segments_of(tmp_path / "all", SOURCES[:50], SOURCES[50:]), seen_P)
    assert masked.typical_familiarity() == sources_of(segments_of(tmp_path / "rest", rest)).typical_familiarity()
    assert sources_of(segments_of(tmp_path / "few", SOURCES), np.arange(len(SOURCES)) < 9).typical_familiarity() is None


# Through a datastore.


def source_ids(model: TranslationModel, pairs: Sequence[Pair]) -> list[Source]:
    return [model.codec.source_ids(pair.source) for pair in pairs]


def entries_of(store: Datastore, numbers: Sequence[int]) -> list[int]:
    ends = torch.cumsum(store.snapshot().pair_lengths(), 0).tolist()
    return [entry for n in numbers for entry in range(ends[n - 1] if n else 0, ends[n])]


def test_a_datastore_gives_the_entries_of_similar_pairs(tiny: TranslationModel, tiny_store: Datastore) -> None:
    sources = source_ids(tiny, list(tiny_store.pairs()))
    for query in source_ids(tiny, make_pairs(6, seed=21)):
        scores = bm25(query, sources)
        numbers = tiny_store.snapshot().similar_pairs(query, 5)
        assert [scores[n] for n in numbers] == pytest.approx(sorted(scores, reverse=True)[:5], rel=1e-5)
        assert similar_entries(tiny_store, query, 5).tolist() == entries_of(tiny_store, numbers)
    assert similar_entries(tiny_store, [1], 0).tolist() == []


def test_trust_rises_from_four_fifths_of_the_usual_familiarity(tiny: TranslationModel, tiny_store: Datastore) -> None:
    sources = source_ids(tiny, list(tiny_store.pairs()))
    familiar = tiny_store.manifest.calibration.familiar
    found = []
    for number, ids in enumerate(source_ids(tiny, make_pairs(30, seed=22))):
        query = [*ids[: 1 + number % len(ids)], *[50] * (number % 4)]
        found.append(trust_in(tiny_store, query))
        assert found[-1] == pytest.approx(trust_by_hand(query, sources, familiar), abs=1e-4)
        doubting = trust_in(tiny_store, query, (1.1, 1.5))
        assert doubting == pytest.approx(trust_by_hand(query, sources, familiar, 1.1, 1.5), abs=1e-4)
        assert doubting <= found[-1]
    assert 0.0 in found and 1.0 in found and any(0 < trust < 1 for trust in found)


def test_a_store_trusts_nearly_all_of_its_own(tiny: TranslationModel, tiny_store: Datastore) -> None:
    """Each pair hidden, nineteen of twenty of those without copies are familiar."""
    pairs = list(tiny_store.pairs())
    trusts = [trust_in(MaskedStore(tiny_store, [number]), ids) for number, ids in enumerate(source_ids(tiny, pairs))]
    assert 0.85 * len(pairs) <= sum(trust == 1.0 for trust in trusts) < len(pairs)


def test_hidden_pairs_are_neither_similar_nor_familiar(tiny: TranslationModel, tmp_path: Path) -> None:
    strange = Pair("xyz welle 12 ???", "shaft screw cover close")
    usual = [Pair(pair.source.replace("welle", "pumpe"), pair.target) for pair in make_pairs(40, seed=23)]
    store = Datastore.build(tmp_path / "s", [strange, *usual], tiny)
    masked = MaskedStore(store, [0])
    assert masked.hidden == {0}
    query = tiny.codec.source_ids(strange.source)
    sources = source_ids(tiny, list(store.pairs()))
    assert store.snapshot().similar_pairs(query, 1) == [0]
    assert 0 not in masked.snapshot().similar_pairs(query, 1000)
    assert not set(similar_entries(masked, query, 1000).tolist()) & set(entries_of(store, [0]))
    expected = trust_by_hand(query, sources[1:], store.manifest.calibration.familiar)
    assert trust_in(masked, query) == pytest.approx(expected, abs=1e-4)
    # The store is given away by nothing but the pair itself.
    assert trust_in(store, query) == 1.0 > expected
    assert familiarity_by_hand(query, sources[1:]) < familiarity_by_hand(query, sources)


def test_a_source_that_is_there_is_never_strange(tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path) -> None:
    """One that was added a moment ago, and is like nothing else, is used at once."""
    assert all(trust_in(tiny_store, ids) == 1.0 for ids in source_ids(tiny, list(tiny_store.pairs())))
    shutil.copytree(tiny_store.path, tmp_path / "s")
    store, new = Datastore.open(tmp_path / "s"), Pair("xyz 12 ???", "always clean")
    query = tiny.codec.source_ids(new.source)
    assert trust_in(store, query) == 0.0
    store.add([new], tiny)
    assert trust_in(store, query) == 1.0 and store.snapshot().similar_pairs(query, 1) == [60]
    assert trust_in(store, [*query[::-1], 57]) < 1.0
    beam = BeamConfig(beams=2, max_new_tokens=8)
    for method in ("knn", "chunk"):
        settings = {"lambda": 1.0, "k": 1} | ({"cache-lambda": 1.0} if method == "chunk" else {})
        assert Translator(tiny, store, method, settings, beam).translate(new.source).text == new.target


def test_everything_hidden(tiny: TranslationModel, tiny_store: Datastore) -> None:
    masked = MaskedStore(tiny_store, range(60))
    query = tiny.codec.source_ids("die pumpe prüfen")
    assert similar_entries(masked, query, 10).tolist() == [] and trust_in(masked, query) == 0.0


def test_pairs_that_are_too_long_have_nothing_to_seed_with(tiny: TranslationModel, tmp_path: Path) -> None:
    """They are similar, but have no entries."""
    pairs = [Pair("die pumpe", "pump " * 200), Pair("der motor", "the motor"), Pair("die pumpe", "the pump")]
    store = Datastore.build(tmp_path / "s", pairs, tiny)
    query = tiny.codec.source_ids("die pumpe")
    assert store.snapshot().similar_pairs(query, 2) == [0, 2]
    assert similar_entries(store, query, 1).tolist() == []
    assert similar_entries(store, query, 2).tolist() == entries_of(store, [2])
    found = Translator(tiny, store, "chunk", {"seeds": 1}, BeamConfig(beams=2, max_new_tokens=8)).translate("die pumpe")
    assert found.tokens > 0


@pytest.mark.parametrize("name", [SOURCE, SOURCE_END])
def test_a_flipped_byte_among_the_sources_is_found(name: str, tiny_store: Datastore, tmp_path: Path) -> None:
    shutil.copytree(tiny_store.path, tmp_path / "s")
    path = tmp_path / "s" / tiny_store.manifest.segments[0].name / name
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)
    with pytest.raises(DatastoreError, match=f"{name}: altered"):
        Datastore.open(tmp_path / "s")


# Stores made before nearmt 0.3 have no source tokens.


def made_before_sources(store: Datastore) -> Datastore:
    """The store as an older nearmt would have left it."""
    path = store.path / FILE_NAME
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for segment in manifest["segments"]:
        for name in (SOURCE, SOURCE_END):
            del segment["files"][name]
            (store.path / segment["name"] / name).unlink()
    for name in ("checksum", "log", "quantiser"):
        manifest.pop(name, None)
    for name in ("familiar", "entries"):
        del manifest["calibration"][name]
    manifest["format"] = 1
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return Datastore.open(store.path, verify=True)


@pytest.fixture(params=[12, 40], ids=["too small for a weight", "with a weight"])
def old(request: pytest.FixtureRequest, tiny: TranslationModel, tmp_path: Path) -> Datastore:
    store = made_before_sources(Datastore.build(tmp_path / "old", make_pairs(request.param, seed=24), tiny))
    assert (store.snapshot().profile.likely_weight is None) == (request.param < 20)
    return store


def test_an_old_store_opens_and_knows_no_sources(tiny: TranslationModel, old: Datastore) -> None:
    for pair in old.pairs():
        query = tiny.codec.source_ids(pair.source)
        assert old.snapshot().similar_pairs(query, 9) == [] and similar_entries(old, query, 9).tolist() == []
        assert trust_in(old, query) == 1.0
    masked = MaskedStore(old, [0])
    assert similar_entries(masked, [5, 6], 9).tolist() == [] and trust_in(masked, [5, 6]) == 1.0
    beam = BeamConfig(beams=2, max_new_tokens=8)
    texts = [pair.source for pair in make_pairs(3, seed=25)]
    weights = {"lambda": 0.6, "cache-lambda": 0.6, "cache-temperature": 0.3, "cache-k": 8}
    seeded, unseeded = (
        [t.text for t in Translator(tiny, old, "chunk", {**weights, "seeds": n}, beam).translate(texts)]
        for n in (128, 0)
    )
    assert seeded == unseeded


@pytest.mark.parametrize("end", ["live", "sealed", "compacted"])
def test_an_old_store_grows(end: str, tiny: TranslationModel, old: Datastore, monkeypatch: pytest.MonkeyPatch) -> None:
    before = old.manifest.pairs
    new = make_pairs(15, seed=26)
    if end == "sealed":
        monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
    assert old.add(new, tiny) == 15
    if end == "compacted":
        old.compact(tiny)
    known = {"live": [False], "sealed": [False, True], "compacted": [True]}[end]
    for store in (old, Datastore.open(old.path, verify=True)):
        sources = [*[[]] * before, *source_ids(tiny, new)]
        assert [SOURCE in record.files for record in store.manifest.segments] == known
        for number, pair in enumerate(new, before):
            query = tiny.codec.source_ids(pair.source)
            scores = bm25(query, sources)
            found = store.snapshot().similar_pairs(query, 4)
            assert [scores[n] for n in found] == pytest.approx(sorted(scores, reverse=True)[:4], rel=1e-5)
            assert number in found and min(found) >= before
            assert similar_entries(store, query, 4).tolist() == entries_of(store, found)
        # What most of the store is about is not known: nothing is strange to it.
        assert trust_in(store, [40, 41, 42]) == 1.0 == trust_in(store, query)
    assert_no_strays(old.path)


def test_a_large_old_store_with_a_few_new_pairs(tmp_path: Path) -> None:
    """No sample of such a store meets one of the new pairs."""
    segments = segments_of(tmp_path, [[]] * 3000, [[1, 2]])
    assert sources_of(segments).typical_familiarity() is None
    for name in (SOURCE, SOURCE_END):
        del segments[0].record.files[name]
    old = Segment(segments[0].folder, segments[0].record, 2)
    assert len(old.source_end_P) == 3000
    assert sources_of([old, segments[1]]).typical_familiarity() is None
    assert sources_of([old, segments[1]]).best([2], 5).tolist() == [3000]


def test_an_old_store_can_be_changed_otherwise(tiny: TranslationModel, old: Datastore) -> None:
    pairs = list(old.pairs())
    reindex(old.path)
    prune(old.path, PruneConfig())
    old = Datastore.open(old.path, verify=True)
    assert list(old.pairs()) == pairs and trust_in(old, [5]) == 1.0 and similar_entries(old, [5], 3).tolist() == []
    assert_no_strays(old.path)


@pytest.mark.parametrize("change", ["add", "reindex", "prune"])
def test_sources_survive_changes(change: str, tiny: TranslationModel, tmp_path: Path) -> None:
    """Also where keys are replaced, as by the first reindex of a store that began small."""
    pairs = make_pairs(60, seed=27)
    store = Datastore.build(tmp_path / "s", pairs[:10], tiny)
    store.add(pairs[10:50], tiny)
    if change == "add":
        store.add(pairs[50:], tiny)
    elif change == "reindex":
        reindex(store.path)
    else:
        prune(store.path, PruneConfig())
    store = Datastore.open(store.path, verify=True)
    sources = source_ids(tiny, pairs[: store.snapshot().pair_count])
    assert store.snapshot().pair_count == (60 if change == "add" else 50)
    for query in source_ids(tiny, make_pairs(5, seed=28)):
        numbers = store.snapshot().similar_pairs(query, 6)
        scores = bm25(query, sources)
        assert [scores[n] for n in numbers] == pytest.approx(sorted(scores, reverse=True)[:6], rel=1e-5)
        assert similar_entries(store, query, 6).tolist() == entries_of(store, numbers)
