"""The settings to tune and the values to try for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from nearmt.config import unknown_setting
from nearmt.config.old_names import REMOVED
from nearmt.errors import ConfigError, did_you_mean
from nearmt.retrieval.source import LiveSource

Value: TypeAlias = float | int | str
#: Settings by their public names.
Point: TypeAlias = dict[str, Value]

#: Tuned by default, in this order: the best cache settings depend on lambda and T.
MAIN = ("lambda", "temperature", "cache-lambda", "cache-temperature", "reuse-distance", "adaptive-boost")

_WEIGHTS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
#: T in units of the datastore's search scale, T' in units of its cache scale.
_TEMPERATURES = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
_CACHE_TEMPERATURES = (0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0)
_BOOSTS: tuple[Value, ...] = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
#: In units of the method's own default.
_REUSE = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
_COUNTS: dict[str, tuple[Value, ...]] = {
    "k": (2, 4, 8, 16, 32),
    "chunk": (4, 8, 16, 32),
    "cache-k": (8, 16, 32, 64),
    "seeds": (0, 32, 128, 512),
    "subset": (64, 128, 256, 512, 1024),
    "references": (2, 4, 8, 16, 32),
    "follow": (0, 1, 2, 4, 8),
    # From frequent to rare searches.
    "schedule": ("every:2", "geometric:2:8", "geometric:2:16", "geometric:2:32"),
}
#: The grid of the paper's appendix; its temperatures fit its own model.
_PAPER: dict[str, tuple[Value, ...]] = {
    "lambda": (0.5, 0.6, 0.7, 0.8),
    "cache-lambda": (0.4, 0.5, 0.6),
    "cache-temperature": (1.0, 2.0, 3.0),
}


@dataclass(frozen=True)
class Axis:
    """A setting, its default, and the values to try in order."""

    name: str
    values: tuple[Value, ...]
    default: Value

    def position(self, value: Value) -> float:
        """Return the index of a value, fractional between values and at half steps outside them."""
        if value in self.values:
            return float(self.values.index(value))
        if isinstance(value, str):
            return -1.0
        numbers = [number for number in self.values if not isinstance(number, str)]
        below = sum(number < value for number in numbers)
        if below in (0, len(numbers)):
            return below - 0.5
        low, high = numbers[below - 1], numbers[below]
        return below - 1 + (value - low) / (high - low)

    def distance(self, value: Value) -> float:
        """Return the number of steps between a value and the default."""
        if isinstance(value, str):
            return float(value != self.default)
        return abs(self.position(value) - self.position(self.default))

    def nearby(self, value: Value, reach: int) -> list[Value]:
        """Return up to `reach` values on either side of this one.

        The nearest come first, except those less than half a step away, which come last.
        """
        here = self.position(value)
        steps = {other: abs(self.position(other) - here) for other in self.values}
        ranked = sorted(self.values, key=lambda other: (steps[other] < 0.5, steps[other], self.position(other)))
        below = [other for other in ranked if self.position(other) < here][:reach]
        above = [other for other in ranked if self.position(other) > here][:reach]
        return [other for other in ranked if other in below or other in above]

    def refined(self) -> Axis:
        """Insert the midpoint between any two numbers."""
        values = [self.values[0]]
        for low, high in zip(self.values, self.values[1:], strict=False):
            middle = [significant((low + high) / 2)] if isinstance(low, float) and isinstance(high, float) else []
            values += [*middle, high]
        return replace(self, values=tuple(values))


def significant(value: float) -> float:
    """Round to four significant digits, for readability."""
    return float(f"{value:.4g}")


def names_to_tune(
    asked: str | None, defaults: Mapping[str, object], fixed: Mapping[str, object], ranges: str
) -> list[str]:
    """Choose the settings of a method to tune. `defaults` are all its settings, `fixed` those that are given."""
    able = [name for name in (*MAIN, *_COUNTS) if name in defaults and defaults[name] is not None]
    if defaults.get("adaptive") is None and "adaptive-boost" in able:
        able.remove("adaptive-boost")  # only used with a network
    if defaults.get("recall") == "in-order" and "cache-temperature" in able:
        able.remove("cache-temperature")  # chunks in order use T
    if not able:
        raise ConfigError("this method has nothing to tune; use one that retrieves")
    if asked is None:
        usual = [name for name in able if name in (_PAPER if ranges == "paper" else MAIN)]
        return _free(usual or able, fixed)
    if asked == "all":
        return _free(able, fixed)
    named = [name.strip() for name in asked.split(",") if name.strip()]
    for name in named:
        if name in REMOVED:
            raise ConfigError(f"tune = '{asked}': {unknown_setting(name, able)}")
        if name not in able:
            known = f"this method can tune {', '.join(able)}, or all"
            raise ConfigError(f"tune = '{asked}': '{name}' cannot be tuned{did_you_mean(name, able)}; {known}")
        if name in fixed:
            raise ConfigError(f"'{name}' is given and to be tuned; leave it out of one of the two")
    if not named:
        raise ConfigError(f"tune = {asked!r}: name settings, for example lambda,temperature")
    return [name for name in able if name in named]


def _free(names: Sequence[str], fixed: Mapping[str, object]) -> list[str]:
    free = [name for name in names if name not in fixed]
    if not free:
        raise ConfigError(f"{', '.join(names)}: all given, so there is nothing to tune; leave some out, or name others")
    return free


def make_axes(names: Sequence[str], ranges: str, store: LiveSource, defaults: Mapping[str, Value]) -> list[Axis]:
    """Make the axes of these settings; `defaults` are the method's, calibrated from the datastore."""
    return [Axis(name, _values(name, ranges, store, defaults), defaults[name]) for name in names]


def _values(name: str, ranges: str, store: LiveSource, defaults: Mapping[str, Value]) -> tuple[Value, ...]:
    if ranges == "paper" and name in _PAPER:
        return _PAPER[name]
    if name in _COUNTS:
        return _COUNTS[name]
    if name == "temperature":
        return _scaled(_TEMPERATURES, store.snapshot().profile.search_scale)
    if name == "cache-temperature":
        return _scaled(_CACHE_TEMPERATURES, store.snapshot().profile.scale(int(defaults["cache-columns"])))
    if name == "reuse-distance":
        return _scaled(_REUSE, float(defaults[name]))
    if name == "adaptive-boost":
        return _BOOSTS
    return _WEIGHTS


def _scaled(shares: Sequence[float], unit: float) -> tuple[Value, ...]:
    return tuple(significant(share * unit) for share in shares)
