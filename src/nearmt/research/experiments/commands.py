"""The commands that made a report, as few as say it: several processes often share the work of one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

#: Options that say which part of the work a process did, and what joins their values.
_PARTS = {"--domains": ",", "--rows": ",", "--tune-budget": "/"}


def merged_runs(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs that differ in nothing but their part of the work as one run whose command has all the parts."""
    found: dict[str, tuple[dict[str, Any], list[str], dict[int, list[str]]]] = {}
    for run in runs:
        words = shlex.split(run["command"])
        parts = {place + 1: word for place, word in enumerate(words[:-1]) if word in _PARTS}
        rest = ["" if place in parts else word for place, word in enumerate(words)]
        key = json.dumps([rest, {name: value for name, value in run.items() if name != "command"}], sort_keys=True)
        _, _, values = found.setdefault(key, (run, words, {place: [] for place in parts}))
        for place, option in parts.items():
            values[place] += [part for part in words[place].split(_PARTS[option]) if part not in values[place]]
    return [_joined(*group) for group in found.values()]


def _joined(run: dict[str, Any], words: list[str], values: dict[int, list[str]]) -> dict[str, Any]:
    whole = [
        _PARTS[words[place - 1]].join(values[place]) if place in values else word for place, word in enumerate(words)
    ]
    return {**run, "command": shlex.join(whole)}
