"""Streams: references stay hidden until translated, interrupted runs resume, and all time is counted."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from nearmt.cli.main import run
from nearmt.contracts import Pair, Progress, Translation
from nearmt.datastore import Datastore
from nearmt.errors import NearmtError
from nearmt.research.experiments import EXPERIMENTS, Artefacts, Cell, ResultFiles, run_tasks, tasks_of
from nearmt.research.experiments import on_the_fly_running as running
from nearmt.research.experiments import on_the_fly_systems as systems
from nearmt.research.experiments.data import Domain
from nearmt.research.experiments.on_the_fly_running import Streaming, settings_of, stream_of
from nearmt.research.experiments.on_the_fly_steps import TRANSLATE, Done, Journal, Step, plan
from nearmt.research.experiments.on_the_fly_systems import System, held_out
from nearmt.research.experiments.on_the_fly_windows import window_ends
from nearmt.research.experiments.plots import plot
from nearmt.research.experiments.rows import Row
from nearmt.research.training.finetune import finetune
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.research.experiments.conftest import MakeRunner, Runner
from tools.results_table import tables

NAME = "on-the-fly"
#: 30 pairs, of which 3 are known from the start.
QUICK: dict[str, Any] = {"tune": "none", "domains": "koran", "window": 10}


def without_times(cell: Cell) -> Any:
    """Convert a cell to JSON without times and dates."""

    def lasting(found: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in found.items() if name not in TIMES}

    values = json.loads(json.dumps(dataclasses.asdict(cell)), object_hook=lasting)
    values["evaluation"]["steps"] = [[*step[:3], step[4]] for step in values["evaluation"]["steps"]]
    return values


TIMES = {"seconds", "learning_seconds", "inference_seconds", "total_seconds", "tokens_per_second", "date"}


# Plans and journals.


@given(
    st.integers(1, 60), st.integers(0, 40), st.integers(1, 30), st.one_of(st.none(), st.integers(1, 30)), st.booleans()
)
def test_plan_learns_only_translated_pairs(
    total: int, at_hand: int, block: int, learn_every: int | None, learns: bool
) -> None:
    at_hand = min(at_hand, total - 1)
    steps = plan(total, at_hand, block, learn_every, learns)
    translated, known, due = at_hand, 0, []
    for number, step in enumerate(steps):
        assert step.start <= step.end
        if step.kind == TRANSLATE:
            assert step.start == translated and 0 < step.end - step.start <= block
            translated = step.end
        else:
            assert step.start == known and step.end == translated  # all revealed pairs, and no others
            known = step.end
            due.append(step.end)
            assert number < len(steps) - 1
    assert translated == total
    assert due == ([] if not learns else list(range(at_hand, total, learn_every or total)))


def journal_of(folder: Path, steps: list[Step], about: str = "a", only_counting: bool = True) -> Journal:
    return Journal(folder, {"signature": about}, steps, only_counting=only_counting)


def test_journal_resumes_or_starts_over(tmp_path: Path) -> None:
    steps = plan(9, 1, 2, 2, True)
    folder = tmp_path / "journal"
    journal = journal_of(folder, steps)
    found = [Done(step, 0.5, texts=["ä\u2028b\x85"], facts={"a": 1}) for step in steps[:3]]
    for done in found:
        journal.add(done)
    (folder / "store").write_text("x", encoding="utf-8")
    assert journal_of(folder, steps).done == found and (folder / "store").exists()
    # An incomplete line is cut off.
    whole = (folder / "steps.jsonl").read_bytes()
    last = whole[:-1].rindex(b"\n") + 1
    for end in range(last, len(whole)):
        (folder / "steps.jsonl").write_bytes(whole[:end])
        again = journal_of(folder, steps)
        assert again.done == found[:2]
        again.add(found[2])
        assert (folder / "steps.jsonl").read_bytes() == whole
    # A journal of another signature or plan, or a damaged one, is deleted.
    for changed in (
        lambda: journal_of(folder, steps, about="b"),
        lambda: journal_of(folder, plan(9, 1, 3, 3, True)),
        lambda: (folder / "steps.jsonl").write_text('{"signature": "a"}\n{}\n') and journal_of(folder, steps),
    ):
        (folder / "steps.jsonl").write_bytes(whole)
        (folder / "store").write_text("x", encoding="utf-8")
        begun = changed()
        assert isinstance(begun, Journal) and begun.done == [] and not (folder / "store").exists()


def test_steps_timed_alongside_other_programs_are_repeated(tmp_path: Path) -> None:
    steps = plan(9, 1, 2, 2, True)
    journal_of(tmp_path / "j", steps).add(Done(steps[0], 1.0, counts=False))
    assert len(journal_of(tmp_path / "j", steps, only_counting=False).done) == 1
    assert journal_of(tmp_path / "j", steps).done == []


@pytest.mark.parametrize(
    ("sentences", "size", "ends"),
    [(10, 5, [5, 10]), (12, 5, [5, 12]), (13, 5, [5, 10, 13]), (3, 5, [3]), (5, 5, [5]), (2, 9, [2]), (1, 1, [1])],
)
def test_window_ends(sentences: int, size: int, ends: list[int]) -> None:
    assert window_ends(sentences, size) == ends


@pytest.mark.parametrize("count", [1, 2, 3, 19, 40, 5000])
def test_held_out_pairs_are_disjoint_from_training_pairs(count: int) -> None:
    known = [Pair(str(number), "") for number in range(count)]
    train, dev = held_out(known)
    assert train and dev and len(dev) <= 200
    if count > 1:
        assert sorted([*train, *dev], key=lambda pair: int(pair.source)) == known


# Fake systems that know only the pairs they have learned.


class Clock:
    """A clock that advances only when a fake system works."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Oracle(System):
    """Translates a learned source to its reference, and any other to "unknown"."""

    def __init__(self, clock: Clock, translator: Translator) -> None:
        self.clock, self.translator = clock, translator
        self.known: dict[str, str] = {}
        self.shown: list[int] = []

    def prepare(self) -> None:
        self.clock.now += 1000

    def commit(self, pairs: int) -> None:
        self.clock.now += 1000

    def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
        self.clock.now += 10
        assert old == len(self.shown)
        self.shown = [int(pair.id) for pair in known]
        self.known = {pair.source: pair.target for pair in known}
        return {}

    def translate(self, sources: Sequence[str], progress: Progress | None = None) -> list[Translation]:
        self.clock.now += 0.25 * len(sources)
        return [Translation(source, self.known.get(source, "unknown"), 0.0, tokens=4) for source in sources]

    def restore(self, known: Sequence[Pair], ends: Sequence[int]) -> None:
        self.clock.now += 1000
        self.learn(known[: max(ends, default=0)], 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(running, "time", fake)
    return fake


def with_oracle(runner: Runner, clock: Clock, rows: str, **changes: Any) -> Cell:
    """Measure an oracle in place of a row's system; return the cell as reports show it."""

    def make(artefacts: Artefacts, domain: Domain, row: Row, folder: Path) -> System:
        return Oracle(clock, Translator(artefacts.model(domain), method="plain"))

    experiment = dataclasses.replace(EXPERIMENTS[NAME], procedure=Streaming(make))
    artefacts = runner.artefacts(**{**QUICK, "rows": rows, **changes})
    run_tasks(artefacts, tasks_of(artefacts, experiment), "nearmt experiment ...")
    (cell,) = [found for found in artefacts.results.cells(NAME) if found.row == rows]
    return Streaming().shown(artefacts, cell)


def repeating(folder: Path, count: int, period: int) -> Path:
    """Write a domain whose pairs repeat with the given period."""
    pairs = make_pairs(period, 9)
    chosen = [number % period for number in range(count)]
    lines = [f"{number} {pairs[number].source}\t{pairs[number].target}" for number in chosen]
    (folder / "koran").mkdir(parents=True)
    (folder / "koran" / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_references_are_hidden_until_their_block_is_translated(
    make_runner: MakeRunner, clock: Clock, tmp_path: Path
) -> None:
    runner = make_runner(data=repeating(tmp_path / "data", 40, 7))
    for rows, block in (("knn-1", 1), ("knn-6", 6), ("knn-9", 9), ("fine-tuned-5", 5)):
        cell, results = with_oracle(runner, clock, rows), ResultFiles(runner.out)
        texts, references = results.translations(cell), results.test_lines(cell.test, "reference")
        at_hand = cell.facts["at_hand"]
        assert at_hand == 4 and len(texts) == 36
        for number, (text, reference) in enumerate(zip(texts, references, strict=True), at_hand):
            known = at_hand + (number - at_hand) // block * block  # pairs revealed so far
            assert text == (reference if number % 7 < known else "unknown")


def test_systems_learn_pairs_in_order(make_runner: MakeRunner, clock: Clock, tmp_path: Path) -> None:
    runner = make_runner(data=repeating(tmp_path / "data", 20, 20))
    calls: list[tuple[int, int]] = []

    class Recording(Oracle):
        def learn(self, known: Sequence[Pair], old: int) -> dict[str, Any]:
            assert [int(pair.id) for pair in known] == list(range(len(known)))
            calls.append((old, len(known)))
            return super().learn(known, old)

    def make(artefacts: Artefacts, domain: Domain, row: Row, folder: Path) -> System:
        return Recording(clock, Translator(artefacts.model(domain), method="plain"))

    experiment = dataclasses.replace(EXPERIMENTS[NAME], procedure=Streaming(make))
    artefacts = runner.artefacts(**{**QUICK, "rows": "knn-6"})
    assert run_tasks(artefacts, tasks_of(artefacts, experiment), "") == 1
    assert calls == [(0, 2), (2, 8), (8, 14)]  # the last block is not learned


def test_times_exclude_preparation(make_runner: MakeRunner, clock: Clock, tmp_path: Path) -> None:
    """Learning takes 10 seconds and a sentence 0.25; `prepare` and `commit` take 1,000 and are not counted."""
    runner = make_runner(data=repeating(tmp_path / "data", 40, 7))
    found = with_oracle(runner, clock, "knn-6", window=12).evaluation
    assert found["learning_seconds"] == 6 * 10 and found["inference_seconds"] == 36 * 0.25
    assert found["total_seconds"] == 69 and found["tokens"] == 36 * 4 and found["tokens_per_second"] == 16
    # Blocks of 6 in windows of 12: learning counts in the window of the next sentence.
    assert [window["learning_seconds"] for window in found["windows"]] == [20, 20, 20]
    assert [window["inference_seconds"] for window in found["windows"]] == [3, 3, 3]
    assert [window["tokens"] for window in found["windows"]] == [48, 48, 48]
    assert [window["so_far"]["total_seconds"] for window in found["windows"]] == [23, 46, 69]
    # Windows that cut blocks: their times sum up to the total.
    for size in (1, 7, 100):
        windows = with_oracle(runner, clock, "knn-6", window=size).evaluation["windows"]
        for name in ("learning_seconds", "inference_seconds", "total_seconds", "tokens"):
            assert sum(window[name] for window in windows) == pytest.approx(found[name])
            assert windows[-1]["so_far"][name] == pytest.approx(found[name])
        assert windows[-1]["end"] == 36


def test_times_measured_alongside_other_programs_are_not_shown(
    make_runner: MakeRunner, clock: Clock, tmp_path: Path
) -> None:
    runner = make_runner(data=repeating(tmp_path / "data", 40, 7))
    page = runner.out / f"{NAME}.md"
    with_oracle(runner, clock, "knn-6", side_by_side=True)
    runner.report(NAME)
    assert "Learning, seconds" not in page.read_text(encoding="utf-8")
    with_oracle(runner, clock, "knn-6")  # measured again
    runner.report(NAME)
    assert "Learning, seconds" in page.read_text(encoding="utf-8")


# Real systems.


ROWS = "base,fine-tuned,fine-tuned-9,knn-9,chunk-6,paper"


@pytest.fixture(scope="module")
def streamed(data: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """The experiment on one domain; read-only."""
    runner = Runner(data, tmp_path_factory.mktemp("streamed") / "out", str(tiny_folder))
    assert runner.measure(NAME, rows=ROWS, **QUICK) == 6
    runner.report(NAME, **QUICK)
    return runner


def test_scores_equal_those_of_sacrebleu(streamed: Runner) -> None:
    results, report = ResultFiles(streamed.out), streamed.report(NAME, **QUICK).report
    names = ["base", "fine-tuned", "fine-tuned-9", "knn-9", "chunk-6", "paper-250"]
    assert list(report["cells"]["koran"]) == names == [row["name"] for row in report["rows"]]
    outputs = set()
    for cell in results.cells(NAME):
        texts, references = results.translations(cell), results.test_lines(cell.test, "reference")
        outputs.add(tuple(texts))
        assert len(texts) == len(references) == 27
        found = report["cells"]["koran"][cell.row]["evaluation"]
        assert "steps" not in found and found["sentences"] == 27 and found["tokens"] > 27
        assert [(window["start"], window["end"]) for window in found["windows"]] == [(0, 10), (10, 20), (20, 27)]
        for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
            assert found[name] == round(metric.corpus_score(texts, [references]).score, 2)
            assert found[f"{name}_signature"] == str(metric.get_signature())
            for window in found["windows"]:
                for start, value in ((window["start"], window[name]), (0, window["so_far"][name])):
                    part = slice(start, window["end"])
                    assert value == round(metric.corpus_score(texts[part], [references[part]]).score, 2)
        for name in ("learning_seconds", "inference_seconds", "total_seconds"):
            assert sum(window[name] for window in found["windows"]) == pytest.approx(found[name], abs=0.01)
            assert found[name] > 0 or (name, cell.row) == ("learning_seconds", "base")
    assert len(outputs) > 2  # the systems differ


def test_cells_record_their_facts(streamed: Runner) -> None:
    cells = streamed.report(NAME, **QUICK).report["cells"]["koran"]
    for cell in cells.values():
        assert cell["facts"]["at_hand"] == 3 and cell["facts"]["stream"] == ["train"]
    memory = cells["knn-9"]["facts"]["memory"]
    assert (memory["first"]["pairs"], memory["last"]["pairs"], memory["times"]) == (3, 21, 3)
    assert memory["first"]["entries"] < memory["last"]["entries"]
    assert cells["knn-9"]["facts"]["settings_from"] == "store"
    rounds = cells["fine-tuned-9"]["facts"]["fine-tuning"]["rounds"]
    assert [found["pairs"] + found["dev_pairs"] for found in rounds] == [3, 12, 21]
    assert len(cells["fine-tuned"]["facts"]["fine-tuning"]["rounds"]) == 1
    assert cells["base"]["evaluation"]["learning_seconds"] == 0
    assert "|guard:False" in cells["knn-9"]["evaluation"]["signature"]
    assert cells["chunk-6"]["comparison"]["with"] == "base"


def test_temporary_files_are_removed(streamed: Runner) -> None:
    assert list((streamed.out / "streams").iterdir()) == []
    assert streamed.measure(NAME, rows=ROWS, **QUICK) == 0
    # Windows are computed by the report, so another size needs no measurement.
    assert streamed.measure(NAME, rows=ROWS, **{**QUICK, "window": 3}) == 0


def test_reports_need_neither_model_nor_data(streamed: Runner, tmp_path: Path) -> None:
    first = streamed.report(NAME, **QUICK)
    for kept in ("cells", "translations"):
        shutil.copytree(streamed.out / kept, tmp_path / "out" / kept)
    copy = Runner(tmp_path / "nowhere", tmp_path / "out", "no-model")
    again = copy.report(NAME, **QUICK)
    assert again == first
    for file in ("on-the-fly.json", "on-the-fly.md", "on-the-fly.svg"):
        assert file in first.files
        assert (copy.out / file).read_bytes() == (streamed.out / file).read_bytes()
    page = (copy.out / "on-the-fly.md").read_text(encoding="utf-8")
    assert "## Koran: BLEU over time" in page and "| 11-20 |" in page and "Fine-tuned every 9" in page
    sentences = [line for path in (copy.out / "translations").rglob("*.txt") for line in path.read_text().splitlines()]
    assert not any(len(line.split()) > 2 and line in page + json.dumps(again.report) for line in sentences)
    copy.report(NAME, **{**QUICK, "window": 100})
    assert "| 1-27 |" in (copy.out / "on-the-fly.md").read_text(encoding="utf-8")


def test_report_has_four_plots(streamed: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = streamed.report(NAME, **QUICK).report
    assert plot(report, tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    for text in ("BLEU of the window", "Learning, minutes", "Translating, minutes", "Both together, minutes"):
        assert drawn.count(f">{text}<") == 1
    for row in report["rows"]:
        assert drawn.count(f">{row['label']}<".replace("'", "&#x27;")) == 1 or f">{row['label']}<" in drawn
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "on-the-fly-koran.json").write_text(json.dumps(report), encoding="utf-8")
    shown = tables(NAME, False, tmp_path / "results")
    assert "plots/on-the-fly-koran.svg" in shown and "Both together, seconds" in shown
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    written = streamed.report(NAME, **QUICK)
    assert written.files == ["on-the-fly.json", "on-the-fly.md"] and len(written.notes) == 1


def test_systems_know_only_revealed_pairs(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the datastore's pairs, or the training pairs, at every translation."""
    runner, calls = make_runner("within"), list[tuple[int, list[str]]]()
    numbers = {pair.source: int(pair.id) for pair in pairs_of(runner)}
    trained: list[Pair] = []
    translate, train = Translator.translate, finetune

    def watched(self: Translator, text: Any, **more: Any) -> Any:
        store = self.datastore
        if isinstance(text, list) and (store or trained):  # not the warm-up
            known = [pair.source for pair in store.snapshot().pairs()] if store else [pair.source for pair in trained]
            calls.append((min(numbers[source] for source in text), known))
        return translate(self, text, **more)

    def recorded(model: Any, pairs: list[Pair], dev: list[Pair], *rest: Any) -> Any:
        trained[:] = [*pairs, *dev]
        return train(model, pairs, dev, *rest)

    monkeypatch.setattr(Translator, "translate", watched)
    monkeypatch.setattr(systems, "finetune", recorded)
    for row, known_at in (
        ("chunk-6", [3, 9, 15, 21, 27]),
        ("knn-3", list(range(3, 30, 3))),
        ("fine-tuned-9", [3, 12, 21]),
        ("fine-tuned", [3]),
    ):
        calls.clear()
        trained.clear()
        assert runner.measure(NAME, rows=row, **QUICK) == 1
        assert sorted({len(known) for _, known in calls}) == known_at
        for first, known in calls:
            assert sorted(numbers[source] for source in known) == list(range(len(known)))
            assert len(known) <= first


def pairs_of(runner: Runner, **changes: Any) -> list[Pair]:
    artefacts = runner.artefacts(**{**QUICK, **changes})
    (domain,) = {task.domain.name: task.domain for task in tasks_of(artefacts, EXPERIMENTS[NAME])}.values()
    return stream_of(artefacts, domain).pairs


# Interruptions.


class Stop(BaseException):
    """Stands for Ctrl-C."""


def interrupting(monkeypatch: pytest.MonkeyPatch, after: int) -> Iterator[int]:
    """Stop the run after 1, 2, ... steps."""
    add = Journal.add
    for allowed in range(1, after):
        taken = 0

        def stopping(self: Journal, done: Done, allowed: int = allowed) -> None:
            nonlocal taken
            taken += 1
            add(self, done)
            if taken == allowed:
                raise Stop

        monkeypatch.setattr(Journal, "add", stopping)
        yield allowed
        monkeypatch.setattr(Journal, "add", add)


SHORT = {**QUICK, "limit": 14}


@pytest.mark.parametrize("row", ["base-9", "knn-9", "chunk-9", "fine-tuned-9"])
def test_interrupted_stream_resumes(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    whole = make_runner("whole")
    assert whole.measure(NAME, rows=row, **SHORT) == 1
    (cell,) = ResultFiles(whole.out).cells(NAME)
    for allowed in interrupting(monkeypatch, len(cell.evaluation["steps"])):
        runner = make_runner(f"out-{allowed}")
        with pytest.raises(Stop):
            runner.measure(NAME, rows=row, **SHORT)
        folder = runner.out / "streams" / f"koran.{row}"
        kept = (folder / "steps.jsonl").read_bytes()
        assert kept.count(b"\n") == 1 + allowed
        monkeypatch.undo()
        if allowed % 2:  # a lost datastore or model is made again
            for path in [*folder.glob("store"), *folder.glob("model-*")]:
                shutil.rmtree(path)
        assert runner.measure(NAME, rows=row, **SHORT) == 1
        (again,) = ResultFiles(runner.out).cells(NAME)
        assert without_times(again) == without_times(cell)
        assert ResultFiles(runner.out).translations(again) == ResultFiles(whole.out).translations(cell)
        # Earlier steps keep their times.
        times = [json.loads(line)["seconds"] for line in kept.splitlines()[1:]]
        assert [step[3] for step in again.evaluation["steps"][:allowed]] == times


def test_half_updated_datastore_is_rebuilt(
    runner: Runner, make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_runner("whole")
    whole.measure(NAME, rows="knn-6", **QUICK)
    add = Datastore.add

    def half(self: Datastore, pairs: Sequence[Pair], *rest: Any) -> int:
        add(self, pairs[: len(pairs) // 2], *rest)
        raise Stop

    monkeypatch.setattr(Datastore, "add", half)
    with pytest.raises(Stop):
        runner.measure(NAME, rows="knn-6", **QUICK)
    monkeypatch.undo()
    runner.measure(NAME, rows="knn-6", **QUICK)
    both = [ResultFiles(found.out) for found in (whole, runner)]
    texts = [results.translations(cell) for results in both for cell in results.cells(NAME)]
    assert texts[0] == texts[1]
    memories = [cell.facts["memory"] for results in both for cell in results.cells(NAME)]
    assert memories[0] == memories[1]


# Options.


def test_settings_come_from_main_unless_the_stream_contains_the_dev_set(finished: Runner) -> None:
    for changes, tuned in (({}, True), ({"stream": "train,dev"}, False), ({"tune": "none"}, False)):
        artefacts = finished.artefacts(rows="chunk,base", **changes)
        for task in tasks_of(artefacts, EXPERIMENTS[NAME]):
            settings, source = settings_of(artefacts, task.domain, task.row)
            if task.row.method == "plain":
                assert (settings, source) == ({}, "none")
            else:
                assert source == ("main" if tuned else "store")
                path = finished.out / "tuned" / f"{task.domain.name}.chunk.json"
                known = json.loads(path.read_text(encoding="utf-8"))["settings"]
                assert settings == (known if tuned else {}) and known


def test_stream_concatenates_files(runner: Runner) -> None:
    pairs = pairs_of(runner, stream="train,dev,test")
    assert len(pairs) == 30 + 90 + 3
    assert [pair.id for pair in pairs] == [f"{number:08d}" for number in range(123)]
    assert [pair.source for pair in pairs_of(runner)] == [pair.source for pair in pairs[:30]]
    assert pairs_of(runner, stream="test, train")[3].source == pairs[0].source
    assert len(pairs_of(runner, limit=5)) == 3 + 5
    assert len(pairs_of(runner, limit=500)) == 30


def test_stream_without_known_pairs(runner: Runner) -> None:
    assert runner.measure(NAME, rows="knn-9,chunk-9,fine-tuned,fine-tuned-20", at_hand=0.0, **QUICK) == 4
    cells = runner.report(NAME).report["cells"]["koran"]
    assert [cell["evaluation"]["sentences"] for cell in cells.values()] == [30] * 4
    assert cells["knn-9"]["facts"]["memory"]["first"] == {"pairs": 0, "entries": 0}


def test_rows_are_parsed_from_names() -> None:
    experiment = EXPERIMENTS[NAME]
    names = ["knn-1", "fine-tuned", "chunk-250", "knn-1000", "fine-tuned-500", "base", "nonsense", "knn", "base-1"]
    found = experiment.among(names)
    wanted = ["base", "base-1", "fine-tuned", "fine-tuned-500", "knn-1000", "knn-1", "chunk-250"]
    assert [row.name for row in found] == wanted
    assert [row.label for row in found[:5]] == [
        "Base MT",
        "Base MT, blocks of 1",
        "Fine-tuned once",
        "Fine-tuned every 500",
        "kNN-MT, every 1,000",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": "knm"}, "did you mean 'knn'"),
        ({"rows": "knn-0"}, "has no row 'knn-0'"),
        ({"rows": "knn--5"}, "has no row"),
        ({"stream": "train,text"}, "must be of train, dev, test"),
        ({"stream": "train,train"}, "each of its files once"),
        ({"stream": " , "}, "each of its files once"),
        ({"stream": "dev", "limit": 0}, "limit"),
        ({"at_hand": 1.0}, "at-hand"),
        ({"learn_every": 0}, "learn-every"),
        ({"window": 0}, "window"),
        ({"rows": "fine-tuned", "fine_tune": "none"}, "no row is left"),
    ],
)
def test_invalid_settings_are_refused(runner: Runner, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NearmtError, match=message) as error:
        runner.measure(NAME, **{**QUICK, **changes})
    assert "\n" not in str(error.value)


def test_stream_of_one_pair(make_runner: MakeRunner, tmp_path: Path) -> None:
    runner = make_runner(data=repeating(tmp_path / "data", 1, 1))
    with pytest.raises(NearmtError, match="leave nothing to translate"):
        runner.measure(NAME, rows="base", **{**QUICK, "at_hand": 0.9})
    assert runner.measure(NAME, rows="base,knn,fine-tuned", **QUICK) == 3


def test_command_prints_the_report(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    paths = ["--data", str(runner.data), "--out", str(runner.out), "--model", runner.model]
    small = [
        "--device",
        "cpu",
        "--domains",
        "koran",
        "--set",
        "max-new-tokens=8",
        "--commit",
        "abc",
        "--stream",
        "test,dev",
    ]
    line = ["experiment", NAME, *paths, *small, "--limit", "20", "--window", "10", "--learn-every", "10"]
    assert run([*line, "--rows", "base,knn"]) == 0
    captured = capsys.readouterr()
    assert captured.out == (runner.out / f"{NAME}.md").read_text(encoding="utf-8") + "\n"
    finished = [row.split()[:3] for row in captured.err.splitlines()[:2]]
    assert finished == [[NAME, "koran", "base"], [NAME, "koran", "knn-10"]]
    assert "--stream test,dev" in captured.out and "at abc on cpu" in captured.out
    assert run([*line, "--report"]) == 0
    assert capsys.readouterr().out == captured.out
