"""BLEU, chrF and, on request, TER as sacrebleu computes them with its default settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nearmt.errors import ConfigError, InputError

if TYPE_CHECKING:
    from nearmt.research.evaluation.comet import Comet

#: By the names used here; the values are sacrebleu's classes.
METRICS = {"bleu": "BLEU", "chrf": "CHRF", "ter": "TER"}
DEFAULT_METRICS = ("bleu", "chrf")


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How near some translations are to the references, with sacrebleu's signatures."""

    bleu: float
    chrf: float
    #: Translation edit rate: the lower, the better. Only on request: long lines take longer than translating them.
    ter: float | None = None
    #: Given only where COMET's own program was run.
    comet: float | None = None
    bleu_signature: str
    chrf_signature: str
    ter_signature: str | None = None
    comet_model: str | None = None


def make_metric(name: str) -> Any:
    """sacrebleu's metric with its default settings."""
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
    """The scores of translations, wherever they come from; COMET looks at the sources, too."""
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
    """Refuse what cannot be scored line by line."""
    if not references:
        raise InputError("the test set has no pairs: nothing to evaluate")
    if len(outputs) != len(references):
        raise InputError(f"{len(outputs):,} translations for {len(references):,} references: they must be as many")
