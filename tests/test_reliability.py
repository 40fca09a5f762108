"""The page of promises names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if row[-1] != "held by" and not set(row[0]) <= set("-|")]
    assert len(promises) > 25
    assert [row[0] for row in promises if "`tests/" not in row[-1]] == []


def test_every_test_that_it_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 30
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert (function in tests) if function else any(name.startswith("test_") for name in tests), (path, function)
