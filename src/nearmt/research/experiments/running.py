"""Measure every row of an experiment on every domain, once; what is there already is kept."""

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
from nearmt.research.evaluation import evaluate
from nearmt.research.experiments.cells import Cell
from nearmt.research.experiments.data import Domain, check_domain_name, find_domains
from nearmt.research.experiments.machine import describe_commit, describe_machine
from nearmt.research.experiments.rows import Experiment, Measured, Row
from nearmt.research.experiments.tables import TIMED
from nearmt.research.experiments.workshop import Workshop
from nearmt.translator import Translator

OnCell = Callable[[Cell], None]


@dataclass(frozen=True)
class Task:
    """A cell that is wanted."""

    experiment: Experiment
    domain: Domain
    row: Row


def tasks_of(workshop: Workshop, experiment: Experiment) -> list[Task]:
    """What is wanted, domain by domain; files that are missing are named before anything is done."""
    setup = workshop.setup
    domains = find_domains(setup.data, setup.config.domain_names, setup.model)
    rows = [row for row in experiment.chosen(setup.config) if not _needless(row, setup.device)]
    if not rows:
        raise ConfigError(f"{experiment.name}: no row is left to be measured; see --rows and --fine-tune")
    for domain in domains:
        check_domain_name(domain.name)
        _check_files(workshop, experiment, domain, rows)
    return [Task(experiment, domain, _given(workshop, experiment, domain, row)) for domain in domains for row in rows]


def _given(workshop: Workshop, experiment: Experiment, domain: Domain, row: Row) -> Row:
    """A row that is not tuned here has the settings that it was tuned to elsewhere, if it was."""
    if row.tune or experiment.procedure is not None:
        return row
    return dataclasses.replace(row, settings=workshop.known_settings(domain, row))


def _needless(row: Row, device: str) -> bool:
    """Where the model runs on the CPU, searching there and searching beside the model are one."""
    return row.search_device == "cpu" and device == "cpu"


def _check_files(workshop: Workshop, experiment: Experiment, domain: Domain, rows: list[Row]) -> None:
    if experiment.procedure is not None:
        experiment.procedure.check(workshop, domain, rows)
        return
    general = workshop.setup.general
    (general if experiment.tested_on else domain).files("test")
    if any(row.method != "plain" or row.fine_tuned for row in rows):
        domain.files("train")
    tuned = workshop.setup.config.tune != "none" and any(row.tunable for row in rows)
    if tuned or any(row.fine_tuned or row.adaptive for row in rows):
        domain.files("dev")
    if any(row.adaptive for row in rows):
        general.files("dev")


def run_tasks(workshop: Workshop, tasks: list[Task], command: str, on_cell: OnCell | None = None) -> int:
    """Measure what is missing and return how many cells that were.

    Several processes can work on the same OUT: what another one is at is put off, and found done later.
    """
    waiting, put_off, measured = deque(tasks), 0, 0
    while waiting:
        task = waiting.popleft()
        name = f"cells.{task.experiment.name}.{task.domain.name}.{task.row.name}"
        with workshop.shelf.lock(name, wait=put_off > len(waiting)) as mine:
            if not mine:
                waiting.append(task)
                put_off += 1
                continue
            put_off = 0
            cell = None if _known(workshop, task) else _measured(workshop, task, command)
        if cell is not None:
            measured += 1
            if on_cell:
                on_cell(cell)
    return measured


def _known(workshop: Workshop, task: Task) -> bool:
    cell = workshop.shelf.cell(task.experiment.name, task.domain.name, task.row.name)
    if cell is None or cell.signature != signature_of(workshop, task):
        return False
    # A speed that counts is worth measuring again; one that does not, is not.
    return cell.speeds_count or workshop.setup.config.side_by_side or not _shows_speed(task.experiment)


def _shows_speed(experiment: Experiment) -> bool:
    return not TIMED.isdisjoint(experiment.metrics)


def signature_of(workshop: Workshop, task: Task) -> str:
    """Everything that a cell is made from, known before anything is loaded."""
    experiment, row = task.experiment, task.row
    if experiment.procedure is not None:
        return experiment.procedure.signature(workshop, task.domain, row)
    parts = [
        workshop.setup.row_signature(task.domain, row),
        f"test:{test_digest(workshop, task)}",
        search_of(workshop, experiment).signature(),
        f"batch:{row.batch_size or workshop.setup.config.batch_size}",
        f"searched on:{row.search_device}" if row.search_device else "",
    ]
    return "|".join(part for part in parts if part)


def search_of(workshop: Workshop, experiment: Experiment) -> BeamConfig:
    search = workshop.setup.search
    return dataclasses.replace(search, beams=experiment.beams) if experiment.beams else search


def test_pairs(workshop: Workshop, task: Task) -> list[Pair]:
    domain = _test_domain(workshop, task)
    pairs = domain.pairs("test", workshop.setup.config.limit)
    if not task.experiment.few:
        return pairs
    count = min(workshop.setup.config.examples, len(pairs))
    return [pairs[place * len(pairs) // count] for place in range(count)]


def test_digest(workshop: Workshop, task: Task) -> str:
    config = workshop.setup.config
    if task.experiment.procedure is not None:
        return task.experiment.procedure.test_digest(workshop, task.domain)
    few = f"-{config.examples}" if task.experiment.few else ""
    return _test_domain(workshop, task).digest("test", config.limit) + few


def _test_domain(workshop: Workshop, task: Task) -> Domain:
    return workshop.setup.general if task.experiment.tested_on else task.domain


def _measured(workshop: Workshop, task: Task, command: str) -> Cell:
    signature = signature_of(workshop, task)
    config, place = workshop.setup.config, (task.experiment.name, task.domain.name, task.row.name)
    twin = workshop.shelf.twin(signature) if task.experiment.borrows else None
    if twin is not None and (twin.speeds_count or config.side_by_side):
        cell = dataclasses.replace(twin, experiment=place[0], domain=place[1], row=place[2])
        workshop.shelf.keep(cell, workshop.shelf.translations(twin))
        return cell
    if task.experiment.procedure is not None:
        found = task.experiment.procedure.measure(workshop, task.domain, task.row)
    else:
        found = _tested(workshop, task)
    cell = Cell(
        *place,
        signature=signature,
        test=test_digest(workshop, task),
        evaluation=workshop.setup.public(found.evaluation),
        settings=workshop.setup.public(found.settings),
        facts=workshop.setup.public(found.facts),
        machine=describe_machine(workshop.setup.model),
        speeds_count=found.speeds_count,
        commit=config.commit or describe_commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
    )
    workshop.shelf.keep_test(cell.test, found.pairs)
    workshop.shelf.keep(cell, found.translations)
    if task.experiment.procedure is not None:
        task.experiment.procedure.tidy(workshop, task.domain, task.row)
    return cell


def _tested(workshop: Workshop, task: Task) -> Measured:
    """Translate the test set."""
    pairs = test_pairs(workshop, task)
    translator, settings, facts = make_system(workshop, task)
    with workshop.working(f"{task.experiment.name} {task.domain.name} {task.row.name}") as progress:
        measure = task.experiment.measure or _scored
        evaluation, texts = measure(translator, pairs, progress)
    return Measured(evaluation, texts, settings, facts, pairs, not workshop.setup.config.side_by_side)


def make_system(workshop: Workshop, task: Task) -> tuple[Translator, dict[str, Any], dict[str, Any]]:
    """The translator of a row on a domain, its settings, and how they came about."""
    row, domain = task.row, task.domain
    batch_size = row.batch_size or workshop.setup.config.batch_size
    model, search = workshop.model(domain, row), search_of(workshop, task.experiment)
    if row.method == "plain":
        facts = {"fine-tuning": workshop.finetuned_facts(domain)} if row.fine_tuned else {}
        return Translator(model, None, "plain", None, search, batch_size), {}, facts
    store = workshop.store(domain, row)
    settings, facts = workshop.settings(domain, row)
    translator = Translator(model, store, row.method, settings, search, batch_size)
    manifest = store.manifest
    memory = {"pairs": manifest.pairs, "entries": manifest.entries, "kept": manifest.kept}
    indexes = [segment.index for segment in manifest.segments]
    calibration = dataclasses.asdict(manifest.calibration)
    return translator, settings, {**facts, "memory": {**memory, "index": indexes, "calibration": calibration}}


def _scored(translator: Translator, pairs: list[Pair], progress: Progress | None) -> tuple[dict[str, Any], list[str]]:
    evaluation, translations = evaluate(translator, pairs, progress)
    return dataclasses.asdict(evaluation), [translation.text for translation in translations]


def wanted_cells(workshop: Workshop, experiment: Experiment) -> Iterator[Cell]:
    """All finished cells, in the order of the tables."""
    found = workshop.shelf.cells(experiment.name)
    places = {row.name: number for number, row in enumerate(experiment.among(cell.row for cell in found))}
    cells = [cell for cell in found if cell.row in places]
    yield from sorted(cells, key=lambda cell: places[cell.row])
