"""Tables of benchmarks, made from their reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nearmt.research.bench.profile import OTHER, PARTS, UNNAMED
from nearmt.research.cache_engine import TORCH

#: A report mentions other programs if they used more CPUs than this.
_DISTURBED = 0.1
#: The system that others are compared with, and the scores, in tables of catalogues.
PLAIN = "plain"
_SCORES = {"bleu": "BLEU", "chrf": "chrF"}


def speed_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every system, batch size and beam; empty columns are left out."""
    cells = [_speed_cells(cell, report["reference"]) for cell in report["cells"]]
    return _without_empty(cells)


def _speed_cells(cell: dict[str, Any], reference: str) -> dict[str, str]:
    low, high = cell["quartiles"]
    return {
        "system": f"{cell['system']} {cell['precision']}",
        "batch": str(cell["batch_size"]),
        "beam": str(cell["beams"]),
        # Speeds are comparable only between caches on the same engine.
        "cache": TORCH if cell.get("cache") == TORCH else "",
        "tokens/s": f"{cell['tokens_per_second']:.0f}",
        "quartiles": f"{low:.0f}-{high:.0f}",
        f"× {reference.replace(':', ' ')}": _ratio(cell, "to_reference"),
        "× plain": _ratio(cell, "to_plain"),
        "recall@8": _number(cell.get("recall"), ".3f"),
        "BLEU": _number(cell.get("bleu"), ".2f"),
        "exact": _number(cell.get("exact_bleu"), ".2f"),
    }


def share_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and, for nearmt's systems, the share of time of each part in percent."""
    rows = []
    for cell in report["cells"]:
        if "shares" in cell:
            shares = {part: _number(_percent(cell["shares"].get(part)), ".1f") for part in (*PARTS, OTHER, UNNAMED)}
            name = {"system": f"{cell['system']} {cell['precision']}", "batch": str(cell["batch_size"])}
            rows.append({**name, "beam": str(cell["beams"]), **shares})
    return _without_empty(rows)


def building_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every precision."""
    rows = []
    for cell in report["cells"]:
        low, high = cell["ratio_quartiles"]
        rows.append(
            {
                "precision": cell["precision"],
                "forced decoding, tokens/s": f"{cell['forced']:.0f}",
                "building, tokens/s": f"{cell['building']:.0f}",
                "pairs of it, tokens/s": _number(cell.get("pairs"), ".0f"),
                "ratio": f"{cell['ratio']:.2f}",
                "quartiles": f"{low:.2f}-{high:.2f}",
                "ratio of CPU seconds": _number(cell.get("cpu_ratio"), ".2f"),
                "transformers forward, tokens/s": _number(cell.get("transformers"), ".0f"),
            }
        )
    return _without_empty(rows)


def growth_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every size."""
    rows = []
    for cell in report["cells"]:
        steps = {f"{name} step, ms": f"{ms:.1f}" for name, ms in cell["step_milliseconds"].items()}
        rows.append(
            {
                "entries": f"{cell['entries']:,}",
                "keys": cell["keys"],
                "index": cell["index"],
                "probes": str(cell["effort"] or ""),
                "recall@8": f"{cell['recall']:.3f}",
                "search, ms": f"{cell['search_milliseconds']:.2f}",
                **steps,
            }
        )
    return _without_empty(rows)


def startup_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every command, or part of one."""
    rows = []
    for cell in report["cells"]:
        low, high = cell["quartiles"]
        seconds = {"seconds": f"{cell['seconds']:.2f}", "quartiles": f"{low:.2f}-{high:.2f}"}
        rows.append({"what": cell["case"], **seconds, "CPU seconds": f"{cell['cpu_seconds']:.2f}"})
    return _without_empty(rows)


def precision_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every file and precision."""
    rows = []
    for cell in report["cells"]:
        lost = cell["log_likelihood"] / cell["fp32_log_likelihood"] - 1
        rows.append(
            {
                "data": cell["data"],
                "precision": cell["precision"],
                "lines": f"{cell['lines']:,}",
                "BLEU fp32": f"{cell['fp32_bleu']:.2f}",
                "BLEU": f"{cell['bleu']:.2f}",
                "p": f"{cell['p_value']:.3f}",
                "log-likelihood lost, percent": f"{100 * lost:.2f}",
            }
        )
    return _without_empty(rows)


def same_answer_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every system: the number of texts (scores) that differ, by way of translating."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for cell in report["cells"]:
        system = cell["precision"], cell["method"]
        row = rows.setdefault(system, dict(zip(("precision", "method"), system, strict=True)))
        row[cell["way"]] = f"{cell['other_texts']} ({cell['other_scores']}) of {cell['lines']}"
    for system, row in rows.items():
        largest = max(c["largest"] for c in report["cells"] if (c["precision"], c["method"]) == system)
        row["largest difference of scores"] = f"{largest:.1e}"
    return _without_empty(list(rows.values()))


def catalogue_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every size of a memory and every system, with means over the divisions."""
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    alone = {cell["seed"]: cell["bleu"] for cell in report["cells"] if cell["system"] == PLAIN}
    for cell in report["cells"]:
        groups.setdefault((cell["pairs"], cell["system"]), []).append(cell)
    rows = []
    for (pairs, system), cells in groups.items():
        differences = [cell["bleu"] - alone[cell["seed"]] for cell in cells]
        rows.append(
            {
                "system": system,
                "pairs": f"{pairs:,}" if pairs else "",
                "lines": f"{sum(cell['lines'] for cell in cells):,}",
                **{label: f"{_mean(cell[name] for cell in cells):.2f}" for name, label in _SCORES.items()},
                "worst to plain": "" if system == PLAIN else f"{min(differences):+.2f}",
                "loops": str(sum(cell["loops"] for cell in cells)),
                "unknown words": str(sum(cell["unknown_words"] for cell in cells)),
            }
        )
    return _without_empty(rows)


def glossary_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for each of without and with the glossary."""
    return _without_empty(
        [
            {
                "system": cell["system"],
                "terms right": f"{cell['right']:,} of {cell['sentences']:,}",
                "in the form of the original": f"{cell['same_form']:,}" if "same_form" in cell else "",
                "sentences without a term that changed": f"{cell['changed']:,} of {cell['without_terms']:,}",
            }
            for cell in report["cells"]
        ]
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def soak_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for everything that must not grow."""
    rows = []
    for cell in report["cells"]:
        change = cell["last"] / cell["first"] - 1
        rows.append(
            {
                "of the server": cell["name"],
                "after the warm-up": f"{cell['first']:,}",
                "at the end": f"{cell['last']:,}",
                "percent": f"{100 * change:+.1f}",
            }
        )
    return _without_empty(rows)


def soak_request_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every kind of request."""
    return _without_empty(
        [
            {"requests": name, "sent": f"{count:,}", **{f"{at}, ms": f"{ms:.0f}" for at, ms in times.items()}}
            for name, (count, times) in report["requests"].items()
        ]
    )


def spans_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every kind of span."""
    return _without_empty([{"kind": cell["kind"], **_kept(cell)} for cell in report["cells"]])


def catalogues_check_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every check: the units in which it finds something, in all arrangements of tags."""
    checks: dict[str, Counter[str]] = {}
    for cell in report["cells"]:
        sums = checks.setdefault(cell["check"], Counter())
        sums.update({name: cell.get(name, 0) for name in ("units", "tags", "found", "ours")})
    return _without_empty(
        [
            {
                "check": name,
                "units": f"{sums['units']:,}",
                "tags": f"{sums['tags']:,}" if sums["tags"] else "",
                "units with an error": f"{sums['ours']:,}",
                "also in the original": f"{sums['found'] - sums['ours']:,}" if sums["found"] else "",
                "percent without": f"{100 * (1 - sums['ours'] / max(1, sums['units'])):.2f}",
            }
            for name, sums in checks.items()
        ]
    )


def span_ways_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every way of writing spans."""
    rows = []
    for cell in report["cells"]:
        scores = {"BLEU": f"{cell['bleu']:.2f}", "BLEU around": f"{cell['around']:.2f}"}
        rows.append({"way": f"`{cell['way']}`", **_kept(cell), **scores})
    return _without_empty(rows)


def span_cost_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and what looking for spans costs units without any."""
    rows = [
        {
            "units": f"{cell['units']:,}",
            "CPU seconds": f"{cell['seconds']:.2f}",
            "without looking for spans": f"{cell['without_marks']:.2f}",
            "ratio": f"{cell['ratio']:.4f}",
            "range": f"{min(cell['ratios']):.4f}-{max(cell['ratios']):.4f}",
            "looking alone, percent": f"{100 * cell['finding']:.2f}",
        }
        for cell in report["cells"]
    ]
    return _without_empty(rows)


def _kept(cell: dict[str, Any]) -> dict[str, str]:
    shown = {
        "spans": f"{cell['spans']:,}",
        "as often as in the source": f"{cell['kept']:,}",
        "percent": f"{100 * cell['kept'] / max(1, cell['spans']):.1f}",
    }
    if "put_back" in cell:
        shown["put back by alignment"] = f"{cell['put_back']:,}"
    if "sound" in cell:
        shown["sound units"] = f"{cell['sound']:,} of {cell['units']:,}"
    return shown


def milvus_speed_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every method and delay of the network."""
    return _without_empty(
        [
            {
                "method": cell["method"],
                "added to the round trip": f"{cell['delay_milliseconds']:g} ms",
                "searches a sentence": f"{cell['searches_per_sentence']:.1f}",
                "tokens/s, local index": f"{cell['local_tokens_per_second']:.0f}",
                "tokens/s, Milvus": f"{cell['tokens_per_second']:.0f}",
                "ratio": f"{cell['ratio']:.2f} ({min(cell['ratios']):.2f}-{max(cell['ratios']):.2f})",
            }
            for cell in report["cells"]
            if cell["part"] == "speed"
        ]
    )


def milvus_quality_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every store."""
    return _without_empty(
        [
            {
                "store": cell["store"],
                "entries": f"{cell['entries']:,}",
                "index": f"`{cell['index']}`",
                "effort": str(cell["effort"]),
                "recall@8": f"{cell['recall']:.3f}",
                "written and indexed": f"{cell['indexed_seconds']:.0f} s" if "indexed_seconds" in cell else "",
            }
            for cell in report["cells"]
            if cell["part"] == "quality"
        ]
    )


def milvus_memory_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return headings and a row for every store."""
    return _without_empty(
        [
            {
                "entries": f"{cell['entries']:,}",
                "anonymous memory": f"{cell['after_mib']:.0f} MiB",
                "peak": f"{cell['peak_mib']:.0f} MiB",
                "ratio": f"{cell['to_small']:.2f}",
            }
            for cell in report["cells"]
            if cell["part"] == "memory"
        ]
    )


#: For each benchmark, the titles of its tables and the functions that make their rows.
TABLES = {
    "speed": {"Speed": speed_rows, "Share of time by part, in percent": share_rows},
    "building": {"Building": building_rows},
    "growth": {"Growth": growth_rows},
    "startup": {"Start": startup_rows},
    "soak": {"Growth": soak_rows, "Requests": soak_request_rows},
    "precision": {"Precision": precision_rows},
    "spans": {"Protected spans in the translation": spans_rows},
    "catalogues-check": {"What other programs find in catalogues": catalogues_check_rows},
    "span-ways": {"Ways of writing protected spans for the model": span_ways_rows},
    "span-cost": {"Units without protected spans": span_cost_rows},
    "same-answer": {"Texts (scores) that differ from those of batches of 8": same_answer_rows},
    "catalogues": {"Memories of short strings": catalogue_rows},
    "glossary": {"Terms": glossary_rows},
    "milvus": {
        "Speed": milvus_speed_rows,
        "Recall": milvus_quality_rows,
        "Memory of a translator (chunk)": milvus_memory_rows,
    },
}


#: Batch size and beam of the short table of speeds.
_TYPICAL = {"batch_size": 8, "beams": 5}


def markdown(report: dict[str, Any], short: bool = False) -> str:
    """Render the caption and all tables of a report; `short`: only the first table, at typical sizes."""
    parts = [caption(report)]
    if short and (typical := typical_cells(report)):
        report = {**report, "cells": typical}
    for title, rows in TABLES[report["benchmark"]].items():
        found = rows(report)
        if len(found) > 1:
            parts += [f"{title}:", markdown_table(found)]
        if short:
            break
    return "\n\n".join(parts)


def typical_cells(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in report["cells"] if _TYPICAL.items() <= cell.items()]


def caption(report: dict[str, Any]) -> str:
    machine = report["machine"]
    where = machine["cpu"] if machine["device"] == "cpu" else machine["device"]
    others = max((cell.get("others", 0.0) for cell in report["cells"]), default=0.0)
    busy = f"; other programs used up to {others:.1f} CPUs" if others >= _DISTURBED else ""
    entries = f", {report['datastore']['entries']:,} entries" if "datastore" in report else ""
    kernels = ", no kernels" if machine["device"] == "cpu" and not machine.get("kernels", False) else ""
    if machine["device"] != "cpu" and report.get("datastore", {}).get("search_device") == "cpu":
        entries += " searched on the CPU"
    return (
        f"{report['data']}{entries}; {where}, {machine['threads']} threads, torch {machine['torch']}{kernels}; "
        f"{report['date'][:10]}, commit {report['commit']}{busy}"
    )


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])


def _without_empty(rows: list[dict[str, str]]) -> list[list[str]]:
    headings = list(dict.fromkeys(heading for row in rows for heading in row))
    shown = [heading for heading in headings if any(row.get(heading) for row in rows)]
    return [shown, *([row.get(heading, "") for heading in shown] for row in rows)]


def _ratio(cell: dict[str, Any], name: str) -> str:
    if name not in cell:
        return ""
    low, high = cell[f"{name}_quartiles"]
    return f"{cell[name]:.2f} ({low:.2f}-{high:.2f})"


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
