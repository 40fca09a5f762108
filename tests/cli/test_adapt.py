"""nearmt adapt: training, using, continuing, removing, and one line for whatever is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nearmt.datastore.disk import Manifest
from nearmt.opening import ADAPTING
from nearmt.research.training.checkpoint import Checkpoint
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line
from tests.datastore.helpers import assert_no_strays, contents
from tests.research.training.toy import toy_pairs

QUICK = ("--rank", 4, "--epochs", 2, "--batch-tokens", 256, "--learning-rate", 0.02, "--device", "cpu")


@pytest.fixture(scope="module")
def built(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of 210 pairs of the toy language; tests change copies of it."""
    from nearmt.cli.main import run

    folder = tmp_path_factory.mktemp("adapted")
    lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in toy_pairs(210))
    (folder / "memory.tsv").write_text(lines, encoding="utf-8")
    given = ["build", folder / "memory.tsv", "--out", folder / "store", "--model", tiny_folder, "--device", "cpu"]
    assert run([*map(str, given), "--keep-replaced", "0", "--quiet"]) == 0
    return folder / "store"


@pytest.fixture
def memory(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "memory"))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("die pumpe und motor\nventil und deckel\n", encoding="utf-8")
    return tmp_path / "text.txt"


def test_a_memory_is_adapted_and_used(nearmt: Nearmt, memory: Path, text: Path, tmp_path: Path) -> None:
    plain = nearmt("translate", text, "--datastore", memory, "--device", "cpu", "--quiet").out
    result = nearmt("adapt", memory, *QUICK)
    assert result.code == 0, result.err
    assert [line.split()[0] for line in result.out.splitlines()[:4]] == ["epoch", "0", "1", "2"]
    assert_no_strays(memory)
    found = nearmt("translate", text, "--datastore", memory, "--device", "cpu", "--verbose")
    assert found.code == 0 and f"+{adapter_of(memory)}" in found.err
    new = tmp_path / "new.tsv"
    new.write_text("motor und und und\tshaft and and and\n", encoding="utf-8")
    assert nearmt("add", memory, new, "--device", "cpu").code == 0
    info = json.loads(nearmt("info", memory, "--json").out)
    assert (info["pairs_newer_than_adapter"], info["adapter_pairs"], info["adapter_rank"]) == (1, 189, 4)
    assert info["adapter_held_out"] == 21
    assert "adapter" in nearmt("info", memory).out
    removed = nearmt("adapt", memory, "--remove", "--device", "cpu", "--json")
    assert removed.code == 0 and json.loads(removed.out)["removed"] == info["adapter"]
    assert nearmt(
        "delete", memory, json.loads(nearmt("export", memory, "--format", "jsonl").out.splitlines()[-1])["id"]
    )
    assert nearmt("translate", text, "--datastore", memory, "--device", "cpu", "--quiet").out == plain


def adapter_of(memory: Path) -> str:
    record = Manifest.load(memory).adapter
    assert record is not None
    return record.identity


def test_json_and_what_verbose_tells(nearmt: Nearmt, memory: Path) -> None:
    result = nearmt("adapt", memory, *QUICK, "--json", "--verbose")
    found = json.loads(result.out)
    assert found["adapted"] is True and found["loss"] < found["base_loss"]
    assert [epoch["number"] for epoch in found["training"]["history"]] == [0, 1, 2]
    assert found["adapter"] == adapter_of(memory)
    assert "nearmt: epoch 1: train loss" in result.err


def test_an_interrupted_run_is_continued(
    nearmt: Nearmt, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, old = tmp_path / "whole", contents(memory)
    shutil.copytree(memory, whole)
    assert nearmt("adapt", whole, *QUICK).code == 0
    monkeypatch.setattr(Checkpoint, "due", property(lambda self: True))
    for place in ("nearmt.research.training.loop._Training._update", "nearmt.cli.adapt.rebuild"):
        interrupt_at(monkeypatch, place, nearmt, memory)
        assert {name for name in contents(memory) if not name.startswith(ADAPTING)} - {".lock"} == old.keys() - {
            ".lock"
        }
        refused = nearmt("adapt", memory, *QUICK)
        assert "give --resume" in refused.err
        assert_one_line(refused, 2)
        other = nearmt("adapt", memory, "--resume", *QUICK[2:])
        assert "other settings" in other.err
        assert_one_line(other, 1)
    assert nearmt("adapt", memory, "--resume", *QUICK).code == 0
    assert not (memory / ADAPTING).exists()
    losses = [Manifest.load(path).adapter for path in (memory, whole)]
    assert losses[0] is not None and losses[1] is not None and losses[0].loss == losses[1].loss


def interrupt_at(monkeypatch: pytest.MonkeyPatch, place: str, nearmt: Nearmt, memory: Path) -> None:
    """Run until a function is called for the third time, or the only time."""
    from nearmt.research.training.loop import _Training

    calls: list[int] = []
    real = _Training._update

    def stop(*given: object, **named: object) -> None:
        calls.append(1)
        if len(calls) == 3 or not place.endswith("_update"):
            raise KeyboardInterrupt
        real(*given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        result = nearmt("adapt", memory, *QUICK, "--resume")
        assert result.code == 130 and "interrupted" in result.err


def test_without_a_gain_nothing_is_changed(nearmt: Nearmt, memory: Path) -> None:
    before = contents(memory)
    result = nearmt("adapt", memory, *QUICK, "--learning-rate", 1e-9, "--json")
    assert result.code == 0 and json.loads(result.out)["adapted"] is False
    assert "no epoch has a lower loss on held-out pairs than the model alone: nothing was changed" in result.err
    after = contents(memory)
    assert {name: after[name] for name in before} == before and after.keys() - before.keys() <= {".lock"}


def test_what_is_wrong_is_one_line(nearmt: Nearmt, memory: Path, store: Path, tmp_path: Path, text: Path) -> None:
    cases = [
        (("adapt", store), 1, "60 pairs are too few for an adapter"),
        (("adapt", memory, "--remove"), 1, "has no adapter"),
        (("adapt", memory, "--remove", "--rank", 3), 2, "--remove trains nothing"),
        (("adapt", memory, "--remove", "--resume"), 2, "--remove trains nothing"),
        (("adapt", memory, "--rank", 0), 2, "rank = 0"),
        (("adapt", tmp_path / "none"), 1, "no such datastore"),
        (("adapt", memory, "--precision", "fp8"), 2, "fp8"),
    ]
    for arguments, code, message in cases:
        result = nearmt(*arguments)
        assert message in result.err, result
        assert_one_line(result, code)


def test_memories_with_different_adapters_are_refused_together(
    nearmt: Nearmt, memory: Path, built: Path, text: Path
) -> None:
    assert nearmt("adapt", memory, *QUICK).code == 0
    result = nearmt("translate", text, "--datastore", memory, "--datastore", built)
    assert "their models have different adapters" in result.err
    assert_one_line(result, 1)


def test_reindexing_with_the_same_model_keeps_the_adapter(
    nearmt: Nearmt, memory: Path, tiny_folder: Path, text: Path
) -> None:
    assert nearmt("adapt", memory, *QUICK).code == 0
    before = adapter_of(memory)
    assert nearmt("reindex", memory, "--precision", "fp32", "--device", "cpu").code == 0
    assert adapter_of(memory) == before
    assert nearmt("reindex", memory, "--model", tiny_folder, "--device", "cpu").code == 0
    assert adapter_of(memory) == before


def test_altered_adapters_are_refused_in_one_line(nearmt: Nearmt, memory: Path, text: Path) -> None:
    assert nearmt("adapt", memory, *QUICK).code == 0
    path = memory / f"adapter-{adapter_of(memory)}.safetensors"
    content = path.read_bytes()
    for altered in (content[:-1] + bytes([content[-1] ^ 1]), content[:-2], b""):
        path.write_bytes(altered)
        for command in (("translate", text, "--datastore", memory), ("info", memory), ("adapt", memory, "--remove")):
            result = nearmt(*command)
            assert path.name in result.err, result
            assert_one_line(result, 1)
