"""nearmt finetune: tables, JSON, grids, and one line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearmt.cli.console import verbosity
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line
from tests.research.training.toy import toy_pairs

QUICK = ("--epochs", 2, "--device", "cpu", "--dev-limit", 2, "--batch-tokens", 64)


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in toy_pairs(12)), encoding="utf-8")
    return path


@pytest.fixture
def arguments(train: Path, tmp_path: Path, tiny_folder: Path) -> tuple[object, ...]:
    return "finetune", train, "--dev", train, "--out", tmp_path / "tuned", "--model", tiny_folder, *QUICK


def test_a_table_of_epochs(nearmt: Nearmt, arguments: tuple[object, ...], train: Path, tmp_path: Path) -> None:
    result = nearmt(*arguments, "--learning-rate", "1e-3")
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["epoch", "0", "1", "2"]
    assert lines[-1].startswith(f"epoch 2 written to {tmp_path / 'tuned'}, dev BLEU ")
    assert nearmt("translate", train, "--model", tmp_path / "tuned", "--device", "cpu").code == 0


def test_json_and_what_verbose_tells(nearmt: Nearmt, arguments: tuple[object, ...]) -> None:
    result = nearmt(*arguments, "--json", "--verbose", "--limit", 7, "--schedule", "plateau", "--warmup")
    found = json.loads(result.out)
    assert (found["pairs"], found["dev_pairs"]) == (7, 12)
    assert (found["settings"]["schedule"], found["settings"]["warmup"]) == ("plateau", True)
    assert [epoch["number"] for epoch in found["history"]] == [0, 1, 2]
    assert "nearmt: epoch 1: train loss" in result.err
    assert verbosity.verbose


def test_two_aligned_files(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    for place, name in enumerate(("corpus.de", "corpus.en")):
        sides = [(pair.source, pair.target)[place] for pair in toy_pairs(6)]
        (tmp_path / name).write_text("\n".join(sides) + "\n", encoding="utf-8")
    files = tmp_path / "corpus.de", tmp_path / "corpus.en"
    out = ("--out", tmp_path / "tuned", "--model", tiny_folder, *QUICK, "--json")
    result = nearmt("finetune", *files, "--dev", files[0], "--dev", files[1], *out)
    assert json.loads(result.out)["dev_pairs"] == 6


def test_long_pairs_are_told(nearmt: Nearmt, arguments: tuple[object, ...], train: Path) -> None:
    with train.open("a", encoding="utf-8") as file:
        file.write("pumpe " * 100 + "\tpump\n")
    assert "nearmt: 1 pairs are longer than the model's positions: not trained on" in nearmt(*arguments).err


def test_a_grid_in_two_shards(nearmt: Nearmt, arguments: tuple[object, ...], tmp_path: Path) -> None:
    grid = ("--grid", "paper", "--epochs", 1, "--dev-limit", 0, "--select", "loss")
    for part in (1, 2):
        result = nearmt(*arguments, *grid, "--shard", f"{part}/2")
        assert result.code == 0, result.err
        assert f"{8 * part} of 16 points are finished; a call without --shard picks the best" in result.out
    assert not (tmp_path / "tuned").exists()
    result = nearmt(*arguments, *grid)
    assert result.code == 0 and result.out.count("warm-up") == 17 and result.out.count("*") == 1
    assert "written to" in result.out.splitlines()[-1]
    assert_one_line(nearmt(*arguments, *grid), 1, "tuned: exists")


def test_hostile_input(nearmt: Nearmt, arguments: tuple[object, ...], train: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.tsv"
    empty.write_text("\n \t \n", encoding="utf-8")
    _, _, *rest = arguments
    assert_one_line(nearmt("finetune", tmp_path / "none.tsv", *rest), 1, "none.tsv: no such file")
    assert_one_line(nearmt(*arguments, "--dev", tmp_path / "none.tsv"), 1, "none.tsv: no such file")
    assert_one_line(nearmt("finetune", empty, *rest), 1, "no pairs to train on")
    out = ("--out", tmp_path / "tuned", *arguments[6:])
    assert_one_line(nearmt("finetune", train, "--dev", empty, *out), 1, "no pairs to validate on")
    assert_one_line(nearmt("finetune", train, *out), 2, "--dev")
    assert_one_line(nearmt(*arguments, "--learning-rate", "-1"), 2, "learning-rate = -1.0: must be between")
    assert_one_line(nearmt(*arguments, "--learning-rate", "fast"), 2, "--learning-rate")
    assert_one_line(nearmt(*arguments, "--precision", "bf16"), 2, "weights are trained in fp32")
    assert_one_line(nearmt(*arguments, "--shard", "1/4"), 2, "give --grid paper")
    assert_one_line(nearmt(*arguments, "--grid", "paper", "--shard", "9/4"), 2, "shard = '9/4'")
    assert_one_line(nearmt(*arguments, "--source-lang", "fr"), 1, "translates de to en")
    assert_one_line(nearmt(*arguments, "--out", tmp_path), 1, f"{tmp_path}: exists")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("tuned")]


def test_a_folder_that_cannot_be_made(nearmt: Nearmt, arguments: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert_one_line(nearmt(*arguments, "--out", tmp_path / "file" / "tuned"), 1, "cannot be written")
