"""A store is replaced in one step, by one writer at a time; interrupted anywhere, it is the old one or the new."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore, PruneConfig, prune
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.files import writer_lock
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.upkeep.prune import unprune
from nearmt.datastore.upkeep.reindex import rebuild, reindex
from nearmt.datastore.upkeep.repair import repair
from nearmt.datastore.upkeep.verify import verify
from nearmt.errors import DatastoreError, NearmtWarning, OutputError
from nearmt.models import TranslationModel
from tests.adapting import random_adapter
from tests.conftest import make_pairs
from tests.datastore.crash_writer import Fuse
from tests.datastore.damage import altered, edited_store
from tests.datastore.editing_helpers import named
from tests.datastore.forgetful import forgetful
from tests.datastore.helpers import assert_no_strays, contents

OLD, NEW = named(make_pairs(12, seed=5)), make_pairs(9, seed=6)
Change = Callable[[Path, TranslationModel], object]


@pytest.fixture(scope="module")
def edited(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with segments, deleted pairs, a log and a live segment; tests change copies of it."""
    return edited_store(tmp_path_factory.mktemp("replaced") / "store", tiny)


@pytest.fixture
def store(edited: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(edited, tmp_path / "here" / "store"))


def texts(path: Path) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in Datastore.open(path, verify=True).pairs()]


def overwrite(path: Path, model: TranslationModel) -> None:
    Datastore.build(path, NEW, model, overwrite=True)


def mend(path: Path, model: TranslationModel) -> None:
    repair(path, verify(path), lambda settings: model)


CHANGES: dict[str, Change] = {
    "overwrite": overwrite,
    "rebuild": lambda path, model: rebuild(path, model, BuildConfig()),
    "adapt": lambda path, model: rebuild(path, model.adapted(random_adapter(model)), BuildConfig()),
    "reindex": lambda path, model: reindex(path, "IVF2,SQ8"),
    "prune": lambda path, model: prune(path, PruneConfig(device="cpu")),
    "compact": lambda path, model: Datastore.open(path).compact(model),
}


# One lock for every writer.


@pytest.mark.parametrize("name", [*CHANGES, "repair", "unprune", "add", "delete", "log"])
def test_no_writer_ignores_the_lock(name: str, tiny: TranslationModel, store: Path) -> None:
    others: dict[str, Change] = {
        "repair": mend,
        "unprune": lambda path, model: unprune(path),
        "add": lambda path, model: Datastore.open(path).add(NEW, model),
        "delete": lambda path, model: Datastore.open(path).delete([next(Datastore.open(path).pairs()).id]),
        "log": lambda path, model: Ledger.changing(path).__enter__(),
    }
    before = contents(store)
    with writer_lock(store), pytest.raises(DatastoreError, match="another process is writing to it"):
        {**CHANGES, **others}[name](store, tiny)
    assert contents(store) == before


def test_a_build_over_a_store_that_is_written_to_is_refused(tiny: TranslationModel, tmp_path: Path) -> None:
    """The build returned success, and the addition wrote the old manifest into the new folder."""
    store = Datastore.build(tmp_path / "store", OLD, tiny)
    refused: list[str] = []

    def stream() -> Iterator[Pair]:
        yield NEW[0]
        with pytest.raises(DatastoreError) as caught:
            overwrite(store.path, tiny)
        refused.append(str(caught.value))
        yield from NEW[1:]

    assert store.add(stream(), tiny) == len(NEW) and "another process is writing" in refused[0]
    assert texts(store.path) == [(pair.source, pair.target) for pair in [*OLD, *NEW]]
    assert not any(finding.damaged for finding in verify(store.path))


def test_additions_wait_for_no_build_and_none_is_lost(tiny: TranslationModel, tmp_path: Path) -> None:
    """The other way round: while a store is replaced, nothing is acknowledged that the new one would not hold."""
    store = Datastore.build(tmp_path / "store", OLD, tiny)

    def progress(done: int, total: int) -> None:
        for writer in (store, Datastore.open(store.path)):
            with pytest.raises(DatastoreError, match="another process is writing"):
                writer.add(OLD[:1], tiny)

    Datastore.build(store.path, NEW, tiny, overwrite=True, progress=progress)
    store.add(OLD[:1], tiny)  # a handle from before follows
    assert texts(store.path) == [(pair.source, pair.target) for pair in [*NEW, OLD[0]]]


@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
@pytest.mark.parametrize("with_model", [True, False])
def test_a_writer_whose_folder_was_replaced_acknowledges_nothing(
    how: str, with_model: bool, tiny: TranslationModel, tmp_path: Path
) -> None:
    store, other = Datastore.build(tmp_path / "store", OLD, tiny), tmp_path / "other"
    Datastore.build(other, NEW, tiny)
    store.add(OLD[:1])
    untouched = contents(other)

    def stream() -> Iterator[Pair]:
        yield NEW[0]
        if how == "removed":
            shutil.rmtree(store.path)
        else:
            store.path.rename(tmp_path / "elsewhere")
        if how == "replaced":
            other.rename(store.path)

    def add() -> None:
        if with_model:
            store.add(stream(), tiny)
        else:
            with Ledger.changing(store.path) as ledger:
                ledger.add(stream())

    with pytest.raises(DatastoreError, match=r"was moved or replaced while it was written to|no such datastore"):
        add()
    if how == "replaced":
        assert contents(store.path) == untouched
    if how == "moved":
        assert len(texts(tmp_path / "elsewhere")) == len(OLD)


# One step.


@pytest.mark.parametrize("name", CHANGES)
def test_readers_see_the_old_store_or_the_new(name: str, tiny: TranslationModel, store: Path) -> None:
    before, seen, done = texts(store), set(), threading.Event()
    reader = Datastore.open(store)

    def read() -> None:
        while not done.is_set():
            reader.refresh()
            seen.add(tuple((pair.source, pair.target) for pair in reader.pairs()))
            seen.add(tuple(texts(store)))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        CHANGES[name](store, tiny)
    finally:
        done.set()
        thread.join()
    after = texts(store)
    assert seen <= {tuple(before), tuple(after)}
    assert_no_strays(store)


@pytest.mark.parametrize("name", [*CHANGES, "repair", "new"])
def test_a_power_cut_leaves_the_old_store_or_the_new(
    name: str, tiny: TranslationModel, store: Path, tmp_path: Path
) -> None:
    """Whatever was not synced is forgotten, contents and names or contents alone; what returned is there."""
    if name == "repair":
        altered(store / "segment-000001" / "key.f16", 3)
    if name == "new":
        shutil.rmtree(store)
    before = None if name in ("repair", "new") else texts(store)
    with forgetful(store.parent, tmp_path / "cuts") as disk:
        {**CHANGES, "repair": mend, "new": overwrite}[name](store, tiny)
    after = texts(store)
    assert len(disk.states) > 20
    usable = [state for state in disk.states if before is not None or is_usable(state / "store")]
    assert all(texts(state / "store") in (before, after) for state in usable)
    assert texts(disk.states[-2] / "store") == after


def is_usable(path: Path) -> bool:
    """Whether there is a store, and it is not damaged."""
    try:
        Datastore.open(path, verify=True)
    except DatastoreError:
        return False
    return True


# Killed.


def killed(change: Change, path: Path, model: TranslationModel, moments: int, random: Random) -> bool:
    """Run a change in a process of its own that dies at a moment of its file operations; whether it did."""
    child = os.fork()
    if not child:
        code = 1
        try:
            Fuse(path, moments, random).light()
            change(path, model)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def kill_replacements(store: Path, model: TranslationModel, kills: int, seed: int, tmp_path: Path) -> None:
    random, died = Random(seed), 0
    for number in range(kills):
        name = random.choice([*CHANGES, "repair"])
        path = tmp_path / f"killed-{number}" / "store"
        shutil.copytree(store, path)
        if name == "repair":
            altered(path / "segment-000001" / "token.i32", 3)
        before = None if name == "repair" else texts(path)
        died += killed({**CHANGES, "repair": mend}[name], path, model, random.randint(1, 300), random)
        if name == "repair" and any(finding.damaged for finding in verify(path)):
            mend(path, model)
        found = texts(path)
        new = [(pair.source, pair.target) for pair in NEW]
        assert found in (before or texts(store), new), name
        Datastore.open(path).compact()  # what the killed process left is no obstacle, and goes
        shutil.rmtree(path / "building", ignore_errors=True)
        shutil.rmtree(path / "repairing", ignore_errors=True)
        for kept in path.parent.glob("store.damaged*"):
            shutil.rmtree(kept)
        assert_no_strays(path)
        shutil.rmtree(path.parent)
    assert died > kills / 3


def test_a_killed_replacement_leaves_the_old_store_or_the_new(
    tiny: TranslationModel, store: Path, tmp_path: Path
) -> None:
    kill_replacements(store, tiny, 25, 1, tmp_path)


@pytest.mark.slow
def test_replacements_killed_hundreds_of_times(
    tiny: TranslationModel, store: Path, tmp_path: Path, campaign_seed: int
) -> None:
    kill_replacements(store, tiny, 1500, campaign_seed, tmp_path)


# What older versions left.


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ({".old": "old", ".building": "new"}, "new"),
        ({".old": "old", ".building": "unfinished"}, "old"),
        ({".old": "old"}, "old"),
        ({".building": "new"}, "new"),
        ({".damaged": "old", ".repaired": "new"}, "new"),
    ],
)
def test_a_replacement_that_an_older_version_did_not_finish_is_recovered(
    left: dict[str, str], expected: str, tiny: TranslationModel, tmp_path: Path
) -> None:
    """Every command advised to build the store again, and that deleted both copies."""
    pairs = {"old": OLD, "new": NEW}
    for suffix, kind in left.items():
        folder = tmp_path / f"store{suffix}"
        Datastore.build(folder, pairs.get(kind, NEW), tiny)
        if kind == "unfinished":
            (folder / "manifest.json").unlink()
    with (
        pytest.warns(NearmtWarning, match="its replacement had been interrupted"),
        pytest.raises(OutputError, match="a datastore is already there"),
    ):
        Datastore.build(tmp_path / "store", NEW[:1], tiny)
    assert texts(tmp_path / "store") == [(pair.source, pair.target) for pair in pairs[expected]]
    kept = [suffix for suffix, kind in left.items() if kind in pairs and kind != expected]
    assert all((tmp_path / f"store{suffix}" / "manifest.json").is_file() for suffix in kept)


def test_a_folder_without_its_manifest_is_not_built_over(tiny: TranslationModel, store: Path) -> None:
    """What is left of it can be repaired."""
    (store / "manifest.json").unlink()
    before = contents(store)
    for replace in (False, True):
        with pytest.raises(OutputError, match="a damaged datastore"):
            Datastore.build(store, NEW, tiny, overwrite=replace)
    with pytest.raises(DatastoreError, match="verify --repair"):
        Manifest.load(store)
    assert contents(store) == before


def test_the_lock_ends_with_the_process(store: Path) -> None:
    script = "import sys, os; from pathlib import Path; from nearmt.datastore.disk.files import writer_lock\n"
    script += "with writer_lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", script, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as holding:
        assert holding.stdout is not None and holding.stdout.readline() == b"held\n"
        with pytest.raises(DatastoreError, match="another process"), writer_lock(store):
            pass
        holding.kill()
        holding.wait()
        with writer_lock(store):
            pass
