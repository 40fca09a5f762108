"""The grid trains every point once, resumes, is shared between processes, and keeps the best."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from nearmt.errors import ConfigError, OutputError
from nearmt.models import load_model
from nearmt.research.training import grid as grid_module
from nearmt.research.training.finetune import FinetuneResult, finetune
from nearmt.research.training.grid import GridConfig, GridResult, finetune_grid, paper_grid
from nearmt.research.training.loop import FinetuneConfig
from tests.research.training.toy import files_of, on_cpu, toy_pairs

PAIRS, DEV = toy_pairs(12), toy_pairs(4)
# High enough rates for the tiny model to tell the points apart.
CONFIG = FinetuneConfig(epochs=1, dev_limit=0, batch_tokens=64)
PAPER = GridConfig(grid="paper", select="loss")


@pytest.fixture
def four_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid whose third point is the best."""

    def small(config: FinetuneConfig) -> list[FinetuneConfig]:
        return [dataclasses.replace(config, learning_rate=rate) for rate in (1e-5, 1e-4, 1e-2, 1e-3)]

    monkeypatch.setattr(grid_module, "paper_grid", small)


def run_grid(model: Path, out: Path, grid: GridConfig = PAPER, **changes: Any) -> GridResult:
    config = dataclasses.replace(CONFIG, **changes.pop("settings", {}))
    return finetune_grid(on_cpu(model), PAIRS, DEV, out, config, grid, **changes)


def without_time(result: FinetuneResult) -> dict[str, Any]:
    values = dataclasses.asdict(result)
    values["seconds"] = 0
    for epoch in values["history"]:
        epoch["seconds"] = 0
    return values


def weights_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_paper_grid_has_16_points() -> None:
    points = paper_grid(dataclasses.replace(CONFIG, seed=5))
    assert len({(point.learning_rate, point.schedule, point.warmup) for point in points}) == len(points) == 16
    assert {point.learning_rate for point in points} == {5e-6, 1e-5, 5e-5, 1e-4}
    assert {(point.seed, point.epochs, point.batch_tokens) for point in points} == {(5, 1, 64)}


def test_grid_trains_all_points_and_keeps_the_best(tiny_folder: Path, tmp_path: Path) -> None:
    finished: list[FinetuneResult] = []
    result = run_grid(tiny_folder, tmp_path / "out", on_point=finished.append)
    assert result.points == finished and len(finished) == result.total == 16
    assert result.best is not None
    assert result.best.dev_loss == min(point.dev_loss for point in finished)
    # The best point equals a training with its settings alone.
    best = FinetuneConfig.from_mapping(result.best.settings)
    alone = finetune(on_cpu(tiny_folder), PAIRS, DEV, tmp_path / "alone", best)
    assert without_time(alone) == without_time(result.best)
    weights = "model.safetensors"
    assert (tmp_path / "out" / weights).read_bytes() == (tmp_path / "alone" / weights).read_bytes()
    assert len(json.loads((tmp_path / "out" / "grid.json").read_text(encoding="utf-8"))) == 16
    assert weights_in(tmp_path / "out.grid") == []
    load_model(on_cpu(tmp_path / "out"))


@pytest.mark.usefixtures("four_points")
def test_interrupted_grid_resumes(tiny_folder: Path, tmp_path: Path) -> None:
    whole = run_grid(tiny_folder, tmp_path / "whole")
    out, folder = tmp_path / "out", tmp_path / "out.grid"
    updates = whole.points[0].updates

    def stop(done: int, of: int) -> None:
        if done == 2 * updates + 1:  # during the third point
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(tiny_folder, out, progress=stop)
    assert not out.exists()
    records = {path: path.read_bytes() for path in folder.glob("*.json")}
    assert len(records) == 2 and len(weights_in(folder)) == 1
    finished: list[FinetuneResult] = []
    resumed = run_grid(tiny_folder, out, on_point=finished.append)
    assert len(finished) == 2, "finished points are not trained again"
    assert {path: path.read_bytes() for path in records} == records
    assert [without_time(point) for point in resumed.points] == [without_time(point) for point in whole.points]
    assert resumed.best is not None and resumed.best.settings["learning-rate"] == 1e-2
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("four_points")
def test_point_without_a_record_is_trained_again(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died after writing weights, and partial files of an earlier one are left."""
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(grid_module, "write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_grid(tiny_folder, out)
    [half] = weights_in(tmp_path / "out.grid")
    (tmp_path / "out.grid" / f"{half}.partial").mkdir()
    (tmp_path / "out.grid" / f"{half}.json").write_text("{", encoding="utf-8")
    result = run_grid(tiny_folder, out)
    assert len(result.points) == 4 and result.best is not None
    assert weights_in(tmp_path / "out.grid") == []


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5])
@pytest.mark.usefixtures("four_points")
def test_shards_cover_every_point_once(parts: int, tiny_folder: Path, tmp_path: Path) -> None:
    finished: list[FinetuneResult] = []
    for part in range(parts, 0, -1):
        shard = dataclasses.replace(PAPER, shard=f"{part}/{parts}")
        before = len(finished)
        result = run_grid(tiny_folder, tmp_path / "out", shard, on_point=finished.append)
        assert result.best is None and len(result.points) == len(finished)
        assert len(weights_in(tmp_path / "out.grid")) <= parts + 1 - part
        assert len(finished) - before in (4 // parts, -(-4 // parts))
    assert sorted(point.settings["learning-rate"] for point in finished) == [1e-5, 1e-4, 1e-3, 1e-2]
    # The last call trains nothing and publishes the best.
    result = run_grid(tiny_folder, tmp_path / "out", on_point=finished.append)
    assert len(finished) == 4 and result.best is not None
    assert result.best.settings["learning-rate"] == 1e-2
    tuned = load_model(on_cpu(tmp_path / "out"))
    assert tuned.fingerprint != load_model(on_cpu(tiny_folder)).fingerprint


@pytest.mark.usefixtures("four_points")
def test_another_criterion_trains_at_most_the_best_again(tiny_folder: Path, tmp_path: Path) -> None:
    judged = {"dev_limit": 1}
    run_grid(tiny_folder, tmp_path / "out", dataclasses.replace(PAPER, shard="1/1"), settings=judged)
    folder = tmp_path / "out.grid"
    # The second point has the best BLEU, but not the lowest loss, so its weights were deleted.
    record = sorted(folder.glob("*.json"))[1]
    stored = json.loads(record.read_text(encoding="utf-8"))
    stored["result"]["dev_bleu"] = 99.0
    record.write_text(json.dumps(stored), encoding="utf-8")
    finished: list[FinetuneResult] = []
    result = run_grid(
        tiny_folder, tmp_path / "out", GridConfig(grid="paper"), settings=judged, on_point=finished.append
    )
    assert finished == [] and result.best is not None
    assert result.best.settings["learning-rate"] == 1e-4
    assert FinetuneResult.from_dict(json.loads((tmp_path / "out" / "finetune.json").read_text())) == result.best


@pytest.mark.usefixtures("four_points")
def test_points_of_other_inputs_are_refused(tiny_folder: Path, tmp_path: Path) -> None:
    shard = dataclasses.replace(PAPER, shard="1/4")
    run_grid(tiny_folder, tmp_path / "out", shard)
    before = files_of_records(tmp_path / "out.grid")
    with pytest.raises(ConfigError, match=r"out\.grid: has points of another model, other pairs or other settings"):
        run_grid(tiny_folder, tmp_path / "out", shard, settings={"epochs": 2})
    with pytest.raises(ConfigError, match="other pairs"):
        finetune_grid(on_cpu(tiny_folder), PAIRS[:5], DEV, tmp_path / "out", CONFIG, shard)
    assert files_of_records(tmp_path / "out.grid") == before


def files_of_records(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def test_finished_grid_is_not_overwritten(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(OutputError, match="exists"):
        run_grid(tiny_folder, tmp_path / "out")
    assert list(files_of(tmp_path / "out")) == ["model.safetensors"]
    assert not (tmp_path / "out.grid").exists()


@pytest.mark.parametrize("shard", ["0/4", "5/4", "1", "1/0", "a/b", "1/4/2", "-1/4", ""])
def test_invalid_shards_are_refused(shard: str) -> None:
    with pytest.raises(ConfigError, match=r"^shard = .*: must be I/N"):
        GridConfig(grid="paper", shard=shard)


def test_selection_by_bleu_needs_dev_sentences(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dev-limit = 0: the grid selects by BLEU"):
        run_grid(tiny_folder, tmp_path / "out", GridConfig(grid="paper"))
    assert list(tmp_path.iterdir()) == []
