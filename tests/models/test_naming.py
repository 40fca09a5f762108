"""Which models a store may name by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.errors import ModelError
from nearmt.models.naming import is_hub_id, name_from_store, recorded_name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a store, a model in it and one outside it, and links between them."""
    for folder in ("store/model", "mine", "org/name"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link-into").symlink_to(tmp_path / "store" / "model")
    (tmp_path / "other-store").symlink_to(tmp_path / "store")
    (tmp_path / "store" / "link-out").symlink_to(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["de-en", "Helsinki-NLP/opus-mt-de-en", "t5-small", "facebook/nllb-200-distilled-600M"]
)
def test_embedded_models_and_hub_ids_are_loaded(name: str, folder: Path) -> None:
    assert name_from_store(name, folder / "store") == name


def test_a_folder_elsewhere_is_loaded(folder: Path) -> None:
    for name in (str(folder / "mine"), str(folder / "gone")):
        assert name_from_store(name, "store") == name


@pytest.mark.parametrize(
    "name",
    ["store/model", "./mine", "mine", "org/name", "../x", "a/b/c", "~/mine", "", ".", "x\n", "https://hf.co/a/b"],
)
def test_a_relative_path_is_refused(name: str, folder: Path) -> None:
    with pytest.raises(ModelError, match=r"names its model by a relative path, .*; give --model") as caught:
        name_from_store(name, "store")
    assert repr(name) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["store", "store/model", "store/gone", "link-into", "other-store/model", "store/link-out", "store/../mine"]
)
def test_a_folder_inside_the_store_is_refused(name: str, folder: Path) -> None:
    for store in ("store", "other-store", folder / "store"):
        with pytest.raises(ModelError, match=r"names a model inside the store, .* name it with --model"):
            name_from_store(f"{folder}/{name}", store)


def test_what_is_recorded_does_not_depend_on_the_working_folder(folder: Path) -> None:
    assert recorded_name("./mine") == recorded_name("mine") == str(folder.resolve() / "mine")
    assert recorded_name(str(folder / "mine")) == str(folder / "mine")
    assert recorded_name("de-en") == "de-en"
    assert recorded_name("Helsinki-NLP/opus-mt-de-en") == "Helsinki-NLP/opus-mt-de-en"


def test_hub_ids() -> None:
    assert all(map(is_hub_id, ("a", "a/b", "A-b_c.d/e.f-1")))
    assert not any(map(is_hub_id, ("", "/a", "a/", "./a", "a/../b", "a/b/c", "a b", "-a/b", "a--b", "a/b\n")))
