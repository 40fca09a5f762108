"""How `nearmt tune` looks for settings, and how `nearmt evaluate` scores."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config.base import Config, option

STRATEGIES = ("smart", "grid")
RANGES = ("store", "paper")
METRICS = ("bleu", "chrf")
COMET_MODEL = "Unbabel/wmt22-comet-da"


@dataclass(frozen=True)
class TuneConfig(Config):
    """Tuning (`nearmt tune`)."""

    tune: str | None = option(None, "settings to tune, joined by commas, or all (default: weights and temperatures)")
    strategy: str = option("smart", "one setting after the other with early stops, or all points", choices=STRATEGIES)
    ranges: str = option("store", "values to try: from the store's own distances, or the paper's", choices=RANGES)
    budget: int = option(36, "translations of the dev set to spend", low=1)
    metric: str = option("bleu", "what is maximised", choices=METRICS)
    margin: float = option(0.3, "scores this close count as equal; the settings nearest to the defaults win", low=0)
    held_out: int = option(500, "without a dev set: pairs of the memory held out, at most a fifth of it", low=1)
    base: bool = option(True, "also score the model alone")


@dataclass(frozen=True)
class ScoringConfig(Config):
    """Scoring (`nearmt evaluate`)."""

    comet_model: str = option(COMET_MODEL, "model that COMET uses")
