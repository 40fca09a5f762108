"""Tables like the paper's: a row for each system, a column for each domain, and their average."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from nearmt.research.cache_engine import TORCH, runs_torch_cache
from nearmt.research.experiments.commands import merged_runs
from nearmt.research.experiments.contrast_tables import contrast_table

#: Heading and number format of each metric, by field name of `Evaluation`.
METRICS: dict[str, tuple[str, str]] = {
    "bleu": ("BLEU", ".2f"),
    "chrf": ("chrF", ".2f"),
    "ter": ("TER (lower is better)", ".2f"),
    "comet": ("COMET", ".4f"),
    "tokens_per_second": ("Tokens a second", ".0f"),
    "average_interval": ("Average interval between searches", ".2f"),
    "searches_per_sentence": ("Searches a sentence", ".2f"),
    "compared_per_sentence": ("Entries compared a sentence", ",.0f"),
    "learning_seconds": ("Learning, seconds", ".1f"),
    "inference_seconds": ("Translating, seconds", ".1f"),
    "total_seconds": ("Both together, seconds", ".1f"),
    "right": ("Right with the memory, %", ".1f"),
    "kept": ("Kept of those that the model alone gets right, %", ".1f"),
    "terms": ("Terminology: right with the memory, %", ".1f"),
    "unsupported_share": ("Words brought without support of their source, % of all words", ".2f"),
    "unsupported_precision": ("Of these in the reference, %", ".1f"),
    "supported_share": ("Words brought with support of their source, % of all words", ".2f"),
    "supported_precision": ("Of words with support in the reference, %", ".1f"),
}
#: Metrics that are valid only if nothing else ran on the machine.
TIMED = frozenset({"tokens_per_second", "learning_seconds", "inference_seconds", "total_seconds"})
#: Differences with a p-value below this are marked.
SIGNIFICANT = 0.05
_NAMES = {"it": "IT"}
#: Marks rows with a torch cache in tables of times that also have rows with other caches.
_TORCH_MARK = " †"
_TORCH_NOTE = "† The cache runs in plain torch: compare its times only with other rows marked †."
_ALL_TORCH_NOTE = "The caches of all rows run in plain torch."


def markdown(report: dict[str, Any]) -> str:
    """Render all tables of an experiment and the commands behind them."""
    parts = [f"# {report['title']}", _provenance(report)]
    for metric in report["metrics"]:
        if table := metric_table(report, metric):
            parts += [f"## {METRICS[metric][0]}", table]
            if metric == "bleu" and (differences := difference_table(report)):
                parts.append(differences)
    parts += [part for domain in report["domains"] for part in window_table(report, domain)]
    for domain in report["domains"]:
        if table := contrast_table(report, domain):
            parts += [f"## {domain_name(domain)}: right, and kept, in %", table]
    if tuned := settings_table(report):
        parts += ["## Settings", tuned]
    return "\n\n".join(parts)


def value(report: dict[str, Any], row: str, domain: str, metric: str) -> float | None:
    """Return a number; None if it was not measured, or is a time measured while other programs ran."""
    cell = report["cells"][domain].get(row)
    if cell is None or (metric in TIMED and not report["runs"][cell["run"]]["speeds_count"]):
        return None
    found = cell["evaluation"].get(metric)
    return None if found is None else float(found)


def average(report: dict[str, Any], row: str, metric: str) -> float | None:
    """Average a metric over all domains; None if one is missing."""
    values = [value(report, row, domain, metric) for domain in report["domains"]]
    known = [found for found in values if found is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def metric_table(report: dict[str, Any], metric: str) -> str | None:
    """Render one metric of all rows on all domains; None if it has no values.

    Tables of times mark the rows whose cache runs in torch, since times are comparable only within one cache engine.
    """
    form = METRICS[metric][1]

    def shown(row: str, domain: str) -> str:
        return _number(value(report, row, domain, metric), form)

    rows = [row["name"] for row in report["rows"] if any(shown(row["name"], domain) for domain in report["domains"])]
    if not rows:
        return None
    torch_rows = {row for row in rows if metric in TIMED and has_torch_cache(report, row)}
    marked = torch_rows if len(torch_rows) < len(rows) else set()
    table = _table(report, shown, lambda row: _number(average(report, row, metric), form), marked)
    note = _TORCH_NOTE if marked else _ALL_TORCH_NOTE if torch_rows else ""
    return f"{table}\n\n{note}" if note else table


def has_torch_cache(report: dict[str, Any], row: str) -> bool:
    """Whether the cache of a row runs in torch; reports that do not record this are judged by the row's settings."""
    cells = [cells[row] for cells in report["cells"].values() if row in cells]
    return any(cell.get("cache") == TORCH or runs_torch_cache(cell["settings"]) for cell in cells)


def difference_table(report: dict[str, Any]) -> str | None:
    """Render differences in BLEU to the reference row; significant ones (paired bootstrap) have a star."""
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
    """Render the settings of each row on each domain, and its score on the dev set."""
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
    """Render BLEU over time of a stream: windows in rows, systems in columns; empty for other experiments."""
    found = [(row["label"], report["cells"][domain].get(row["name"])) for row in report["rows"]]
    cells = {label: cell["evaluation"]["windows"] for label, cell in found if cell and "windows" in cell["evaluation"]}
    if not cells:
        return []
    # Runs with different --limit have streams of different lengths.
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
    report: dict[str, Any],
    shown: Callable[[str, str], str],
    averaged: Callable[[str], str] | None = None,
    marked: Collection[str] = (),
) -> str:
    columns = [domain_name(domain) for domain in report["domains"]]
    extra = ["Average"] if averaged and len(columns) > 1 else []
    lines = [["", *columns, *extra], ["---", *["---:"] * (len(columns) + len(extra))]]
    for row in report["rows"]:
        cells = [shown(row["name"], domain) for domain in report["domains"]]
        if any(cells):
            label = row["label"] + (_TORCH_MARK if row["name"] in marked else "")
            lines.append([label, *cells, *([averaged(row["name"])] if averaged and extra else [])])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _provenance(report: dict[str, Any]) -> str:
    lines = []
    if report["tested_on"]:
        lines.append(f"- test set: {report['tested_on']}, with the datastore of each domain")
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
        speeds = "" if run["speeds_count"] else "; other programs ran at the same time, so speeds are not reported"
        lines.append(f"- `{run['command']}` at {run['commit']} on {where}{speeds}")
    return "\n".join(lines)


def _number(found: float | None, form: str) -> str:
    return "" if found is None else format(found, form)


def _plain(found: Any) -> str:
    return f"{found:g}" if isinstance(found, float) else str(found)
