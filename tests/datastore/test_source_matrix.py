"""Similar sources by a product of sparse matrices, as on a GPU, against those by postings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from nearmt.datastore import Datastore
from nearmt.datastore.disk import Segment
from nearmt.datastore.search import source_matrix
from nearmt.datastore.search.similar import SourceIndex
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore.test_similar import Source, bm25, random_texts, segments_of, sources_of

SOURCES = random_texts(7, 60)
#: Among them nothing at all, subwords that no pair holds, and a subword beyond all that there are.
QUERIES = [*random_texts(8, 8), SOURCES[3], [], [200], [2, 200, 2, 5], [1, 1, 1, 4]]


def by_matrix(segments: Sequence[Segment], seen_P: np.ndarray | None = None) -> SourceIndex:
    made = sources_of(segments, seen_P)
    made._matrix = made._make_matrix(torch.device("cpu"))
    return made


def parts_of(folder: Path, count: int) -> list[Segment]:
    """All sources in `count` segments of unequal size."""
    bounds = [0, *(60 * (part + 1) ** 2 // count**2 for part in range(count))]
    return segments_of(folder, *(SOURCES[start:end] for start, end in pairwise(bounds)))


def assert_same_best(mine: SourceIndex, other: SourceIndex, queries: Sequence[Source], count: int) -> None:
    """Ties may be broken otherwise: the scores are the same, and those of the pairs that are named."""
    found_SP, _ = mine.best_of_each(queries, count)
    assert found_SP.shape == (len(queries), min(count, mine.pairs))
    for query, numbers, expected in zip(queries, found_SP.tolist(), other.best_of_each(queries, count)[0], strict=True):
        named = [number for number in numbers if number >= 0]
        assert numbers == [*named, *[-1] * (len(numbers) - len(named))] and len(set(named)) == len(named)
        score_P = other.scores(query)
        best = [float(score_P[number]) for number in expected if number >= 0]
        assert [float(score_P[number]) for number in named] == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("block", [1, 4, 64])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("count", [1, 5, 60, 1000])
def test_the_best_are_those_by_postings(
    parts: int, count: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_matrix, "_BLOCK", block)
    segments = parts_of(tmp_path, parts)
    assert_same_best(by_matrix(segments), sources_of(segments), QUERIES, count)


def test_scores_are_those_written_out(tmp_path: Path) -> None:
    score_PS = by_matrix(parts_of(tmp_path, 3))._matrix._scores(QUERIES)  # type: ignore[union-attr]
    expected = torch.tensor([bm25(query, SOURCES) for query in QUERIES])
    torch.testing.assert_close(score_PS.T[:, : len(SOURCES)], expected, rtol=1e-4, atol=1e-5)
    assert not score_PS[len(SOURCES) :].any()


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("share", [None, 0.6, 0.05])
def test_shares_are_those_by_postings(parts: int, share: float | None, tmp_path: Path) -> None:
    segments = parts_of(tmp_path, parts)
    seen_P = None if share is None else np.random.default_rng(0).random(60) < share
    mine, other = by_matrix(segments, seen_P), sources_of(segments, seen_P)
    assert mine._matrix is not None
    for query, found, expected in zip(
        QUERIES, mine.best_of_each(QUERIES, 1)[1], other.best_of_each(QUERIES, 1)[1], strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        assert mine._matrix.own_scores([query])[0] == pytest.approx(other.own_score(query), rel=1e-5)
    together = mine._matrix.own_scores(QUERIES)
    assert together.tolist() == [mine._matrix.own_scores([query])[0] for query in QUERIES]


@pytest.mark.parametrize("parts", [1, 3])
def test_hidden_pairs_are_as_if_they_were_not_there(parts: int, tmp_path: Path) -> None:
    """Also where a subword occurs in hidden pairs alone."""
    segments, seen_P = parts_of(tmp_path, parts), np.arange(60) % 4 > 0
    mine = by_matrix(segments, seen_P)
    assert_same_best(mine, sources_of(segments, seen_P), QUERIES, 10)
    found, _ = mine.best_of_each(SOURCES, 60)
    assert bool(torch.from_numpy(seen_P)[found[found >= 0]].all())


def test_sentences_are_compared_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = parts_of(tmp_path, 2)
    together, _ = by_matrix(segments).best_of_each(QUERIES, 7)
    monkeypatch.setattr(source_matrix, "_SCORES", 3 * 60)
    assert torch.equal(by_matrix(segments).best_of_each(QUERIES, 7)[0], together)


def test_one_comparison_gives_seeds_and_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments, compared = parts_of(tmp_path, 2), list[int]()
    scores = source_matrix.SourceMatrix._scores

    def spy(self: source_matrix.SourceMatrix, sources: Sequence[Source]) -> torch.Tensor:
        compared.append(len(sources))
        return scores(self, sources)

    monkeypatch.setattr(source_matrix.SourceMatrix, "_scores", spy)
    many, shares = by_matrix(segments).best_of_each(QUERIES, 20)
    few, same = by_matrix(segments).best_of_each(QUERIES, 3)
    assert compared == [len(QUERIES)] * 2 and torch.equal(few, many[:, :3])
    for mine, expected in zip(shares, same, strict=True):
        np.testing.assert_array_equal(mine, expected)


def test_subwords_that_nearly_all_have_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.datastore.search.similar._FEW_PAIRS", 5)
    segments = parts_of(tmp_path, 2)
    mine, other = by_matrix(segments), sources_of(segments)
    common = [token for token in range(30) if sum(token in source for source in SOURCES) > 6]
    assert len(common) > 3
    queries = [common, [*common[:2], 25, 27], *QUERIES]
    assert_same_best(mine, other, queries, 10)
    assert mine.best_of_each([common], 10)[0].tolist() == [[-1] * 10]
    np.testing.assert_array_equal(mine.best_of_each([common], 1)[1][0], np.ones(8))
    for found, expected in zip(mine.best_of_each(queries, 1)[1], other.best_of_each(queries, 1)[1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_segments_with_nothing_in_them(tmp_path: Path) -> None:
    segments = segments_of(tmp_path, [[]] * 3, SOURCES[:20], [[]])
    mine, other = by_matrix(segments), sources_of(segments)
    assert_same_best(mine, other, QUERIES, 24)
    assert mine.best_of_each([SOURCES[4]], 1)[0].item() == 7  # behind the three that are empty


def test_a_matrix_is_made_for_gpus_alone(tmp_path: Path) -> None:
    segments = parts_of(tmp_path, 1)
    postings = by_matrix(segments)._parts
    assert SourceIndex(postings)._matrix is None
    assert SourceIndex(postings, device=torch.device("cpu"))._matrix is None
    # The rows of a segment are made once, and anew for another device. (Tensors on cpu:0 say that they are on cpu.)
    rows = postings[0].on(torch.device("cpu:0"))
    assert postings[0].on(torch.device("cpu:0")) is rows is not postings[0].on(torch.device("cpu"))


def test_a_datastore_seeds_and_trusts_alike(tiny: TranslationModel, tiny_store: Datastore) -> None:
    sources = [tiny.codec.source_ids(pair.source) for pair in make_pairs(6, seed=21)]
    snapshot = Datastore.open(tiny_store.path).snapshot()
    expected = snapshot.similar(sources, 60)
    snapshot._sources._matrix = snapshot._sources._make_matrix(torch.device("cpu"))
    found = snapshot.similar(sources, 60)
    assert found.familiarity == pytest.approx(expected.familiarity, abs=1e-4)
    assert len(set(found.familiarity)) > 1

    def lengths(entry_SX: torch.Tensor) -> list[int]:
        return [len(row[row >= 0]) for row in entry_SX]

    assert lengths(found.entry_SX) == lengths(expected.entry_SX)
