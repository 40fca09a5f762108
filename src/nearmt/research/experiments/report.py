"""The report of an experiment, written from its cells alone: JSON, Markdown tables, a plot."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import open_file
from nearmt.datastore.disk.files import write_json
from nearmt.errors import InputError, MissingPackageError
from nearmt.research.evaluation import compare, find_comet
from nearmt.research.experiments.artefacts import Artefacts
from nearmt.research.experiments.cells import Cell, ResultFiles
from nearmt.research.experiments.data import paper_order
from nearmt.research.experiments.plots import plot
from nearmt.research.experiments.rows import Experiment
from nearmt.research.experiments.running import wanted_cells
from nearmt.research.experiments.tables import markdown


@dataclasses.dataclass(frozen=True)
class WrittenReport:
    """A report, the files written, and messages about files that could not be written."""

    report: dict[str, Any]
    files: list[str]
    notes: list[str]


def write_report(artefacts: Artefacts, experiment: Experiment) -> WrittenReport:
    """Write the report of all finished cells, from every process."""
    cells = list(wanted_cells(artefacts, experiment))
    out, name = artefacts.setup.out, experiment.name
    if not cells:
        raise InputError(f"{out}: has no results of the experiment {name}; run it without --report")
    cells = _with_comet(artefacts, experiment, cells)
    if experiment.procedure is not None:
        cells = [experiment.procedure.shown(artefacts, cell) for cell in cells]
    report = make_report(artefacts.results, experiment, cells)
    write_json(out / f"{name}.json", report)
    with open_file(out / f"{name}.md", Encoding()) as file:
        file.write(markdown(report) + "\n")
    files, notes = [f"{name}.json", f"{name}.md"], []
    try:
        if plot(report, out / f"{name}.svg"):
            files.append(f"{name}.svg")
    except MissingPackageError as error:
        notes.append(str(error))
    if experiment.write is not None:
        files += experiment.write(artefacts, experiment, cells)
    return WrittenReport(report, files, notes)


def make_report(results: ResultFiles, experiment: Experiment, cells: Sequence[Cell]) -> dict[str, Any]:
    """Collect all results except the translations."""
    domains = sorted({cell.domain for cell in cells}, key=paper_order)
    measured = {cell.row for cell in cells}
    runs: list[dict[str, Any]] = []
    shown: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    for cell in cells:
        shown[cell.domain][cell.row] = _shown(results, experiment, cells, cell, runs)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "date": max(cell.date for cell in cells),
        "reference": experiment.reference,
        "tested_on": experiment.tested_on,
        "metrics": list(experiment.metrics),
        "rows": [{"name": row.name, "label": row.label} for row in experiment.among(measured)],
        "domains": domains,
        #: Command, commit and machine of each run; cells refer to them by number.
        "runs": runs,
        "cells": shown,
    }


def _shown(
    results: ResultFiles, experiment: Experiment, cells: Sequence[Cell], cell: Cell, runs: list[dict[str, Any]]
) -> dict[str, Any]:
    run = {name: getattr(cell, name) for name in ("command", "commit", "machine", "speeds_count")}
    if run not in runs:
        runs.append(run)
    return {
        "run": runs.index(run),
        "date": cell.date,
        "test": cell.test,
        "evaluation": cell.evaluation,
        "settings": cell.settings,
        "cache": cell.cache,
        "dev_score": cell.facts.get("tuning", {}).get("score"),
        "facts": cell.facts,
        "comparison": _comparison(results, experiment, cells, cell),
    }


def _comparison(
    results: ResultFiles, experiment: Experiment, cells: Sequence[Cell], cell: Cell
) -> dict[str, Any] | None:
    """Compare a cell with the reference row on the same test lines, by paired bootstrap resampling."""
    if experiment.reference in (None, cell.row) or "bleu" not in cell.evaluation:
        return None
    key = (cell.domain, experiment.reference, cell.test)
    other = next((found for found in cells if (found.domain, found.row, found.test) == key), None)
    if other is None:
        return None
    references = results.test_lines(cell.test, "reference")
    found = compare(results.translations(other), results.translations(cell), references)
    return {"with": other.row, **dataclasses.asdict(found)}


def _with_comet(artefacts: Artefacts, experiment: Experiment, cells: list[Cell]) -> list[Cell]:
    """Add missing COMET scores if its program is configured, with one run for each test set."""
    if artefacts.setup.config.comet is None or "comet" not in experiment.metrics:
        return cells
    comet, results = find_comet(artefacts.setup.config.comet), artefacts.results
    missing = [cell for cell in cells if cell.evaluation.get("comet_model") != comet.model]
    scored: dict[tuple[str, str], Cell] = {}
    for test in dict.fromkeys(cell.test for cell in missing):
        of_test = [cell for cell in missing if cell.test == test]
        lines = [results.test_lines(test, side) for side in ("source", "reference")]
        with artefacts.progress_bar(f"COMET: {of_test[0].domain}"):
            scores = comet.scores(lines[0], lines[1], [results.translations(cell) for cell in of_test])
        for cell, score in zip(of_test, scores, strict=True):
            evaluation = {**cell.evaluation, "comet": round(score, 4), "comet_model": comet.model}
            scored[cell.domain, cell.row] = dataclasses.replace(cell, evaluation=evaluation)
            results.keep(scored[cell.domain, cell.row], results.translations(cell))
    return [scored.get((cell.domain, cell.row), cell) for cell in cells]
