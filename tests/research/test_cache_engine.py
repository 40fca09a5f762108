"""The engine of a cache, and how tables of speeds name it."""

from __future__ import annotations

from typing import Any

import pytest

from nearmt.methods import PRESETS
from nearmt.research.cache_engine import cache_engine
from nearmt.research.experiments.tables import metric_table


@pytest.mark.parametrize("preset", PRESETS)
def test_caches_of_the_paper_run_in_torch(preset: str) -> None:
    assert cache_engine("chunk", PRESETS[preset]) == "torch"


def test_default_cache_runs_on_the_engine() -> None:
    assert cache_engine("chunk", {}) == cache_engine("chunk", {"scope": "source", "k": 4, "seeds": 0}) == "engine"
    assert cache_engine("chunk", {"varying-chunk": True}) == "torch"
    assert cache_engine("knn", {}) is None


def report_of(**rows: dict[str, Any]) -> dict[str, Any]:
    """A report of one domain; rows give the fields of their cells."""
    cells = {
        name: {"run": 0, "evaluation": {"bleu": 30.0, "tokens_per_second": 100.0}, "settings": {}, **fields}
        for name, fields in rows.items()
    }
    return {
        "rows": [{"name": name, "label": name.title()} for name in rows],
        "domains": ["law"],
        "runs": [{"speeds_count": True}],
        "cells": {"law": cells},
    }


@pytest.mark.parametrize("fields", [{"cache": "torch"}, {"settings": {"scope": "batch"}}], ids=["new", "old report"])
def test_speed_tables_mark_torch_caches_among_others(fields: dict[str, Any]) -> None:
    report = report_of(chunk={"cache": "engine"}, paper=fields)
    table = str(metric_table(report, "tokens_per_second"))
    assert "| Chunk | 100 |" in table and "| Paper † | 100 |" in table and "plain torch" in table
    assert "†" not in str(metric_table(report, "bleu"))


def test_speed_tables_of_one_engine_have_no_marks() -> None:
    table = str(metric_table(report_of(one={"cache": "torch"}, other={"cache": "torch"}), "tokens_per_second"))
    assert "| One | 100 |" in table and "all rows run in plain torch" in table
    table = str(metric_table(report_of(plain={}, chunk={"cache": "engine"}), "tokens_per_second"))
    assert "torch" not in table
