"""What is measured once is not measured again, unless something has changed."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

import nearmt.research.experiments.running as running
from nearmt.errors import ConfigError, InputError, NearmtError
from nearmt.research.evaluation import evaluate
from nearmt.research.experiments import EXPERIMENTS, Cell, Workshop, tasks_of
from nearmt.research.experiments.running import Task
from nearmt.research.experiments.tables import difference_table, metric_table
from tests.research.experiments.conftest import Laboratory, MakeLaboratory

QUICK = {"tune": "none", "limit": 1, "fine_tune": "none"}


@pytest.fixture
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model is an error."""

    def refuse(*_: object) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr("nearmt.research.experiments.workshop.load_model", refuse)
    monkeypatch.setattr("nearmt.research.experiments.running.evaluate", refuse)


@pytest.mark.usefixtures("nothing_is_loaded")
def test_a_second_run_does_nothing(finished: Laboratory) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.out.rglob("*") if "locks" not in path.parts}
    assert finished.measure("main") == 0
    after = {path: path.stat().st_mtime_ns for path in finished.out.rglob("*") if "locks" not in path.parts}
    assert before == after


@pytest.mark.usefixtures("nothing_is_loaded")
def test_cells_of_another_experiment_stand_in(finished: Laboratory) -> None:
    assert finished.measure("languages") == 8
    cells = finished.report("languages").report["cells"]
    assert (
        cells["koran"]["chunk"]["evaluation"] == finished.report("main").report["cells"]["koran"]["chunk"]["evaluation"]
    )
    shutil.rmtree(finished.out / "cells" / "languages")


@pytest.mark.usefixtures("nothing_is_loaded")
def test_reports_need_neither_model_nor_data(
    finished: Laboratory, make_laboratory: MakeLaboratory, tmp_path: Path
) -> None:
    first = finished.report("main")
    page = (finished.out / "main.md").read_text(encoding="utf-8")
    for kept in ("cells", "translations"):
        shutil.copytree(finished.out / kept, tmp_path / "copy" / kept)
    copy = make_laboratory("copy", tmp_path / "nowhere")
    assert copy.report("main").report == first.report
    assert (copy.out / "main.md").read_text(encoding="utf-8") == page


def test_only_what_changed_is_measured_again(laboratory: Laboratory) -> None:
    rows = "base,knn,chunk"
    assert laboratory.measure("main", rows=rows, domains="koran", **QUICK) == 3
    assert laboratory.measure("main", rows=rows, **QUICK) == 3  # the other domain
    assert laboratory.measure("main", rows=rows, **{**QUICK, "limit": 2}) == 6
    assert laboratory.measure("main", rows=rows, **{**QUICK, "limit": 2, "tune": "smart"}) == 4  # nothing of base
    assert laboratory.measure("main", rows=rows, **{**QUICK, "limit": 2, "tune": "smart"}) == 0


def test_other_data_is_noticed(make_laboratory: MakeLaboratory, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    laboratory = make_laboratory(data=tmp_path / "data")
    rows = "base,knn"
    assert laboratory.measure("main", rows=rows, **QUICK) == 4
    with (tmp_path / "data" / "koran" / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("die pumpe\tthe pump\n")
    assert laboratory.measure("main", rows=rows, **QUICK) == 1  # the memory of one domain
    assert laboratory.report("main").report["cells"]["koran"]["knn"]["facts"]["memory"]["pairs"] == 31
    shutil.copy(tmp_path / "data" / "law" / "test.tsv", tmp_path / "data" / "koran" / "test.tsv")
    # Of the base model on these lines there is a result; that of the memory is new.
    assert laboratory.measure("main", rows=rows, **QUICK) == 2


def test_damaged_and_unfinished_cells_are_measured_again(laboratory: Laboratory) -> None:
    def measure() -> int:
        return laboratory.measure("main", rows="base", domains="koran", **QUICK)

    assert measure() == 1
    cell = laboratory.out / "cells" / "main" / "koran.base.json"
    for content in ("", "{", "[]", json.dumps({**json.loads(cell.read_text(encoding="utf-8")), "version": 0})):
        cell.write_text(content, encoding="utf-8")
        assert measure() == 1
    (laboratory.out / "translations" / "main" / "koran.base.txt").unlink()
    assert measure() == 1
    assert measure() == 0


def test_an_interrupted_run_goes_on(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def once(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "evaluate", once)
    with pytest.raises(KeyboardInterrupt):
        laboratory.measure("main", rows="base,knn,chunk", domains="koran", **QUICK)
    assert [cell.row for cell in laboratory.workshop().shelf.cells("main")] == ["base"]
    assert laboratory.measure("main", rows="base,knn,chunk", domains="koran", **QUICK) == 2
    assert len(calls) == 4


@pytest.mark.usefixtures("nothing_is_loaded")
def test_two_at_once_share_the_work(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell is measured by one of them, and everything by both together."""
    both_at_work, counts, workers = threading.Barrier(2), list[int](), set[int]()

    def made_up(workshop: Workshop, task: Task, command: str) -> Cell:
        # The first cell of each is begun while the other one is at its own.
        if threading.get_ident() not in workers:
            workers.add(threading.get_ident())
            both_at_work.wait(60)
        place, test = (task.experiment.name, task.domain.name, task.row.name), "0123"
        machine = {"device": "cpu", "precision": "fp32", "threads": 1, "torch": "2"}
        signature = running.signature_of(workshop, task)
        cell = Cell(*place, signature, test, {}, {}, {}, machine, True, "commit", "date", command)
        workshop.shelf.keep(cell, ["a"])
        return cell

    monkeypatch.setattr(running, "_measured", made_up)

    def work() -> None:
        counts.append(laboratory.measure("main", rows="base,knn,chunk", **QUICK))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 6 and min(counts) >= 1
    cells = laboratory.report("main").report["cells"]
    assert {domain: len(found) for domain, found in cells.items()} == {"law": 3, "koran": 3}


def test_cells_of_several_processes_merge(make_laboratory: MakeLaboratory) -> None:
    one, other = make_laboratory("one"), make_laboratory("other")
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


def test_tables_say_what_the_cells_say(finished: Laboratory) -> None:
    report = finished.report("main").report
    lines = [line.strip("| ").split(" | ") for line in str(metric_table(report, "bleu")).splitlines()]
    assert lines[0] == ["Law", "Koran", "Average"]
    assert len(lines) == 2 + 8
    for line, row in zip(lines[2:], report["rows"], strict=True):
        scores = [report["cells"][domain][row["name"]]["evaluation"]["bleu"] for domain in ("law", "koran")]
        assert line == [row["label"], *(f"{score:.2f}" for score in (*scores, sum(scores) / 2))]
    differences = str(difference_table(report)).splitlines()
    assert "kNN-MT" in differences[0] and len(differences) == 2 + 2 + 7


def test_speeds_beside_other_work_are_not_shown(laboratory: Laboratory) -> None:
    def measure(beside: bool) -> int:
        return laboratory.measure("schedules", rows="paper-every-6", domains="koran", side_by_side=beside, **QUICK)

    assert measure(beside=True) == 1
    assert "Tokens a second" not in (laboratory.out / laboratory.report("schedules").files[1]).read_text()
    assert measure(beside=False) == 1  # a speed that counts is wanted
    assert measure(beside=True) == 0
    assert "Tokens a second" in (laboratory.out / laboratory.report("schedules").files[1]).read_text()


def test_speed_uses_the_settings_of_main(finished: Laboratory) -> None:
    tuned = json.loads((finished.out / "tuned" / "koran.chunk.json").read_text(encoding="utf-8"))["settings"]
    tasks = tasks_of(finished.workshop(), EXPERIMENTS["speed"])
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
@pytest.mark.usefixtures("nothing_is_loaded")
def test_missing_files_are_named_first(
    make_laboratory: MakeLaboratory, data: Path, tmp_path: Path, missing: str, name: str, message: str
) -> None:
    shutil.copytree(data, tmp_path / "data")
    (tmp_path / "data" / missing).unlink()
    with pytest.raises(InputError, match=message) as error:
        make_laboratory(data=tmp_path / "data").measure(name, domains="koran")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domains": "koram"}, "did you mean 'koran'"),
        ({"rows": "knm"}, "did you mean 'knn'"),
        ({"rows": "fine-tuned", "fine_tune": "none"}, "no row is left"),
    ],
)
@pytest.mark.usefixtures("nothing_is_loaded")
def test_wrong_names(laboratory: Laboratory, changes: dict[str, str], message: str) -> None:
    with pytest.raises(NearmtError, match=message):
        laboratory.measure("main", **changes)


@pytest.mark.usefixtures("nothing_is_loaded")
def test_nothing_to_report(laboratory: Laboratory) -> None:
    with pytest.raises(InputError, match="has nothing of the experiment main"):
        laboratory.report("main")


@pytest.mark.usefixtures("nothing_is_loaded")
def test_no_data(make_laboratory: MakeLaboratory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        make_laboratory(data=tmp_path / "nowhere").measure("main")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no folder with train and test"):
        make_laboratory(data=tmp_path / "empty").measure("main")
    with pytest.raises(ConfigError, match="limit"):
        make_laboratory().measure("main", limit=0)
