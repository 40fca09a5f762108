"""Paired bootstrap resampling (Koehn 2004): is one system better than another, or was it the choice of sentences?

The samples and the p-value are those of `sacrebleu --paired-bs` with the same seed. Its own class is not used
because it keeps the differences to itself, of which an interval is given here, and takes its seed from the
environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearmt.errors import ConfigError
from nearmt.research.evaluation.metrics import check_lengths, make_metric

SAMPLES = 1000
SEED = 12345

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline in one metric."""

    #: The system's score less the baseline's.
    difference: float
    #: How likely a difference at least this large is among resampled test sets if the systems are equally good.
    p_value: float
    #: 95 % of the differences in resampled test sets lie between these.
    low: float
    high: float
    #: The metric's settings with those of the test, as sacrebleu writes them.
    signature: str


def compare(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    metric: str = "bleu",
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Compare the translations of two systems on test sets drawn from the given one with replacement."""
    if samples < 1:
        raise ConfigError(f"samples = {samples}: must be at least 1")
    check_lengths(baseline, references)
    check_lengths(system, references)
    scorer = make_metric(metric)
    statistics = [
        scorer._extract_corpus_statistics(list(outputs), [list(references)]) for outputs in (baseline, system)
    ]
    before, after = (scorer._aggregate_and_compute(found).score for found in statistics)
    sampled_before, sampled_after = _sampled_scores(scorer, statistics, samples, seed)
    difference_S = sampled_after - sampled_before
    low, high = _interval(difference_S)
    signature = scorer.get_signature()
    signature.update("bs", samples)
    signature.update("seed", str(seed))
    return Comparison(
        difference=round(after - before, 2),
        p_value=_p_value(difference_S, after - before),
        low=round(low, 2),
        high=round(high, 2),
        signature=str(signature),
    )


def _sampled_scores(scorer: Any, statistics: list[list[list[float]]], samples: int, seed: int) -> list[Floats]:
    """The scores of each system on every resampled test set: all metrics follow from sums over sentences."""
    sentences = len(statistics[0])
    draw = np.random.default_rng(seed)
    tables = [np.array(found, dtype=np.float64) for found in statistics]
    sums: list[list[Floats]] = [[] for _ in tables]
    for _ in range(samples):
        chosen = draw.choice(sentences, size=sentences, replace=True)
        times_N = np.bincount(chosen, minlength=sentences).astype(np.float64)
        for table_NX, found in zip(tables, sums, strict=True):
            found.append((times_N @ table_NX).astype(np.float32))  # the precision in which sacrebleu goes on
    return [np.array([scorer._compute_score_from_stats(row).score for row in found]) for found in sums]


def _p_value(difference_S: Floats, difference: float) -> float:
    """sacrebleu's, except where all samples agree: then there is nothing to test, and its answer would be 1/(S+1)."""
    if np.ptp(difference_S) < 1e-9:
        return 1.0
    size_S = np.abs(difference_S)
    beyond = int(np.sum(size_S - size_S.mean() > abs(difference)))
    return (beyond + 1) / (len(difference_S) + 1)


def _interval(difference_S: Floats) -> tuple[float, float]:
    """What remains when a fortieth is cut off at either end."""
    ordered = np.sort(difference_S)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[len(ordered) - cut - 1])
