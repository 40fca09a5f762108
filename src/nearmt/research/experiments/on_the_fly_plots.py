"""The paper's four plots of a stream: BLEU over time, and BLEU against training, inference and total time."""

from __future__ import annotations

from typing import Any

from nearmt.research.experiments.tables import METRICS, domain_name, value

_TIMES = ("learning_seconds", "inference_seconds", "total_seconds")
_MARKS = "osD^vP*X<>"


def has_streams(report: dict[str, Any]) -> bool:
    """Whether a report is of the experiment on-the-fly."""
    return any("windows" in cell["evaluation"] for cells in report["cells"].values() for cell in cells.values())


def height(report: dict[str, Any]) -> float:
    return 6.0 * len(report["domains"]) + 0.8


def draw_streams(figure: Any, report: dict[str, Any]) -> Any:
    """Draw four panels for each domain; return the panel whose legend names the systems."""
    parts = figure.subfigures(len(report["domains"]), 1, squeeze=False)[:, 0]
    first = None
    for part, domain in zip(parts, report["domains"], strict=True):
        part.suptitle(domain_name(domain))
        panels = part.subplots(2, 2).ravel()
        _over_time(panels[0], report, domain)
        for panel, metric in zip(panels[1:], _TIMES, strict=True):
            _against_time(panel, report, domain, metric)
        for panel in panels:
            panel.spines[["top", "right"]].set_visible(False)
        first = panels[0] if first is None else first
    return first


def _over_time(panel: Any, report: dict[str, Any], domain: str) -> None:
    for number, row in enumerate(report["rows"]):
        cell = report["cells"][domain].get(row["name"])
        windows = cell["evaluation"].get("windows", []) if cell else []
        # Rows without a measurement still appear in the legend.
        ends, scores = [window["end"] for window in windows], [window["bleu"] for window in windows]
        panel.plot(ends, scores, label=row["label"], markersize=4, **_look(number))
    panel.set_xlabel("sentences translated")
    panel.set_ylabel("BLEU of the window")


def _against_time(panel: Any, report: dict[str, Any], domain: str, metric: str) -> None:
    """Draw one point for each system; the lower right corner is best."""
    for number, row in enumerate(report["rows"]):
        bleu, seconds = (value(report, row["name"], domain, name) for name in ("bleu", metric))
        if bleu is not None and seconds is not None:
            panel.plot([bleu], [seconds / 60], linestyle="none", **_look(number))
    panel.set_xlabel("BLEU of the stream")
    panel.set_ylabel(METRICS[metric][0].replace("seconds", "minutes"))
    panel.set_ylim(bottom=0)
    panel.margins(0.1)


def _look(number: int) -> dict[str, Any]:
    return {"color": f"C{number % 10}", "marker": _MARKS[number % len(_MARKS)]}
