"""The definition of an experiment: the systems it measures and the metrics it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from nearmt.methods.networks import NETWORKS

if TYPE_CHECKING:
    from nearmt.contracts import Pair
    from nearmt.research.experiments.artefacts import Artefacts
    from nearmt.research.experiments.cells import Cell
    from nearmt.research.experiments.config import ExperimentConfig
    from nearmt.research.experiments.data import Domain
    from nearmt.translator import Translator

    #: Translates a test set; returns the evaluation for the cell, and the translations.
    Measure = Callable[[Translator, list[Pair], Any], tuple[dict[str, Any], list[str]]]
    #: Writes additional files of a report; returns their names.
    Write = Callable[[Artefacts, "Experiment", list[Cell]], list[str]]


@dataclass(frozen=True)
class Row:
    """A system: method, settings, and which model and datastore it uses."""

    name: str
    label: str
    method: str = "plain"
    #: Fixed settings by public name; the others are tuned, or calibrated from the datastore.
    settings: dict[str, Any] = field(default_factory=dict)
    #: The row whose tuned settings this one uses, if not its own.
    tuned_as: str | None = None
    #: Whether to tune this row if no tuned settings exist.
    tune: bool = True
    fine_tuned: bool = False
    pruned: bool = False
    #: Whether a trained network weighs the neighbours, and whose (`methods.networks`).
    adaptive: bool = False
    network: str = NETWORKS[0]
    batch_size: int | None = None
    search_device: str | None = None
    #: On the fly: sentences translated between two learning steps; None to learn once or never.
    learn_every: int | None = None
    #: Contrast: whether variants of each stored pair are in the memory as well.
    variants: bool = False

    @property
    def tuning_name(self) -> str:
        return self.tuned_as or self.name

    @property
    def tunable(self) -> bool:
        return self.tune and self.method != "plain"


@dataclass(frozen=True)
class Measured:
    """The measurement of a row on a domain."""

    evaluation: dict[str, Any]
    translations: list[str]
    settings: dict[str, Any]
    facts: dict[str, Any]
    #: The test pairs.
    pairs: list[Pair]
    speeds_count: bool


class Procedure(Protocol):
    """How cells are measured, for experiments that do more than translate a test set."""

    def check(self, artefacts: Artefacts, domain: Domain, rows: list[Row]) -> None:
        """Raise an error if a row cannot be measured, before any work is done."""

    def signature(self, artefacts: Artefacts, domain: Domain, row: Row) -> str:
        """Identify everything that a cell's result depends on."""

    def test_digest(self, artefacts: Artefacts, domain: Domain) -> str:
        """Identify the test lines."""

    def measure(self, artefacts: Artefacts, domain: Domain, row: Row) -> Measured: ...

    def tidy(self, artefacts: Artefacts, domain: Domain, row: Row) -> None:
        """Remove files that are no longer needed once the cell is stored."""

    def shown(self, artefacts: Artefacts, cell: Cell) -> Cell:
        """Convert a stored cell to the form that reports show."""


@dataclass(frozen=True)
class Experiment:
    """Rows to measure on every domain."""

    name: str
    title: str
    rows: tuple[Row, ...]
    #: The tables of the report, by field names of `Evaluation`.
    metrics: tuple[str, ...] = ("bleu",)
    #: The row that the others are compared with.
    reference: str | None = None
    #: The folder of the test set, if not the domain's own.
    tested_on: str | None = None
    #: The part of a domain that is translated.
    part: str = "test"
    #: Beam size, if the experiment fixes it.
    beams: int | None = None
    #: Whether to translate only a few lines, evenly spread over the test set.
    sampled: bool = False
    #: Whether a cell of another experiment with the same signature is copied instead of measured.
    reuses_cells: bool = True
    #: Whether `nearmt experiment all` runs it.
    runs_with_all: bool = True
    measure: Measure | None = None
    write: Write | None = None
    procedure: Procedure | None = None

    def among(self, names: Iterable[str]) -> list[Row]:
        """Return the rows with these names, in table order."""
        wanted = set(names)
        return [row for row in self.rows if row.name in wanted]

    def chosen(self, config: ExperimentConfig) -> list[Row]:
        """Return the rows that the options select."""
        from nearmt.errors import ConfigError, did_you_mean

        known = {row.name: row for row in self.rows}
        for name in config.row_names:
            if name not in known:
                raise ConfigError(
                    f"rows: {self.name} has no row '{name}'{did_you_mean(name, known)}; it has {', '.join(known)}"
                )
        rows = [row for row in self.rows if not config.row_names or row.name in config.row_names]
        return [row for row in rows if config.fine_tune != "none" or not row.fine_tuned]
