"""A pair as JSON: the same in segments and in the log."""

from __future__ import annotations

from typing import Any

from nearmt.contracts import Pair


def pair_to_json(pair: Pair) -> dict[str, Any]:
    fields = {"id": pair.id, "source": pair.source, "target": pair.target, "origin": pair.origin}
    return {**fields, "metadata": dict(sorted(pair.metadata.items()))} if pair.metadata else fields


def pair_from_json(raw: dict[str, Any]) -> Pair:
    return Pair(**raw)
