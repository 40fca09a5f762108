"""Command-line options derived from the settings, and settings gathered from file and command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from nearmt.cli.manual import ManualOption
from nearmt.config import Config, option, read_toml, unknown_setting
from nearmt.corpus import LimitsConfig
from nearmt.datastore import StoreConfig
from nearmt.decoding import BeamConfig
from nearmt.documents import FillConfig
from nearmt.errors import ConfigError
from nearmt.methods import METHOD_CONFIGS, METHODS, PRESETS
from nearmt.models import ModelConfig

Command = TypeVar("Command", bound=Callable[..., Any])
AnyConfig = TypeVar("AnyConfig", bound=Config)


@dataclasses.dataclass(frozen=True)
class RunConfig(Config):
    """What is used to translate."""

    datastore: tuple[str, ...] | None = option(
        None, "the datastore to retrieve from; several are searched together, DIR=0.5 weighs one"
    )
    filter: tuple[str, ...] | None = option(
        None, "use only pairs with this metadata: KEY=VALUE, * stands for anything; of several all must hold"
    )
    method: str | None = option(None, "[default: chunk with a datastore, else plain]", choices=METHODS)
    preset: str | None = option(None, "a strategy of the paper, for method chunk", choices=tuple(PRESETS))
    batch_size: int = option(8, "sentences translated together", low=1)


CONFIGS: tuple[type[Config], ...] = (RunConfig, *METHOD_CONFIGS.values(), BeamConfig, ModelConfig, StoreConfig)
#: Settings that only some commands have, and that a configuration file may hold all the same.
OTHER_CONFIGS: tuple[type[Config], ...] = (FillConfig, LimitsConfig)
#: Settings that shells complete as paths.
_PATHS = {"datastore": click.Path(), "model": click.Path()}


def config_options(*configs: type[Config], several: frozenset[str] = frozenset()) -> Callable[[Command], Command]:
    """One option for every field; left out it is None, so that a configuration file can speak.

    Methods share settings: a name that several configs have is one option. Those in `several` may be given more than
    once, and are tuples.
    """
    fields = {name: (config, field) for config in reversed(configs) for name, field in config.public_fields().items()}

    def decorate(command: Command) -> Command:
        for config in reversed(configs):
            for name, field in reversed(config.public_fields().items()):
                if fields[name] == (config, field):
                    command = _option(config, name, field, name in several)(command)
        return command

    return decorate


def _option(
    config: type[Config], name: str, field: dataclasses.Field[Any], several: bool
) -> Callable[[Command], Command]:
    kind = config.value_type(field)
    shown = "" if field.default is None or kind is bool else f" [default: {field.default}]"
    text = field.metadata["help"] + shown
    section = (config.__doc__ or "").split("\n")[0].rstrip(".")
    choices = field.metadata["choices"]
    plain_type = str if kind is tuple else kind
    value_type = None if kind is bool else click.Choice(choices) if choices else _PATHS.get(name, plain_type)
    several = several or kind is tuple
    return click.option(
        f"--{name}/--no-{name}" if kind is bool else f"--{name}",
        name.replace("-", "_"),
        cls=ManualOption,
        section=section,
        default=None,
        multiple=several,
        callback=_none_if_empty if several else None,
        type=value_type,
        help=text,
    )


def _none_if_empty(context: click.Context, option: click.Parameter, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Given never is not given, so that a configuration file can speak."""
    return values or None


def run_options(command: Command, several: frozenset[str] = frozenset()) -> Command:
    """Everything that describes how to translate."""
    from_file = click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path),
        help="TOML file with any of these settings, by their names without dashes in front; the command line wins",
    )
    return from_file(config_options(*CONFIGS, several=several)(command))


def gather(options: Mapping[str, Any], config_file: Path | None) -> dict[str, Any]:
    """All settings that were given, by public name: the file's, overruled by the command line's."""
    known = [name for config in CONFIGS + OTHER_CONFIGS for name in config.public_fields()]
    settings: dict[str, Any] = {}
    if config_file is not None:
        settings = read_toml(config_file)
        if isinstance(settings.get("tuning"), dict):  # what `nearmt tune` noted beside the settings it found
            del settings["tuning"]
        for name in settings:
            if name not in known:
                raise ConfigError(f"{config_file}: {unknown_setting(name, known)}")
        pick(RunConfig, settings)
    given = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    return settings | given


def pick(config: type[AnyConfig], settings: Mapping[str, Any]) -> AnyConfig:
    """The config object made of those settings that belong to it."""
    names = config.public_fields()
    return config.from_mapping({name: value for name, value in settings.items() if name in names})
