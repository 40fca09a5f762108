"""A memory of which only some pairs are used: those whose metadata are as wanted.

A filter is KEY=VALUE, where * in the value stands for anything. KEY is a name in the pairs' metadata, or `id` or
`origin`. Of several filters all must hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from nearmt.contracts import Pair
from nearmt.datastore.memory import Memory, View
from nearmt.datastore.search.snapshot import Part, Snapshot
from nearmt.errors import ConfigError, did_you_mean

#: Fields of a pair that are filtered by like metadata.
_FIELDS = ("id", "origin")
# An error names so many keys and values, of no more than so many characters.
_NAMED = 8
_LONGEST = 40


@dataclass(frozen=True)
class Filter:
    """One condition on a pair."""

    key: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Filter:
        key, sign, value = text.partition("=")
        if not (key.strip() and sign):
            raise ConfigError(f"filter = {text!r}: give KEY=VALUE, for example project=manual")
        return cls(key.strip(), value.strip())

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, self.value.split("*"))), re.DOTALL)

    def holds(self, pair: Pair) -> bool:
        value = value_of(pair, self.key)
        return value is not None and self._pattern.fullmatch(value.strip()) is not None

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


def value_of(pair: Pair, key: str) -> str | None:
    """What a pair says under a key; None if nothing."""
    return str(getattr(pair, key)) if key in _FIELDS else pair.metadata.get(key)


class FilteredStore(View):
    """The pairs of a memory that all filters let through; those that are added later among them."""

    def __init__(self, memory: Memory, filters: Sequence[str]) -> None:
        """Filters that no pair passes are refused, unless there are no pairs yet."""
        super().__init__([memory])
        self._memory = memory
        self.filters = tuple(Filter.parse(text) for text in filters)
        # What a part holds does not change: only new ones are read when the memory has grown.
        self._allowed: WeakKeyDictionary[Part, np.ndarray] = WeakKeyDictionary()
        self._filtered: tuple[Snapshot, Snapshot] | None = None
        self._familiar: float | None = None
        whole = memory.snapshot()
        if whole.pair_count and not self.snapshot().pair_count:
            raise ConfigError(_nothing_found(whole, self.filters))

    def snapshot(self) -> Snapshot:
        whole = self._memory.snapshot()
        if self._filtered is None or self._filtered[0] is not whole:
            allowed_P = allowed_pairs(whole, self.filters, self._allowed)
            fewer = whole.restricted(allowed_P, f"filter[{','.join(map(str, self.filters))}]")
            fewer.calibration = replace(fewer.calibration, familiar=self._familiarity(fewer))
            self._filtered = whole, fewer
        return self._filtered[1]

    def _familiarity(self, fewer: Snapshot) -> float | None:
        """What is usual among these pairs: in a larger memory sentences have more in common. Measured once."""
        if self._familiar is None and fewer.calibration.familiar is not None:
            self._familiar = fewer.typical_familiarity()
        return self._familiar


def allowed_pairs(
    snapshot: Snapshot, filters: Sequence[Filter], known: WeakKeyDictionary[Part, np.ndarray] | None = None
) -> np.ndarray:
    """Which pairs pass all filters, [P], deleted ones among them; `known` keeps the answers for the next time."""
    known = WeakKeyDictionary() if known is None else known
    for part in snapshot._parts:
        if part not in known:
            passed = (all(condition.holds(pair) for condition in filters) for pair in part.segment.pairs())
            known[part] = np.fromiter(passed, dtype=bool, count=part.segment.record.pairs)
    return np.concatenate([np.zeros(0, dtype=bool), *(known[part] for part in snapshot._parts)])


def _nothing_found(snapshot: Snapshot, filters: Sequence[Filter]) -> str:
    """Why no pair passes, and what is there instead."""
    keys: Counter[str] = Counter()
    values: dict[Filter, Counter[str]] = {condition: Counter() for condition in filters}
    found: Counter[Filter] = Counter()
    for pair in snapshot.pairs():
        keys.update([*_FIELDS, *pair.metadata])
        for condition in filters:
            if (value := value_of(pair, condition.key)) is not None:
                values[condition][value] += 1
            found[condition] += condition.holds(pair)
    for condition in filters:
        if not values[condition]:
            there = f"known are {_listed(keys)}{did_you_mean(condition.key, keys)}"
            return f"filter {condition}: no pair has '{condition.key}'; {there}"
        if not found[condition]:
            there = f"there is {_listed(values[condition])}{did_you_mean(condition.value, values[condition])}"
            return f"filter {condition}: no pair has this {condition.key}; {there}"
    return f"filters {', '.join(map(str, filters))}: pairs pass each of them, but none passes all"


def _listed(counted: Counter[str]) -> str:
    """The most frequent, and how many more there are."""
    shown = [text if len(text) <= _LONGEST else text[:_LONGEST] + "…" for text, _ in counted.most_common(_NAMED)]
    more = len(counted) - len(shown)
    return ", ".join(" ".join(text.split()) for text in shown) + (f" and {more:,} more" if more else "")
