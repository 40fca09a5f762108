"""A store that is edited is the store that would have been built of the same pairs, for everybody who looks."""

from __future__ import annotations

import builtins
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import Datastore, PruneConfig, prune, reindex
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.log import Added, Log
from nearmt.datastore.disk.manifest import FILE_NAME, live_names
from nearmt.datastore.disk.migrations import FORMAT
from nearmt.datastore.disk.segment import ID
from nearmt.datastore.edit.merging import merge_count
from nearmt.decoding import beam_search
from nearmt.engines.devices import DEVICES
from nearmt.errors import DatastoreError, NearmtWarning
from nearmt.methods import make_method
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.editing_helpers import (
    BEAM,
    CHUNK,
    KNN,
    Expected,
    assert_same,
    built_alike,
    named,
    reduced_by,
    seen_entries,
    translations,
)
from tests.datastore.helpers import assert_no_strays, contents, count_encoded, reduction_of

PAIRS = named(make_pairs(40, seed=71))
assert len({pair.source for pair in PAIRS}) == 40


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair is encoded by itself: the same pair has the same keys to the last bit."""
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], forced_tokens=1))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live segment is sealed when it has a few pairs."""
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 30)


@pytest.fixture(scope="module")
def begun(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the first twelve pairs, to be copied."""
    path = tmp_path_factory.mktemp("begun") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], forced_tokens=1))
        Datastore.build(path, PAIRS[:12], tiny)
    return path


@pytest.fixture
def store(begun: Path, tmp_path: Path) -> Datastore:
    shutil.copytree(begun, tmp_path / "store")
    return Datastore.open(tmp_path / "store")


def texts(store: Datastore) -> list[str]:
    return [pair.target for pair in store.pairs()]


# Grown, and built at once.


@pytest.mark.parametrize("size", [1, 5, 28])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_grown_store_is_one_built_at_once(
    size: int, sealed: bool, tiny: TranslationModel, store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sealed:
        monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 30)
    names = set()
    for start in range(12, 40, size):
        assert store.add(PAIRS[start : start + size], tiny) == min(size, 40 - start)
        names |= {record.name for record in store.manifest.segments}
    # Small segments were merged on the way, and are gone.
    assert not sealed or len(names) > len(store.manifest.segments) or size == 28
    assert len(store.manifest.segments) <= 4
    fresh = built_alike(tmp_path / "fresh", PAIRS, tiny, store)
    for handle in (store, Datastore.open(store.path, verify=True)):
        assert_same(handle, fresh, tiny)
    assert_no_strays(store.path)
    store.compact(tiny)
    assert [record.pairs for record in store.manifest.segments] == [40]
    assert store.manifest.calibration == fresh.manifest.calibration
    for method in ("knn", "chunk"):
        found, expected = (
            [t.text for t in Translator(tiny, s, method, beam=BEAM).translate([p.source for p in PAIRS[:5]])]
            for s in (store, fresh)
        )
        assert found == expected
    assert_same(store, fresh, tiny)
    assert_no_strays(store.path)


def test_an_empty_store_grows_and_shrinks(tiny: TranslationModel, tmp_path: Path, often: None) -> None:
    with reduced_by(reduction_of(Datastore.build(tmp_path / "other", make_pairs(60), tiny).path)):
        store = Datastore.build(tmp_path / "store", [], tiny)
    for number, pair in enumerate(PAIRS, 1):
        store.add([pair], tiny)
        assert store.snapshot().pair_count == number
    fresh = built_alike(tmp_path / "fresh", PAIRS, tiny, store)
    assert_same(store, fresh, tiny)
    store.delete([pair.id for pair in PAIRS])
    for handle in (store, Datastore.open(store.path)):
        assert list(handle.pairs()) == [] and handle.snapshot().pair_count == 0
        assert bool((handle.snapshot().search(torch.zeros(2, handle.snapshot().columns), 3).entry_BK == -1).all())
        assert handle.snapshot().similar_pairs([1, 2, 3], 4) == [] and handle.snapshot().exact(PAIRS[0].source) is None
        assert Translator(tiny, handle, beam=BEAM).translate("die pumpe").text
    store.compact()
    assert len(store) == 0 and store.manifest.segments == ()
    store.add(PAIRS[:3], tiny)
    assert_same(store, built_alike(tmp_path / "few", PAIRS[:3], tiny, store), tiny)


def test_segments_stay_few() -> None:
    """However many live segments are sealed: each is merged a few times, and there are never many."""
    sizes: list[int] = []
    written = 0
    for _ in range(1000):
        count = merge_count([*sizes, 10])
        kept = sizes[: len(sizes) - (count - 1)]
        sizes = [*kept, 10 + sum(sizes[len(kept) :])]
        written += sizes[-1]
        assert len(sizes) <= 3 * 5 + 1
    assert sum(sizes) == 10_000 and written <= 8 * 10_000


# Any sequence of changes.


class Run:
    """Random changes by two handles of one store, and a dictionary to compare with."""

    def __init__(self, path: Path, model: TranslationModel, random: Random) -> None:
        self.path, self.model, self.random = path, model, random
        self.handles = [Datastore.open(path), Datastore.open(path)]
        self.expected = Expected(PAIRS[:12], reduction_of(path), model)
        self.fresh_pairs = iter(make_pairs(300, seed=random.randrange(10**6)))
        self.count = 0

    def new(self, identity: str | None = None) -> Pair:
        self.count += 1
        pair = next(self.fresh_pairs)
        source = self.random.choice([pair.source, PAIRS[0].source])
        return replace(pair, source=source, id=identity or f"new-{self.count}", metadata={"n": str(self.count)})

    def known(self) -> str:
        return self.random.choice(list(self.expected.pairs))

    def add(self, store: Datastore) -> None:
        pairs = [self.new() for _ in range(self.random.randint(1, 4))]
        assert store.add(iter(pairs), self.model) == len(pairs)
        self.expected.add(pairs, learn=True)

    def log(self, store: Datastore) -> None:
        pairs = [self.new(self.random.choice([None, self.known()])) for _ in range(self.random.randint(1, 3))]
        store.add(pairs)
        self.expected.add(pairs, learn=False)

    def replace(self, store: Datastore) -> None:
        pairs = [self.new(self.known()), self.new()]
        store.add([*pairs, pairs[0]], self.model)
        self.expected.add([*pairs, pairs[0]], learn=True)

    def update(self, store: Datastore) -> None:
        identity, target = self.known(), next(self.fresh_pairs).target
        model = self.random.choice([None, self.model])
        pair = store.update(identity, target, model)
        assert pair == replace(self.expected.pairs[identity], target=target)
        self.expected.add([pair], learn=model is not None)

    def delete(self, store: Datastore) -> None:
        if len(self.expected.pairs) > 5:
            ids = self.random.sample(list(self.expected.pairs), self.random.randint(1, 4))
            assert store.delete([*ids, ids[0]]) == len(ids)
            self.expected.delete(ids)

    def catch_up(self, store: Datastore) -> None:
        store.refresh()
        assert store.catch_up(self.model) == len(self.expected.pending)
        self.expected.learn()

    def compact(self, store: Datastore) -> None:
        store.compact(self.random.choice([None, self.model]))
        if store.pending == 0:
            self.expected.learn()
        assert len(store.manifest.segments) <= 1 and store.snapshot().pair_count == len(store.snapshot().pair_lengths())

    def reopen(self, store: Datastore) -> None:
        self.handles[self.handles.index(store)] = Datastore.open(self.path, verify=True)

    def step(self) -> str:
        often = [self.add, self.log, self.replace, self.update, self.delete, self.catch_up, self.reopen]
        change = self.random.choice([*often, *often, self.compact])
        change(self.random.choice(self.handles))
        return change.__name__


@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_changes_is_that_of_a_dictionary(
    seed: int, tiny: TranslationModel, store: Datastore, tmp_path: Path, often: None
) -> None:
    run = Run(store.path, tiny, Random(seed))
    done = []
    for _ in range(20):
        done.append(run.step())
        for handle in run.handles:
            handle.refresh()
            run.expected.check(handle)
            assert not handle.refresh(), done
        assert run.handles[0].snapshot().identity == run.handles[1].snapshot().identity, done
    assert Datastore.open(store.path).snapshot().identity == run.handles[0].snapshot().identity
    run.catch_up(run.handles[0])
    fresh = built_alike(tmp_path / "fresh", run.expected.visible, tiny, store)
    assert_same(run.handles[0], fresh, tiny, k=1000)
    assert_same(Datastore.open(store.path, verify=True), fresh, tiny, k=1000)
    run.handles[0].compact(tiny)
    assert run.handles[0].manifest.calibration == fresh.manifest.calibration
    assert_same(run.handles[0], fresh, tiny, k=1000)
    assert_no_strays(store.path)


def test_stores_that_went_different_ways_are_told_apart(store: Datastore, tmp_path: Path) -> None:
    """As much was done to both, but not the same."""
    identities = {store.snapshot().identity}
    for number, change in enumerate(
        [
            lambda s: s.add([Pair("a", "b", "x")]),
            lambda s: s.add([Pair("a", "c", "x")]),
            lambda s: s.add([Pair("a", "b", "y")]),
            lambda s: s.delete(["1"]),
            lambda s: s.delete(["2"]),
            lambda s: s.update("1", "d"),
        ]
    ):
        shutil.copytree(store.path, tmp_path / f"copy-{number}")
        copy = Datastore.open(tmp_path / f"copy-{number}")
        change(copy)
        assert Datastore.open(copy.path).snapshot().identity == copy.snapshot().identity
        identities.add(copy.snapshot().identity)
    assert len(identities) == 7


def test_ids_that_a_corpus_holds_several_times(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = [replace(pair, id="same") if number % 3 == 0 else pair for number, pair in enumerate(PAIRS[:12])]
    store = Datastore.build(tmp_path / "store", pairs, tiny)
    assert store.snapshot().pair_count == 12
    others = [pair for pair in pairs if pair.id != "same"]
    assert store.update("same", "the pump", tiny) == replace(pairs[9], target="the pump")
    assert list(store.pairs()) == [*others, replace(pairs[9], target="the pump")]
    assert store.delete(["same"]) == 1
    for handle in (store, Datastore.open(store.path)):
        assert list(handle.pairs()) == others
    with pytest.raises(DatastoreError, match="has no pair with the id 'same'"):
        store.delete(["same"])


def test_what_is_not_there_is_not_changed(tiny: TranslationModel, store: Datastore) -> None:
    before = contents(store.path)
    for change in (
        lambda: store.delete(["1", "no such"]),
        lambda: store.delete(["a", "b", "c", "d", "e"]),
        lambda: store.update("no such", "x", tiny),
        lambda: store.update("no such", "x"),
    ):
        with pytest.raises(DatastoreError, match="has no pair with the id") as caught:
            change()
        assert "\n" not in str(caught.value)
    assert contents(store.path) == before
    assert store.delete([]) == 0 == store.add([], tiny)
    assert list(store.pairs()) == PAIRS[:12]


# What is deleted is gone.


@pytest.mark.parametrize("sealed", [1, 10_000])
def test_deleted_text_is_gone_from_disk_after_compaction(
    sealed: int, tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", sealed)
    secret = [
        Pair("welle geheimnisvoll", "shaft mysterious", "s1", "hidden-place", {"customer": "verschwiegen"}),
        Pair("pumpe geheimnisvoll", "pump mysterious", "s2"),
    ]
    words = [b"geheimnisvoll", b"mysterious", b"hidden-place", b"verschwiegen", PAIRS[3].target.encode()]

    def on_disk() -> set[bytes]:
        everything = b"".join(contents(store.path).values())
        return {word for word in words if word in everything}

    store.add(secret[:1], tiny)
    store.add(secret[1:])
    store.add(PAIRS[12:14], tiny)
    store.update("s2", "pump mysterious again", tiny)
    store.add([replace(secret[0], id="s3", target="waiting mysterious")])
    assert on_disk() == set(words)
    store.delete(["s1", "s2", "s3", PAIRS[3].id])
    assert store.pending == 0
    store.compact(keep_replaced=0)
    assert on_disk() == set()
    assert list(store.pairs()) == [pair for pair in PAIRS[:14] if pair.id != PAIRS[3].id]
    assert_no_strays(store.path)


def test_compaction_without_a_model_keeps_what_waits_for_one(
    tiny: TranslationModel, store: Datastore, tmp_path: Path
) -> None:
    store.add(PAIRS[12:15], tiny)
    store.add([*PAIRS[15:18], replace(PAIRS[2], target="the valve")])
    store.delete([PAIRS[16].id, PAIRS[0].id])
    store.compact()
    for handle in (store, Datastore.open(store.path)):
        # What was replaced is found until what replaces it can be.
        assert list(handle.pairs()) == PAIRS[1:15] and handle.pending == 3 and handle.total_pairs == 16
    assert store.catch_up(tiny) == 3
    fresh = [PAIRS[1], *PAIRS[3:15], PAIRS[15], PAIRS[17], replace(PAIRS[2], target="the valve")]
    assert_same(store, built_alike(tmp_path / "fresh", fresh, tiny, store), tiny)


# Who sees what, and when.


def test_the_next_translation_uses_a_pair(tiny: TranslationModel, store: Datastore, tmp_path: Path) -> None:
    new = Pair("welle welle pumpe motor", "clean the screw always", "new")
    certain: dict[str, Any] = {"lambda": 1.0, "temperature": 0.01, "k": 2}
    translators = {
        method: Translator(tiny, store, method, {**certain, **extra}, BEAM)
        for method, extra in {"knn": {}, "chunk": {"cache-lambda": 1.0, "cache-temperature": 0.01}}.items()
    }
    reader = Datastore.open(store.path)
    reading = Translator(tiny, reader, "knn", certain, BEAM)

    def says() -> set[str]:
        return {translator.translate(new.source).text for translator in translators.values()}

    before, signature = says(), translators["knn"].signature()
    assert new.target not in before
    store.add([new], tiny)
    assert says() == {new.target} and translators["knn"].signature() != signature
    assert len(reader) < len(store)
    assert reading.translate(new.source).text == new.target  # follows other processes by itself
    assert len(reader) == len(store) and not reader.refresh()
    store.update("new", "open the cover", tiny)
    assert says() == {"open the cover"}
    store.delete(["new"])
    assert says() == before


@pytest.mark.parametrize("change", ["add", "delete", "compact", "seal"])
@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_a_translation_that_runs_keeps_what_it_began_with(
    method: str, change: str, tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed after its second step, it says the same as if nothing had been changed, and names the same pairs."""
    store.add(PAIRS[12:16], tiny)
    store.delete([PAIRS[1].id])
    settings = KNN if method == "knn" else {**CHUNK, "schedule": "every:2"}
    source = tiny.codec.source_ids(PAIRS[14].source)

    def run(meanwhile: Callable[[], None]) -> tuple[list[int], float, list[str]]:
        made = make_method(method, store, settings)
        steps: list[int] = []
        real = type(tiny.seq2seq).step

        def step(*args: Any, **kwargs: Any) -> Any:
            steps.append(1)
            if len(steps) == 3:
                meanwhile()
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(type(tiny.seq2seq), "step", step)
            (best,), state = beam_search(tiny.seq2seq, made, [source], [len(source)], BEAM, trace=True)
        assert state.evidence is not None and state.store is not None
        entries = [entry for part in state.evidence for entry in part.entry_BK.flatten().tolist() if entry >= 0]
        pairs = [state.store.pair_of(entry).id for entry in entries]
        return best.tokens, best.score, pairs

    def changed() -> None:
        if change == "add":
            store.add([*PAIRS[16:30], replace(PAIRS[14], target="a b")], tiny)
        elif change == "delete":
            store.delete([pair.id for pair in PAIRS[2:16]])
        elif change == "compact":
            store.delete([pair.id for pair in PAIRS[2:16]])
            store.compact(tiny)
        else:
            with monkeypatch.context() as patch:
                patch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
                store.add(PAIRS[16:30], tiny)

    expected = run(lambda: None)
    assert len(expected[0]) > 3
    assert run(changed) == expected
    assert run(lambda: None) != expected


def test_a_reader_goes_on_when_its_files_are_gone(
    tiny: TranslationModel, store: Datastore, tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(12, 24, 2):
        store.add(PAIRS[start : start + 2], tiny)
    reader = Datastore.open(store.path)
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy)
    assert len(store.manifest.segments) > 1
    store.delete([pair.id for pair in PAIRS[:20]])
    store.compact(tiny, keep_replaced=0)
    assert not {r.name for r in store.manifest.segments} & {r.name for r in reader.manifest.segments}
    with monkeypatch.context() as patch:
        patch.setattr(reader, "refresh", lambda **_: False)
        assert_same(reader, Datastore.open(copy), tiny)
    assert reader.snapshot().find(PAIRS[13].id) is not None
    assert reader.matches(PAIRS[0].source, 1)[0].similarity == 1.0
    assert reader.refresh() and list(reader.pairs()) == PAIRS[20:24]
    assert reader.snapshot().find(PAIRS[13].id) is None
    assert_same(reader, store, tiny)


def test_refreshing_reads_only_what_is_new(
    tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(PAIRS[12:14], tiny)
    reader = Datastore.open(store.path)
    opened: list[str] = []

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            opened.append(Path(str(path)).name)
            return real(path, *args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in ("nearmt.datastore.disk.file_system.OsFile", "numpy.memmap", "numpy.fromfile"):
            patch.setattr(name, watched(_found(name)))
        patch.setattr(builtins, "open", watched(builtins.open))
        encoded = count_encoded(patch)
        assert not reader.refresh() and opened == []
        store.add(PAIRS[14:15], tiny)
        assert len(encoded) == 1
        opened.clear()
        assert reader.refresh()
        # The log and what was computed from it; nothing was encoded again.
        assert sorted(opened) == ["live-000001.blocks", "log-000001.log"] and len(encoded) == 1
    assert list(reader.pairs()) == PAIRS[:15]
    before = reader.snapshot()._parts[0]
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
    store.add(PAIRS[15:16], tiny)
    assert reader.refresh() and len(reader.manifest.segments) == 2
    # A segment that stays is not opened anew.
    assert reader.snapshot()._parts[0].key_ND is before.key_ND
    assert reader.snapshot()._parts[0].index is before.index


def _found(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules[module], attribute)


def test_a_reader_between_log_and_block(
    tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process adds pairs after the log was read and before its blocks were: no pair is lost."""
    store.add(PAIRS[12:13], tiny)
    reader = Datastore.open(store.path)
    store.add(PAIRS[13:14], tiny)
    from nearmt.datastore.disk import replay

    real = vars(replay)["read_named_log"]

    def read_log(*args: Any) -> Any:
        found = real(*args)
        with monkeypatch.context() as patch:
            patch.setattr(replay, "read_named_log", real)
            store.add(PAIRS[14:16], tiny)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(replay, "read_named_log", read_log)
        reader.refresh()
    assert list(reader.pairs()) == PAIRS[:14]
    assert reader.refresh() and list(reader.pairs()) == PAIRS[:16]
    reader.add(PAIRS[16:17], tiny)
    store.refresh()
    for handle in (reader, store, Datastore.open(store.path)):
        assert list(handle.pairs()) == PAIRS[:17] and handle.pending == 0


@pytest.mark.parametrize("what", ["manifest", "log"])
def test_a_reader_that_refreshes_while_files_are_replaced(
    what: str, tiny: TranslationModel, store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(PAIRS[12:14], tiny)
    reader = Datastore.open(store.path)
    store.add(PAIRS[14:15], tiny)
    from nearmt.datastore.disk import replay
    from nearmt.datastore.edit import open_store

    module: Any
    module, name = (replay, "read_named_log") if what == "log" else (open_store, "Segment")
    real = getattr(module, name)
    done: list[int] = []

    def compacted_before(*args: Any) -> Any:
        if not done:
            done.append(1)
            with monkeypatch.context() as patch:
                patch.setattr(module, name, real)
                store.delete([PAIRS[0].id])
                store.compact()
        return real(*args)

    if what == "manifest":
        store.compact()
    with monkeypatch.context() as patch:
        patch.setattr(module, name, compacted_before)
        assert reader.refresh()
    assert done and list(reader.pairs()) == PAIRS[1:15]
    assert_same(reader, store, tiny)


def test_a_second_process_is_refused_in_one_line(tiny: TranslationModel, store: Datastore) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from nearmt.datastore.disk.files import writer_lock\n"
        "with writer_lock(Path(sys.argv[1])):\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(600)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script, str(store.path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "locked\n"
        before = contents(store.path)
        changes: list[Callable[[], object]] = [
            lambda: store.add(PAIRS[12:13], tiny),
            lambda: store.add(PAIRS[12:13]),
            lambda: store.update("1", "x", tiny),
            lambda: store.delete(["1"]),
            store.compact,
            lambda: store.catch_up(tiny),
            lambda: reindex(store.path),
            lambda: prune(store.path),
        ]
        for change in changes:
            with pytest.raises(DatastoreError, match="another process is writing to it; try again") as caught:
                change()
            assert "\n" not in str(caught.value)
        assert contents(store.path) == before and not store.refresh()
        assert list(Datastore.open(store.path).pairs()) == PAIRS[:12]
    finally:
        other.kill()
        other.wait()
    # The lock went with its process.
    assert store.add(PAIRS[12:13], tiny) == 1


def test_threads_wait_for_each_other(tiny: TranslationModel, store: Datastore, tmp_path: Path, often: None) -> None:
    errors: list[BaseException] = []
    running = threading.Event()

    def write(number: int) -> None:
        try:
            for pair in PAIRS[12 + number :: 4]:
                store.add([pair], tiny if number else None)
                store.update(pair.id, pair.target, tiny)
        except BaseException as error:
            errors.append(error)

    def read() -> None:
        try:
            while not running.is_set():
                now = store.snapshot()
                entry = now.search(now.keys(torch.arange(0, len(now), 9), now.columns), 4).entry_BK
                assert bool((entry >= 0).all()) and len(list(now.pairs())) == now.pair_count
                store.refresh()
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    running.set()
    reader.join()
    assert not errors
    assert {pair.id: pair for pair in store.pairs()} == {pair.id: pair for pair in PAIRS}
    assert_same(store, built_alike(tmp_path / "fresh", store.pairs(), tiny, store), tiny)


# What was computed from the log.


def damage_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def damage_header(path: Path) -> None:
    path.write_bytes(b"xxxx" + path.read_bytes()[4:])


def append_garbage(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\xfenmr" + bytes(40))


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [Path.unlink, make_empty, damage_middle, cut_tail, damage_header, append_garbage])
def test_what_was_computed_is_computed_again(
    harm: Callable[[Path], None],
    tiny: TranslationModel,
    store: Datastore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for start in (12, 14, 16):
        store.add(PAIRS[start : start + 2], tiny)
    store.delete([PAIRS[13].id])
    expected = [*PAIRS[:13], *PAIRS[14:18]]
    harm(store.path / live_names(store.manifest.log)[1])
    again = Datastore.open(store.path, verify=True)
    assert again.snapshot().pair_count + again.pending == len(expected)
    waited = again.pending
    encoded = count_encoded(monkeypatch)
    assert again.catch_up(tiny) == waited and waited <= sum(encoded) <= waited + 1
    fresh = built_alike(tmp_path / "fresh", expected, tiny, store)
    encoded.clear()
    for handle in (again, Datastore.open(store.path)):
        assert handle.pending == 0 and handle.snapshot().pair_count == len(expected)
    assert not encoded
    assert_same(again, fresh, tiny)
    # The handle that computed it first needs no file, and what it adds is kept for others.
    assert store.add(PAIRS[18:19], tiny) == 1
    last = Datastore.open(store.path)
    assert last.pending == 0 and last.snapshot().pair_count == store.snapshot().pair_count == len(expected) + 1
    assert_same(last, store, tiny)


def test_blocks_of_another_log_are_not_believed(tiny: TranslationModel, store: Datastore, tmp_path: Path) -> None:
    """As after a log was restored from a copy, and its blocks were not."""
    shutil.copytree(store.path, tmp_path / "other")
    other = Datastore.open(tmp_path / "other")
    other.add(named(make_pairs(3, seed=99), "o"), tiny)
    store.add(PAIRS[12:15], tiny)
    live = live_names(store.manifest.log)[1]
    (store.path / live).write_bytes((other.path / live).read_bytes())
    again = Datastore.open(store.path)
    assert again.pending == 3 and list(again.pairs()) == PAIRS[:12]
    assert again.add(PAIRS[15:16], tiny) == 1
    fresh = built_alike(tmp_path / "fresh", PAIRS[:16], tiny, store)
    for handle in (again, Datastore.open(store.path)):
        assert handle.pending == 0
        assert_same(handle, fresh, tiny)


def test_a_torn_log_is_cut(tiny: TranslationModel, store: Datastore) -> None:
    store.add(PAIRS[12:14], tiny)
    assert store.manifest.log is not None
    log = store.path / store.manifest.log
    whole = log.read_bytes()
    with Log(log) as file:
        file.append([Added(PAIRS[14])])
    torn = whole + bytes(4) + log.read_bytes()[len(whole) + 4 : -7]  # not committed
    log.write_bytes(torn)
    again = Datastore.open(store.path)
    assert list(again.pairs()) == PAIRS[:14] and again.pending == 0 and not again.refresh()
    assert log.read_bytes() == torn  # reading changes nothing
    with pytest.warns(NearmtWarning, match=rf"{log.name}: the last record was not complete; \d+ bytes were cut off"):
        again.add(PAIRS[15:16], tiny)
    assert log.read_bytes().startswith(whole) and PAIRS[14].target.encode() not in log.read_bytes()
    assert list(Datastore.open(store.path).pairs()) == [*PAIRS[:14], PAIRS[15]]


# Pairs that wait for a model.


def test_a_translator_takes_in_what_waits(tiny: TranslationModel, store: Datastore, tmp_path: Path) -> None:
    writer = Datastore.open(store.path)
    writer.add(PAIRS[12:16])
    assert writer.pending == 4 and writer.snapshot().pair_count == 12
    again = Datastore.open(store.path)
    assert again.pending == 4
    Translator(tiny, again, "knn", KNN, BEAM)
    assert again.pending == 0
    fresh = built_alike(tmp_path / "fresh", PAIRS[:16], tiny, store)
    assert_same(again, fresh, tiny)
    assert store.refresh() and store.pending == 0
    assert_same(store, fresh, tiny)


def test_changes_to_what_waits(tiny: TranslationModel, store: Datastore, tmp_path: Path) -> None:
    store.add(PAIRS[12:18])
    store.delete([PAIRS[13].id, PAIRS[2].id])
    assert store.update(PAIRS[14].id, "the cover") == replace(PAIRS[14], target="the cover")
    store.update(PAIRS[14].id, "the screw")
    store.add([replace(PAIRS[12], source="das ventil")])
    store.delete([PAIRS[17].id])
    assert store.add([replace(PAIRS[17], target="the motor")]) == 1
    waiting = [
        PAIRS[15],
        PAIRS[16],
        replace(PAIRS[14], target="the screw"),
        replace(PAIRS[12], source="das ventil"),
        replace(PAIRS[17], target="the motor"),
    ]
    for handle in (store, Datastore.open(store.path)):
        assert handle.pending == 5
        assert list(handle.pairs()) == [*PAIRS[:2], *PAIRS[3:12]]
    assert store.catch_up(tiny) == 5 and store.catch_up(tiny) == 0
    fresh = built_alike(tmp_path / "fresh", [*PAIRS[:2], *PAIRS[3:12], *waiting], tiny, store)
    assert_same(store, fresh, tiny)
    assert_same(Datastore.open(store.path), fresh, tiny)


def test_pairs_that_are_too_long_are_kept(tiny: TranslationModel, store: Datastore, often: None) -> None:
    long = Pair("die pumpe", "pump " * 200, "long")
    store.add([long, PAIRS[12]], tiny)
    store.add([replace(long, id="longer")], tiny)
    for handle in (store, Datastore.open(store.path)):
        assert [pair.id for pair in handle.pairs()][12:] == ["long", PAIRS[12].id, "longer"]
        assert handle.pending == 0
    store.add(PAIRS[13:20], tiny)
    store.delete(["long"])
    store.compact()
    assert sum(record.too_long for record in store.manifest.segments) == 1
    assert [pair.id for pair in store.pairs()][12:14] == [PAIRS[12].id, "longer"]


# Stores of older versions.


def written_before_editing(store: Datastore) -> Datastore:
    """The store as nearmt 0.3 would have left it: format 1, no digests of ids."""
    path = store.path / FILE_NAME
    manifest = asdict(store.manifest) | {"format": 1}
    for name in ("log", "quantiser"):
        manifest.pop(name, None)
    del manifest["calibration"]["entries"]
    for record in manifest["segments"]:
        del record["deleted"]
        del record["files"][ID]
        (store.path / record["name"] / ID).unlink()
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return Datastore.open(store.path, verify=True)


def test_a_store_of_format_1_is_searched_grows_and_is_compacted(
    tiny: TranslationModel, store: Datastore, tmp_path: Path, often: None
) -> None:
    fresh = built_alike(tmp_path / "fresh", PAIRS[:12], tiny, store)
    old = written_before_editing(store)
    before = contents(old.path)
    assert old.manifest.format == FORMAT and old.manifest.calibration == fresh.manifest.calibration
    assert_same(old, fresh, tiny)
    assert contents(old.path) == before  # reading changes nothing
    old.add(PAIRS[12:13], tiny)
    assert json.loads((old.path / FILE_NAME).read_text(encoding="utf-8"))["format"] == FORMAT
    old.add(PAIRS[13:40], tiny)
    old.delete([PAIRS[5].id])
    old.update(PAIRS[6].id, "the pump", tiny)
    expected = [*PAIRS[:5], *PAIRS[7:40], replace(PAIRS[6], target="the pump")]
    fresh = built_alike(tmp_path / "more", expected, tiny, store)
    for handle in (old, Datastore.open(old.path, verify=True)):
        assert_same(handle, fresh, tiny)
    old.compact(tiny)
    assert_same(old, fresh, tiny)
    assert old.manifest.calibration == fresh.manifest.calibration
    assert all(ID in record.files for record in old.manifest.segments)
    assert_no_strays(old.path)


# Pruned stores.


def weights_by_key(store: Datastore) -> dict[tuple[str, bytes], float]:
    """What each entry that can be found stands for."""
    entry = seen_entries(store)
    weight = store.snapshot().weights(entry)
    values = [1.0] * len(entry) if weight is None else weight.tolist()
    keys = store.snapshot().keys(entry, store.snapshot().columns).numpy()
    found: dict[tuple[str, bytes], float] = {}
    for number, key, value in zip(entry.tolist(), keys, values, strict=True):
        name = store.snapshot().pair_of(number).id, key.tobytes()
        found[name] = found.get(name, 0.0) + value
    return found


@pytest.fixture
def pruned(tiny: TranslationModel, tmp_path: Path) -> Datastore:
    twins = [replace(pair, id=f"{pair.id}-{copy}") for copy in range(4) for pair in PAIRS[:10]]
    path = Datastore.build(tmp_path / "pruned", twins, tiny).path
    prune(path, PruneConfig())
    store = Datastore.open(path)
    assert len(seen_entries(store)) < 0.6 * len(store)
    return store


@pytest.mark.parametrize("end", ["live", "sealed", "merged"])
def test_what_is_added_to_a_pruned_store_leaves_its_weights(
    end: str, tiny: TranslationModel, pruned: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    if end != "live":
        monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
    before, kept = weights_by_key(pruned), {r.name for r in pruned.manifest.segments}
    for start in range(20, 21 if end != "merged" else 32):
        pruned.add(PAIRS[start : start + 1], tiny)
    added = PAIRS[20 : 21 if end != "merged" else 32]
    for handle in (pruned, Datastore.open(pruned.path, verify=True)):
        after = weights_by_key(handle)
        assert {name: after.pop(name) for name in before} == before
        assert set(after.values()) == {1.0} and {name for name, _ in after} == {pair.id for pair in added}
        assert kept <= {record.name for record in handle.manifest.segments}
        for pair in added:
            state = tiny.seq2seq.force_decode(
                [tiny.codec.source_ids(pair.source)], [tiny.codec.target_ids(pair.target)]
            )[0]
            found = handle.snapshot().search(handle.snapshot().query(state), 1)
            assert {handle.snapshot().pair_of(int(entry)).target for entry in found.entry_BK[:, 0]} == {pair.target}
    assert len(pruned.manifest.segments) == {"live": 1, "sealed": 2}.get(end, len(pruned.manifest.segments))
    assert len(pruned.manifest.segments) <= 5
    gone = PAIRS[0].id + "-0"
    pruned.delete([gone, added[0].id])
    rest = {name: value for name, value in (before | after).items() if name[0] not in (gone, added[0].id)}
    assert weights_by_key(pruned) == weights_by_key(Datastore.open(pruned.path)) == rest


def test_a_compacted_pruned_store_keeps_its_weights(tiny: TranslationModel, pruned: Datastore) -> None:
    pruned.add(PAIRS[20:22], tiny)
    pruned.delete([PAIRS[3].id + "-1"])
    before, said = weights_by_key(pruned), translations(tiny, pruned)
    pruned.compact(tiny)
    assert weights_by_key(pruned) == before
    assert translations(tiny, pruned) == said
    assert_no_strays(pruned.path)


def test_manifests_are_written_by_changes_only(tiny: TranslationModel, store: Datastore) -> None:
    """Looking, searching and refreshing leave every byte as it is."""
    store.add(PAIRS[12:14], tiny)
    before = contents(store.path)
    reader = Datastore.open(store.path, verify=True)
    reader.refresh()
    translations(tiny, reader)
    reader.snapshot().exact("x")
    assert contents(store.path) == before
    assert Manifest.load(store.path) == store.manifest
