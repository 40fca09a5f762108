"""Paired bootstrap resampling: sacrebleu's p-values, and cases with known results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from nearmt.errors import ConfigError, InputError
from nearmt.research.evaluation import METRICS, compare
from tests.research.evaluation.outputs import made_references, sacrebleu_p_values, worsened, write_lines


@pytest.mark.parametrize("shares", [(0.3, 0.31), (0.3, 0.36), (0.4, 0.2)], ids=str)
def test_p_values_equal_sacrebleus(tmp_path: Path, shares: tuple[float, float]) -> None:
    references = made_references(60)
    baseline, system = (worsened(references, share, seed) for seed, share in enumerate(shares))
    files = [("ref.txt", references), ("base.txt", baseline), ("system.txt", system)]
    wanted = sacrebleu_p_values(*(write_lines(tmp_path / name, lines) for name, lines in files))
    found = [compare(baseline, system, references, metric) for metric in METRICS]
    assert [round(comparison.p_value, 4) for comparison in found] == wanted
    assert found[0].signature.startswith("nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a")


def brute_force(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], samples: int, seed: int
) -> list[float]:
    """Compute differences in BLEU by scoring every resampled test set."""
    drawn = np.random.default_rng(seed).choice(len(references), size=(samples, len(references)), replace=True)
    scores = [
        [BLEU().corpus_score([texts[n] for n in row], [[references[n] for n in row]]).score for row in drawn]
        for texts in (baseline, system)
    ]
    return [after - before for before, after in zip(*scores, strict=True)]


def test_interval_equals_that_of_scored_test_sets() -> None:
    references = made_references(12)
    baseline, system = worsened(references, 0.5, 1), worsened(references, 0.3, 2)
    differences = sorted(brute_force(baseline, system, references, samples=80, seed=7))
    found = compare(baseline, system, references, samples=80, seed=7)
    assert [found.low, found.high] == pytest.approx([differences[2], differences[77]], abs=0.01)
    assert found.low < found.difference < found.high
    assert compare(baseline, system, references, samples=80, seed=8) != found


def test_sign_of_a_difference() -> None:
    references = made_references(50)
    good, bad = worsened(references, 0.1, 1), worsened(references, 0.6, 2)
    better, worse = compare(bad, good, references), compare(good, bad, references)
    assert better.difference == -worse.difference > 0
    assert (better.low, better.high) == (-worse.high, -worse.low)
    assert better.p_value == worse.p_value < 0.05
    assert compare(bad, good, references, "ter").difference < 0  # fewer edits


def test_equal_samples_are_not_significant() -> None:
    """Equal translations, or a single sentence: sacrebleu gives 1 / 1001 here."""
    references = made_references(20)
    outputs = worsened(references, 0.3, 1)
    same = compare(outputs, list(outputs), references)
    assert (same.difference, same.p_value, same.low, same.high) == (0.0, 1.0, 0.0, 0.0)
    for metric in METRICS:
        one = compare(["the pump turns slowly here"], ["the motor stops"], ["the pump turns slowly now"], metric)
        assert one.p_value == 1.0 and one.low == one.high != 0


def test_empty_translations() -> None:
    references = made_references(8)
    for metric in METRICS:
        found = compare([""] * 8, references, references, metric)
        assert found.difference == (-100.0 if metric == "ter" else 100.0)


def test_invalid_comparisons_are_refused() -> None:
    with pytest.raises(InputError, match="no pairs"):
        compare([], [], [])
    with pytest.raises(InputError, match="1 translations for 2 references"):
        compare(["a", "b"], ["a"], ["a", "b"])
    with pytest.raises(ConfigError, match="metric = 'meteor': must be one of bleu, chrf, ter"):
        compare(["a"], ["a"], ["a"], "meteor")
    with pytest.raises(ConfigError, match="samples = 0"):
        compare(["a"], ["a"], ["a"], samples=0)
