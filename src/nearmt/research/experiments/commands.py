"""The commands behind a report: commands of processes that shared the work are merged into one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

#: Options that select a part of the work, and the separator of their values.
_PARTS = {"--domains": ",", "--rows": ",", "--tune-budget": "/"}


def merged_runs(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge runs that differ only in their part of the work into one run whose command lists all parts."""
    found: dict[str, tuple[dict[str, Any], list[str], dict[int, list[str]]]] = {}
    for run in runs:
        words = shlex.split(run["command"])
        parts = {index + 1: word for index, word in enumerate(words[:-1]) if word in _PARTS}
        rest = ["" if index in parts else word for index, word in enumerate(words)]
        key = json.dumps([rest, {name: value for name, value in run.items() if name != "command"}], sort_keys=True)
        _, _, values = found.setdefault(key, (run, words, {index: [] for index in parts}))
        for index, option in parts.items():
            values[index] += [part for part in words[index].split(_PARTS[option]) if part not in values[index]]
    return [_joined(*group) for group in found.values()]


def _joined(run: dict[str, Any], words: list[str], values: dict[int, list[str]]) -> dict[str, Any]:
    whole = [
        _PARTS[words[index - 1]].join(values[index]) if index in values else word for index, word in enumerate(words)
    ]
    return {**run, "command": shlex.join(whole)}
