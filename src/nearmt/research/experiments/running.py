"""Measure every row of an experiment on every domain, unless its result is on disk."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nearmt.contracts import Pair, Progress
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError
from nearmt.research.cache_engine import cache_engine
from nearmt.research.evaluation import evaluate
from nearmt.research.experiments.artefacts import Artefacts
from nearmt.research.experiments.cells import Cell
from nearmt.research.experiments.data import Domain, check_domain_name, find_domains
from nearmt.research.experiments.rows import Experiment, Measured, Row
from nearmt.research.experiments.tables import TIMED
from nearmt.research.machine import describe_commit, describe_machine
from nearmt.translator import Translator

OnCell = Callable[[Cell], None]


@dataclass(frozen=True)
class Task:
    """A cell to measure."""

    experiment: Experiment
    domain: Domain
    row: Row


def tasks_of(artefacts: Artefacts, experiment: Experiment) -> list[Task]:
    """List the cells to measure, domain by domain; raise an error if a file is missing."""
    setup = artefacts.setup
    domains = find_domains(setup.data, setup.config.domain_names, setup.model)
    rows = [row for row in experiment.chosen(setup.config) if not _redundant(row, setup.device)]
    if not rows:
        raise ConfigError(f"{experiment.name}: no row is left to measure; see --rows and --fine-tune")
    for domain in domains:
        check_domain_name(domain.name)
        _check_files(artefacts, experiment, domain, rows)
    return [
        Task(experiment, domain, _with_settings(artefacts, experiment, domain, row))
        for domain in domains
        for row in rows
    ]


def _with_settings(artefacts: Artefacts, experiment: Experiment, domain: Domain, row: Row) -> Row:
    """Give a row that is not tuned here the settings found by an earlier tuning, if there was one."""
    if row.tune or experiment.procedure is not None:
        return row
    return dataclasses.replace(row, settings=artefacts.known_settings(domain, row))


def _redundant(row: Row, device: str) -> bool:
    """With the model on the CPU, rows that search on the CPU equal those that search on the model's device."""
    return row.search_device == "cpu" and device == "cpu"


def _check_files(artefacts: Artefacts, experiment: Experiment, domain: Domain, rows: list[Row]) -> None:
    if experiment.procedure is not None:
        experiment.procedure.check(artefacts, domain, rows)
        return
    general = artefacts.setup.general
    (general if experiment.tested_on else domain).files(experiment.part)
    if any(row.method != "plain" or row.fine_tuned for row in rows):
        domain.files("train")
    tuned = artefacts.setup.config.tune != "none" and any(row.tunable for row in rows)
    if tuned or any(row.fine_tuned or row.adaptive for row in rows):
        domain.files("dev")
    if any(row.adaptive for row in rows):
        general.files("dev")


def run_tasks(artefacts: Artefacts, tasks: list[Task], command: str, on_cell: OnCell | None = None) -> int:
    """Measure the missing cells and return their number.

    Several processes can share an OUT: a cell that another process is measuring is tried again later.
    """
    waiting, postponed, measured = deque(tasks), 0, 0
    while waiting:
        task = waiting.popleft()
        name = f"cells.{task.experiment.name}.{task.domain.name}.{task.row.name}"
        with artefacts.results.lock(name, wait=postponed > len(waiting)) as locked:
            if not locked:
                waiting.append(task)
                postponed += 1
                continue
            postponed = 0
            cell = None if _is_measured(artefacts, task) else _measure(artefacts, task, command)
        if cell is not None:
            measured += 1
            if on_cell:
                on_cell(cell)
    return measured


def _is_measured(artefacts: Artefacts, task: Task) -> bool:
    cell = artefacts.results.cell(task.experiment.name, task.domain.name, task.row.name)
    if cell is None or cell.signature != signature_of(artefacts, task):
        return False
    # Measure again if this run gives valid speeds and the stored cell has none.
    return cell.speeds_count or artefacts.setup.config.side_by_side or not _shows_speed(task.experiment)


def _shows_speed(experiment: Experiment) -> bool:
    return not TIMED.isdisjoint(experiment.metrics)


def signature_of(artefacts: Artefacts, task: Task) -> str:
    """Identify everything that a cell's result depends on, without loading anything."""
    experiment, row = task.experiment, task.row
    if experiment.procedure is not None:
        return experiment.procedure.signature(artefacts, task.domain, row)
    parts = [
        artefacts.setup.row_signature(task.domain, row),
        f"test:{test_digest(artefacts, task)}",
        beam_of(artefacts, experiment).signature(),
        f"batch:{row.batch_size or artefacts.setup.config.batch_size}",
        f"searched on:{row.search_device}" if row.search_device else "",
    ]
    return "|".join(part for part in parts if part)


def beam_of(artefacts: Artefacts, experiment: Experiment) -> BeamConfig:
    beam = artefacts.setup.beam
    return dataclasses.replace(beam, beams=experiment.beams) if experiment.beams else beam


def test_pairs(artefacts: Artefacts, task: Task) -> list[Pair]:
    domain = _test_domain(artefacts, task)
    pairs = domain.pairs(task.experiment.part, artefacts.setup.config.limit)
    if not task.experiment.sampled:
        return pairs
    count = min(artefacts.setup.config.examples, len(pairs))
    return [pairs[number * len(pairs) // count] for number in range(count)]


def test_digest(artefacts: Artefacts, task: Task) -> str:
    config = artefacts.setup.config
    if task.experiment.procedure is not None:
        return task.experiment.procedure.test_digest(artefacts, task.domain)
    sampled = f"-{config.examples}" if task.experiment.sampled else ""
    return _test_domain(artefacts, task).digest(task.experiment.part, config.limit) + sampled


def _test_domain(artefacts: Artefacts, task: Task) -> Domain:
    return artefacts.setup.general if task.experiment.tested_on else task.domain


def _measure(artefacts: Artefacts, task: Task, command: str) -> Cell:
    """Measure a cell and store it, or copy the same measurement from another experiment."""
    signature, procedure = signature_of(artefacts, task), task.experiment.procedure
    if task.experiment.reuses_cells and (copied := _copy_cell(artefacts, task, signature)) is not None:
        return copied
    if procedure is not None:
        found = procedure.measure(artefacts, task.domain, task.row)
    else:
        found = _translate_test_set(artefacts, task)
    cell = _make_cell(artefacts, task, signature, found, command)
    artefacts.results.keep_test(cell.test, found.pairs)
    artefacts.results.keep(cell, found.translations)
    if procedure is not None:
        procedure.tidy(artefacts, task.domain, task.row)
    return cell


def _copy_cell(artefacts: Artefacts, task: Task, signature: str) -> Cell | None:
    """Copy a cell of any experiment with this signature, if it has the speeds that this run would measure."""
    found = artefacts.results.with_signature(signature)
    if found is None or not (found.speeds_count or artefacts.setup.config.side_by_side):
        return None
    cell = dataclasses.replace(found, experiment=task.experiment.name, domain=task.domain.name, row=task.row.name)
    artefacts.results.keep(cell, artefacts.results.translations(found))
    return cell


def _make_cell(artefacts: Artefacts, task: Task, signature: str, found: Measured, command: str) -> Cell:
    setup = artefacts.setup
    return Cell(
        task.experiment.name,
        task.domain.name,
        task.row.name,
        signature=signature,
        test=test_digest(artefacts, task),
        evaluation=setup.public(found.evaluation),
        settings=setup.public(found.settings),
        facts=setup.public(found.facts),
        machine=describe_machine(setup.model),
        speeds_count=found.speeds_count,
        commit=setup.config.commit or describe_commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        cache=cache_engine(task.row.method, found.settings),
    )


def _translate_test_set(artefacts: Artefacts, task: Task) -> Measured:
    pairs = test_pairs(artefacts, task)
    translator, settings, facts = make_system(artefacts, task)
    with artefacts.progress_bar(f"{task.experiment.name} {task.domain.name} {task.row.name}") as progress:
        measure = task.experiment.measure or _scored
        evaluation, texts = measure(translator, pairs, progress)
    return Measured(evaluation, texts, settings, facts, pairs, not artefacts.setup.config.side_by_side)


def make_system(artefacts: Artefacts, task: Task) -> tuple[Translator, dict[str, Any], dict[str, Any]]:
    """Make the translator of a row on a domain; also return its settings and the facts for the report."""
    row, domain = task.row, task.domain
    batch_size = row.batch_size or artefacts.setup.config.batch_size
    model, beam = artefacts.model(domain, row), beam_of(artefacts, task.experiment)
    if row.method == "plain":
        facts = {"fine-tuning": artefacts.finetuned_facts(domain)} if row.fine_tuned else {}
        return Translator(model, None, "plain", None, beam, batch_size), {}, facts
    store = artefacts.store(domain, row)
    settings, facts = artefacts.settings(domain, row)
    translator = Translator(model, store, row.method, settings, beam, batch_size)
    manifest = store.manifest
    memory = {"pairs": manifest.pairs, "entries": manifest.entries, "kept": manifest.kept}
    indexes = [segment.index for segment in manifest.segments]
    calibration = dataclasses.asdict(manifest.calibration)
    return translator, settings, {**facts, "memory": {**memory, "index": indexes, "calibration": calibration}}


def _scored(translator: Translator, pairs: list[Pair], progress: Progress | None) -> tuple[dict[str, Any], list[str]]:
    evaluation, translations = evaluate(translator, pairs, progress)
    return dataclasses.asdict(evaluation), [translation.text for translation in translations]


def wanted_cells(artefacts: Artefacts, experiment: Experiment) -> Iterator[Cell]:
    """Yield all finished cells, in table order."""
    found = artefacts.results.cells(experiment.name)
    order = {row.name: number for number, row in enumerate(experiment.among(cell.row for cell in found))}
    yield from sorted((cell for cell in found if cell.row in order), key=lambda cell: order[cell.row])
