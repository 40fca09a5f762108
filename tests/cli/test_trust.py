"""Stores of others: the model that a store names runs no code, and comes from inside of it only when asked for."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.models import TranslationModel
from tests.cli.conftest import Nearmt
from tests.conftest import make_pairs
from tests.datastore.damage import altered
from tests.datastore.helpers import contents
from tests.models.hostile import with_code

COMMANDS = [
    ("translate", "TEXT", "--datastore", "STORE"),
    ("translate", "TEXT", "--datastore", "STORE", "--method", "plain"),
    ("evaluate", "--test", "MEMORY", "--datastore", "STORE"),
    ("stream", "MEMORY", "--datastore", "STORE"),
    ("tune", "STORE", "--out", "OUT"),
    ("train-adaptive", "STORE", "--out", "OUT"),
    ("bench", "--data", "MEMORY", "--datastore", "STORE"),
    ("add", "STORE", "MEMORY"),
    ("update", "STORE", "a1", "the pump"),
    ("reindex", "STORE", "--precision", "fp32"),
    ("verify", "STORE", "--repair"),
]


def name_model(store: Path, name: str) -> None:
    replace(Manifest.load(store), model=name).save(store)


@pytest.fixture
def own_store(tiny: TranslationModel, tmp_path: Path) -> Path:
    pairs = [replace(pair, id=f"a{number}") for number, pair in enumerate(make_pairs(10))]
    return Datastore.build(tmp_path / "store", pairs, tiny).path


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a model's code would write; every question on standard input is answered with yes."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 10))
    return tmp_path / "code-has-run"


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: " ".join(arguments[:1] + arguments[4:]))
def test_a_model_inside_the_store_is_not_loaded_unasked(
    arguments: tuple[str, ...], nearmt: Nearmt, own_store: Path, memory: Path, text: Path, marker: Path
) -> None:
    model = own_store / "model"
    name_model(own_store, str(model))
    with_code(model, marker)
    if arguments[0] == "verify":
        altered(own_store / "segment-000001" / "key.f16", 5)
    before = contents(own_store)
    words = {"STORE": own_store, "MEMORY": memory, "TEXT": text, "OUT": own_store.parent / "out"}
    result = nearmt(*(words.get(word, word) for word in arguments))
    assert result.code == 1 and f"names a model inside the store, '{model}'" in result.err
    assert "--model" in result.err and not marker.exists() and contents(own_store) == before


def test_a_relative_path_is_not_followed(
    nearmt: Nearmt, own_store: Path, text: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_store.parent)
    name_model(own_store, "store/model")
    with_code(own_store / "model", marker)
    result = nearmt("translate", text, "--datastore", "store")
    assert result.code == 1 and "names its model by a relative path, 'store/model'; give --model" in result.err
    assert not marker.exists()


def test_code_does_not_run_even_if_the_model_is_asked_for(
    nearmt: Nearmt, own_store: Path, text: Path, marker: Path
) -> None:
    model = with_code(own_store / "model", marker)
    result = nearmt("translate", text, "--datastore", own_store, "--model", model)
    assert result.code == 1 and "model type 'hostile' is not supported" in result.err
    assert not marker.exists()


def test_a_model_inside_the_store_is_loaded_when_asked_for(
    nearmt: Nearmt, own_store: Path, text: Path, tiny_folder: Path
) -> None:
    expected = nearmt("translate", text, "--datastore", own_store, "--device", "cpu")
    name_model(own_store, str(own_store / "model"))
    shutil.copytree(tiny_folder, own_store / "model")
    result = nearmt("translate", text, "--datastore", own_store, "--device", "cpu", "--model", own_store / "model")
    assert (result.code, result.out) == (0, expected.out)


def test_a_store_built_with_a_relative_path_works_from_everywhere(
    nearmt: Nearmt, memory: Path, text: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_folder, tmp_path / "my-model")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    assert nearmt("build", memory, "--out", "built", "--model", "./my-model", "--device", "cpu").code == 0
    assert Manifest.load(tmp_path / "built").model == str(tmp_path.resolve() / "my-model")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert nearmt("translate", text, "--datastore", "../built", "--device", "cpu").code == 0
