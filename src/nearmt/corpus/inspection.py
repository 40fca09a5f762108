"""Statistics of a memory, and the effect that each cleaning rule would have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import (
    DROPS,
    REWRITES,
    CleaningConfig,
    Predicate,
    Rewrite,
    clean,
    digest,
    has_empty_side,
    rewritten,
)
from nearmt.corpus.report import Report

Texts = tuple[str, str]

# Tried if the settings give no number.
_USUAL: dict[str, float] = {"max-length": 1000, "max-ratio": 3}
# Characters shown of a long example, and of the text before the change.
_SHOWN = 200
_LEAD = 40


@dataclass(frozen=True)
class Lengths:
    """Statistics of segment lengths of one side in characters, and the total of words."""

    mean: float = 0.0
    median: int = 0
    p95: int = 0
    max: int = 0
    words: int = 0


@dataclass(frozen=True)
class RuleEffect:
    """The effect of one rule, applied alone."""

    rule: str
    #: The setting that was tried, like `max-ratio 3`.
    setting: str
    #: Number of pairs changed or left out.
    count: int
    #: Source and target of pairs left out, or a text before and after a change.
    examples: list[Texts]


@dataclass(frozen=True)
class Inspection:
    files: int
    units: int
    #: Pairs with text on both sides after default cleaning; the statistics below are about these.
    pairs: int
    skipped: dict[str, int]
    problems: list[str]
    #: How files were understood where that is not certain.
    notes: list[str]
    problem_count: int
    languages: dict[str, int]
    source_lengths: Lengths
    target_lengths: Lengths
    distinct_sources: int
    rules: list[RuleEffect]
    #: The first pairs.
    examples: list[Texts]


def inspect(
    pairs: Iterable[Pair],
    report: Report,
    source_lang: str | None,
    target_lang: str | None,
    config: CleaningConfig | None = None,
    examples: int = 3,
    files: int = 0,
) -> Inspection:
    """Collect statistics of raw pairs in one pass; pairs with an empty side are counted as skipped.

    Rules that change texts are tried on the raw pairs, rules that leave out pairs on cleaned ones.
    """
    seen = _Statistics(_rule_counters(config or CleaningConfig(), source_lang, target_lang, examples), examples)
    for raw in pairs:
        pair = rewritten(raw, clean)
        if has_empty_side(pair):
            report.skipped["empty"] += 1
        else:
            seen.add(raw, pair)
    return Inspection(
        files=files,
        units=report.units,
        pairs=seen.source_side.segments,
        skipped=dict(report.skipped),
        problems=list(report.problems),
        notes=list(report.notes),
        problem_count=report.problem_count,
        languages=dict(report.languages),
        source_lengths=seen.source_side.lengths(),
        target_lengths=seen.target_side.lengths(),
        distinct_sources=len(seen.sources),
        rules=[counter.effect() for counter in seen.counters],
        examples=seen.first,
    )


#: Returns the two texts to show if a rule applies to a raw or cleaned pair.
_Find = Callable[[Pair, Pair], Texts | None]


@dataclass
class _RuleCounter:
    """Counts the pairs that one rule applies to, and keeps the first examples."""

    rule: str
    setting: str
    find: _Find
    #: Shortens two texts for display.
    show: Callable[[str, str], Texts]
    most: int
    examples: list[Texts] = field(default_factory=list)
    count: int = 0

    def add(self, raw: Pair, pair: Pair) -> None:
        found = self.find(raw, pair)
        if found is None:
            return
        self.count += 1
        if len(self.examples) < self.most:
            self.examples.append(self.show(*found))

    def effect(self) -> RuleEffect:
        return RuleEffect(self.rule, self.setting, self.count, self.examples)


@dataclass
class _Side:
    """A histogram of the lengths of one side."""

    counts: Counter[int] = field(default_factory=Counter)
    segments: int = 0
    words: int = 0

    def add(self, text: str) -> None:
        self.counts[len(text)] += 1
        self.segments += 1
        self.words += len(text.split())

    def lengths(self) -> Lengths:
        if not self.segments:
            return Lengths()
        characters = sum(length * count for length, count in self.counts.items())
        mean = round(characters / self.segments, 1)
        return Lengths(mean, self._quantile(50), self._quantile(95), max(self.counts), self.words)

    def _quantile(self, percent: int) -> int:
        """Return the least length that `percent` of the segments do not exceed."""
        below = 0
        for length in sorted(self.counts):
            below += self.counts[length]
            if 100 * below >= percent * self.segments:
                return length
        return 0


@dataclass
class _Statistics:
    """Everything that is collected from the pairs."""

    counters: list[_RuleCounter]
    most_examples: int
    source_side: _Side = field(default_factory=_Side)
    target_side: _Side = field(default_factory=_Side)
    sources: set[bytes] = field(default_factory=set)
    first: list[Texts] = field(default_factory=list)

    def add(self, raw: Pair, pair: Pair) -> None:
        self.source_side.add(pair.source)
        self.target_side.add(pair.target)
        self.sources.add(digest(pair.source))
        if len(self.first) < self.most_examples:
            self.first.append(_beginnings(pair.source, pair.target))
        for counter in self.counters:
            counter.add(raw, pair)


def _rule_counters(
    config: CleaningConfig, source_lang: str | None, target_lang: str | None, most: int
) -> list[_RuleCounter]:
    counters = [
        _RuleCounter(name, name, _finds_changed_side(rewrite), _around_change, most)
        for name, rewrite in REWRITES.items()
    ]
    values = config.public_values()
    for name, make in DROPS.items():
        value: Any = values[name] or _USUAL.get(name, True)
        setting = name if value is True else f"{name} {value}".removesuffix(".0")
        find = _finds_left_out(make(value, source_lang, target_lang))
        counters.append(_RuleCounter(name, setting, find, _beginnings, most))
    return counters


def _finds_changed_side(rewrite: Rewrite) -> _Find:
    def find(raw: Pair, _pair: Pair) -> Texts | None:
        sides = ((text, rewrite(text)) for text in (raw.source, raw.target))
        return next(((before, after) for before, after in sides if before != after), None)

    return find


def _finds_left_out(leaves_out: Predicate) -> _Find:
    return lambda _raw, pair: (pair.source, pair.target) if leaves_out(pair) else None


def _beginnings(left: str, right: str) -> Texts:
    return _window(left, 0), _window(right, 0)


def _around_change(before: str, after: str) -> Texts:
    changes = (index for index, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    start = max(0, next(changes, min(len(before), len(after))) - _LEAD)
    return _window(before, start), _window(after, start)


def _window(text: str, start: int) -> str:
    end = start + _SHOWN
    return "…" * (start > 0) + text[start:end] + "…" * (end < len(text))
