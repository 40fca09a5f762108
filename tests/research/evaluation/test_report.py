"""Comparison of systems with a baseline."""

from __future__ import annotations

import dataclasses

from nearmt.research.evaluation import Evaluation, System, compare, evaluate_file, score, side_by_side
from nearmt.research.evaluation.report import markdown, signatures, table
from tests.research.evaluation.outputs import made_references, worsened

REFERENCES = made_references(15)


def measured(name: str, share: float, speed: float, *, ter: bool = False) -> System:
    outputs = worsened(REFERENCES, share, seed=1)
    result = Evaluation(
        **dataclasses.asdict(score(outputs, REFERENCES, ter=ter)),
        tokens_per_second=speed,
        searches_per_sentence=0.0,
        compared_per_sentence=0.0,
        average_interval=None,
        sentences=15,
        tokens=100,
        seconds=1.0,
        truncated=0,
        peak_memory_mib=1234.5,
        peak_device_memory_mib=None,
        signature=f"signature of {name}",
    )
    return System(name, result, outputs)


def from_file(name: str, share: float, *, ter: bool = False) -> System:
    outputs = worsened(REFERENCES, share, seed=2)
    return System(name, evaluate_file(f"{name}.txt", outputs, REFERENCES, ter=ter), outputs)


def test_every_system_is_compared_with_the_baseline() -> None:
    systems = [measured("a", 0.5, 10.0), measured("b", 0.1, 25.0), from_file("c", 0.2)]
    rows = side_by_side(systems, REFERENCES, "b")
    assert [row.speed_ratio for row in rows] == [0.4, 1.0, None]
    assert rows[1].comparisons == {}
    assert rows[2].comparisons["chrf"] == compare(systems[1].outputs, systems[2].outputs, REFERENCES, "chrf")
    shown = rows[0].as_dict()
    assert shown["name"] == "a" and shown["comparison"]["bleu"]["difference"] < 0
    assert rows[1].as_dict()["comparison"] is None


def test_speed_ratio_needs_two_timed_systems() -> None:
    rows = side_by_side([from_file("c", 0.2), measured("a", 0.5, 10.0)], REFERENCES, "c")
    assert [row.speed_ratio for row in rows] == [None, None]


def test_tables_leave_out_empty_columns() -> None:
    rows = side_by_side([measured("a", 0.5, 10.0), from_file("b|c", 0.2)], REFERENCES, "a")
    headings, first, second = table(rows)
    assert headings == [
        *("system", "BLEU", "Δ BLEU", "p", "chrF"),
        *("tokens/s", "ratio", "searches a sentence", "peak MiB"),
    ]
    assert first[0] == "a" and first[2] == "" and first[-1] == "1234"
    assert second[2].startswith("+") and second[5:] == ["", "", "", ""]
    lines = markdown(rows).split("\n")
    assert lines[3].startswith("| b\\|c | ") and lines[1].count("---") == len(headings)
    assert "- a: `signature of a`" in lines
    assert list(signatures(rows)) == ["a", "b|c", "BLEU", "chrF", "p"]


def test_ter_is_shown_and_compared_if_computed() -> None:
    a, b = measured("a", 0.5, 10.0, ter=True), from_file("b", 0.2, ter=True)
    rows = side_by_side([a, b], REFERENCES, "a")
    assert list(rows[1].comparisons) == ["bleu", "chrf", "ter"] and rows[1].comparisons["ter"].difference < 0
    headings, first, _ = table(rows)
    assert first[headings.index("TER")] == f"{a.result.ter:.2f}"
    assert list(signatures(rows)) == ["a", "b", "BLEU", "chrF", "TER", "p"]
    rows = side_by_side([measured("a", 0.5, 10.0), b], REFERENCES, "a")
    assert list(rows[1].comparisons) == ["bleu", "chrf"] and signatures(rows)["TER"] == b.result.ter_signature
