"""Interactive review: each unit is shown with its translation, confirmed or corrected, and learnt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TextIO

from rich.text import Text

from nearmt.cli.explain import print_explanation
from nearmt.cli.safe_console import SafeConsole
from nearmt.corpus import FillingOrigin, Unit, clean, plain_text
from nearmt.documents import FilledUnit
from nearmt.errors import InputError
from nearmt.stream import ConfirmedFile, Session

_PROMPT = "Enter accepts, e edits, s skips, u takes the last one back, q quits: "


class _Choice(Enum):
    """The answers, by the letter that is typed."""

    ACCEPT = ""
    EDIT = "e"
    SKIP = "s"
    UNDO = "u"
    QUIT = "q"


class Review:
    """Goes through the units of a file with a session that learns."""

    def __init__(
        self,
        session: Session,
        units: Sequence[Unit],
        confirmed: ConfirmedFile | None,
        *,
        everything: bool,
        explain: bool,
        out: TextIO,
    ) -> None:
        self._session, self._units, self._confirmed = session, units, confirmed
        self._everything, self._explain, self._out = everything, explain, out
        self._console = SafeConsole(file=out, soft_wrap=True)
        #: Index of the current unit.
        self._current = 0
        #: Units that were skipped by the user, and because the memory has them.
        self._skipped: set[int] = set()
        self._known: set[int] = set()
        #: Units that were confirmed, in order: the last one can be undone.
        self._confirmed_units: list[int] = []

    def run(self, ask: bool) -> None:
        """Review the units that the memory does not have; without asking, confirm the file's translations."""
        undone = False
        while self._current < len(self._units):
            unit = self._units[self._current]
            if not (self._everything or undone) and self._session.known(plain_text(unit.source)):
                self._known.add(self._current)
                self._current += 1
                continue
            filled = self._session.suggest(unit, explain=self._explain)
            self._show(unit, filled)
            choice = self._ask(unit, filled) if ask else self._confirm(unit, unit.target)
            if choice is _Choice.QUIT:
                return
            undone = choice is _Choice.UNDO
            if not undone:
                self._current += 1

    def _ask(self, unit: Unit, filled: FilledUnit) -> _Choice:
        """Ask until there is a valid answer, and carry it out."""
        while True:
            choice = _read_choice()
            if choice is _Choice.SKIP:
                self._skipped.add(self._current)
            elif choice is _Choice.UNDO and not self._undo():
                continue
            elif choice in (_Choice.ACCEPT, _Choice.EDIT):
                target = filled.translation.text if choice is _Choice.ACCEPT else _edit(filled.translation.text)
                if target is None:
                    return _Choice.QUIT
                try:
                    return self._confirm(unit, target)
                except InputError as error:
                    self._console.print(Text(f"{error}; nothing was learnt"))
                    continue
            if choice is not None:
                return choice

    def _confirm(self, unit: Unit, target: str) -> _Choice:
        metadata = {"context": unit.context} if unit.context else None
        pair = self._session.confirm(plain_text(unit.source), target, metadata=metadata)
        if self._confirmed is not None:
            self._confirmed.write(pair)
        self._confirmed_units.append(self._current)
        self._console.print(Text("learnt  ", style="dim"), Text(pair.target), sep="")
        self._console.print(Text(f"{self._session.statistics}\n", style="dim"))
        return _Choice.ACCEPT

    def _undo(self) -> bool:
        """Undo the last confirmation and return to its unit; False if there is none."""
        pair = self._session.undo() if self._confirmed_units else None
        if pair is None:
            self._console.print(Text("nothing to take back", style="dim"))
            return False
        if self._confirmed is not None:
            self._confirmed.undo()
        self._current = self._confirmed_units.pop()
        self._console.print(Text("took back  ", style="dim"), Text(f"{pair.target}\n"), sep="")
        return True

    def _show(self, unit: Unit, filled: FilledUnit) -> None:
        origin = " · word for word in the memory" if filled.filling.origin is FillingOrigin.MEMORY else ""
        where = f"{self._current + 1}/{len(self._units)} · line {unit.line}{origin}"
        self._console.print(Text(where, style="dim"))
        shown = replace(filled.translation, source=clean(filled.translation.source))
        print_explanation(self._out, shown, filled.filling.matches)
        for warning in filled.warnings:
            self._console.print(Text(warning, style="yellow"))

    def summarise(self, interrupted: bool) -> None:
        """Print what was done and what is left."""
        counts = [f"{len(self._skipped)} skipped"] if self._skipped else []
        counts += [f"{len(self._known)} passed over that the memory has"] if self._known else []
        start = "\n" if interrupted else ""
        self._console.print(Text(start + "; ".join([str(self._session.statistics), *counts])))
        left = len(self._units) - self._current
        if left:
            why = "interrupted; " if interrupted else ""
            self._console.print(Text(f"{why}{left} of {len(self._units)} units left: the same command continues there"))


def _read_choice() -> _Choice | None:
    """The answer; None for an invalid one, QUIT at the end of the input."""
    answer = _read_line(_PROMPT)
    if answer is None:
        return _Choice.QUIT
    try:
        return _Choice(answer.strip().lower())
    except ValueError:
        return None


def _edit(text: str) -> str | None:
    """The edited text on a terminal with readline; elsewhere the line that is typed replaces it."""
    if not sys.stdin.isatty():
        return _read_line("> ")
    try:
        import readline
    except ImportError:
        return _read_line("> ")
    readline.set_startup_hook(lambda: readline.insert_text(clean(text)))
    try:
        return _read_line("> ")
    finally:
        readline.set_startup_hook(None)


def _read_line(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        sys.stdout.write("\n")
        return None
    except UnicodeDecodeError as error:
        raise InputError("standard input is not UTF-8") from error
