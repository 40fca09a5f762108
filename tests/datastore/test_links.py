"""An untrusted store cannot make nearmt touch files outside of it: names are checked, links are not followed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nearmt.datastore import Datastore, PruneConfig, prune
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.manifest import sealed
from nearmt.datastore.upkeep.reindex import reindex
from nearmt.datastore.upkeep.repair import repair
from nearmt.datastore.upkeep.verify import DAMAGED, verify
from nearmt.errors import DatastoreError, NearmtError
from nearmt.models import TranslationModel
from nearmt.opening import exists_inside, open_inside, opened
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.damage import edited_store
from tests.datastore.helpers import contents

VICTIM = b"a file of the user"


@pytest.fixture(scope="module")
def whole(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edited_store(tmp_path_factory.mktemp("linked") / "store", tiny)


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "store"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Files of the user, some with names that a store has as well."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("notes.txt", "key.f16", "token.i32", "manifest.json"):
        (folder / name).write_bytes(VICTIM)
    return folder


def log(store: Path, model: TranslationModel) -> None:
    with Ledger.changing(store) as ledger:
        ledger.add(make_pairs(1, seed=8))


USES: dict[str, Callable[[Path, TranslationModel], object]] = {
    "translate": lambda path, model: Translator(model, Datastore.open(path)).translate("die pumpe"),
    "add": lambda path, model: Datastore.open(path).add(make_pairs(2, seed=9), model),
    "log": log,
    "delete": lambda path, model: Datastore.open(path).delete([next(Datastore.open(path).pairs()).id]),
    "compact": lambda path, model: Datastore.open(path).compact(model),
    "reindex": lambda path, model: reindex(path, "IVF2,SQ8"),
    "prune": lambda path, model: prune(path, PruneConfig(device="cpu")),
    "verify": lambda path, model: verify(path),
    "repair": lambda path, model: repair(path, verify(path), lambda settings: model),
    "overwrite": lambda path, model: Datastore.build(path, make_pairs(5), model, overwrite=True),
}
LINKED = (
    ".lock",
    "manifest.json",
    "manifest.json.partial",
    "log-000002.log",
    "live-000002.blocks",
    "log-000009.log",
    "segment-000001/key.f16",
    "segment-000001/pairs.jsonl",
    "segment-000001/progress.json.partial",
    "building/segment-000001/key.f16",
    "building/segment-000001/progress.json",
    "reduction-0123456789abcdef.safetensors",
)
FOLDERS = ("segment-000001", "segment-000002", "segment-000009", "building", "building/segment-000001", "repairing")


def put_link(store: Path, name: str, target: Path) -> None:
    path = store / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("name", [*LINKED, *FOLDERS])
def test_no_use_follows_a_link(name: str, tiny: TranslationModel, store: Path, home: Path, tmp_path: Path) -> None:
    before = contents(home)
    target = home if name in FOLDERS else home / "notes.txt"
    for use in USES.values():
        hostile = Path(shutil.copytree(store, tmp_path / "hostile"))
        put_link(hostile, name, target)
        with suppress(NearmtError):
            use(hostile, tiny)
        assert contents(home) == before, use
        shutil.rmtree(hostile)
        for kept in tmp_path.glob("hostile.*"):
            shutil.rmtree(kept)


def test_a_linked_file_is_refused_by_name(store: Path, home: Path) -> None:
    manifest = Manifest.load(store)
    assert manifest.log is not None
    for name in (manifest.log, "segment-000001/key.f16", manifest.reduction_name):
        copy = home / "copy"
        copy.write_bytes((store / name).read_bytes())
        put_link(store, name, copy)
        with pytest.raises(DatastoreError, match="link") as caught:
            Datastore.open(store)
        assert Path(name).name in str(caught.value) and "\n" not in str(caught.value)
        assert {finding.file: finding.verdict for finding in verify(store)}[name] == DAMAGED
        (store / name).unlink()
        (store / name).write_bytes(copy.read_bytes())
    Datastore.open(store)


def test_the_path_of_a_store_may_be_a_link(store: Path, tiny: TranslationModel, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(store)
    opened_by_link = Datastore.open(link)
    opened_by_link.add(make_pairs(2, seed=9), tiny)
    opened_by_link.compact(tiny)
    assert list(Datastore.open(store).pairs()) == list(opened_by_link.pairs())
    assert link.is_symlink()


def test_a_pipe_is_no_file_of_a_store(store: Path) -> None:
    """Opening one would wait for its other end for ever."""
    manifest = Manifest.load(store)
    assert manifest.log is not None
    (store / manifest.log).unlink()
    os.mkfifo(store / manifest.log)
    with pytest.raises(DatastoreError, match="not an ordinary file"):
        Datastore.open(store)


def rewritten(store: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and give it the right checksum."""
    path = store / "manifest.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    del raw["checksum"]
    change(raw)
    path.write_text(json.dumps(sealed(raw), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def set_in(*keys: str | int) -> Callable[[dict[str, Any], Any], None]:
    def change(raw: Any, value: Any) -> None:
        for key in keys[:-1]:
            raw = raw[key]
        raw[keys[-1]] = value

    return change


NAMES = {
    "log": set_in("log"),
    "reduction": set_in("reduction"),
    "segment": set_in("segments", 0, "name"),
    "deleted": set_in("segments", 0, "deleted", "file"),
    "index": set_in("segments", 0, "index", "file"),
    "pruned": set_in("segments", 0, "index", "pruned"),
    "quantiser": set_in("segments", 0, "index", "quantiser"),
    "file": lambda raw, value: raw["segments"][0]["files"].update({value: {"bytes": 1, "sha256": "x"}}),
}
HOSTILE = ("../home/notes.txt", "/etc/passwd", "..", "", "notes.txt", "segment-000001/../../home/key.f16", "log-1\n", 7)


@pytest.mark.parametrize("where", NAMES)
def test_names_that_nearmt_does_not_give_are_refused(where: str, store: Path, tmp_path: Path) -> None:
    for value in HOSTILE[: -1 if where == "reduction" else None]:  # a reduction's name is made of its identity
        hostile = Path(shutil.copytree(store, tmp_path / "hostile"))
        named = {"file": value, "kept": 1, "entries": 1} if where in ("pruned", "quantiser") else value
        rewritten(hostile, lambda raw, named=named: NAMES[where](raw, named))  # type: ignore[misc]
        with pytest.raises(DatastoreError, match=r"manifest\.json: damaged") as caught:
            Manifest.load(hostile)
        assert "\n" not in str(caught.value)
        shutil.rmtree(hostile)


def test_opening_relative_to_an_opened_folder(tmp_path: Path) -> None:
    inner = tmp_path / "store" / "segment-000001"
    inner.mkdir(parents=True)
    with opened(inner / "key.f16", "wb") as file:
        file.write(b"x")
    assert exists_inside(inner / "key.f16") and not exists_inside(inner / "token.i32")
    assert not exists_inside(tmp_path / "store" / "segment-000009" / "key.f16")
    with opened(inner / "key.f16") as file:
        assert file.read() == b"x"
    with pytest.raises(FileNotFoundError) as caught:
        open_inside(inner / "token.i32")
    assert caught.value.filename == str(inner / "token.i32")
    (tmp_path / "store" / "segment-000002").symlink_to(inner)
    with pytest.raises(DatastoreError, match="'segment-000002' is a symbolic link"):
        open_inside(tmp_path / "store" / "segment-000002" / "key.f16")
