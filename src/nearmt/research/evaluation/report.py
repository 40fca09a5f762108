"""Comparison of several systems: scores, speed, and differences to a baseline."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nearmt import __version__
from nearmt.research.evaluation.metrics import METRICS, Scores, score
from nearmt.research.evaluation.scoring import Evaluation
from nearmt.research.evaluation.significance import Comparison, compare


@dataclass(frozen=True, kw_only=True)
class FileEvaluation(Scores):
    """Scores of existing translations; their speed is unknown."""

    sentences: int
    signature: str


@dataclass(frozen=True)
class System:
    """The name, the measurements and the translations of a system."""

    name: str
    result: Evaluation | FileEvaluation
    outputs: list[str]


@dataclass(frozen=True)
class Row:
    """A system compared with the baseline."""

    system: System
    #: Tokens a second divided by the baseline's; None if one of the two was not timed.
    speed_ratio: float | None = None
    #: By metric; empty for the baseline.
    comparisons: dict[str, Comparison] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON."""
        comparison = {metric: dataclasses.asdict(found) for metric, found in self.comparisons.items()} or None
        result = dataclasses.asdict(self.system.result)
        return {"name": self.system.name, **result, "speed_ratio": self.speed_ratio, "comparison": comparison}


def evaluate_file(name: str, outputs: Sequence[str], references: Sequence[str], *, ter: bool = False) -> FileEvaluation:
    """Score the translations of another system; `name` identifies it in the signature."""
    content = hashlib.sha256("\n".join(outputs).encode("utf-8", "surrogateescape")).hexdigest()
    signature = f"nearmt:{__version__}|translations:{name}@{content[:16]}"
    scores = score(outputs, references, ter=ter)
    return FileEvaluation(**dataclasses.asdict(scores), sentences=len(outputs), signature=signature)


def side_by_side(systems: Sequence[System], references: Sequence[str], baseline: str) -> list[Row]:
    """Compare every system with the baseline by paired bootstrap resampling, in the metrics that both have."""
    first = next(system for system in systems if system.name == baseline)
    rows = []
    for system in systems:
        comparisons = {}
        if system is not first:
            for metric in METRICS:
                if None not in (getattr(first.result, metric), getattr(system.result, metric)):
                    comparisons[metric] = compare(first.outputs, system.outputs, references, metric)
        rows.append(Row(system, _ratio(system.result, first.result), comparisons))
    return rows


def _ratio(result: Evaluation | FileEvaluation, baseline: Evaluation | FileEvaluation) -> float | None:
    if not isinstance(result, Evaluation) or not isinstance(baseline, Evaluation) or not baseline.tokens_per_second:
        return None
    return round(result.tokens_per_second / baseline.tokens_per_second, 3)


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Return the headings and the cells of every row; empty columns are left out."""
    cells = [_cells(row) for row in rows]
    shown = [heading for heading in cells[0] if any(row[heading] for row in cells)]
    return [shown, *([row[heading] for heading in shown] for row in cells)]


def _cells(row: Row) -> dict[str, str]:
    result, compared = row.system.result, row.comparisons.get("bleu")
    cells = {
        "system": row.system.name,
        "BLEU": f"{result.bleu:.2f}",
        "Δ BLEU": f"{compared.difference:+.2f}" if compared else "",
        "p": f"{compared.p_value:.3f}" if compared else "",
        "chrF": f"{result.chrf:.2f}",
        "TER": _shown(result.ter, ".2f"),
        "COMET": _shown(result.comet, ".4f"),
    }
    cost = dict.fromkeys(("tokens/s", "ratio", "searches a sentence", "interval", "peak MiB", "peak GPU MiB"), "")
    if isinstance(result, Evaluation):
        cost |= {
            "tokens/s": f"{result.tokens_per_second:.1f}",
            "ratio": _shown(row.speed_ratio, ".2f"),
            "searches a sentence": f"{result.searches_per_sentence:.2f}",
            "interval": _shown(result.average_interval, ".2f"),
            "peak MiB": _shown(result.peak_memory_mib, ".0f"),
            "peak GPU MiB": _shown(result.peak_device_memory_mib, ".0f"),
        }
    return cells | cost


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def signatures(rows: Sequence[Row]) -> dict[str, str]:
    """Return the signature of each system by its name, then those of the metrics."""
    found = {row.system.name: row.system.result.signature for row in rows}
    first = rows[0].system.result
    found |= {"BLEU": first.bleu_signature, "chrF": first.chrf_signature}
    if ter := next((row.system.result.ter_signature for row in rows if row.system.result.ter_signature), None):
        found["TER"] = ter
    if model := next((row.system.result.comet_model for row in rows if row.system.result.comet_model), None):
        found["COMET"] = model
    if compared := next((row.comparisons["bleu"] for row in rows if row.comparisons), None):
        found["p"] = compared.signature
    return found


def markdown(rows: Sequence[Row]) -> str:
    """Render a Markdown table, followed by a list of signatures."""
    headings, *cells = table(rows)
    rule = ["---", *["---:"] * (len(headings) - 1)]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in [headings, rule, *cells]]
    notes = [f"- {name}: `{signature}`" for name, signature in signatures(rows).items()]
    return "\n".join([*lines, "", *notes])
