"""The reports of experiments, from the command line and for the documentation."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from nearmt.cli.main import run
from nearmt.errors import MissingPackageError
from nearmt.models import ModelConfig
from nearmt.research.experiments import EXPERIMENTS, Artefacts, Setup, run_tasks, tasks_of, write_report
from nearmt.research.experiments.plots import plot
from nearmt.research.experiments.tables import METRICS, markdown
from tests.models.tokenizers import tokenizer_folder
from tests.research.experiments.conftest import Runner, write_folder
from tools.results_table import tables, take

COMET = """#!{python}
import sys
words = sys.argv[1:]
files = words[words.index("-t") + 1 : words.index("-r")]
for number, file in enumerate(files):
    print(f"{{file}}\\tscore: {{0.5 + number / 100:.4f}}")
"""


def arguments(runner: Runner, name: str, *more: str) -> list[str]:
    paths = ["--data", str(runner.data), "--out", str(runner.out), "--model", runner.model]
    small = ["--device", "cpu", "--limit", "2", "--tune", "none", "--set", "max-new-tokens=8"]
    return ["experiment", name, *paths, *small, *more]


def test_command_prints_and_writes_the_report(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    line = arguments(runner, "main", "--rows", "base,knn,chunk", "--domains", "koran", "--commit", "abc")
    assert run(line) == 0
    captured = capsys.readouterr()
    assert captured.out == (runner.out / "main.md").read_text(encoding="utf-8") + "\n"
    assert [row.split()[:3] for row in captured.err.splitlines()[:3]] == [
        ["main", "koran", row] for row in ("base", "knn", "chunk")
    ]
    report = json.loads((runner.out / "main.json").read_text(encoding="utf-8"))
    (made,) = report["runs"]
    assert made["commit"] == "abc" and made["machine"]["precision"] == "fp32"
    assert made["command"].startswith("nearmt experiment main --data DATA --out OUT ") and "/" not in made["command"]
    assert run([*line, "--report"]) == 0
    assert capsys.readouterr().out == captured.out
    assert run(arguments(runner, "all", "--report")) == 0
    assert capsys.readouterr().out == captured.out


def test_examples_are_printed(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments(runner, "examples", "--domains", "koran", "--examples", "1")) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("source  ") and "step 1" in shown


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--rows", "nothing"], "has no row 'nothing'"),
        (["--domains", "nowhere"], "has no folder 'nowhere'"),
        (["--report"], "has no results of the experiment main"),
        (["--comet", "no-such-program"], "no such program"),
        (["--tune-budget", "0"], "tune-budget = 0: must be at least 1"),
    ],
)
def test_errors_are_one_line(runner: Runner, capsys: pytest.CaptureFixture[str], more: list[str], message: str) -> None:
    assert run(arguments(runner, "main", *more)) in (1, 2)
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not runner.out.exists()


def test_comet_scores_are_added_to_existing_translations(finished: Runner, tmp_path: Path) -> None:
    program = tmp_path / "comet-score"
    program.write_text(COMET.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    for kept in ("cells", "translations"):
        shutil.copytree(finished.out / kept, tmp_path / "out" / kept)
    runner = Runner(finished.data, tmp_path / "out", finished.model)
    assert "## COMET" not in page_of(runner)
    cells = runner.report("main", comet=str(program)).report["cells"]
    scores = [cell["evaluation"]["comet"] for cell in cells["koran"].values()]
    assert scores == [0.5, 0.51, 0.52, 0.53, 0.54, 0.55, 0.56, 0.57]
    program.unlink()  # scores are stored
    assert "## COMET" in page_of(runner)
    assert runner.measure("main") == 0


def page_of(runner: Runner) -> str:
    runner.report("main")
    return (runner.out / "main.md").read_text(encoding="utf-8")


def test_reports_of_earlier_versions_show_ter(finished: Runner) -> None:
    published = Path(__file__).parents[3] / "benchmarks" / "results" / "main.json"
    heading = f"## {METRICS['ter'][0]}\n"
    assert heading in markdown(json.loads(published.read_text(encoding="utf-8")))
    assert heading not in page_of(finished)


def test_only_the_plot_needs_matplotlib(finished: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    written = finished.report("main")
    assert written.files == ["main.json", "main.md"]
    assert len(written.notes) == 1 and "nearmt[plots]" in written.notes[0]
    with pytest.raises(MissingPackageError):
        plot(written.report, finished.out / "main.svg")


def test_plots_are_reproducible(finished: Runner, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report = finished.report("main").report
    for name in ("one.svg", "other.svg"):
        assert plot(report, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert drawn == (tmp_path / "other.svg").read_text(encoding="utf-8")
    for text in ("Koran", "BLEU", "Tokens a second", "Efficient kNN-MT"):
        assert text in drawn


def test_tables_of_the_documentation(finished: Runner, tmp_path: Path) -> None:
    assert tables("main", True, tmp_path) == "*(not measured yet)*"
    report = finished.report("main").report
    shutil.copy(finished.out / "main.json", tmp_path / "main-cpu.json")
    (tmp_path / "older.json").write_text('{"systems": {}}', encoding="utf-8")
    short, long = tables("main", True, tmp_path), tables("main", False, tmp_path)
    knn = report["cells"]["koran"]["knn"]["evaluation"]
    for found in (short, long):
        assert f" {knn['bleu']:.2f} |" in found and "main-cpu.json" in found and "cpu, fp32" in found
    assert "chrF" in long and "chrF" not in short
    assert tables("speed", False, tmp_path) == "*(not measured yet)*"
    shutil.copy(finished.out / "main.json", tmp_path / "main-gpu.json")
    assert tables("main", True, tmp_path, file="main-cpu") == short


def test_reports_are_copied_for_the_documentation(finished: Runner, tmp_path: Path) -> None:
    report = finished.report("main").report
    assert take(finished.out, tmp_path) == [tmp_path / "main.json"]
    assert json.loads((tmp_path / "main.json").read_text(encoding="utf-8")) == report
    cell: dict[str, Any] = {"evaluation": {"windows": []}}
    stream = {"experiment": "on-the-fly", "domains": ["law"], "cells": {"law": {"base": cell}}}
    out = tmp_path / "out"
    out.mkdir()
    (out / "on-the-fly.json").write_text(json.dumps(stream), encoding="utf-8")
    assert take(out, tmp_path) == [tmp_path / "on-the-fly-law.json"]


def test_several_languages_in_one_run(runner: Runner, tmp_path: Path) -> None:
    """A multilingual model, with folders named after language pairs."""
    for seed, name in enumerate(("es-fr", "emea_et-it")):
        write_folder(tmp_path / "data" / name, {"train": 20, "dev": 2, "test": 2}, seed)
    model = tokenizer_folder("mbart50", tmp_path)
    known = runner.artefacts(rows="base,knn,chunk").setup
    setup = Setup(
        tmp_path / "data",
        tmp_path / "out",
        known.config,
        ModelConfig(model=str(model), device="cpu", precision="fp32"),
        known.store,
        known.beam,
    )
    artefacts = Artefacts(setup)
    assert run_tasks(artefacts, tasks_of(artefacts, EXPERIMENTS["languages"]), "command") == 6
    report = write_report(artefacts, EXPERIMENTS["languages"]).report
    assert sorted(report["cells"]) == ["emea_et-it", "es-fr"]
    domains = {task.domain.name: task.domain for task in tasks_of(artefacts, EXPERIMENTS["languages"])}
    spoken = {name: artefacts.model(domain).language_pair for name, domain in domains.items()}
    assert spoken == {"es-fr": ("es", "fr"), "emea_et-it": ("et", "it")}
