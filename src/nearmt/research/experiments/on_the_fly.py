"""Adaptation on the fly: texts arrive block by block, and what a person made of the last block may be learned.

A share of a domain's stream is at hand; the rest is translated in file order. The references of a block are revealed
when it has been translated, and not before.
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

#: What is measured if nothing else is asked for.
_USUAL = ("base", "fine-tuned", "fine-tuned-2000", "fine-tuned-4000", "knn", "chunk", "paper")
#: Beside the tables of these stand BLEU over time, and the times.
_METRICS = ("bleu", "chrf", "learning_seconds", "inference_seconds", "total_seconds", "tokens_per_second")


@dataclass(frozen=True)
class OnTheFly(Experiment):
    """Its rows are systems with or without a number: `knn-1000` learns after each 1,000 sentences."""

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
        """The rows with these names: as the systems stand, and the more often they learn the later."""
        places = {system.name: place for place, system in enumerate(self.systems)}
        found = {row.name: row for name in names if (row := self.row(name)) is not None}
        return sorted(found.values(), key=lambda row: (places[_split(row.name)[0]], -(row.learn_every or float("inf"))))

    def row(self, name: str, learn_every: int | None = None) -> Row | None:
        """The row of a name; memories without a number of their own learn after each `learn_every` sentences."""
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


def make_on_the_fly(base: Row, fine_tuned: Row, *memories: Row) -> OnTheFly:
    # Nothing is tuned here: a memory has the settings that were found elsewhere, or its store's.
    remembering = [dataclasses.replace(row, tuned_as=row.name, tune=False) for row in memories]
    systems = (base, fine_tuned, *remembering)
    title = "On the fly"
    bare = OnTheFly("on-the-fly", title, (), _METRICS, "base", borrows=False, procedure=Streaming(), systems=systems)
    return dataclasses.replace(bare, rows=tuple(bare.chosen(ExperimentConfig())))


def _split(name: str) -> tuple[str, int | None]:
    """A system's name and the number behind it."""
    found = re.fullmatch(r"(.+?)(?:-([0-9]{1,9}))?", name)
    if found is None:
        return name, None
    return found[1], int(found[2]) if found[2] else None


def _named(system: Row, count: int | None, label: str) -> Row:
    name = f"{system.name}-{count}" if count else system.name
    return dataclasses.replace(system, name=name, label=label, learn_every=count)
