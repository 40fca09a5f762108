"""An experiment as data: which systems are measured, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from nearmt.contracts import Pair
    from nearmt.research.experiments.cells import Cell
    from nearmt.research.experiments.config import ExperimentConfig
    from nearmt.research.experiments.data import Domain
    from nearmt.research.experiments.workshop import Workshop
    from nearmt.translator import Translator

    #: Translates a test set; gives what is kept in the cell, and the translations.
    Measure = Callable[[Translator, list[Pair], Any], tuple[dict[str, Any], list[str]]]
    #: Writes what there is beside the tables; gives the names of its files.
    Write = Callable[[Workshop, "Experiment", list[Cell]], list[str]]


@dataclass(frozen=True)
class Row:
    """A system: a model, a memory, and how they are put together."""

    name: str
    label: str
    method: str = "plain"
    #: By public names; what is not here is tuned, or derived from the store.
    settings: dict[str, Any] = field(default_factory=dict)
    #: The row whose tuned settings are used: the same system under another name, or at another batch size.
    tuned_as: str | None = None
    #: Whether it is tuned where nobody has tuned it yet.
    tune: bool = True
    fine_tuned: bool = False
    pruned: bool = False
    #: The mixture is a trained network's.
    adaptive: bool = False
    batch_size: int | None = None
    search_device: str | None = None
    #: On the fly: so many sentences are translated before they are learned; None where that is done once or never.
    learn_every: int | None = None

    @property
    def tuning_name(self) -> str:
        return self.tuned_as or self.name

    @property
    def tunable(self) -> bool:
        return self.tune and self.method != "plain"


@dataclass(frozen=True)
class Measured:
    """What a row gave on a domain."""

    evaluation: dict[str, Any]
    translations: list[str]
    settings: dict[str, Any]
    facts: dict[str, Any]
    #: The lines that were translated.
    pairs: list[Pair]
    speeds_count: bool


class Procedure(Protocol):
    """How a cell is measured, where that is more than to translate a test set."""

    def check(self, workshop: Workshop, domain: Domain, rows: list[Row]) -> None:
        """Refuse what cannot be measured, before anything is."""

    def signature(self, workshop: Workshop, domain: Domain, row: Row) -> str:
        """Everything that a cell is made from."""

    def test_digest(self, workshop: Workshop, domain: Domain) -> str:
        """Names the lines that are translated."""

    def measure(self, workshop: Workshop, domain: Domain, row: Row) -> Measured: ...

    def tidy(self, workshop: Workshop, domain: Domain, row: Row) -> None:
        """Remove what is not needed once the cell is kept."""

    def shown(self, workshop: Workshop, cell: Cell) -> Cell:
        """A kept cell as reports show it."""


@dataclass(frozen=True)
class Experiment:
    """Rows to be measured on every domain."""

    name: str
    title: str
    rows: tuple[Row, ...]
    #: What tables there are, by names of `Evaluation`.
    metrics: tuple[str, ...] = ("bleu",)
    #: The row that others are compared with.
    reference: str | None = None
    #: The folder that is translated, if it is not the domain's own.
    tested_on: str | None = None
    #: Hypotheses kept, if that is part of the experiment.
    beams: int | None = None
    #: Only a few lines are translated, from all over the test set.
    few: bool = False
    #: Whether a cell of another experiment that is the same in everything may stand in.
    borrows: bool = True
    measure: Measure | None = None
    write: Write | None = None
    procedure: Procedure | None = None

    def among(self, names: Iterable[str]) -> list[Row]:
        """The rows with these names, in the order of the tables."""
        wanted = set(names)
        return [row for row in self.rows if row.name in wanted]

    def chosen(self, config: ExperimentConfig) -> list[Row]:
        """The rows that were asked for."""
        from nearmt.errors import ConfigError, did_you_mean

        known = {row.name: row for row in self.rows}
        for name in config.row_names:
            if name not in known:
                raise ConfigError(
                    f"rows: {self.name} has no row '{name}'{did_you_mean(name, known)}; it has {', '.join(known)}"
                )
        rows = [row for row in self.rows if not config.row_names or row.name in config.row_names]
        return [row for row in rows if config.fine_tune != "none" or not row.fine_tuned]
