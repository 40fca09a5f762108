"""A cell is measured once, and again only if its inputs change."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

import nearmt.research.experiments.running as running
from nearmt.errors import ConfigError, InputError, NearmtError
from nearmt.research.evaluation import evaluate
from nearmt.research.experiments import EXPERIMENTS, Artefacts, Cell, tasks_of
from nearmt.research.experiments.running import Task
from nearmt.research.experiments.tables import difference_table, metric_table
from tests.research.experiments.conftest import MakeRunner, Runner

QUICK = {"tune": "none", "limit": 1, "fine_tune": "none"}


@pytest.fixture
def forbid_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model is an error."""

    def refuse(*_: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("nearmt.research.experiments.artefacts.load_model", refuse)
    monkeypatch.setattr("nearmt.research.experiments.running.evaluate", refuse)


@pytest.mark.usefixtures("forbid_loading")
def test_second_run_changes_no_file(finished: Runner) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.out.rglob("*") if "locks" not in path.parts}
    assert finished.measure("main") == 0
    after = {path: path.stat().st_mtime_ns for path in finished.out.rglob("*") if "locks" not in path.parts}
    assert before == after


@pytest.mark.usefixtures("forbid_loading")
def test_cells_of_another_experiment_are_reused(finished: Runner) -> None:
    assert finished.measure("languages") == 8
    cells = finished.report("languages").report["cells"]
    assert (
        cells["koran"]["chunk"]["evaluation"] == finished.report("main").report["cells"]["koran"]["chunk"]["evaluation"]
    )
    shutil.rmtree(finished.out / "cells" / "languages")


@pytest.mark.usefixtures("forbid_loading")
def test_reports_need_neither_model_nor_data(finished: Runner, make_runner: MakeRunner, tmp_path: Path) -> None:
    first = finished.report("main")
    page = (finished.out / "main.md").read_text(encoding="utf-8")
    for kept in ("cells", "translations"):
        shutil.copytree(finished.out / kept, tmp_path / "copy" / kept)
    copy = make_runner("copy", tmp_path / "nowhere")
    assert copy.report("main").report == first.report
    assert (copy.out / "main.md").read_text(encoding="utf-8") == page


def test_only_changed_cells_are_measured_again(runner: Runner) -> None:
    rows = "base,knn,chunk"
    assert runner.measure("main", rows=rows, domains="koran", **QUICK) == 3
    assert runner.measure("main", rows=rows, **QUICK) == 3  # the other domain
    assert runner.measure("main", rows=rows, **{**QUICK, "limit": 2}) == 6
    assert runner.measure("main", rows=rows, **{**QUICK, "limit": 2, "tune": "smart"}) == 4  # base is not tuned
    assert runner.measure("main", rows=rows, **{**QUICK, "limit": 2, "tune": "smart"}) == 0


def test_changed_data_is_measured_again(make_runner: MakeRunner, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    runner = make_runner(data=tmp_path / "data")
    rows = "base,knn"
    assert runner.measure("main", rows=rows, **QUICK) == 4
    with (tmp_path / "data" / "koran" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("die pumpe\tthe pump\n")
    assert runner.measure("main", rows=rows, **QUICK) == 1  # the datastore of one domain
    assert runner.report("main").report["cells"]["koran"]["knn"]["facts"]["memory"]["pairs"] == 31
    shutil.copy(tmp_path / "data" / "law" / "test.tsv", tmp_path / "data" / "koran" / "test.tsv")
    # The base model's result on these lines is copied from law; the datastore's is measured.
    assert runner.measure("main", rows=rows, **QUICK) == 2


def test_damaged_and_unfinished_cells_are_measured_again(runner: Runner) -> None:
    def measure() -> int:
        return runner.measure("main", rows="base", domains="koran", **QUICK)

    assert measure() == 1
    cell = runner.out / "cells" / "main" / "koran.base.json"
    for content in ("", "{", "[]", json.dumps({**json.loads(cell.read_text(encoding="utf-8")), "version": 0})):
        cell.write_text(content, encoding="utf-8")
        assert measure() == 1
    (runner.out / "translations" / "main" / "koran.base.txt").unlink()
    assert measure() == 1
    assert measure() == 0


def test_interrupted_run_resumes(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def once(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "evaluate", once)
    with pytest.raises(KeyboardInterrupt):
        runner.measure("main", rows="base,knn,chunk", domains="koran", **QUICK)
    assert [cell.row for cell in runner.artefacts().results.cells("main")] == ["base"]
    assert runner.measure("main", rows="base,knn,chunk", domains="koran", **QUICK) == 2
    assert len(calls) == 4


@pytest.mark.usefixtures("forbid_loading")
def test_concurrent_runs_share_the_work(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell is measured by exactly one of two runs."""
    both_running, counts, workers = threading.Barrier(2), list[int](), set[int]()

    def fake_measure(artefacts: Artefacts, task: Task, command: str) -> Cell:
        # Both runs measure their first cell at the same time.
        if threading.get_ident() not in workers:
            workers.add(threading.get_ident())
            both_running.wait(60)
        key, test = (task.experiment.name, task.domain.name, task.row.name), "0123"
        machine = {"device": "cpu", "precision": "fp32", "threads": 1, "torch": "2"}
        signature = running.signature_of(artefacts, task)
        cell = Cell(*key, signature, test, {}, {}, {}, machine, True, "commit", "date", command)
        artefacts.results.keep(cell, ["a"])
        return cell

    monkeypatch.setattr(running, "_measure", fake_measure)

    def work() -> None:
        counts.append(runner.measure("main", rows="base,knn,chunk", **QUICK))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 6 and min(counts) >= 1
    cells = runner.report("main").report["cells"]
    assert {domain: len(found) for domain, found in cells.items()} == {"law": 3, "koran": 3}


def test_report_merges_cells_of_several_processes(make_runner: MakeRunner) -> None:
    one, other = make_runner("one"), make_runner("other")
    one.measure("main", rows="base,knn", domains="koran", **QUICK)
    other.measure("main", rows="chunk", domains="koran", **QUICK)
    other.measure("main", rows="base", domains="law", **QUICK)
    for kept in ("cells", "translations"):
        shutil.copytree(other.out / kept, one.out / kept, dirs_exist_ok=True)
    report = one.report("main").report
    assert {domain: list(cells) for domain, cells in report["cells"].items()} == {
        "law": ["base"],
        "koran": ["base", "knn", "chunk"],
    }
    assert report["cells"]["koran"]["chunk"]["comparison"]["with"] == "knn"
    assert "Average" in str(metric_table(report, "bleu"))


def test_tables_match_the_cells(finished: Runner) -> None:
    report = finished.report("main").report
    lines = [line.strip("| ").split(" | ") for line in str(metric_table(report, "bleu")).splitlines()]
    assert lines[0] == ["Law", "Koran", "Average"]
    assert len(lines) == 2 + 8
    for line, row in zip(lines[2:], report["rows"], strict=True):
        scores = [report["cells"][domain][row["name"]]["evaluation"]["bleu"] for domain in ("law", "koran")]
        assert line == [row["label"], *(f"{score:.2f}" for score in (*scores, sum(scores) / 2))]
    differences = str(difference_table(report)).splitlines()
    assert "kNN-MT" in differences[0] and len(differences) == 2 + 2 + 7


def test_speeds_measured_alongside_other_programs_are_not_shown(runner: Runner) -> None:
    def measure(side_by_side: bool) -> int:
        return runner.measure("schedules", rows="paper-every-6", domains="koran", side_by_side=side_by_side, **QUICK)

    assert measure(side_by_side=True) == 1
    assert "Tokens a second" not in (runner.out / runner.report("schedules").files[1]).read_text()
    assert measure(side_by_side=False) == 1  # to get a valid speed
    assert measure(side_by_side=True) == 0
    assert "Tokens a second" in (runner.out / runner.report("schedules").files[1]).read_text()


def test_speed_uses_the_settings_of_main(finished: Runner) -> None:
    tuned = json.loads((finished.out / "tuned" / "koran.chunk.json").read_text(encoding="utf-8"))["settings"]
    tasks = tasks_of(finished.artefacts(), EXPERIMENTS["speed"])
    row = next(task.row for task in tasks if task.domain.name == "koran" and task.row.name == "chunk-b16-model")
    assert row.settings == tuned != {} and not row.tunable


@pytest.mark.parametrize(
    ("missing", "name", "message"),
    [
        ("koran/test.tsv", "main", "has no file test"),
        ("koran/train.tsv", "strategies", "has no file train"),
        ("koran/dev.tsv", "neighbours", "has no file dev"),
        ("news/dev.tsv", "main", "news: has no file dev"),
        ("news/test.tsv", "off-domain", "news: has no file test"),
    ],
)
@pytest.mark.usefixtures("forbid_loading")
def test_missing_files_are_reported_before_any_work(
    make_runner: MakeRunner, data: Path, tmp_path: Path, missing: str, name: str, message: str
) -> None:
    shutil.copytree(data, tmp_path / "data")
    (tmp_path / "data" / missing).unlink()
    with pytest.raises(InputError, match=message) as error:
        make_runner(data=tmp_path / "data").measure(name, domains="koran")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domains": "koram"}, "did you mean 'koran'"),
        ({"rows": "knm"}, "did you mean 'knn'"),
        ({"rows": "fine-tuned", "fine_tune": "none"}, "no row is left"),
    ],
)
@pytest.mark.usefixtures("forbid_loading")
def test_unknown_names_are_refused(runner: Runner, changes: dict[str, str], message: str) -> None:
    with pytest.raises(NearmtError, match=message):
        runner.measure("main", **changes)


@pytest.mark.usefixtures("forbid_loading")
def test_report_without_results_is_refused(runner: Runner) -> None:
    with pytest.raises(InputError, match="has no results of the experiment main"):
        runner.report("main")


@pytest.mark.usefixtures("forbid_loading")
def test_missing_data_is_refused(make_runner: MakeRunner, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        make_runner(data=tmp_path / "nowhere").measure("main")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no folder with train and test"):
        make_runner(data=tmp_path / "empty").measure("main")
    with pytest.raises(ConfigError, match="limit"):
        make_runner().measure("main", limit=0)
