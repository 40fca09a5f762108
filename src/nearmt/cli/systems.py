"""The systems of an evaluation: methods, configuration files, and files of translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nearmt.cli.given import Given, read_settings
from nearmt.cli.setup import Plan, make_plan, method_name
from nearmt.config import as_texts
from nearmt.config.tuning import ScoringConfig
from nearmt.corpus import numbered_lines
from nearmt.errors import ConfigError, InputError, did_you_mean
from nearmt.methods import METHOD_CONFIGS


@dataclass(frozen=True)
class Wanted:
    """A system to evaluate: a plan to translate with, or the lines of a file."""

    name: str
    plan: Plan | None = None
    file: Path | None = None
    lines: tuple[str, ...] = ()

    def first_lines(self, pairs: int, limit: int | None) -> list[str]:
        """The translations of the first pairs; the file must have a line for every pair of the test set."""
        if len(self.lines) != pairs:
            raise InputError(f"{self.file}: {len(self.lines):,} lines for {pairs:,} pairs of the test set")
        return list(self.lines[:limit])


def wanted_systems(
    given: Given,
    other_configs: Sequence[Path],
    hypotheses: Sequence[Path],
) -> list[Wanted]:
    """All systems in the order of the table, checked without loading anything."""
    methods: Sequence[str] = as_texts(given.typed.get("method", ()))
    others = {
        name: value for name, value in given.typed.items() if name not in ("method", *ScoringConfig.public_fields())
    }
    given = replace(given, typed=others)
    typed = frozenset(given.typed)
    named: list[tuple[str, dict[str, Any]]] = []
    # The settings of the command line are a system, unless they only go with other systems.
    if methods or given.from_file is not None or not (other_configs or hypotheses) or (typed and not other_configs):
        settings = given.settings()
        for method in methods or [method_name(settings)]:
            named.append((method, {**settings, "method": method}))
    named += [(path.stem, read_settings(path) | given.typed) for path in other_configs]
    used = {method_name(settings) for _, settings in named}
    wanted = [
        Wanted(name, make_plan(settings, _meant_for(method_name(settings), used, typed))) for name, settings in named
    ]
    for path in hypotheses:
        lines = tuple(text.rstrip() for _, text in numbered_lines(path))
        wanted.append(Wanted(path.stem, file=path, lines=lines))
    _check_names([system.name for system in wanted])
    return wanted


def _meant_for(method: str, used: set[str], typed: frozenset[str]) -> frozenset[str]:
    """The settings of the command line without those of other methods of the evaluation."""
    return typed - frozenset(name for other in used for name in _settings_of(other) if name not in _settings_of(method))


def _settings_of(method: str) -> set[str]:
    return {*METHOD_CONFIGS[method].public_fields(), *(["preset"] if method == "chunk" else [])}


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two systems are called '{name}': name each method once, and rename files where needed")


def check_baseline(baseline: str | None, wanted: Sequence[Wanted]) -> str:
    """The baseline: the first system, unless one is named."""
    names = [system.name for system in wanted]
    if baseline is None:
        return names[0]
    if baseline not in names:
        raise ConfigError(f"baseline = {baseline!r}: must be one of {', '.join(names)}{did_you_mean(baseline, names)}")
    return baseline
