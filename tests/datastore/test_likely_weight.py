"""The weight that a store suggests: measured on itself, with each sentence left out of its own search."""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import Datastore, reindex
from nearmt.datastore.search import calibrate
from nearmt.datastore.search.calibrate import FEW_PAIRS, FEW_PAIRS_CAP, _most_likely
from nearmt.decoding import BeamConfig, beam_search
from nearmt.methods import ChunkConfig, ChunkMethod, KnnConfig, KnnMethod, PlainMethod
from nearmt.models import Seq2SeqModel, TranslationModel
from tests.conftest import make_pairs
from tests.tiny import FAMILIES, random_sources, restless_model


def test_most_likely_is_the_best_of_a_fine_grid() -> None:
    generator = torch.Generator().manual_seed(0)
    model, neighbours = torch.rand(500, generator=generator), torch.rand(500, generator=generator) ** 2
    grid = np.linspace(0.001, 0.999, 999)
    scores = [float(torch.log((1 - w) * model + w * neighbours).sum()) for w in grid]
    assert _most_likely(model, neighbours) == pytest.approx(grid[int(np.argmax(scores))], abs=0.01)
    assert _most_likely(torch.ones(9), torch.zeros(9)) == 0.0
    assert _most_likely(torch.full((9,), 0.01), torch.ones(9)) > 0.99


def repeated(count: int) -> list[Pair]:
    """Twelve pairs, over and over again."""
    return list(islice(cycle(make_pairs(12, seed=5)), count))


def test_repetitions_deserve_more_weight_than_noise(tiny: TranslationModel, tmp_path: Path) -> None:
    faithful = Datastore.build(tmp_path / "faithful", repeated(FEW_PAIRS), tiny)
    noise = Datastore.build(tmp_path / "noise", make_pairs(FEW_PAIRS, seed=6), tiny)
    likely, unlikely = faithful.snapshot().profile.likely_weight, noise.snapshot().profile.likely_weight
    assert likely is not None and unlikely is not None and likely > unlikely + 0.2
    method = KnnMethod(faithful)
    assert method.config.weight == pytest.approx(0.3 + 0.7 * likely, abs=0.006)
    chunk = ChunkMethod(faithful).config
    assert chunk.weight == method.config.weight
    assert chunk.cache_weight == chunk.weight
    unseeded = ChunkMethod(faithful, ChunkConfig(seeds=0)).config
    assert unseeded.cache_weight == pytest.approx((chunk.weight or 0) - 0.1)


def test_few_pairs_are_not_believed_to_deserve_much(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Datastore.build(tmp_path / "few", repeated(FEW_PAIRS - 1), tiny)
    assert store.snapshot().profile.likely_weight == FEW_PAIRS_CAP and KnnMethod(store).config.weight == 0.6
    monkeypatch.setattr(calibrate, "FEW_PAIRS", FEW_PAIRS - 1)
    believed = Datastore.build(tmp_path / "believed", repeated(FEW_PAIRS - 1), tiny).snapshot().profile.likely_weight
    assert believed is not None and believed > FEW_PAIRS_CAP
    # What is less than that is as it was measured.
    monkeypatch.setattr(calibrate, "FEW_PAIRS", FEW_PAIRS)
    little = Datastore.build(tmp_path / "little", make_pairs(48, seed=6), tiny).snapshot().profile.likely_weight
    monkeypatch.setattr(calibrate, "FEW_PAIRS", 20)
    assert little is not None and little < FEW_PAIRS_CAP
    assert Datastore.build(tmp_path / "same", make_pairs(48, seed=6), tiny).snapshot().profile.likely_weight == little


def test_a_given_weight_stands(tiny_store: Datastore) -> None:
    assert KnnMethod(tiny_store, KnnConfig(weight=0.25)).config.weight == 0.25


def test_too_few_pairs_suggest_nothing(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "one", [Pair("die pumpe", "the pump")], tiny)
    assert store.snapshot().profile.likely_weight is None
    assert KnnMethod(store).config.weight == 0.6


def test_an_index_does_not_change_the_weight(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "s", make_pairs(40), tiny)
    assert reindex(store.path, "Flat").calibration.likely_weight == store.snapshot().profile.likely_weight


@pytest.mark.parametrize("family", FAMILIES)
def test_scoring_equals_translating(family: str) -> None:
    """The sum of the scores of a translation is the score that the search gave it."""
    config = BeamConfig(beams=3, max_new_tokens=40, length_penalty=0.0)
    checked = 0
    for seed in range(4):
        model, sources = Seq2SeqModel(restless_model(family, seed)), random_sources(seed)
        found, _ = beam_search(model, PlainMethod(), sources, [len(s) for s in sources], config)
        together = model.score(sources, [hypothesis.tokens for hypothesis in found])
        for source, hypothesis, score in zip(sources, found, together, strict=True):
            assert len(score) == len(hypothesis.tokens)
            (alone,) = model.score([source], [hypothesis.tokens])
            assert torch.allclose(alone, score, atol=1e-4)
            if not hypothesis.truncated:  # else the last token was forced
                assert float(score.sum()) == pytest.approx(hypothesis.score, abs=1e-3)
                checked += 1
    assert checked, "every hypothesis was truncated"
