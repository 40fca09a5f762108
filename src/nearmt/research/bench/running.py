"""A benchmark of speed from beginning to end."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nearmt import __version__
from nearmt.contracts import Pair, Progress
from nearmt.errors import InputError
from nearmt.research.bench.config import RETRIEVING
from nearmt.research.bench.measuring import (
    Measured,
    blocks_of,
    quartiles,
    ratios,
    sample,
    sorted_by_length,
    stretch,
    take_turns,
)
from nearmt.research.bench.profile import profile, shares
from nearmt.research.bench.quality import bleu, queries_of, recall
from nearmt.research.bench.runners import Cell, OwnRunner, Runner
from nearmt.research.bench.workbench import EXACT, Workbench, threads_set
from nearmt.research.experiments.machine import describe_commit, describe_machine

#: Shows what is being worked on.
Working = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass
class Bench:
    """Systems, sentences, and what has been found so far."""

    workbench: Workbench
    #: The longest source first.
    pairs: list[Pair]
    data: str
    working: Working
    cells: list[dict[str, Any]] = field(default_factory=list)
    not_run: list[dict[str, Any]] = field(default_factory=list)
    #: BLEU with exact search, by system, precision and beams.
    _exact: dict[tuple[str, str, int], float] = field(default_factory=dict)

    @classmethod
    def of(cls, workbench: Workbench, pairs: Iterable[Pair], data: str, working: Working) -> Bench:
        """Sentences that are too long for the model are left out: programs part them in ways of their own.

        Where a limit is set, those that stay stand together in stretches of whole batches.
        """
        model = workbench.model("fp32")
        positions = model.seq2seq.positions
        kept = [pair for pair in pairs if len(model.codec.source_ids(pair.source)) <= positions]
        if not kept:
            raise InputError(f"{data}: has no pairs that fit the model: nothing to measure")
        order = sorted_by_length([pair.source for pair in kept], model.codec)
        sizes = workbench.config.sizes(on_gpu=workbench.device.type == "cuda")
        together = max(stretch(size) for size in sizes)
        chosen = sample(len(order), workbench.config.limit or len(order), together)
        return cls(workbench, [kept[order[place]] for place in chosen], data, working)

    @property
    def sources(self) -> list[str]:
        return [pair.source for pair in self.pairs]

    def run(self) -> Iterator[dict[str, Any]]:
        """The report as it grows, for every batch size and number of beams: speeds, then the rest."""
        for batch_size, beams, cells in self.workbench.cells():
            runners = self._load(cells)
            with self.working(f"batch {batch_size}, beam {beams}") as progress:
                measured = self._take_turns(runners, batch_size, progress)
            rows = self._described(measured)
            self.cells += rows
            yield self.report()  # what follows takes long, too
            with self.working(f"batch {batch_size}, beam {beams}: quality and profile"):
                for row, each in zip(rows, measured, strict=True):
                    row.update(self._quality(each) if self.workbench.config.quality else {})
                    row.update(self._profile(runners[each.cell]) if self.workbench.config.profile else {})
            yield self.report()

    def _load(self, cells: Sequence[Cell]) -> dict[Cell, Runner]:
        runners = {}
        for cell in cells:
            with self.working(f"loading {cell.name}"):
                try:
                    runners[cell] = self.workbench.runner(cell)
                except Exception as error:  # whatever it is, the others can run
                    self._cannot(cell, error)
        return runners

    def _take_turns(self, runners: dict[Cell, Runner], batch_size: int, progress: Progress | None) -> list[Measured]:
        repeats, done = self.workbench.config.repeats, 0
        blocks = blocks_of(self.sources, batch_size, self.workbench.batches)
        turns = len(runners) * len(blocks) * repeats

        def tick() -> None:
            nonlocal done
            done += 1
            if progress:
                progress(done, turns)

        return take_turns(runners, blocks, repeats, self._cannot, tick)

    def _cannot(self, cell: Cell, error: Exception) -> None:
        reason = " ".join(str(error).split()) or type(error).__name__
        self.not_run.append({**vars(cell), "reason": reason})

    def _described(self, found: Sequence[Measured]) -> list[dict[str, Any]]:
        """A row for each system, beside the reference and beside nearmt's plain of the same precision."""
        by_name = {(each.cell.system, each.cell.precision): each for each in found}
        reference = by_name.get(self.workbench.config.parsed_reference())
        rows = []
        for each in found:
            row = _timed(each)
            row |= _beside("reference", each, reference)
            if each.cell.system in RETRIEVING:
                row |= _beside("plain", each, by_name.get(("plain", each.cell.precision)))
            row["bleu"] = bleu([output.text for output in each.outputs], [pair.target for pair in self.pairs])
            rows.append({**row, "signature": each.signature})
        return rows

    def _quality(self, measured: Measured) -> dict[str, Any]:
        """Recall of the index on the states of these translations, and BLEU with exact search."""
        cell = measured.cell
        if cell.system not in RETRIEVING:
            return {}
        store, exact = self.workbench.store(self.workbench.config.nominate), self.workbench.store(EXACT)
        texts = [output.text for output in measured.outputs]
        hidden_QH = queries_of(self.workbench.model(cell.precision), self.sources, texts)
        key = cell.system, cell.precision, cell.beams
        if key not in self._exact:
            found = self.workbench.translator(cell, EXACT).translate(self.sources)
            self._exact[key] = bleu([translation.text for translation in found], [pair.target for pair in self.pairs])
        return {"recall": recall(store, exact, hidden_QH), "exact_bleu": self._exact[key]}

    def _profile(self, runner: Runner) -> dict[str, Any]:
        if not isinstance(runner, OwnRunner):
            return {}
        # Side by side, parts would take more time together than there is.
        with threads_set(1):
            return {"shares": shares(profile(runner.translator, self.sources))}

    def report(self) -> dict[str, Any]:
        """Everything but the sentences."""
        bench, config = self.workbench, self.workbench.config
        machine = describe_machine(bench.model_config)
        del machine["precision"]  # each row has its own
        found: dict[str, Any] = {
            "benchmark": "speed",
            "nearmt": __version__,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": describe_commit(),
            "machine": machine,
            "data": self.data,
            "sentences": len(self.pairs),
            "repeats": config.repeats,
            "reference": config.reference,
        }
        if config.datastore is not None:
            store = bench.store(config.nominate)
            found["datastore"] = {
                "identity": store.snapshot().identity,
                "entries": len(store),
                "search": config.nominate,
                "search_device": str(store.device.type),
                "index": [record.index.get("factory", "exact") for record in store.manifest.segments],
            }
        return {**found, "cells": self.cells, "not_run": self.not_run}


def _timed(measured: Measured) -> dict[str, Any]:
    return {
        **vars(measured.cell),
        "tokens_per_second": round(measured.speed, 1),
        "quartiles": _rounded(measured.speed_quartiles, 1),
        "tokens": measured.tokens,
        "seconds": [round(sum(blocks), 3) for blocks in measured.seconds],
        "others": round(measured.others_share, 3),
        "searches_per_sentence": round(sum(output.searches for output in measured.outputs) / len(measured.outputs), 2),
    }


def _beside(name: str, measured: Measured, other: Measured | None) -> dict[str, Any]:
    """How many times as fast as another system of the same run, and how often both say the same."""
    if other is None:
        return {}
    found = ratios(measured, other)
    same = sum(mine.text == its.text for mine, its in zip(measured.outputs, other.outputs, strict=True))
    return {
        f"to_{name}": round(statistics.median(found), 3),
        f"to_{name}_quartiles": _rounded(quartiles(found), 3),
        **({"same_as_reference": round(same / len(measured.outputs), 3)} if name == "reference" else {}),
    }


def _rounded(values: Iterable[float], digits: int) -> list[float]:
    return [round(value, digits) for value in values]
