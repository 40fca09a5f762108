"""Every experiment end to end, with a tiny model on generated text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nearmt.research.experiments import EXPERIMENTS
from nearmt.research.experiments.rows import Row
from nearmt.research.experiments.tables import METRICS
from tests.research.experiments.conftest import Runner

#: Columns of the tiny model's keys; a cache uses at most these.
COLUMNS = 16
#: The others are run by tests of their own.
OTHERS = [name for name in EXPERIMENTS if name not in ("main", "contrast", "support")]


@pytest.mark.parametrize("name", OTHERS)
def test_every_experiment_runs(runner: Runner, name: str) -> None:
    changes = {"domains": "koran", "tune": "none", "limit": 2}
    measured = runner.measure(name, **changes)
    wanted = [row.name for row in EXPERIMENTS[name].rows if row.search_device != "cpu"]
    assert measured == len(wanted)
    written = runner.report(name, **changes)
    report = json.loads((runner.out / f"{name}.json").read_text(encoding="utf-8"))
    assert list(report["cells"]["koran"]) == wanted == [row["name"] for row in report["rows"]]
    assert report == json.loads(json.dumps(written.report))
    page = (runner.out / f"{name}.md").read_text(encoding="utf-8")
    for metric in set(EXPERIMENTS[name].metrics) - {"comet", "ter"}:
        assert f"## {METRICS[metric][0]}\n" in page
    # The signature contains the row's settings.
    for row in EXPERIMENTS[name].rows:
        if row.name in report["cells"]["koran"]:
            check_settings(row, report["cells"]["koran"][row.name]["evaluation"]["signature"])


def check_settings(row: Row, signature: str) -> None:
    assert f"|method:{row.method}" in signature
    for setting, value in row.settings.items():
        used = min(value, COLUMNS) if setting == "cache-columns" else value
        assert f"|{setting}:{used}|" in signature + "|"
    assert f"|batch:{row.batch_size or 2}" in signature


def test_main_measures_all_systems(finished: Runner) -> None:
    written = finished.report("main")
    cells = written.report["cells"]
    assert written.report["domains"] == ["law", "koran"]  # as in the paper
    assert len({cell["evaluation"]["signature"] for found in cells.values() for cell in found.values()}) == 15
    assert cells["law"]["base"]["evaluation"]["signature"] == cells["koran"]["base"]["evaluation"]["signature"]
    for cell in cells["koran"].values():
        assert cell["evaluation"]["sentences"] == 3
    assert "OUT/finetuned/koran" in cells["koran"]["fine-tuned"]["evaluation"]["signature"]
    assert cells["koran"]["efficient"]["facts"]["memory"]["kept"] < cells["koran"]["knn"]["facts"]["memory"]["kept"]
    adaptive = cells["koran"]["adaptive-chunk"]["settings"]
    assert adaptive["adaptive"] == "OUT/adaptive/koran.chunk" and set(adaptive) == {"adaptive", "adaptive-boost"}
    assert cells["koran"]["knn"]["comparison"] is None
    assert cells["koran"]["chunk"]["comparison"]["with"] == "knn"
    assert cells["koran"]["chunk"]["dev_score"] == cells["koran"]["chunk"]["facts"]["tuning"]["score"]


def test_reports_contain_no_sentences_and_no_paths(finished: Runner) -> None:
    finished.report("main")
    files = [path for suffix in ("json", "md", "svg") for path in finished.out.glob(f"*.{suffix}")]
    files += list((finished.out / "cells").rglob("*.json"))
    assert len(files) > 16
    sentences = [
        side
        for path in finished.data.rglob("*.tsv")
        for line in path.read_text(encoding="utf-8").splitlines()
        for side in line.split("\t")
        if len(side.split()) > 2
    ]
    sentences += [
        line
        for path in (finished.out / "translations").rglob("*.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
        if len(line.split()) > 2
    ]
    assert len(sentences) > 300
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert str(finished.out.parent) not in text and str(finished.data) not in text, file
        assert not any(sentence in text for sentence in sentences), file


def test_rows_that_share_tuned_settings_are_the_same_system() -> None:
    systems: dict[str, tuple[object, ...]] = {}
    for experiment in EXPERIMENTS.values():
        for row in experiment.rows:
            # The guard does not affect tuning, so one row may be another without it.
            settings = {name: value for name, value in row.settings.items() if name != "guard"}
            system = (row.method, settings, row.pruned, row.adaptive, row.network, row.fine_tuned)
            assert systems.setdefault(row.tuning_name if row.method != "plain" else row.name, system) == system
    assert {name for name in systems if not re.fullmatch(r"[a-z0-9-]+", name)} == set()


def test_examples_are_written_as_html(runner: Runner, data: Path) -> None:
    runner.measure("examples", tune="none", domains="koran")
    written = runner.report("examples")
    assert written.files == ["examples.json", "examples.md", "examples.html"]
    page = (runner.out / "examples.html").read_text(encoding="utf-8")
    sources = [line.split("\t")[0] for line in (data / "koran" / "test.tsv").read_text(encoding="utf-8").splitlines()]
    assert page.count("<section>") == 2
    assert sources[0] in page and sources[1] in page  # 2 of 3, evenly spread
    assert "<b>step 1</b>" in page and "http" not in page
