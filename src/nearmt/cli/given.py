"""The settings that a command was given: as options, with --set and in a configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nearmt.cli.console import warn
from nearmt.config import Config, read_toml, unknown_setting
from nearmt.config.beam import BeamConfig
from nearmt.config.filling import FillConfig
from nearmt.config.methods import METHOD_CONFIGS
from nearmt.config.model import ModelConfig
from nearmt.config.old_names import RENAMED
from nearmt.config.run import RunConfig
from nearmt.config.store import StoreConfig
from nearmt.config.tuning import ScoringConfig, TuneConfig
from nearmt.corpus import LabelsConfig, LimitsConfig
from nearmt.errors import ConfigError
from nearmt.serve.config import ServeConfig

AnyConfig = TypeVar("AnyConfig", bound=Config)

#: Settings of a translation.
TRANSLATION: tuple[type[Config], ...] = (RunConfig, *METHOD_CONFIGS.values(), BeamConfig, ModelConfig, StoreConfig)
#: Settings of the model that commands show as options.
MODEL_SETTINGS = ("model", "source-lang", "target-lang", "precision", "device")
#: All settings that `nearmt settings` lists and a configuration file may hold; each command uses its own.
SETTINGS: tuple[type[Config], ...] = (
    *(*TRANSLATION, FillConfig, LabelsConfig, LimitsConfig),
    *(TuneConfig, ScoringConfig, ServeConfig),
)


@dataclass(frozen=True)
class Given:
    """Settings by public name."""

    #: Of the command line: none of them may be ignored.
    typed: dict[str, Any]
    #: Of --config; None without it.
    from_file: dict[str, Any] | None = None

    def settings(self) -> dict[str, Any]:
        """All of them; the command line wins over the file."""
        return (self.from_file or {}) | self.typed


def given_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, by public name."""
    given = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    return {RENAMED.get(name, name): value for name, value in given.items()}


def pick(config: type[AnyConfig], settings: Mapping[str, Any]) -> AnyConfig:
    """The config object made of those settings that belong to it."""
    names = config.public_fields()
    return config.from_mapping({name: value for name, value in settings.items() if name in names})


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a configuration file; unknown names are refused, old ones get a warning."""
    settings = read_toml(path)
    if isinstance(settings.get("tuning"), dict):  # notes of `nearmt tune` about the settings it found
        del settings["tuning"]
    known = {name for config in SETTINGS for name in config.public_fields()}
    for old in [name for name in settings if name in RENAMED]:
        new = RENAMED[old]
        if new in settings:
            raise ConfigError(f"{path}: '{old}' and '{new}' are the same setting; keep '{new}'")
        settings[new] = settings.pop(old)
        warn(f"{path}: {old} = {settings[new]!r}: write {new} = {settings[new]!r}")
    for name in settings:
        if name not in known:
            raise ConfigError(f"{path}: {unknown_setting(name, known)}")
    pick(RunConfig, settings)
    return settings


def assigned_settings(texts: Sequence[str], known: Mapping[str, type[Config]], command: str) -> dict[str, Any]:
    """The values of `--set NAME=VALUE`, checked against the settings of the command."""
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise ConfigError(f"--set {text}: give NAME=VALUE, such as --set beams=4")
        if name not in known:
            raise ConfigError(f"--set {text}: {_not_known(name, known, command)}")
        parsed = known[name].parse(name, value)
        found[name] = found.get(name, ()) + parsed if isinstance(parsed, tuple) else parsed
    return found


def _not_known(name: str, known: Mapping[str, type[Config]], command: str) -> str:
    if any(name in config.public_fields() for config in SETTINGS):
        return f"`nearmt {command}` has no setting '{name}' (`nearmt settings` says which command has it)"
    return f"{unknown_setting(name, known)} (`nearmt settings` lists all)"
