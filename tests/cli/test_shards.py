"""build --shard, fit-reduction and merge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearmt.datastore import Datastore
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line

Common = tuple[object, ...]


@pytest.fixture
def common(tiny_folder: Path) -> Common:
    return "--model", tiny_folder, "--device", "cpu", "--precision", "fp32"


def test_two_parts_are_one_store(nearmt: Nearmt, memory: Path, common: Common, tmp_path: Path) -> None:
    assert nearmt("fit-reduction", memory, "--out", tmp_path / "pca", *common).code == 0
    parts = [tmp_path / "part-1", tmp_path / "part-2"]
    for number, part in enumerate(parts, 1):
        build = ("build", memory, "--shard", f"{number}/2", "--reduction-of", tmp_path / "pca", "--out", part, *common)
        for _ in range(2):  # again: it is finished
            result = nearmt(*build, "--json")
            assert result.code == 0, result.err
            found = json.loads(result.out)
            assert found["part"] == f"{number} of 2" and found["reading"]["pairs"] == 30
            assert "nearmt merge" in found["advice"]
    merge = ("merge", parts[1], parts[0], "--out", tmp_path / "merged", *common)
    result = nearmt(*merge, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["pairs"], found["segments"], found["advice"]) == (30, 2, None) and "part" not in found
    assert nearmt("build", memory, "--out", tmp_path / "whole", *common).code == 0
    whole, merged = Datastore.open(tmp_path / "whole"), Datastore.open(tmp_path / "merged")
    assert list(merged.pairs()) == list(whole.pairs())
    assert_one_line(nearmt(*merge), 1, "already there")
    assert "segments" in nearmt(*merge, "--overwrite").out


def test_what_cannot_be_built_or_merged(nearmt: Nearmt, memory: Path, common: Common, tmp_path: Path) -> None:
    part = ("build", memory, "--out", tmp_path / "part", *common)
    assert_one_line(nearmt(*part, "--shard", "3/2"), 2, "shard = '3/2': must be I/N")
    assert_one_line(nearmt(*part, "--shard", "1/2"), 2, "nearmt fit-reduction")
    assert not (tmp_path / "part").exists()
    assert nearmt(*part, "--shard", "1/1").code == 0
    assert_one_line(nearmt(*part), 1, "already there")
    assert_one_line(nearmt("merge", tmp_path / "none", "--out", tmp_path / "m", *common), 1, "no such datastore")
    empty = tmp_path / "empty.tsv"
    empty.write_text("", encoding="utf-8")
    assert_one_line(nearmt("build", empty, "--shard", "1/1", "--out", tmp_path / "e", *common), 1, "no pairs to build")
    assert_one_line(nearmt("fit-reduction", empty, "--out", tmp_path / "e", *common), 1, "no pairs to fit on")


def test_ray_and_its_settings_belong_together(nearmt: Nearmt, memory: Path, common: Common, tmp_path: Path) -> None:
    build = ("build", memory, "--out", tmp_path / "store", *common)
    assert_one_line(nearmt(*build, "--ray", "--shard", "1/2"), 2, "give one of them")
    assert_one_line(nearmt(*build, "--parts", 3), 2, "need --ray")
    assert_one_line(nearmt(*build, "--ray", "--workers", 0), 2, "workers = 0")


@pytest.mark.services
def test_a_build_by_ray_on_this_machine(
    nearmt: Nearmt, memory: Path, common: Common, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.chdir(memory.parent)
    result = nearmt("build", memory.name, "--out", "store", "--ray", "--workers", 2, "--parts", 3, "--json", *common)
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["pairs"], found["segments"], found["reading"]["pairs"]) == (30, 3, 30)
    assert nearmt("build", memory.name, "--out", "whole", *common).code == 0
    assert list(Datastore.open("store").pairs()) == list(Datastore.open("whole").pairs())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory.tsv", "store", "whole"]


def test_the_reduction_is_where_it_is_asked_for(nearmt: Nearmt, memory: Path, common: Common, tmp_path: Path) -> None:
    fit = ("fit-reduction", memory, "--out", tmp_path / "pca", *common)
    result = nearmt(*fit)
    assert result.code == 0 and "pairs" in result.out
    assert len(Datastore.open(tmp_path / "pca")) == 0
    assert_one_line(nearmt(*fit), 1, "already there")
    assert nearmt(*fit, "--overwrite").code == 0
