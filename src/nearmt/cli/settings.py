"""nearmt settings"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click

from nearmt.cli.console import echo
from nearmt.cli.given import SETTINGS
from nearmt.cli.manual import ManualCommand
from nearmt.config import Config
from nearmt.config.methods import METHOD_CONFIGS, METHODS

#: Width of the table if it does not go to a terminal.
_WIDTH = 110
_KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text", tuple: "text, several times"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting as users see it."""

    group: str
    name: str
    meaning: str
    type: str
    low: float | None
    high: float | None
    choices: tuple[str, ...] | None
    default: Any
    #: The methods that use it; None for settings of all methods.
    methods: tuple[str, ...] | None

    @property
    def values(self) -> str:
        """The values that it takes, in words."""
        if self.choices:
            return ", ".join(self.choices)
        whole = "whole, " if self.type == _KINDS[int] else ""
        if self.low is not None and self.high is not None:
            return f"{whole}{self.low:g} to {self.high:g}"
        return self.type if self.low is None else f"{whole}at least {self.low:g}"

    @property
    def default_text(self) -> str:
        """The default in the spelling of --set; empty if there is none, or if it is derived."""
        if self.default is None:
            return ""
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)


@click.command(cls=ManualCommand)
@click.argument("method", required=False, type=click.Choice(METHODS))
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def command(method: str | None, as_json: bool) -> None:
    """List all settings for --set and --config, by group: meaning, values and default.

    With METHOD, only settings that this method uses. A setting without a default is derived from the datastore or
    from other settings, or is not set. Needs no model.

    \b
    nearmt settings
    nearmt settings chunk
    nearmt settings knn --json
    """
    found = list(settings(method))
    if as_json:
        echo(json.dumps([dataclasses.asdict(setting) for setting in found], ensure_ascii=False))
    else:
        _print(found)


def settings(method: str | None = None) -> Iterator[Setting]:
    """All settings, or those that a method uses, group after group."""
    seen: set[str] = set()
    for config in SETTINGS:
        for name in config.public_fields():
            users = _methods_with(config, name)
            if name not in seen and (method is None or users is None or method in users):
                own = METHOD_CONFIGS.get(method or "", config)  # a method may have another default
                yield _setting(own if name in own.public_fields() else config, name, users)
            seen.add(name)


def _methods_with(config: type[Config], name: str) -> tuple[str, ...] | None:
    """The methods that use a setting; None for one that is not a setting of methods."""
    if name == "preset":
        return ("chunk",)
    if config not in METHOD_CONFIGS.values():
        return None
    return tuple(method for method in METHODS if name in METHOD_CONFIGS[method].public_fields())


def _setting(config: type[Config], name: str, methods: tuple[str, ...] | None) -> Setting:
    field = config.public_fields()[name]
    about = {key: field.metadata[key] for key in ("low", "high", "choices")}
    kind = _KINDS[config.value_type(field)]
    return Setting(config.title(), name, field.metadata["help"], kind, **about, default=field.default, methods=methods)


def _print(found: list[Setting]) -> None:
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    console = SafeConsole(width=None if sys.stdout.isatty() else _WIDTH)
    for group, members in by_group(found).items():
        table = Table(box=None, title=f"\n{group}", title_justify="left", title_style="bold", pad_edge=False)
        table.add_column("setting", min_width=max(len(setting.name) for setting in found), no_wrap=True)
        for heading, ratio in (("meaning", 5), ("values", 2), ("default", 2)):
            table.add_column(heading, ratio=ratio, overflow="fold")
        for setting in members:
            table.add_row(setting.name, setting.meaning + for_methods(setting), setting.values, setting.default_text)
        console.print(table)


def by_group(found: Iterable[Setting]) -> dict[str, list[Setting]]:
    """Settings by the title of their group."""
    groups: dict[str, list[Setting]] = {}
    for setting in found:
        groups.setdefault(setting.group, []).append(setting)
    return groups


def for_methods(setting: Setting) -> str:
    """`(method chunk only)` for a setting of a single method."""
    return f" (method {setting.methods[0]} only)" if setting.methods and len(setting.methods) == 1 else ""
