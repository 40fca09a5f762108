"""Memories in a folder: opened when they are asked for, closed by least use."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.errors import ConfigError
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.serve.errors import Busy, Conflict, Forbidden, NotFound
from nearmt.serve.memories import Memories
from nearmt.serve.models import Models
from tests.conftest import make_pairs
from tests.tiny import tiny_marian_folder


@pytest.fixture
def memories(tiny: TranslationModel, tmp_path: Path) -> Memories:
    return Memories(tmp_path / "memories", Models([tiny]))


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> TranslationModel:
    folder = tiny_marian_folder(tmp_path_factory.mktemp("other"), seed=1)
    return load_model(ModelConfig(model=str(folder), device="cpu", precision="fp32"))


def test_only_folders_with_a_datastore_are_memories(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("b", tiny)
    memories.create("a", tiny)
    (memories.folder / "empty").mkdir()
    (memories.folder / "a_file").write_text("x")
    shutil.copytree(memories.folder / "a", memories.folder / ".hidden")
    assert memories.names() == ["a", "b"]


@pytest.mark.parametrize("name", ["../other", "..", ".", "", ".server", "a/b", "a\x00", "ü", "a" * 65, "-a"])
def test_other_names_do_not_exist_and_are_not_made(memories: Memories, tiny: TranslationModel, name: str) -> None:
    with pytest.raises(NotFound), memories.using(name):
        pass
    with pytest.raises(ConfigError):
        memories.create(name, tiny)
    assert [path.name for path in memories.folder.iterdir()] == []


def test_an_empty_memory_is_described_open_and_closed(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    with memories.editing("a") as store:
        store.add(make_pairs(3), tiny)
    while_open = memories.info("a")
    memories.close()
    assert memories.open_bytes == {}
    closed = memories.info("a")
    assert closed == while_open
    assert (closed.pairs, closed.pending, closed.problem, closed.source_lang) == (3, 0, "", "de")
    assert closed.bytes > 0


def test_a_description_follows_other_processes(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    assert memories.info("a").pairs == 0
    other = Datastore.open(memories.folder / "a")
    other.add([Pair("die pumpe .", "the pump .")])
    assert memories.info("a").pending == 1
    other.catch_up(tiny)
    assert memories.info("a").pairs == 1
    with memories.using("a") as store:
        assert store.snapshot().exact("die pumpe .") is not None
    other.add([Pair("die welle .", "the shaft .")], tiny)
    with memories.using("a") as store:
        assert store.snapshot().exact("die welle .") is not None


def test_a_memory_that_exists_is_not_made_again(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    with pytest.raises(Conflict, match="'a' exists"):
        memories.create("a", tiny)
    (memories.folder / "b").mkdir()
    (memories.folder / "b" / "notes.txt").write_text("mine")
    with pytest.raises(Conflict, match="'b' exists"):
        memories.create("b", tiny)


def test_the_least_used_memories_are_closed(memories: Memories, tiny: TranslationModel) -> None:
    closed = list[str]()
    memories.on_close.append(closed.append)
    for name in "abc":
        memories.create(name, tiny)
        with memories.using(name):
            pass
    with memories.using("a"):
        pass
    one = max(memories.open_bytes.values())
    memories.budget = 2 * one
    with memories.using("a"):
        pass
    assert closed == ["b"]
    assert set(memories.open_bytes) == {"a", "c"}


def test_open_memories_keep_few_files_open(memories: Memories, tiny: TranslationModel) -> None:
    handles = Path("/proc/self/fd")
    if not handles.is_dir():
        pytest.skip("this system does not tell its open files")
    names = [f"m{number}" for number in range(8)]
    for name in names:
        memories.create(name, tiny)
    memories.handles = 24
    before = len(list(handles.iterdir()))
    for name in names:
        with memories.editing(name) as store:
            store.add(make_pairs(3), tiny)
            store.compact(tiny)
    assert 0 < len(memories.open_bytes) < len(names)
    assert len(list(handles.iterdir())) <= before + memories.handles


def test_a_memory_in_use_stays_open_whatever_the_budget(tiny: TranslationModel, tmp_path: Path) -> None:
    memories = Memories(tmp_path / "memories", Models([tiny]), budget=1)
    memories.create("a", tiny)
    memories.create("b", tiny)
    with memories.using("a") as first:
        with memories.using("b"):
            assert set(memories.open_bytes) == {"a", "b"}
        assert set(memories.open_bytes) == {"a"}
        with memories.using("a") as again:
            assert again is first
    assert memories.open_bytes == {}


def test_a_deleted_memory_leaves_nothing_and_can_be_made_again(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    with memories.editing("a") as store:
        store.add([Pair("die pumpe .", "the pump .")], tiny)
    with memories.using("a") as store:
        memories.delete("a")
        assert store.snapshot().exact("die pumpe .") is not None  # a translation goes on
        with pytest.raises(NotFound):
            memories.info("a")
    assert list(memories.folder.iterdir()) == []
    memories.create("a", tiny)
    assert memories.info("a").pairs == 0
    with memories.using("a") as store:
        assert store.snapshot().exact("die pumpe .") is None


def test_who_waited_for_a_deleted_memory_is_told(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    told = list[Exception]()

    def change() -> None:
        try:
            with memories.editing("a"):
                pass
        except NotFound as error:
            told.append(error)

    with memories.editing("a"):
        deleting = threading.Thread(target=memories.delete, args=("a",))
        deleting.start()
        while len(memories._memories["a"].turns._waiting) < 2:
            pass
        changing = threading.Thread(target=change)
        changing.start()
        while len(memories._memories["a"].turns._waiting) < 3:
            pass
    deleting.join(30)
    changing.join(30)
    assert len(told) == 1


def test_readers_do_not_wait_for_a_change(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    with memories.editing("a"):
        with memories.using("a") as store:
            assert store.snapshot().pair_count == 0
        with pytest.raises(Busy), memories.editing("a", patience=0.01):
            pass


def test_what_a_deletion_left_behind_is_removed(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    (memories.folder / "a").rename(memories.folder / ".deleted-1234")
    Memories(memories.folder, Models([tiny]))
    assert list(memories.folder.iterdir()) == []


def test_a_memory_of_another_model_is_listed_and_refused(
    memories: Memories, tiny: TranslationModel, other_model: TranslationModel
) -> None:
    Datastore.build(memories.folder / "a", make_pairs(3), other_model)
    info = memories.info("a")
    assert "which is not loaded" in info.problem
    assert "\n" not in info.problem
    with pytest.raises(Conflict, match="which is not loaded"), memories.using("a"):
        pass


def test_a_memory_that_is_encoded_anew_meanwhile_is_refused(
    memories: Memories, tiny: TranslationModel, other_model: TranslationModel
) -> None:
    memories.create("a", tiny)
    closed = list[str]()
    memories.on_close.append(closed.append)
    with memories.using("a"):
        Datastore.build(memories.folder / "a", make_pairs(3), other_model, overwrite=True)
    for _ in range(2):
        with pytest.raises(Conflict, match="memory 'a'"), memories.using("a"):
            pass
    assert closed == ["a"]


def test_a_damaged_memory_is_listed_and_refused(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    (memories.folder / "a" / "manifest.json").write_text("{")
    assert memories.info("a").problem
    assert str(memories.folder) not in memories.info("a").problem
    with pytest.raises(Conflict, match="memory 'a'"), memories.using("a"):
        pass


def test_a_server_that_only_reads_changes_nothing(memories: Memories, tiny: TranslationModel) -> None:
    memories.create("a", tiny)
    reading = Memories(memories.folder, Models([tiny]), read_only=True)
    with reading.using("a") as store:
        assert len(store) == 0
    with pytest.raises(Forbidden), reading.editing("a"):
        pass
    with pytest.raises(Forbidden):
        reading.create("b", tiny)
    with pytest.raises(Forbidden):
        reading.delete("a")
    Memories(memories.folder / "none", Models([tiny]), read_only=True)
    assert not (memories.folder / "none").exists()
