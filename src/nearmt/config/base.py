"""The base of all settings: a frozen dataclass that checks itself and from which the command line is derived."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
import types
import typing
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from nearmt.config.old_names import REMOVED, RENAMED
from nearmt.errors import ConfigError, InputError, did_you_mean


def option(
    default: Any,
    help: str,
    *,
    name: str | None = None,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """A dataclass field that knows its public name, its help line and its range.

    `name` is what users type when the Python name has to differ (`lambda` is a keyword).
    """
    metadata = {"help": help, "name": name, "low": low, "high": high, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Config:
    """Base of all settings. Bad values are refused when the object is made."""

    def __post_init__(self) -> None:
        for name, field, kind in _described(type(self)):
            _check(name, field, kind, getattr(self, field.name))

    @classmethod
    def public_fields(cls) -> dict[str, dataclasses.Field[Any]]:
        """Field by the name users type, with `-` between words."""
        return {name: field for name, field, _ in _described(cls)}

    @classmethod
    def value_type(cls, field: dataclasses.Field[Any]) -> type:
        """The type of a field without its `| None`; `tuple` for one that may be given several times."""
        return next(kind for _, other, kind in _described(cls) if other.name == field.name)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Make the settings from public names; an unknown name is an error, not ignored.

        A setting that may be given several times can be a single text, or a list of them.
        """
        known = cls.public_fields()
        for name in values:
            if name not in known:
                raise ConfigError(unknown_setting(name, known))
        several = {name for name, _, kind in _described(cls) if kind is tuple}
        return cls(**{known[n].name: as_texts(value) if n in several else value for n, value in values.items()})

    @classmethod
    def parse(cls, name: str, text: str) -> Any:
        """The value of a setting from the text that users type."""
        kind = cls.value_type(cls.public_fields()[name])
        try:
            if kind is bool:
                return _SWITCH[text.lower()]
            return (text,) if kind is tuple else kind(text)
        except (ValueError, KeyError):
            raise ConfigError(f"{name} = {text!r}: must be {_KINDS[kind]}") from None

    @classmethod
    def title(cls) -> str:
        """What the settings are about."""
        return (cls.__doc__ or "").split("\n")[0].rstrip(".")

    def public_values(self) -> dict[str, Any]:
        """The settings by their public names."""
        return {name: getattr(self, field.name) for name, field in self.public_fields().items()}

    def signature(self) -> str:
        """All settings in a fixed order, `name:value` joined by `|`."""
        return "|".join(f"{name}:{_show(value)}" for name, value in self.public_values().items())


def unknown_setting(name: str, known: Iterable[str]) -> str:
    """The message about a name that is not a setting: it was removed or renamed, or it may be misspelt."""
    if name in REMOVED:
        return f"setting '{name}' was removed ({REMOVED[name]}); leave it out"
    if name in RENAMED:
        return f"unknown setting '{name}'; it is called '{RENAMED[name]}'"
    return f"unknown setting '{name}'{did_you_mean(name, known)}"


#: Public name, field and type of each setting of a class.
_Described = tuple[tuple[str, dataclasses.Field[Any], type], ...]


def _described(cls: type[Config]) -> _Described:
    return _described_once(typing.cast(Hashable, cls))


@functools.cache
def _described_once(config: Hashable) -> _Described:
    """Resolving the types of a class takes milliseconds, and a server makes many objects."""
    cls = typing.cast(type[Config], config)
    hints = typing.get_type_hints(cls)
    return tuple((public_name(field), field, _type_of(hints[field.name])) for field in dataclasses.fields(cls))


def _type_of(hint: Any) -> type:
    if isinstance(hint, types.UnionType):
        hint = next(part for part in hint.__args__ if part is not type(None))
    return typing.cast(type, typing.get_origin(hint) or hint)


#: How users write a switch.
_SWITCH = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
_KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    tuple: "text, or a list of texts",
}


def as_texts(value: Any) -> Any:
    """A text or a list as a tuple; other values as they are, to be refused."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def public_name(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata.get("name") or field.name).replace("_", "-")


def read_toml(path: Path) -> dict[str, Any]:
    """A configuration file as a mapping; errors name the file and the line."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error


def _check(name: str, field: dataclasses.Field[Any], kind: type, value: Any) -> None:
    """Refuse a value of the wrong kind or outside its range, naming key, value and range."""
    if value is None:
        return
    meta = field.metadata
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    fits = fits and (kind is not tuple or all(isinstance(text, str) for text in value))
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{name} = {value!r}: must be {_KINDS.get(kind, kind.__name__)}")
    choices = meta.get("choices")
    if choices and value not in choices:
        raise ConfigError(f"{name} = {value!r}: must be one of {', '.join(choices)}{did_you_mean(str(value), choices)}")
    low, high = meta.get("low"), meta.get("high")
    # Written so that not-a-number fails as well.
    if not ((low is None or value >= low) and (high is None or value <= high)):
        raise ConfigError(f"{name} = {value}: must be {_range(low, high)}")


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"


def _show(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
