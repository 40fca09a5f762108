"""The command line with an index in Milvus: addresses, fallback, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearmt.datastore.disk import Manifest
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line
from tests.index.toy_milvus import ADDRESS, ToyMilvus


@pytest.fixture
def remote(toy: ToyMilvus, nearmt: Nearmt, memory: Path, tiny_folder: Path, tmp_path: Path) -> Path:
    common = ("--model", tiny_folder, "--device", "cpu", "--precision", "fp32")
    result = nearmt("build", memory, "--out", tmp_path / "store", "--index", ADDRESS, *common)
    assert result.code == 0, result.err
    return tmp_path / "store"


def line(remote: Path, *arguments: object) -> tuple[object, ...]:
    return ("translate", *arguments, "--datastore", remote, "--method", "knn", "--device", "cpu")


def test_a_missing_server_is_an_error_or_exit_code_3(
    nearmt: Nearmt, toy: ToyMilvus, remote: Path, text: Path, tmp_path: Path
) -> None:
    whole = nearmt(*line(remote, text, "--json"))
    assert whole.code == 0 and "without neighbours" not in whole.out
    toy.is_down = True
    assert_one_line(nearmt(*line(remote, text, "--json")), 1, "index-fallback=model")
    alone = nearmt(*line(remote, text, "--json"), "--set", "index-fallback=model")
    assert alone.code == 3
    assert "3 units are translated without neighbours of the memory" in alone.err.splitlines()[-1]
    units = [json.loads(unit) for unit in alone.out.splitlines()]
    assert [unit["line"] for unit in units] == [1, 2, 3, 4, 5]
    translated = [unit for unit in units if unit["source"].strip()]
    assert len(translated) == 3 and all(unit["missed"] == unit["searches"] > 0 for unit in translated)
    assert all("without neighbours" in str(unit["findings"]) for unit in translated)
    config = tmp_path / "nearmt.toml"
    config.write_text('index-fallback = "model"\nindex-timeout = 0.5\n', encoding="utf-8")
    assert nearmt(*line(remote, text), "--config", config).code == 3


def test_a_folder_is_translated_to_the_end(
    nearmt: Nearmt, toy: ToyMilvus, remote: Path, text: Path, tmp_path: Path
) -> None:
    toy.is_down = True
    result = nearmt(*line(remote, text, "--output", tmp_path / "out.txt", "--set", "index-fallback=model"))
    assert result.code == 3 and (tmp_path / "out.txt").read_text(encoding="utf-8").count("\n") == 5
    (tmp_path / "folder").mkdir()
    text.rename(tmp_path / "folder" / "one.txt")
    result = nearmt(
        *line(remote, tmp_path / "folder", "--output", tmp_path / "english", "--set", "index-fallback=model")
    )
    assert result.code == 3 and "without neighbours" in result.err
    assert (tmp_path / "english" / "one.txt").read_text(encoding="utf-8").count("\n") == 5


def test_the_index_is_told_checked_and_made_again(
    nearmt: Nearmt, toy: ToyMilvus, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(nearmt("info", remote, "--json").out)["index"].startswith("milvus://toy:19530/default?type=HNSW")
    assert nearmt("verify", remote).code == 0
    toy.collections.clear()
    assert_one_line_at_the_end(nearmt("verify", remote).err, "its files are sound, its index on a server is not")
    result = nearmt("reindex", remote)
    assert result.code == 0 and "Milvus has" in result.err
    assert nearmt("verify", remote).code == 0
    result = nearmt("reindex", remote, "--index", f"{ADDRESS}/other?type=IVF_SQ8&nlist=8", "--index-patience", 5)
    assert result.code == 0, result.err
    (record,) = Manifest.load(remote).segments
    assert "/other?type=IVF_SQ8&nlist=8" in record.index["factory"] and record.index["collection"].endswith("IVF_SQ8")
    assert_one_line(nearmt("reindex", remote, "--index", f"{ADDRESS}?type=FLAT"), 2, "milvus://HOST:PORT")
    toy.is_down = True
    assert_one_line(nearmt("reindex", remote), 1, "no answer")
    assert nearmt("reindex", remote, "--index", "exact").code == 0


def assert_one_line_at_the_end(err: str, part: str) -> None:
    assert part in err.splitlines()[-1]
