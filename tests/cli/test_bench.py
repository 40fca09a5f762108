"""nearmt bench, from one end to the other with the tiny model."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Nearmt

FAST = ("--beams", "2", "--batch-sizes", "3", "--repeats", "1", "--device", "cpu", "--max-new-tokens", "5")


def test_all_systems(nearmt: Nearmt, memory: Path, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    run = ("bench", "--data", memory, "--datastore", store, "--limit", 7, "--threads", 1, *FAST)
    result = nearmt(*run, "--out", out)
    assert result.code == 0, result.err
    written = json.loads(out.read_text(encoding="utf-8"))
    names = {f"{cell['system']} {cell['precision']}" for cell in written["cells"]}
    own = {f"{system} {precision}" for system in ("plain", "knn", "chunk") for precision in ("fp32", "bf16", "int8")}
    assert own | {"transformers fp32", "transformers bf16"} <= names
    assert written["machine"]["threads"] == 1 and written["sentences"] == 7
    assert str(tmp_path) not in out.read_text(encoding="utf-8") and str(store) not in out.read_text(encoding="utf-8")
    lines = result.out.splitlines()
    assert any(line.startswith("chunk int8") for line in lines) and "× transformers fp32" in result.out
    assert "decoder layers" in result.out


def test_json(nearmt: Nearmt, memory: Path, tiny_folder: Path) -> None:
    run = ("bench", "--data", memory, "--model", tiny_folder, "--systems", "plain", "--precisions", "fp32", *FAST)
    result = nearmt(*run, "--json", "--no-profile", "--reference", "plain:fp32", "--limit", 1)
    assert result.code == 0, result.err
    (cell,) = json.loads(result.out)["cells"]
    assert cell["to_reference"] == 1.0 and "shares" not in cell and cell["signature"].startswith("nearmt:")


def test_a_missing_package_is_named_once(
    nearmt: Nearmt, memory: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "ctranslate2":
            raise ImportError(name)
        return really(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    fast = ("--limit", 2, "--no-quality", "--no-profile", *FAST[2:], "--beams", "1,2")
    run = ("bench", "--data", memory, "--model", tiny_folder, *fast, "--precisions", "fp32", "--systems")
    result = nearmt(*run, "plain,ctranslate2")
    assert result.code == 0, result.err
    assert result.err.count("\n") == 1 and "ctranslate2 fp32: not run: ctranslate2 is not installed" in result.err
    nothing = nearmt(*run, "ctranslate2")
    assert nothing.code == 2 and "no system could run" in nothing.err and nothing.out == ""


def test_what_is_refused(nearmt: Nearmt, memory: Path, store: Path, tiny_folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.tsv"
    empty.write_text("", encoding="utf-8")
    model = ("--model", tiny_folder)
    for arguments, code, told in [
        (("--data", tmp_path / "none.tsv", *model), 1, "none.tsv"),
        (("--data", empty, *model), 1, "no pairs to translate"),
        (("--data", memory, "--out", tmp_path / "no" / "out.json", *model), 1, "there is no folder"),
        (("--data", memory, "--datastore", tmp_path / "nothing"), 1, "nothing"),
        (("--data", memory, "--systems", "plane", *model), 2, "did you mean 'plain'"),
        (("--data", memory, "--beams", "many", *model), 2, "beams = 'many'"),
        (("--data", memory, "--systems", "transformers", "--precisions", "int8", *model), 2, "no system could run"),
    ]:
        result = nearmt("bench", *arguments, "--device", "cpu")
        assert (result.code, result.err.count("\n")) == (code, 1) and told in result.err, result.err


def test_interrupted_it_keeps_what_it_has(
    nearmt: Nearmt, memory: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nearmt.research.bench.running import Bench

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    # Speeds are kept before anything else is measured.
    monkeypatch.setattr(Bench, "_profile", interrupt)
    out = tmp_path / "speed.json"
    run = ("bench", "--data", memory, "--model", tiny_folder, "--systems", "plain", "--precisions", "fp32", *FAST[2:])
    result = nearmt(*run, "--limit", 2, "--out", out, "--beams", "1,2")
    assert result.code == 130 and "interrupted" in result.err
    assert [cell["beams"] for cell in json.loads(out.read_text(encoding="utf-8"))["cells"]] == [1]
