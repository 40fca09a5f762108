"""What a memory is like, and what each cleaning rule would do to it."""

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
    Rewrite,
    Verdict,
    clean,
    digest,
    has_empty_side,
    rewritten,
)
from nearmt.corpus.report import Report

Texts = tuple[str, str]

# Tried where the settings name no number.
_USUAL: dict[str, float] = {"max-length": 1000, "max-ratio": 3}
# Examples are for people: a part of a long text will do, with some of what precedes the place in question.
_SHOWN = 200
_LEAD = 40


@dataclass(frozen=True)
class Lengths:
    """Characters of the segments of one side; and their words, all together."""

    mean: float = 0.0
    median: int = 0
    p95: int = 0
    max: int = 0
    words: int = 0


@dataclass(frozen=True)
class RuleEffect:
    """What one rule would do if it were the only one."""

    rule: str
    #: As tried, like `max-ratio 3`.
    setting: str
    #: Pairs changed or left out.
    count: int
    #: Source and target of pairs left out; a text before and after for a rule that changes texts.
    examples: list[Texts]


@dataclass(frozen=True)
class Inspection:
    files: int
    units: int
    #: Pairs with text on both sides: what the numbers below are about, in the default cleaning.
    pairs: int
    skipped: dict[str, int]
    problems: list[str]
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
    """Look at raw pairs once, keeping none of them; pairs with an empty side are counted as skipped.

    Rules that change texts are tried on the raw pairs, rules that leave out pairs on cleaned ones.
    """
    watches = _watches(config or CleaningConfig(), source_lang, target_lang, examples)
    source_side, target_side = _Side(), _Side()
    sources: set[bytes] = set()
    first: list[Texts] = []
    for raw in pairs:
        pair = rewritten(raw, clean)
        if has_empty_side(pair):
            report.skipped["empty"] += 1
            continue
        source_side.add(pair.source)
        target_side.add(pair.target)
        sources.add(digest(pair.source))
        if len(first) < examples:
            first.append(_beginnings(pair.source, pair.target))
        for watch in watches:
            watch.see(raw, pair)
    return Inspection(
        files=files,
        units=report.units,
        pairs=source_side.segments,
        skipped=dict(report.skipped),
        problems=list(report.problems),
        problem_count=report.problem_count,
        languages=dict(report.languages),
        source_lengths=source_side.lengths(),
        target_lengths=target_side.lengths(),
        distinct_sources=len(sources),
        rules=[watch.effect() for watch in watches],
        examples=first,
    )


#: Of a raw and a cleaned pair the two texts to show if a rule would act on them.
_Find = Callable[[Pair, Pair], Texts | None]


@dataclass
class _Watch:
    """One rule at work, on nothing but a counter."""

    rule: str
    setting: str
    find: _Find
    #: Cuts two texts to a length that people read.
    show: Callable[[str, str], Texts]
    most: int
    examples: list[Texts] = field(default_factory=list)
    count: int = 0

    def see(self, raw: Pair, pair: Pair) -> None:
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
    """Lengths of one side as a histogram: millions of segments have few different lengths."""

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
        """The least length that so many percent of the segments do not exceed."""
        below = 0
        for length in sorted(self.counts):
            below += self.counts[length]
            if 100 * below >= percent * self.segments:
                return length
        return 0


def _watches(config: CleaningConfig, source_lang: str | None, target_lang: str | None, most: int) -> list[_Watch]:
    watches = [
        _Watch(name, name, _finds_changed_side(rewrite), _around_change, most) for name, rewrite in REWRITES.items()
    ]
    values = config.public_values()
    for name, make in DROPS.items():
        value: Any = values[name] or _USUAL.get(name, True)
        setting = name if value is True else f"{name} {value}".removesuffix(".0")
        find = _finds_left_out(make(value, source_lang, target_lang))
        watches.append(_Watch(name, setting, find, _beginnings, most))
    return watches


def _finds_changed_side(rewrite: Rewrite) -> _Find:
    def find(raw: Pair, _pair: Pair) -> Texts | None:
        sides = ((text, rewrite(text)) for text in (raw.source, raw.target))
        return next(((before, after) for before, after in sides if before != after), None)

    return find


def _finds_left_out(leaves_out: Verdict) -> _Find:
    return lambda _raw, pair: (pair.source, pair.target) if leaves_out(pair) else None


def _beginnings(left: str, right: str) -> Texts:
    return _window(left, 0), _window(right, 0)


def _around_change(before: str, after: str) -> Texts:
    places = (place for place, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    start = max(0, next(places, min(len(before), len(after))) - _LEAD)
    return _window(before, start), _window(after, start)


def _window(text: str, start: int) -> str:
    end = start + _SHOWN
    return "…" * (start > 0) + text[start:end] + "…" * (end < len(text))
