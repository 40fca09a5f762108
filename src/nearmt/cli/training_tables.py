"""How trainings are shown."""

from __future__ import annotations

from collections.abc import Sequence

from nearmt.cli.console import explain_run
from nearmt.research.training.loop import Epoch


def tell_epoch(epoch: Epoch) -> None:
    explain_run(
        f"epoch {epoch.number}: train loss {shown(epoch.train_loss)}, dev loss {shown(epoch.dev_loss)}, "
        f"{epoch.seconds:.1f} s"
    )


def print_epochs(history: Sequence[Epoch], best: int) -> None:
    """The losses of all epochs, the best one marked."""
    rows = [
        (
            f"{epoch.number}{' *' if epoch.number == best else ''}",
            shown(epoch.train_loss),
            shown(epoch.dev_loss),
            f"{epoch.learning_rate:.3g}",
            f"{epoch.seconds:.1f}",
        )
        for epoch in history
    ]
    print_table(("epoch", "train loss", "dev loss", "learning rate", "seconds"), rows)


def shown(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def print_table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    table = Table(box=None)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    SafeConsole().print(table)
