"""Scores and times of a system on a stream, in total and by window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearmt.research.evaluation.metrics import check_lengths, make_metric
from nearmt.research.experiments.on_the_fly_steps import LEARN, TRANSLATE, Done

#: TER is left out: computing it takes longer than translating on a GPU.
METRICS = ("bleu", "chrf")


def whole(done: Sequence[Done], texts: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Score the whole stream and sum its cost. Times exclude loading the base model."""
    check_lengths(texts, references)
    found: dict[str, Any] = {}
    for name in METRICS:
        metric = make_metric(name)
        found[name] = round(metric.corpus_score(list(texts), [list(references)]).score, 2)
        found[f"{name}_signature"] = str(metric.get_signature())
    learning, inference = (sum(d.seconds for d in done if d.step.kind == kind) for kind in (LEARN, TRANSLATE))
    tokens, searches = sum(d.tokens for d in done), sum(d.searches for d in done)
    return {
        **found,
        "learning_seconds": round(learning, 3),
        "inference_seconds": round(inference, 3),
        "total_seconds": round(learning + inference, 3),
        "tokens_per_second": round(tokens / inference, 1) if inference else 0.0,
        "searches_per_sentence": round(searches / len(texts), 2),
        "sentences": len(texts),
        "tokens": tokens,
        "truncated": sum(d.truncated for d in done),
        #: Windows of any size are computed from these and the translations.
        "steps": [[d.step.kind, d.step.start, d.step.end, d.seconds, d.tokens] for d in done],
    }


def window_ends(sentences: int, size: int) -> list[int]:
    """Return the ends of windows; a remainder of less than half a window is added to the last one."""
    ends = list(range(size, sentences + 1, size))
    rest = sentences - (ends[-1] if ends else 0)
    if rest:
        if ends and rest < size / 2:
            ends.pop()
        ends.append(sentences)
    return ends


def windows(
    steps: Sequence[Sequence[Any]], texts: Sequence[str], references: Sequence[str], size: int
) -> list[dict[str, Any]]:
    """Compute scores and times of each window, and from the start of the stream to its end (`so_far`)."""
    ends = window_ends(len(texts), size)
    costs = _costs(steps, ends)
    scores = {name: _scores(name, texts, references, ends) for name in METRICS}
    found = []
    for number, end in enumerate(ends):
        values: dict[str, Any] = {"start": ends[number - 1] if number else 0, "end": end}
        so_far: dict[str, Any] = {}
        for name, (alone, together) in scores.items():
            values[name], so_far[name] = alone[number], together[number]
        for name, spent in costs.items():
            digits = 3 if name.endswith("seconds") else None
            values[name] = round(float(spent[number]), digits)
            so_far[name] = round(float(spent[: number + 1].sum()), digits)
        found.append({**values, "so_far": so_far})
    return found


def _scores(name: str, texts: Sequence[str], references: Sequence[str], ends: list[int]) -> tuple[list[float], ...]:
    """Score each window, and the stream up to its end; both follow from sums of sentence statistics."""
    metric = make_metric(name)
    statistics_NX = np.array(metric._extract_corpus_statistics(list(texts), [list(references)]))
    sums_WX = np.add.reduceat(statistics_NX, [0, *ends[:-1]], axis=0)
    return tuple(
        [round(metric._compute_score_from_stats(row.tolist()).score, 2) for row in sums]
        for sums in (sums_WX, sums_WX.cumsum(axis=0))
    )


def _costs(steps: Sequence[Sequence[Any]], ends: list[int]) -> dict[str, np.ndarray]:
    """Sum seconds and tokens of each window [W].

    The time of a block is divided equally among its sentences. A learning step counts in the window of the sentence
    that is translated next.
    """
    sentences = ends[-1]
    learning_N, inference_N, tokens_N = np.zeros(sentences), np.zeros(sentences), np.zeros(sentences)
    first = 0
    for kind, start, end, seconds, tokens in steps:
        if kind == LEARN:
            learning_N[first] += seconds
            continue
        count = end - start
        inference_N[first : first + count] = seconds / count
        tokens_N[first : first + count] = tokens / count
        first += count
    starts = [0, *ends[:-1]]
    by_window = [np.add.reduceat(each, starts) for each in (learning_N, inference_N, tokens_N)]
    learning_W, inference_W, tokens_W = by_window
    return {
        "learning_seconds": learning_W,
        "inference_seconds": inference_W,
        "total_seconds": learning_W + inference_W,
        "tokens": tokens_W,
    }
