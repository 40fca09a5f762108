"""A view of a store that is restricted to the pairs whose metadata match.

A filter is KEY=VALUE; * in the value matches any text. KEY is a name in the pairs' metadata, or `id` or `origin`.
A pair must match all filters.
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
from nearmt.datastore.live_store import LiveStore, StoreView
from nearmt.datastore.search.snapshot import Part, Snapshot
from nearmt.errors import ConfigError, did_you_mean

#: Fields of a pair that can be filtered like metadata.
_FIELDS = ("id", "origin")
# Most keys or values that an error lists, and most characters of each.
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
    """The value of a pair's field or metadata key; None if it has none."""
    return str(getattr(pair, key)) if key in _FIELDS else pair.metadata.get(key)


class FilteredStore(StoreView):
    """The pairs of a store that match all filters, including pairs that are added later."""

    def __init__(self, store: LiveStore, filters: Sequence[str]) -> None:
        """Refuses filters that no pair matches, unless the store is empty."""
        super().__init__([store])
        self._store = store
        self.filters = tuple(Filter.parse(text) for text in filters)
        # The pairs of a segment never change: after an edit only new segments are read.
        self._allowed: WeakKeyDictionary[Part, np.ndarray] = WeakKeyDictionary()
        self._filtered: tuple[Snapshot, Snapshot] | None = None
        self._familiar: float | None = None
        whole = store.snapshot()
        if whole.pair_count and not self.snapshot().pair_count:
            raise ConfigError(_nothing_found(whole, self.filters))

    def snapshot(self) -> Snapshot:
        whole = self._store.snapshot()
        if self._filtered is None or self._filtered[0] is not whole:
            allowed_P = allowed_pairs(whole, self.filters, self._allowed)
            fewer = whole.restricted(allowed_P, f"filter[{','.join(map(str, self.filters))}]")
            fewer.calibration = replace(fewer.calibration, familiar=self._familiarity(fewer))
            self._filtered = whole, fewer
        return self._filtered[1]

    def _familiarity(self, fewer: Snapshot) -> float | None:
        """Typical familiarity among the filtered pairs, measured once: it grows with the size of a store."""
        if self._familiar is None and fewer.calibration.familiar is not None:
            self._familiar = fewer.typical_familiarity()
        return self._familiar


def allowed_pairs(
    snapshot: Snapshot, filters: Sequence[Filter], known: WeakKeyDictionary[Part, np.ndarray] | None = None
) -> np.ndarray:
    """Which pairs match all filters, [P], deleted pairs included; `known` caches the result of each segment."""
    known = WeakKeyDictionary() if known is None else known
    for part in snapshot._parts:
        if part not in known:
            passed = (all(condition.holds(pair) for condition in filters) for pair in part.segment.pairs())
            known[part] = np.fromiter(passed, dtype=bool, count=part.segment.record.pairs)
    return np.concatenate([np.zeros(0, dtype=bool), *(known[part] for part in snapshot._parts)])


def _nothing_found(snapshot: Snapshot, filters: Sequence[Filter]) -> str:
    """An error message: which filter no pair matches, and the most frequent keys or values."""
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
    return f"filters {', '.join(map(str, filters))}: each matches some pairs, but no pair matches all"


def _listed(counted: Counter[str]) -> str:
    """The most frequent values, and the number of others."""
    shown = [text if len(text) <= _LONGEST else text[:_LONGEST] + "…" for text, _ in counted.most_common(_NAMED)]
    more = len(counted) - len(shown)
    return ", ".join(" ".join(text.split()) for text in shown) + (f" and {more:,} more" if more else "")
