"""Plots of an experiment, drawn with matplotlib if it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nearmt.errors import MissingPackageError, writing
from nearmt.research.experiments.on_the_fly_plots import draw_streams, has_streams, height
from nearmt.research.experiments.tables import METRICS, domain_name, value

_DRAWN = ("bleu", "tokens_per_second")


def plot(report: dict[str, Any], path: Path) -> bool:
    """Draw bars for rows and domains, or the plots of a stream; return False if the report has nothing to draw."""
    drawn = drawable(report)
    if not drawn:
        return False
    try:
        import matplotlib
    except ImportError as error:
        raise MissingPackageError(
            f"{path.name} was not drawn: install matplotlib (pip install nearmt[plots])"
        ) from error
    from matplotlib.figure import Figure

    # Keep text as text, and write the same file for the same numbers.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "nearmt", "font.size": 9}):
        streams = has_streams(report)
        figure = Figure(figsize=(9, height(report) if streams else 3.2 * len(drawn)), layout="constrained")
        first = draw_streams(figure, report) if streams else _draw_bars(figure, report, drawn)
        handles, labels = first.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.suptitle(report["title"])
        with writing(path):
            partial = path.with_name(path.name + ".partial")
            figure.savefig(partial, format="svg", metadata={"Date": None})
            partial.replace(path)
    return True


def drawable(report: dict[str, Any]) -> list[str]:
    """List the metrics of a report that can be drawn."""
    return [metric for metric in _DRAWN if metric in report["metrics"] and _has(report, metric)]


def _draw_bars(figure: Any, report: dict[str, Any], drawn: list[str]) -> Any:
    """Draw a panel for every metric; return the first panel."""
    panels = figure.subplots(len(drawn), 1, squeeze=False)[:, 0]
    for panel, metric in zip(panels, drawn, strict=True):
        _draw(panel, report, metric)
    return panels[0]


def _draw(panel: Any, report: dict[str, Any], metric: str) -> None:
    rows, domains = report["rows"], report["domains"]
    width = 0.8 / len(rows)
    for number, row in enumerate(rows):
        found = [(group, value(report, row["name"], domain, metric)) for group, domain in enumerate(domains)]
        bars = [(group, height) for group, height in found if height is not None]
        offset = (number - (len(rows) - 1) / 2) * width
        colour = f"C{number % 10}"
        panel.bar([g + offset for g, _ in bars], [h for _, h in bars], width, label=row["label"], color=colour)
    panel.set_xticks(range(len(domains)), [domain_name(domain) for domain in domains])
    panel.set_ylabel(METRICS[metric][0])
    panel.spines[["top", "right"]].set_visible(False)


def _has(report: dict[str, Any], metric: str) -> bool:
    return any(
        value(report, row["name"], domain, metric) is not None for row in report["rows"] for domain in report["domains"]
    )
