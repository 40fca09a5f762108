"""The experiment contrast, end to end with a tiny model on two groups and a term."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nearmt.cli.main import run
from nearmt.datastore import Datastore
from nearmt.errors import ConfigError, InputError
from nearmt.research.experiments import EXPERIMENTS, ResultFiles
from nearmt.research.experiments.config import ExperimentConfig
from nearmt.research.experiments.contrast import read_system
from nearmt.research.experiments.contrast_items import VARIANTS
from nearmt.research.experiments.contrast_running import summary
from nearmt.research.experiments.tables import markdown
from tests.research.experiments.conftest import DOMAIN, Runner

NAME = "contrast"
ROWS = ["base", "knn", "knn-ten", "chunk", "chunk-ten", "paper", "paper-ten"]
ASKS, TERMS = 3, 1


def group(name: str, noun: str, english: str) -> str:
    variants = ",".join(f'["{noun} prüfen {"immer " * n}.", "check {english} {"always " * n}."]' for n in range(1, 11))
    return f"""
[[group]]
id = "{name}"
stored = ["{noun} prüfen .", "check {english} ."]
variants = [{variants}]
[[group.ask]]
kind = "verb"
source = "{noun} reinigen ."
accepted = ["clean"]
forbidden = ["check"]
"""


SECOND = """[[group.ask]]
kind = "noun"
words = 2
source = "deckel reinigen ."
accepted = ["cover"]
accepted2 = ["clean"]
forbidden = ["valve", "check"]
"""
TERM = """
[[group]]
id = "term"
term = ["welle", "shaft"]
stored = [["die welle .", "the shaft ."], ["welle öffnen .", "open shaft ."]]
[[group.ask]]
source = "welle prüfen ."
accepted = ["shaft"]
"""


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("items")
    (folder / "short.toml").write_text(group("pump", "pumpe", "pump"), encoding="utf-8")
    (folder / "long.toml").write_text(group("valve", "ventil", "valve") + SECOND, encoding="utf-8")
    (folder / "terminology.toml").write_text(TERM, encoding="utf-8")
    return folder


@pytest.fixture
def quick(items: Path) -> dict[str, Any]:
    return {"items": str(items), "half": "all", "domains": "koran", "memory_limit": 20}


def test_all_rows_are_measured_and_reported(runner: Runner, quick: dict[str, Any]) -> None:
    assert runner.measure(NAME, **quick) == len(ROWS)
    assert runner.measure(NAME, **quick) == 0
    written = runner.report(NAME, **quick)
    assert written.files == ["contrast.json", "contrast.md", "contrast.failures.jsonl"]
    report = json.loads((runner.out / "contrast.json").read_text(encoding="utf-8"))
    cells = report["cells"]["koran"]
    assert list(cells) == ROWS
    for name, cell in cells.items():
        counts, ten = cell["evaluation"]["counts"], name.endswith("-ten")
        assert counts["total"]["asks"] == ASKS == sum(kind["asks"] for kind in counts["kind"].values())
        assert counts["terminology"]["asks"] == (0 if ten else TERMS)
        assert list(counts["length"]) == ["short", "long"] and list(counts["words"]) == ["1", "2"]
        assert ("kept" in counts["total"]) == (name != "base")
        assert (
            f"|method:{'plain' if name == 'base' else name.partition('-')[0].replace('paper', 'chunk')}"
            in (cell["evaluation"]["signature"])
        )
    assert "asks" not in cells["knn"]["evaluation"]
    assert report["runs"][0]["commit"] and report["runs"][0]["machine"]["device"] == "cpu"
    page = (runner.out / "contrast.md").read_text(encoding="utf-8")
    assert "| verb | 2 |" in page and "| terminology | 1 |" in page and "| words that differ: 2 | 1 |" in page


def test_memories_hold_pairs_of_memory_and_items(runner: Runner, quick: dict[str, Any]) -> None:
    runner.measure(NAME, **quick, rows="knn,knn-ten")
    assert Datastore.open(runner.out / NAME / "koran.all.terminology").manifest.pairs == 20 + 2
    cells = runner.report(NAME, **quick).report["cells"]["koran"]
    memories = {name: cells[name]["facts"]["memories"] for name in cells}
    assert memories["base"] == {}
    assert memories["knn"]["contrast"]["pairs"] == 22
    assert memories["knn-ten"]["contrast"]["pairs"] == 20 + 2 * (1 + VARIANTS)
    assert runner.measure(NAME, **{**quick, "memory_limit": None}, rows="knn") == 1  # base has no memory
    whole = runner.report(NAME, **quick).report["cells"]["koran"]["knn"]
    assert whole["facts"]["memories"]["contrast"]["pairs"] == DOMAIN["train"] + 2


def test_failures_have_the_stored_target_and_the_output(runner: Runner, quick: dict[str, Any]) -> None:
    runner.measure(NAME, **quick, rows="knn-ten")
    runner.report(NAME, **quick)
    lines = (runner.out / "contrast.failures.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    results = ResultFiles(runner.out)
    for row in ("base", "knn-ten"):
        cell = results.cell(NAME, "koran", row)
        assert cell is not None
        wrong = [ask["id"] for ask in cell.evaluation["asks"] if not ask["right"]]
        assert [each["id"] for each in found if each["row"] == row] == wrong
    first = next(each for each in found if each["id"] == "valve/1")
    assert (first["source"], first["stored"]) == ("ventil reinigen .", "check valve .")
    assert set(first) == {"memory", "row", "id", "kind", "copied", "source", "stored", "output"}


def test_base_is_always_measured_and_shared_by_memories(runner: Runner, quick: dict[str, Any]) -> None:
    assert runner.measure(NAME, **{**quick, "domains": "koran,law"}, rows="chunk") == 4
    results = ResultFiles(runner.out)
    cells = [results.cell(NAME, domain, "base") for domain in ("koran", "law")]
    assert cells[0] and cells[1] and cells[0].date == cells[1].date


def test_kept_needs_the_same_asks(runner: Runner, quick: dict[str, Any]) -> None:
    runner.measure(NAME, **quick, rows="knn")
    path = ResultFiles(runner.out).cell_path(NAME, "koran", "base")
    cell = json.loads(path.read_text(encoding="utf-8"))
    for ask in cell["evaluation"]["asks"]:
        ask["right"] = True
    path.write_text(json.dumps(cell), encoding="utf-8")
    counts = runner.report(NAME).report["cells"]["koran"]["knn"]["evaluation"]["counts"]["total"]
    assert counts["alone"] == ASKS and counts["kept"] == counts["right"]
    runner.measure(NAME, **quick, rows="base", limit=1)
    assert "kept" not in runner.report(NAME).report["cells"]["koran"]["knn"]["evaluation"]["counts"]["total"]


def test_right_and_kept_are_percentages() -> None:
    about = {"kind": "noun", "length": "short", "words": 1, "position": "late"}
    judged = [{**about, "id": str(number), "right": number < 2} for number in range(4)]
    term = {**dict.fromkeys(about), "kind": "terminology", "id": "t", "right": True}
    found = summary([*judged, term], {"0": True, "3": True, "t": False})
    assert (found["right"], found["kept"], found["terms"]) == (50, 50, 100)


def test_the_limit_counts_asks(runner: Runner, quick: dict[str, Any]) -> None:
    runner.measure(NAME, **quick, rows="base", limit=1)
    cell = ResultFiles(runner.out).cell(NAME, "koran", "base")
    assert cell is not None and [ask["id"] for ask in cell.evaluation["asks"]] == ["valve/1", "term/1"]


# Systems of files.


def test_files_are_further_rows(runner: Runner, quick: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "weak.toml"
    file.write_text('method = "knn"\nlambda = 0.0\nguard = false\n[tuning]\nscore = 1\n', encoding="utf-8")
    assert runner.measure(NAME, **quick, systems=str(file), rows="weak,weak-ten") == 3
    report = runner.report(NAME).report  # without the file
    assert [row["label"] for row in report["rows"]] == ["Base MT", "weak", "weak, ten variants"]
    cells = report["cells"]["koran"]
    assert cells["weak"]["settings"] == {"lambda": 0.0, "guard": False}
    counts = {name: cells[name]["evaluation"]["counts"]["total"]["right"] for name in cells}
    assert len(set(counts.values())) == 1  # weight 0 is the model alone
    assert markdown(report).count("weak, ten variants") >= 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('method = "plain"', "must be one of knn"),
        ('method = "other"', "must be one of knn"),
        ('preset = "other"', "preset = 'other'"),
        ('method = "knn"\npreset = "paper"', "with method chunk"),
        ("lamda = 0.5", "unknown setting 'lamda'"),
        ("lambda = 2.0", "system.toml: lambda = 2.0"),
    ],
)
def test_wrong_systems_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "system.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_system(path)


def test_presets_of_files_are_resolved(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('preset = "paper"\nk = 4', encoding="utf-8")
    row = read_system(path)
    paper = next(row for row in EXPERIMENTS[NAME].rows if row.name == "paper")
    assert row.method == "chunk" and row.settings == {**paper.settings, "k": 4}


def test_names_of_rows_are_checked(tmp_path: Path) -> None:
    experiment = EXPERIMENTS[NAME]
    with pytest.raises(ConfigError, match="has no row 'chunks'; did you mean"):
        experiment.chosen(ExperimentConfig(rows="chunks"))
    for name, message in (("knn.toml", "called 'knn' already"), ("a b.toml", "only letters")):
        (tmp_path / name).write_text("k = 4", encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            experiment.chosen(ExperimentConfig(systems=str(tmp_path / name)))


# The command.


def test_missing_items_are_reported_before_any_work(runner: Runner, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no items"):
        runner.measure(NAME, domains="koran", items=str(tmp_path))
    assert not runner.out.exists()


def test_the_command_prints_tables_and_names_no_paths(
    runner: Runner, items: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--data", str(runner.data), "--out", str(runner.out), "--items", str(items), "--model", runner.model]
    options = ["--domains", "koran", "--rows", "base", "--half", "all", "--beams", "1", "--device", "cpu"]
    assert run(["experiment", NAME, *places, *options, "--set", "max-new-tokens=8"]) == 0
    shown = capsys.readouterr()
    assert "of 4 right" in shown.err and "contrast.failures.jsonl" in shown.err
    assert "## Koran: right, and kept, in %" in shown.out
    report = (runner.out / "contrast.json").read_text(encoding="utf-8")
    assert f"--items {items.name}" in report and str(items) not in report and str(runner.out) not in report


def test_all_leaves_it_out() -> None:
    assert [name for name, experiment in EXPERIMENTS.items() if not experiment.runs_with_all] == [NAME]
