"""Inspection: statistics of a memory in one pass over its raw pairs."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import DROPS, REWRITES, Cleaner, CleaningConfig, clean
from nearmt.corpus.inspection import Inspection, Lengths, RuleEffect, inspect
from nearmt.corpus.report import Report

TEXTS = st.sampled_from(["a", "b ", " a", "Pumpe\x00", "Проверьте", "", "\t", "x" * 40, "y" * 1001, "zwei Wörter"])
PAIRS = st.lists(st.builds(Pair, source=TEXTS, target=TEXTS), max_size=15)


def look(*texts: tuple[str, str], config: CleaningConfig | None = None, examples: int = 3) -> Inspection:
    return inspect((Pair(*text) for text in texts), Report(), "de", "en", config, examples)


def effects(inspection: Inspection) -> dict[str, RuleEffect]:
    return {effect.rule: effect for effect in inspection.rules}


def is_whole(pair: Pair) -> bool:
    return bool(clean(pair.source) and clean(pair.target))


@given(PAIRS)
def test_counts_and_lengths(pairs: list[Pair]) -> None:
    report = Report()
    result = inspect(iter(pairs), report, "de", "en")
    whole = [clean(pair.source) for pair in pairs if is_whole(pair)]
    lengths = [len(text) for text in whole]
    assert result.pairs == len(whole)
    assert result.skipped.get("empty", 0) == len(pairs) - len(whole)
    assert result.distinct_sources == len(set(whole))
    if not lengths:
        assert result.source_lengths == Lengths()
        return
    assert result.source_lengths.mean == pytest.approx(statistics.mean(lengths), abs=0.051)
    assert result.source_lengths.median == statistics.median_low(lengths)
    assert result.source_lengths.max == max(lengths)
    assert sum(length <= result.source_lengths.p95 for length in lengths) >= 0.95 * len(lengths)
    assert sum(length < result.source_lengths.p95 for length in lengths) < 0.95 * len(lengths)
    assert result.source_lengths.words == sum(len(text.split()) for text in whole)


@given(PAIRS)
def test_counts_equal_those_of_each_rule_alone(pairs: list[Pair]) -> None:
    whole = [pair for pair in pairs if is_whole(pair)]
    found = effects(inspect(pairs, Report(), "de", "en"))
    tried: dict[str, Any] = {"max-ratio": 3.0, "max-length": 1000}
    for name in DROPS:
        report = Report()
        cleaner = Cleaner(CleaningConfig.from_mapping({name: tried.get(name, True)}), "de", "en", report)
        for pair in whole:
            cleaner(pair)
        assert found[name].count == report.dropped[name]
    for name in REWRITES:
        report = Report()
        others = {other: False for other in REWRITES if other != name}
        cleaner = Cleaner(CleaningConfig.from_mapping(others), "de", "en", report)
        for pair in whole:
            cleaner(pair)
        assert found[name].count == report.changed[name]


@given(PAIRS, st.integers(0, 4))
def test_number_of_examples_is_limited(pairs: list[Pair], most: int) -> None:
    result = inspect(pairs, Report(), "de", "en", examples=most)
    assert len(result.examples) == min(most, result.pairs)
    for effect in result.rules:
        assert len(effect.examples) == min(most, effect.count)


@given(PAIRS)
def test_inspection_converts_to_json(pairs: list[Pair]) -> None:
    report = Report(units=len(pairs))
    report.languages.update(["de", "de", "en"])
    report.skipped["fuzzy"] += 3
    report.problem(Path("m.po"), 3, "odd")
    values = json.loads(json.dumps(dataclasses.asdict(inspect(pairs, report, "de", "en", files=2))))
    assert values["files"] == 2 and values["units"] == len(pairs)
    assert values["languages"] == {"de": 2, "en": 1}
    assert values["skipped"]["fuzzy"] == 3
    assert values["problems"] == ["m.po, line 3: odd"] and values["problem_count"] == 1
    assert [rule["rule"] for rule in values["rules"]] == [*REWRITES, *DROPS]


def test_tried_settings_are_named() -> None:
    usual = [effect.setting for effect in look().rules]
    assert {"whitespace", "drop-duplicates", "max-ratio 3", "max-length 1000"} <= set(usual)
    config = CleaningConfig(max_ratio=2.5, max_length=1234567, whitespace=False)
    given_ones = [effect.setting for effect in look(config=config).rules]
    assert {"whitespace", "max-ratio 2.5", "max-length 1234567"} <= set(given_ones)


def test_examples_of_rules() -> None:
    found = effects(look(("a  b", "c"), ("d", "e\x07f"), ("g", "g"), ("a b", "c ")))
    assert found["whitespace"].examples == [("a  b", "a b"), ("c ", "c")]
    assert found["control-characters"].examples == [("e\x07f", "ef")]
    assert found["drop-identical"].examples == [("g", "g")]
    assert found["drop-duplicates"].examples == [("a b", "c")]


def test_long_examples_are_cut_around_the_change() -> None:
    found = effects(look(("a" * 5000 + "  " + "b" * 5000, "c" * 5000)))
    before, after = found["whitespace"].examples[0]
    assert before == "…" + "a" * 39 + "  " + "b" * 159 + "…"
    assert after == "…" + "a" * 39 + " " + "b" * 160 + "…"
    assert found["max-length"].examples == [("a" * 200 + "…", "c" * 200 + "…")]


def test_problems_of_readers_are_included() -> None:
    report = Report()

    def reader() -> Iterator[Pair]:
        for number in range(4):
            report.units += 1
            yield Pair(f"Satz {number}", f"sentence {number}")
        report.problem(Path("m.tsv"), 5, "no tab")

    result = inspect(reader(), report, "de", "en")
    assert (result.units, result.pairs, result.problem_count) == (4, 4, 1)
    assert result.examples[0] == ("Satz 0", "sentence 0")
