"""Which systems an evaluation is about: methods, configuration files, and translations that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt.cli.options import gather
from nearmt.cli.setup import Plan, make_plan, method_name
from nearmt.corpus import numbered_lines
from nearmt.errors import ConfigError, InputError, did_you_mean
from nearmt.methods import METHOD_CONFIGS


@dataclass(frozen=True)
class Wanted:
    """A system that is to be measured: a plan to translate, or the lines of a file."""

    name: str
    plan: Plan | None = None
    file: Path | None = None
    lines: tuple[str, ...] = ()

    def first_lines(self, pairs: int, limit: int | None) -> list[str]:
        """The translations of the pairs that are used; a file belongs to the whole test set."""
        if len(self.lines) != pairs:
            raise InputError(f"{self.file}: {len(self.lines):,} lines for {pairs:,} pairs of the test set")
        return list(self.lines[:limit])


def wanted_systems(
    options: Mapping[str, Any],
    methods: Sequence[str],
    config_file: Path | None,
    other_configs: Sequence[Path],
    hypotheses: Sequence[Path],
) -> list[Wanted]:
    """All systems in the order in which they are shown, checked as far as that needs no loading."""
    typed = frozenset(name.replace("_", "-") for name, value in options.items() if value is not None)
    named: list[tuple[str, dict[str, Any]]] = []
    # Without a method, the settings of the command line are a system of their own unless others are named.
    if methods or config_file or not (other_configs or hypotheses) or (typed and not other_configs):
        settings = gather(options, config_file)
        for method in methods or [method_name(settings)]:
            named.append((method, {**settings, "method": method}))
    named += [(path.stem, gather(options, path)) for path in other_configs]
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
    """Settings of the command line without those that are meant for another method of the run."""
    return typed - frozenset(name for other in used for name in _settings_of(other) if name not in _settings_of(method))


def _settings_of(method: str) -> set[str]:
    return {*METHOD_CONFIGS[method].public_fields(), *(["preset"] if method == "chunk" else [])}


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two systems are called '{name}': name each method once, and rename files where needed")


def check_baseline(baseline: str | None, wanted: Sequence[Wanted]) -> str:
    """The system that the others are compared with: the first, unless one is named."""
    names = [system.name for system in wanted]
    if baseline is None:
        return names[0]
    if baseline not in names:
        raise ConfigError(f"baseline = {baseline!r}: must be one of {', '.join(names)}{did_you_mean(baseline, names)}")
    return baseline
