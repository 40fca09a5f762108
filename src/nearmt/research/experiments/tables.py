"""Tables like the paper's: systems in rows, domains in columns, their average at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearmt.research.experiments.commands import merged_runs

#: By names of `Evaluation`: heading, and how a number is shown.
METRICS: dict[str, tuple[str, str]] = {
    "bleu": ("BLEU", ".2f"),
    "chrf": ("chrF", ".2f"),
    "ter": ("TER (lower is better)", ".2f"),
    "comet": ("COMET", ".4f"),
    "tokens_per_second": ("Tokens a second", ".0f"),
    "average_interval": ("Average interval between searches", ".2f"),
    "searches_per_sentence": ("Searches a sentence", ".2f"),
    "learning_seconds": ("Learning, seconds", ".1f"),
    "inference_seconds": ("Translating, seconds", ".1f"),
    "total_seconds": ("Both together, seconds", ".1f"),
}
#: Those that count only if the machine did nothing else.
TIMED = frozenset({"tokens_per_second", "learning_seconds", "inference_seconds", "total_seconds"})
#: Below this a difference is marked.
SIGNIFICANT = 0.05
_NAMES = {"it": "IT"}


def markdown(report: dict[str, Any]) -> str:
    """All tables of an experiment, and what made them."""
    parts = [f"# {report['title']}", _provenance(report)]
    for metric in report["metrics"]:
        if table := metric_table(report, metric):
            parts += [f"## {METRICS[metric][0]}", table]
            if metric == "bleu" and (differences := difference_table(report)):
                parts.append(differences)
    parts += [part for domain in report["domains"] for part in window_table(report, domain)]
    if tuned := settings_table(report):
        parts += ["## Settings", tuned]
    return "\n\n".join(parts)


def value(report: dict[str, Any], row: str, domain: str, metric: str) -> float | None:
    """A number, or None where it was not measured or does not count."""
    cell = report["cells"][domain].get(row)
    if cell is None or (metric in TIMED and not report["runs"][cell["run"]]["speeds_count"]):
        return None
    found = cell["evaluation"].get(metric)
    return None if found is None else float(found)


def average(report: dict[str, Any], row: str, metric: str) -> float | None:
    """Over all domains; None if one is missing."""
    values = [value(report, row, domain, metric) for domain in report["domains"]]
    known = [found for found in values if found is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def metric_table(report: dict[str, Any], metric: str) -> str | None:
    """One metric of all rows on all domains; None where there is not one number."""
    form = METRICS[metric][1]

    def shown(row: str, domain: str) -> str:
        return _number(value(report, row, domain, metric), form)

    if not any(shown(row["name"], domain) for row in report["rows"] for domain in report["domains"]):
        return None
    return _table(report, shown, lambda row: _number(average(report, row, metric), form))


def difference_table(report: dict[str, Any]) -> str | None:
    """BLEU less that of the reference row, with a star where the paired bootstrap says that it is no chance."""
    if report["reference"] is None:
        return None

    def shown(row: str, domain: str) -> str:
        cell = report["cells"][domain].get(row)
        compared = cell and cell["comparison"]
        if not compared:
            return ""
        return f"{compared['difference']:+.2f}{'*' if compared['p_value'] < SIGNIFICANT else ''}"

    if not any(shown(row["name"], domain) for row in report["rows"] for domain in report["domains"]):
        return None
    label = next((row["label"] for row in report["rows"] if row["name"] == report["reference"]), report["reference"])
    return f"Difference in BLEU to *{label}*; \\* p < {SIGNIFICANT:g}:\n\n{_table(report, shown)}"


def settings_table(report: dict[str, Any]) -> str | None:
    """What each row was given on each domain, and its score on the dev set."""
    lines = []
    for row in report["rows"]:
        for domain in report["domains"]:
            cell = report["cells"][domain].get(row["name"])
            if cell and cell["settings"]:
                settings = ", ".join(f"{name} {_plain(found)}" for name, found in cell["settings"].items())
                score = _number(cell["dev_score"], ".2f")
                lines.append(f"| {row['label']} | {domain_name(domain)} | {settings} | {score} |")
    return "\n".join(["| | domain | settings | dev |", "|---|---|---|---:|", *lines]) if lines else None


def window_table(report: dict[str, Any], domain: str) -> list[str]:
    """BLEU over time, of experiments that have a time: windows in rows, systems in columns, below a heading."""
    found = [(row["label"], report["cells"][domain].get(row["name"])) for row in report["rows"]]
    cells = {label: cell["evaluation"]["windows"] for label, cell in found if cell and "windows" in cell["evaluation"]}
    if not cells:
        return []
    # Streams of other lengths, from runs with another --limit, stand beside each other.
    spans = sorted({(window["start"], window["end"]) for windows in cells.values() for window in windows})
    scores = {
        label: {(window["start"], window["end"]): window["bleu"] for window in windows}
        for label, windows in cells.items()
    }
    lines = [["sentences", *cells], ["---", *["---:"] * len(cells)]]
    for span in spans:
        name = f"{span[0] + 1:,}-{span[1]:,}"
        lines.append([name, *(_number(scores[label].get(span), ".2f") for label in cells)])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return [f"## {domain_name(domain)}: BLEU over time", table]


def domain_name(domain: str) -> str:
    return _NAMES.get(domain, domain[:1].upper() + domain[1:])


def _table(
    report: dict[str, Any], shown: Callable[[str, str], str], averaged: Callable[[str], str] | None = None
) -> str:
    columns = [domain_name(domain) for domain in report["domains"]]
    extra = ["Average"] if averaged and len(columns) > 1 else []
    lines = [["", *columns, *extra], ["---", *["---:"] * (len(columns) + len(extra))]]
    for row in report["rows"]:
        cells = [shown(row["name"], domain) for domain in report["domains"]]
        if any(cells):
            lines.append([row["label"], *cells, *([averaged(row["name"])] if averaged and extra else [])])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _provenance(report: dict[str, Any]) -> str:
    lines = []
    if report["tested_on"]:
        lines.append(f"- translated: {report['tested_on']}, with the memory of each domain")
    counts = {
        domain: sorted(
            {cell["evaluation"]["sentences"] for cell in cells.values() if "sentences" in cell["evaluation"]}
        )
        for domain, cells in report["cells"].items()
    }
    if any(counts.values()):
        shown = [f"{domain_name(domain)} {'/'.join(map(str, found))}" for domain, found in counts.items() if found]
        lines.append(f"- test lines: {', '.join(shown)}")
    for run in merged_runs(report["runs"]):
        machine = run["machine"]
        where = f"{machine['device']}, {machine['precision']}, {machine['threads']} threads, torch {machine['torch']}"
        speeds = "" if run["speeds_count"] else "; other work ran beside it, so speeds do not count"
        lines.append(f"- `{run['command']}` at {run['commit']} on {where}{speeds}")
    return "\n".join(lines)


def _number(found: float | None, form: str) -> str:
    return "" if found is None else format(found, form)


def _plain(found: Any) -> str:
    return f"{found:g}" if isinstance(found, float) else str(found)
