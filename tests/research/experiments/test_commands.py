"""The commands listed in a report."""

from __future__ import annotations

from typing import Any

import pytest

from nearmt.research.experiments.commands import merged_runs


def made(command: str, **more: Any) -> dict[str, Any]:
    return {"command": command, "commit": "abc", "machine": {"device": "cpu"}, "speeds_count": True, **more}


def test_runs_of_different_parts_are_merged() -> None:
    runs = [
        made("nearmt experiment main --out OUT --domains koran --rows base,knn --tune-budget 8 --fine-tune none"),
        made("nearmt experiment main --out OUT --domains law --rows base,knn --tune-budget 8 --fine-tune none"),
        made("nearmt experiment main --out OUT --domains koran --rows chunk,knn --tune-budget 12 --fine-tune none"),
    ]
    (whole,) = merged_runs(runs)
    line = "nearmt experiment main --out OUT --domains koran,law --rows base,knn,chunk --tune-budget 8/12"
    assert whole == made(f"{line} --fine-tune none")


@pytest.mark.parametrize(
    "other",
    [
        made("nearmt experiment main --domains law --fine-tune grid"),
        made("nearmt experiment main --domains law --rows base --fine-tune none"),  # the first run has all rows
        made("nearmt experiment main --fine-tune none --domains law"),
        made("nearmt experiment main --domains law --fine-tune none", commit="def"),
        made("nearmt experiment main --domains law --fine-tune none", machine={"device": "cuda"}),
        made("nearmt experiment main --domains law --fine-tune none", speeds_count=False),
    ],
)
def test_runs_that_differ_otherwise_are_not_merged(other: dict[str, Any]) -> None:
    first = made("nearmt experiment main --domains koran --fine-tune none")
    assert merged_runs([first, other, first]) == [first, other]


def test_arguments_with_spaces_are_quoted() -> None:
    runs = [made(f"nearmt experiment main --model 'my model' --domains {name}") for name in ("a", "b")]
    (whole,) = merged_runs(runs)
    assert whole["command"] == "nearmt experiment main --model 'my model' --domains a,b"
    assert merged_runs([made("nearmt experiment main --domains")])[0]["command"].endswith("--domains")
