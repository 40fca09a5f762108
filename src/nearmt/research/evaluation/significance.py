"""Paired bootstrap resampling (Koehn 2004): the significance of a difference between two systems.

Samples and p-value equal those of `sacrebleu --paired-bs` with the same seed. Its class is not used because it does
not return the differences, from which an interval is computed here, and takes its seed from the environment.
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
    """A system compared with a baseline in one metric."""

    #: The system's score minus the baseline's.
    difference: float
    #: Probability of a difference at least this large if the systems are equally good.
    p_value: float
    #: 95 % interval of the differences in resampled test sets.
    low: float
    high: float
    #: Settings of metric and test, as sacrebleu writes them.
    signature: str


def compare(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    metric: str = "bleu",
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Compare two systems on test sets resampled with replacement."""
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
    """Score each system on every resampled test set, from sums of sentence statistics."""
    sentences = len(statistics[0])
    draw = np.random.default_rng(seed)
    tables = [np.array(found, dtype=np.float64) for found in statistics]
    sums: list[list[Floats]] = [[] for _ in tables]
    for _ in range(samples):
        chosen = draw.choice(sentences, size=sentences, replace=True)
        times_N = np.bincount(chosen, minlength=sentences).astype(np.float64)
        for table_NX, found in zip(tables, sums, strict=True):
            found.append((times_N @ table_NX).astype(np.float32))  # sacrebleu continues in this precision
    return [np.array([scorer._compute_score_from_stats(row).score for row in found]) for found in sums]


def _p_value(difference_S: Floats, difference: float) -> float:
    """Compute sacrebleu's p-value; 1 if all samples agree, where its formula would give 1/(S+1)."""
    if np.ptp(difference_S) < 1e-9:
        return 1.0
    size_S = np.abs(difference_S)
    beyond = int(np.sum(size_S - size_S.mean() > abs(difference)))
    return (beyond + 1) / (len(difference_S) + 1)


def _interval(difference_S: Floats) -> tuple[float, float]:
    """Cut off a fortieth at either end: a 95 % interval."""
    ordered = np.sort(difference_S)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[len(ordered) - cut - 1])
