"""Adaptation on the fly: sentences arrive in blocks, and a system may learn a block once it has been translated.

The first part of a domain's stream is known from the start; the rest is translated in file order. The references of
a block are revealed only after its translation.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass

from nearmt.errors import ConfigError, did_you_mean
from nearmt.research.experiments.config import ExperimentConfig
from nearmt.research.experiments.on_the_fly_running import Streaming
from nearmt.research.experiments.rows import Experiment, Row

#: The rows measured by default.
_USUAL = ("base", "fine-tuned", "fine-tuned-2000", "fine-tuned-4000", "knn", "chunk", "paper")
#: Reports add BLEU over time to the tables of these.
_METRICS = ("bleu", "chrf", "learning_seconds", "inference_seconds", "total_seconds", "tokens_per_second")


@dataclass(frozen=True)
class OnTheFly(Experiment):
    """Rows are systems, with an optional number: `knn-1000` learns after every 1,000 sentences."""

    systems: tuple[Row, ...] = ()

    def chosen(self, config: ExperimentConfig) -> list[Row]:
        rows = []
        for name in dict.fromkeys(config.row_names or _USUAL):
            row = self.row(name, config.learn_every)
            if row is None:
                known = [system.name for system in self.systems]
                raise ConfigError(
                    f"rows: {self.name} has no row '{name}'{did_you_mean(name, known)}; it has {', '.join(known)}, "
                    "and each of them with a number of sentences, such as knn-1000"
                )
            rows.append(row)
        rows = self.among(row.name for row in rows)
        return [row for row in rows if config.fine_tune != "none" or not row.fine_tuned]

    def among(self, names: Iterable[str]) -> list[Row]:
        """Return the rows with these names, in the order of the systems; those that learn more often come later."""
        order = {system.name: number for number, system in enumerate(self.systems)}
        found = {row.name: row for name in names if (row := self.row(name)) is not None}
        return sorted(found.values(), key=lambda row: (order[_split(row.name)[0]], -(row.learn_every or float("inf"))))

    def row(self, name: str, learn_every: int | None = None) -> Row | None:
        """Make the row of a name; a datastore without a number learns after every `learn_every` sentences."""
        kind, count = _split(name)
        system = next((system for system in self.systems if system.name == kind), None)
        if system is None or count == 0:
            return None
        if system.method != "plain":
            count = count or learn_every
            if count is None:
                return None
            return _named(system, count, f"{system.label}, every {count:,}")
        if system.fine_tuned:
            return _named(system, count, f"{system.label} every {count:,}" if count else f"{system.label} once")
        return _named(system, count, f"{system.label}, blocks of {count:,}" if count else system.label)


def make_on_the_fly(base: Row, fine_tuned: Row, *retrieving: Row) -> OnTheFly:
    # Nothing is tuned here: settings come from the experiment main, or from the datastore's calibration.
    untuned = [dataclasses.replace(row, tuned_as=row.name, tune=False) for row in retrieving]
    experiment = OnTheFly(
        "on-the-fly",
        "On the fly",
        (),
        _METRICS,
        "base",
        reuses_cells=False,
        procedure=Streaming(),
        systems=(base, fine_tuned, *untuned),
    )
    return dataclasses.replace(experiment, rows=tuple(experiment.chosen(ExperimentConfig())))


def _split(name: str) -> tuple[str, int | None]:
    """Split a row's name into the system's name and its number."""
    found = re.fullmatch(r"(.+?)(?:-([0-9]{1,9}))?", name)
    if found is None:
        return name, None
    return found[1], int(found[2]) if found[2] else None


def _named(system: Row, count: int | None, label: str) -> Row:
    name = f"{system.name}-{count}" if count else system.name
    return dataclasses.replace(system, name=name, label=label, learn_every=count)
