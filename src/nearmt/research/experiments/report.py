"""What an experiment found, from its cells alone: JSON, Markdown tables, a plot."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import open_file
from nearmt.datastore.disk.files import write_json
from nearmt.errors import InputError, MissingPackageError
from nearmt.research.evaluation import compare, find_comet
from nearmt.research.experiments.cells import Cell, Shelf
from nearmt.research.experiments.data import PAPER_ORDER
from nearmt.research.experiments.plots import plot
from nearmt.research.experiments.rows import Experiment
from nearmt.research.experiments.running import wanted_cells
from nearmt.research.experiments.tables import markdown
from nearmt.research.experiments.workshop import Workshop


@dataclasses.dataclass(frozen=True)
class Written:
    """The files of a report, and what could not be written."""

    report: dict[str, Any]
    files: list[str]
    notes: list[str]


def write_report(workshop: Workshop, experiment: Experiment) -> Written:
    """Put all finished cells together, whichever process made them."""
    cells = list(wanted_cells(workshop, experiment))
    out, name = workshop.setup.out, experiment.name
    if not cells:
        raise InputError(f"{out}: has nothing of the experiment {name} yet; run it without --report")
    cells = _with_comet(workshop, experiment, cells)
    if experiment.procedure is not None:
        cells = [experiment.procedure.shown(workshop, cell) for cell in cells]
    report = make_report(workshop.shelf, experiment, cells)
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
        files += experiment.write(workshop, experiment, cells)
    return Written(report, files, notes)


def make_report(shelf: Shelf, experiment: Experiment, cells: Sequence[Cell]) -> dict[str, Any]:
    """Everything but the sentences."""
    domains = sorted({cell.domain for cell in cells}, key=_paper_order)
    measured = {cell.row for cell in cells}
    runs: list[dict[str, Any]] = []
    shown: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    for cell in cells:
        shown[cell.domain][cell.row] = _shown(shelf, experiment, cells, cell, runs)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "date": max(cell.date for cell in cells),
        "reference": experiment.reference,
        "tested_on": experiment.tested_on,
        "metrics": list(experiment.metrics),
        "rows": [{"name": row.name, "label": row.label} for row in experiment.among(measured)],
        "domains": domains,
        #: Who measured: each cell says which of these.
        "runs": runs,
        "cells": shown,
    }


def _shown(
    shelf: Shelf, experiment: Experiment, cells: Sequence[Cell], cell: Cell, runs: list[dict[str, Any]]
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
        "dev_score": cell.facts.get("tuning", {}).get("score"),
        "facts": cell.facts,
        "comparison": _comparison(shelf, experiment, cells, cell),
    }


def _comparison(shelf: Shelf, experiment: Experiment, cells: Sequence[Cell], cell: Cell) -> dict[str, Any] | None:
    """Against the reference row on the same lines, by paired bootstrap resampling."""
    if experiment.reference in (None, cell.row) or "bleu" not in cell.evaluation:
        return None
    place = (cell.domain, experiment.reference, cell.test)
    other = next((found for found in cells if (found.domain, found.row, found.test) == place), None)
    if other is None:
        return None
    references = shelf.test_lines(cell.test, "reference")
    found = compare(shelf.translations(other), shelf.translations(cell), references)
    return {"with": other.row, **dataclasses.asdict(found)}


def _with_comet(workshop: Workshop, experiment: Experiment, cells: list[Cell]) -> list[Cell]:
    """Cells that have no score of COMET get one, if its program was named; all of a test set in one run."""
    if workshop.setup.config.comet is None or "comet" not in experiment.metrics:
        return cells
    comet, shelf = find_comet(workshop.setup.config.comet), workshop.shelf
    missing = [cell for cell in cells if cell.evaluation.get("comet_model") != comet.model]
    scored: dict[tuple[str, str], Cell] = {}
    for test in dict.fromkeys(cell.test for cell in missing):
        of_test = [cell for cell in missing if cell.test == test]
        lines = [shelf.test_lines(test, side) for side in ("source", "reference")]
        with workshop.working(f"COMET: {of_test[0].domain}"):
            scores = comet.scores(lines[0], lines[1], [shelf.translations(cell) for cell in of_test])
        for cell, score in zip(of_test, scores, strict=True):
            evaluation = {**cell.evaluation, "comet": round(score, 4), "comet_model": comet.model}
            scored[cell.domain, cell.row] = dataclasses.replace(cell, evaluation=evaluation)
            shelf.keep(scored[cell.domain, cell.row], shelf.translations(cell))
    return [scored.get((cell.domain, cell.row), cell) for cell in cells]


def _paper_order(domain: str) -> tuple[int, str]:
    return (PAPER_ORDER.index(domain) if domain in PAPER_ORDER else len(PAPER_ORDER)), domain
