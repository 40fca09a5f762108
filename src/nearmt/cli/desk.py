"""Where a person works through units: each is shown, asked about and learnt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TextIO

from rich.text import Text

from nearmt.cli.explain import print_explanation
from nearmt.cli.screen import Screen
from nearmt.corpus import FillingOrigin, Unit, clean, plain_text
from nearmt.documents import FilledUnit
from nearmt.errors import InputError
from nearmt.stream import ConfirmedFile, Session

_PROMPT = "Enter accepts, e edits, s skips, u takes the last one back, q quits: "


class _Choice(Enum):
    """What people answer, by letter."""

    ACCEPT = ""
    EDIT = "e"
    SKIP = "s"
    UNDO = "u"
    QUIT = "q"


class Desk:
    """The units of a file, a session that learns, and the place where the work stands."""

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
        self._console = Screen(file=out, soft_wrap=True)
        self._place = 0
        #: Places that were left out, by people and because the memory knows them.
        self._skipped: set[int] = set()
        self._passed: set[int] = set()
        #: Places that were confirmed, and can be taken back one after the other.
        self._done: list[int] = []

    def work(self, ask: bool) -> None:
        """Go through the units that the memory does not know; without asking, take their translations."""
        returned = False
        while self._place < len(self._units):
            unit = self._units[self._place]
            if not (self._everything or returned) and self._session.known(plain_text(unit.source)):
                self._passed.add(self._place)
                self._place += 1
                continue
            filled = self._session.suggest(unit, explain=self._explain)
            self._show(unit, filled)
            choice = self._asked(unit, filled) if ask else self._taken(unit, unit.target)
            if choice is _Choice.QUIT:
                return
            returned = choice is _Choice.UNDO
            if not returned:
                self._place += 1

    def _asked(self, unit: Unit, filled: FilledUnit) -> _Choice:
        """Ask until something has been decided."""
        while True:
            choice = _choice()
            if choice is _Choice.SKIP:
                self._skipped.add(self._place)
            elif choice is _Choice.UNDO and not self._took_back():
                continue
            elif choice in (_Choice.ACCEPT, _Choice.EDIT):
                target = filled.translation.text if choice is _Choice.ACCEPT else _edited(filled.translation.text)
                if target is None:
                    return _Choice.QUIT
                try:
                    return self._taken(unit, target)
                except InputError as error:
                    self._console.print(Text(f"{error}; nothing was learnt"))
                    continue
            if choice is not None:
                return choice

    def _taken(self, unit: Unit, target: str) -> _Choice:
        pair = self._session.confirm(plain_text(unit.source), target)
        if self._confirmed is not None:
            self._confirmed.write(pair)
        self._done.append(self._place)
        self._console.print(Text("learnt  ", style="dim"), Text(pair.target), sep="")
        self._console.print(Text(f"{self._session.statistics}\n", style="dim"))
        return _Choice.ACCEPT

    def _took_back(self) -> bool:
        """Take back what was confirmed last, and return to it."""
        pair = self._session.undo() if self._done else None
        if pair is None:
            self._console.print(Text("nothing to take back", style="dim"))
            return False
        if self._confirmed is not None:
            self._confirmed.undo()
        self._place = self._done.pop()
        self._console.print(Text("took back  ", style="dim"), Text(f"{pair.target}\n"), sep="")
        return True

    def _show(self, unit: Unit, filled: FilledUnit) -> None:
        origin = " · word for word in the memory" if filled.filling.origin is FillingOrigin.MEMORY else ""
        where = f"{self._place + 1}/{len(self._units)} · line {unit.line}{origin}"
        self._console.print(Text(where, style="dim"))
        shown = replace(filled.translation, source=clean(filled.translation.source))
        print_explanation(self._out, shown, filled.filling.matches)
        for warning in filled.warnings:
            self._console.print(Text(warning, style="yellow"))

    def summarise(self, interrupted: bool) -> None:
        """What was done, and what is left."""
        counts = [f"{len(self._skipped)} skipped"] if self._skipped else []
        counts += [f"{len(self._passed)} passed over that the memory knows"] if self._passed else []
        start = "\n" if interrupted else ""
        self._console.print(Text(start + "; ".join([str(self._session.statistics), *counts])))
        left = len(self._units) - self._place
        if left:
            why = "interrupted; " if interrupted else ""
            self._console.print(Text(f"{why}{left} of {len(self._units)} units left: the same command goes on there"))


def _choice() -> _Choice | None:
    """What somebody types; None for something else, quitting at the end of the input."""
    answer = _line(_PROMPT)
    if answer is None:
        return _Choice.QUIT
    try:
        return _Choice(answer.strip().lower())
    except ValueError:
        return None


def _edited(text: str) -> str | None:
    """A line that begins with the text, where the terminal can edit; elsewhere the line is the new text."""
    if not sys.stdin.isatty():
        return _line("> ")
    try:
        import readline
    except ImportError:
        return _line("> ")
    readline.set_startup_hook(lambda: readline.insert_text(clean(text)))
    try:
        return _line("> ")
    finally:
        readline.set_startup_hook(None)


def _line(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        sys.stdout.write("\n")
        return None
    except UnicodeDecodeError as error:
        raise InputError("standard input is not UTF-8") from error
