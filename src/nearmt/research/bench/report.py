"""The frame that all reports of benchmarks share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nearmt.models import ModelConfig
from nearmt.research.machine import describe_commit, describe_machine


def make_report(
    benchmark: str, model: ModelConfig, data: str, cells: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """Put the cells of a benchmark together with its date, commit, machine and data; `more` goes before the cells."""
    machine = describe_machine(model)
    del machine["precision"]  # each cell has its own
    return {
        "benchmark": benchmark,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": describe_commit(),
        "machine": machine,
        "data": data,
        **more,
        "cells": cells,
    }
