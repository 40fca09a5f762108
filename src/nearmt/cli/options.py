"""Command-line options derived from the settings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from nearmt.cli.console import warn
from nearmt.cli.given import Given, assigned_settings, read_settings
from nearmt.cli.manual import ManualOption
from nearmt.config import Config
from nearmt.config.old_names import OPTIONS, RENAMED
from nearmt.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])
#: Config and field of each setting, by public name.
Fields = dict[str, tuple[type[Config], dataclasses.Field[Any]]]

#: Settings that shells complete as paths.
_PATHS = {"datastore": click.Path(), "model": click.Path()}


def config_options(*configs: type[Config], defaults: Mapping[str, Any] | None = None) -> Callable[[Command], Command]:
    """One option for every field; None if it is not given. `defaults` replace those that the help shows."""
    fields = _fields(configs)

    def decorate(command: Command) -> Command:
        for old in reversed([old for old, new in RENAMED.items() if new in fields]):
            new = RENAMED[old]
            command = _option(*fields[new], old, warning=_Old(f"--{new} {{}}"))(command)
        for name, (config, field) in reversed(fields.items()):
            default = (defaults or {}).get(name, field.default)
            command = _option(config, field, name, default=default)(command)
        return command

    return decorate


def setting_options(
    *configs: type[Config],
    shown: Collection[str],
    unlisted: Collection[str] = (),
    several: Collection[str] = (),
    without: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options for the settings in `shown`, and --set and --config for all of them but those in `without`.

    The function gets them as `given`. Those in `several` may be given more than once, and are tuples; those in
    `unlisted` are options too, which --help leaves out.
    """
    shown = (*shown, *unlisted)
    fields = {name: found for name, found in _fields(configs).items() if name not in without}
    options = [
        _option(
            config,
            field,
            name,
            several=name in several,
            default=(defaults or {}).get(name, field.default),
            hidden=name in unlisted,
        )
        for name, (config, field) in fields.items()
        if name in shown
    ]
    old = {old: new for old, new in OPTIONS.items() if new in fields and new not in shown}
    options += [_option(*fields[new], name, warning=_Old(f"--set {new}={{}}")) for name, new in old.items()]
    setting_of = {name.replace("-", "_"): new for name, new in [*zip(shown, shown, strict=True), *old.items()]}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(*, assigned: dict[str, Any], config_file: Path | None, **values: Any) -> Any:
            options = {new: values.pop(name) for name, new in setting_of.items() if values[name] is not None}
            others = {name: value for name, value in values.items() if name not in setting_of}
            for name in options.keys() & assigned.keys():
                raise ConfigError(f"{name}: is given as an option and with --set; give it once")
            from_file = None if config_file is None else read_settings(config_file)
            return function(given=Given(options | assigned, from_file), **others)

        for option in reversed([*options, _set_option(fields), _config_option()]):
            command = option(command)
        return command

    return decorate


def _fields(configs: Collection[type[Config]]) -> Fields:
    """The fields of all configs. Methods share settings: the first config that has a name counts."""
    found: Fields = {}
    for config in configs:
        for name, field in config.public_fields().items():
            found.setdefault(name, (config, field))
    return found


def _option(
    config: type[Config],
    field: dataclasses.Field[Any],
    name: str,
    *,
    several: bool = False,
    default: Any = None,
    hidden: bool = False,
    warning: _Old | None = None,
) -> Callable[[Command], Command]:
    """An option that is None if it is not given, so that a configuration file can say otherwise."""
    kind = config.value_type(field)
    choices = field.metadata["choices"]
    plain_type = str if kind is tuple else kind
    several = several or kind is tuple
    return click.option(
        f"--{name}/--no-{name}" if kind is bool else f"--{name}",
        name.replace("-", "_"),
        cls=ManualOption,
        section=config.title(),
        default=None,
        multiple=several,
        callback=warning or (_none_if_empty if several else None),
        type=None if kind is bool else click.Choice(choices) if choices else _PATHS.get(name, plain_type),
        help=field.metadata["help"] + ("" if default is None or kind is bool else f" [default: {default}]"),
        hidden=hidden or warning is not None,
    )


def _none_if_empty(context: click.Context, option: click.Parameter, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """None for an option that was not given."""
    return values or None


@dataclasses.dataclass(frozen=True)
class _Old:
    """Names the new spelling of an option of an earlier version, with the value instead of `{}`."""

    new: str

    def __call__(self, context: click.Context, option: click.Parameter, value: Any) -> Any:
        if value is None or value == ():
            return None
        if not context.resilient_parsing:
            for each in value if isinstance(value, tuple) else (value,):
                warn(f"{self._typed(option, each)}: write {self.new.format(_text(each))}")
        return value

    @staticmethod
    def _typed(option: click.Parameter, value: Any) -> str:
        if isinstance(value, bool):
            return option.opts[0] if value else option.secondary_opts[0]
        return f"{option.opts[0]} {value}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _set_option(fields: Fields) -> Callable[[Command], Command]:
    known = {name: config for name, (config, _) in fields.items()}

    def parse(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
        return {} if context.resilient_parsing else assigned_settings(texts, known, context.info_name or "")

    def complete(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(text) for text in _assignments(fields) if text.startswith(incomplete)]

    return click.option(
        "--set",
        "assigned",
        cls=ManualOption,
        section="Settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=parse,
        shell_complete=complete,
        help="any setting that `nearmt settings` lists; may be given several times",
    )


def _assignments(fields: Fields) -> list[str]:
    """What can be typed after --set: with the value where there are few."""
    found = []
    for name, (config, field) in fields.items():
        values = ("true", "false") if config.value_type(field) is bool else field.metadata["choices"] or ("",)
        found += [f"{name}={value}" for value in values]
    return found


def _config_option() -> Callable[[Command], Command]:
    return click.option(
        "--config",
        "config_file",
        cls=ManualOption,
        section="Settings",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="TOML file with any of these settings (NAME = VALUE); the command line wins",
    )
