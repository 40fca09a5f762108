"""BLEU, chrF and, on request, TER, computed by sacrebleu with its default settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nearmt.errors import ConfigError, InputError

if TYPE_CHECKING:
    from nearmt.research.evaluation.comet import Comet

#: Names of metrics and of sacrebleu's classes.
METRICS = {"bleu": "BLEU", "chrf": "CHRF", "ter": "TER"}
DEFAULT_METRICS = ("bleu", "chrf")


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of translations, with sacrebleu's signatures."""

    bleu: float
    chrf: float
    #: Translation edit rate, lower is better. Only on request: on long lines it takes longer than translating.
    ter: float | None = None
    #: Only if COMET's program was run.
    comet: float | None = None
    bleu_signature: str
    chrf_signature: str
    ter_signature: str | None = None
    comet_model: str | None = None


def make_metric(name: str) -> Any:
    """Make sacrebleu's metric with default settings."""
    from sacrebleu import metrics

    if name not in METRICS:
        raise ConfigError(f"metric = {name!r}: must be one of {', '.join(METRICS)}")
    return getattr(metrics, METRICS[name])()


def score(
    outputs: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str] | None = None,
    comet: Comet | None = None,
    *,
    ter: bool = False,
) -> Scores:
    """Score translations; COMET needs the sources as well."""
    check_lengths(outputs, references)
    found: dict[str, Any] = {}
    for name in METRICS if ter else DEFAULT_METRICS:
        metric = make_metric(name)
        found[name] = round(metric.corpus_score(list(outputs), [list(references)]).score, 2)
        found[f"{name}_signature"] = str(metric.get_signature())
    if comet is not None:
        if sources is None:
            raise ConfigError("COMET needs the sources of the translations")
        found |= {"comet": comet.scores(sources, references, [outputs])[0], "comet_model": comet.model}
    return Scores(**found)


def check_lengths(outputs: Sequence[str], references: Sequence[str]) -> None:
    """Raise an error unless there are as many outputs as references, and at least one."""
    if not references:
        raise InputError("the test set has no pairs: nothing to evaluate")
    if len(outputs) != len(references):
        raise InputError(f"{len(outputs):,} translations for {len(references):,} references: the numbers must be equal")
