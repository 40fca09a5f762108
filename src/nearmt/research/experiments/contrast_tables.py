"""The table of the experiment contrast: groups of asks in rows, systems in columns."""

from __future__ import annotations

from typing import Any

from nearmt.research.experiments.contrast_scoring import DIVISIONS, percent

_HEADINGS = {"kind": "", "length": "length: ", "words": "words that differ: ", "position": "position: "}


def contrast_table(report: dict[str, Any], domain: str) -> str | None:
    """Render right asks in %, and after a slash kept ones; None for other experiments."""
    found = [(row["label"], report["cells"][domain].get(row["name"])) for row in report["rows"]]
    counts = {label: cell["evaluation"]["counts"] for label, cell in found if cell and "counts" in cell["evaluation"]}
    if not counts:
        return None
    lines = [["", "asks", *counts], ["---", *["---:"] * (len(counts) + 1)]]
    for heading, path in _places(list(counts.values())):
        cells = [_at(each, path) for each in counts.values()]
        asks = next(str(cell["asks"]) for cell in cells if cell)
        lines.append([heading, asks, *(_shown(cell) for cell in cells)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _places(counts: list[dict[str, Any]]) -> list[tuple[str, tuple[str, ...]]]:
    """Headings of the table's rows, and where their counts are."""
    found: dict[tuple[str, ...], str] = {("total",): "all"}
    for division in DIVISIONS:
        for each in counts:
            found |= {(division, value): _HEADINGS[division] + value for value in each[division]}
    found["terminology",] = "terminology"
    return [(heading, path) for path, heading in found.items() if any(_at(each, path) for each in counts)]


def _at(counts: dict[str, Any], path: tuple[str, ...]) -> dict[str, int] | None:
    found: dict[str, Any] | None = counts
    for name in path:
        found = found.get(name) if found else None
    return found if found and found["asks"] else None


def _shown(cell: dict[str, int] | None) -> str:
    if cell is None:
        return ""
    right, kept = percent(cell["right"], cell["asks"]), percent(cell.get("kept"), cell.get("alone"))
    return f"{right:.1f}" + ("" if kept is None else f" / {kept:.1f}")
