"""Building: the content of a store, and interruptions."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore, reindex
from nearmt.datastore.disk import Manifest, PairBlock, SegmentWriter
from nearmt.datastore.edit.build import build
from nearmt.datastore.edit.encode import encode_block, encode_blocks
from nearmt.datastore.edit.preparing import Preparation, PreparedPairs
from nearmt.engines.devices import DEVICES
from nearmt.errors import ConfigError, DatastoreError, InputError, MissingPackageError, OutputError
from nearmt.models import TranslationModel
from nearmt.reduction import FittingSample, Reduction
from nearmt.threads import workers
from tests.conftest import make_pairs
from tests.datastore.helpers import (
    all_keys,
    arrays,
    assert_no_strays,
    contents,
    count_encoded,
    full_disk,
    nearest_by_hand,
    reduction_of,
    some_queries,
    states_by_hand,
    stop_after,
)

BLOCK = 4


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", BLOCK)


# What is in a store.


def test_entries_are_the_forced_states_in_corpus_order(
    tiny: TranslationModel, tiny_pairs: list[Pair], tiny_store: Datastore
) -> None:
    states, tokens = states_by_hand(tiny, tiny_pairs)
    assert tiny_store.snapshot().tokens(torch.arange(len(tiny_store))).tolist() == [t for part in tokens for t in part]
    assert all(part[-1] == tiny.seq2seq.eos_ids[0] for part in tokens)
    reduction = reduction_of(tiny_store.path)
    assert reduction.fitted
    expected = reduction.apply(torch.cat(states))
    # The stored keys are fp16, of states from other batches: half a unit in the last place and a little more.
    torch.testing.assert_close(all_keys(tiny_store), expected, rtol=1e-3, atol=2e-3)
    assert tiny_store.snapshot().entries.keys_by_segment[0].numpy().dtype == np.float16
    assert [replace(pair, id="") for pair in tiny_store.pairs()] == tiny_pairs


def test_batches_are_sorted_by_length_and_results_are_not(
    tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], forced_tokens=60))
    pairs = make_pairs(12, seed=2)
    sizes = count_encoded(monkeypatch)
    units = list(encode_block(tiny, pairs))
    assert len(sizes) > 2 and sum(sizes) == 12
    assert [unit.pair for unit in units] == pairs
    states, tokens = states_by_hand(tiny, pairs)
    for unit, state, target in zip(units, states, tokens, strict=True):
        assert unit.tokens == target and unit.key_TD is not None
        torch.testing.assert_close(unit.key_TD, state, rtol=1e-4, atol=1e-4)


def test_the_reduction_is_fitted_on_these_pairs(
    tiny: TranslationModel, tiny_pairs: list[Pair], tiny_store: Datastore
) -> None:
    sample = FittingSample(tiny.seq2seq.hidden_size)
    sample.add(torch.cat(states_by_hand(tiny, tiny_pairs)[0]))
    expected, found = Reduction.fit(sample), reduction_of(tiny_store.path)
    torch.testing.assert_close(found.component_HD, expected.component_HD, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found.variance_D, expected.variance_D, rtol=1e-3, atol=1e-3)


def test_the_manifest_says_what_was_built(tiny: TranslationModel, tiny_store: Datastore) -> None:
    manifest = Manifest.load(tiny_store.path)
    assert manifest == tiny_store.manifest
    assert (manifest.fingerprint, manifest.key_layer, manifest.precision) == (tiny.fingerprint, "output", "fp32")
    assert (manifest.source_lang, manifest.target_lang) == ("de", "en")
    assert (manifest.pairs, manifest.entries) == (60, len(tiny_store))
    assert manifest.columns == manifest.cache_columns == tiny.seq2seq.hidden_size
    assert manifest.segments[0].index == {"kind": "exact"} and manifest.calibration.recall is None
    assert_no_strays(tiny_store.path)


def test_one_pair(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(1), tiny)
    states, tokens = states_by_hand(tiny, make_pairs(1))
    assert len(store) == len(tokens[0])
    assert not reduction_of(store.path).fitted
    torch.testing.assert_close(all_keys(store), states[0], rtol=1e-3, atol=1e-3)
    found = store.snapshot().search(states[0], 50)
    assert found.entry_BK[:, 0].tolist() == list(range(len(tokens[0])))
    assert ((found.entry_BK >= 0).sum(dim=1) == len(tokens[0])).all()
    assert_no_strays(store.path)


def test_no_pairs(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", [], tiny)
    assert len(store) == 0 and list(store.pairs()) == []
    found = store.snapshot().search(torch.zeros(2, store.manifest.columns), 4)
    assert found.entry_BK.tolist() == [[-1] * 4] * 2 and bool(torch.isinf(found.distance_BK).all())
    assert_no_strays(store.path)


def test_no_pairs_can_be_refused(tiny: TranslationModel, tmp_path: Path) -> None:
    with pytest.raises(DatastoreError, match="no pairs"):
        build(tmp_path / "store", [], tiny, BuildConfig())
    assert list(tmp_path.iterdir()) == []


def long_text(model: TranslationModel, tokens: int) -> str:
    """A text of exactly `tokens` tokens, end of sentence included."""
    text = " ".join(["a"] * (tokens - 1))
    assert len(model.codec.target_ids(text)) == len(model.codec.source_ids(text)) == tokens
    return text


def test_pairs_that_are_too_long_are_text_without_entries(tiny: TranslationModel, tmp_path: Path) -> None:
    most = tiny.seq2seq.positions
    fits, exceeds = long_text(tiny, most), long_text(tiny, most + 1)
    short = make_pairs(4)
    pairs = [
        short[0],
        Pair(exceeds, "a"),
        short[1],
        Pair("a", exceeds),
        Pair(exceeds, exceeds),
        short[2],
        Pair(fits, fits),
        short[3],
    ]
    store = Datastore.build(tmp_path / "store", pairs, tiny)
    record = store.manifest.segments[0]
    assert (record.pairs, record.too_long) == (8, 3)
    assert [(pair.source, pair.target) for pair in store.pairs()] == [(pair.source, pair.target) for pair in pairs]
    kept = [pair for number, pair in enumerate(pairs) if number not in (1, 3, 4)]
    states, tokens = states_by_hand(tiny, kept)
    assert store.snapshot().tokens(torch.arange(len(store))).tolist() == [token for part in tokens for token in part]
    torch.testing.assert_close(all_keys(store), torch.cat(states), rtol=1e-3, atol=1e-3)
    owners = [pair for pair, part in zip(kept, tokens, strict=True) for _ in part]
    assert [store.snapshot().pair_of(entry).target for entry in range(len(store))] == [pair.target for pair in owners]


def test_only_pairs_that_are_too_long(tiny: TranslationModel, tmp_path: Path) -> None:
    text = long_text(tiny, tiny.seq2seq.positions + 1)
    store = Datastore.build(tmp_path / "store", [Pair(text, text)] * 2, tiny)
    assert (len(store), store.manifest.pairs, store.manifest.segments[0].too_long) == (0, 2, 2)
    assert store.snapshot().search(torch.zeros(1, store.manifest.columns), 2).entry_BK.tolist() == [[-1, -1]]
    assert store.add(make_pairs(1), tiny) == 1
    assert store.snapshot().pair_of(0).target == make_pairs(1)[0].target


def test_repeated_pairs_have_ids_of_their_own(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", [*make_pairs(1) * 2], tiny)
    first, second = [pair.id for pair in store.pairs()]
    assert second == f"{first}-2"


# Memory and interruptions.


@pytest.mark.usefixtures("small_blocks")
def test_memory_is_bounded_by_some_blocks(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.datastore.edit.reductions._FITTING_PAIRS", 8)
    taken, written, ahead = 0, 0, []

    def stream() -> Iterator[Pair]:
        nonlocal taken
        for pair in make_pairs(400):
            taken += 1
            yield pair

    real = SegmentWriter.write

    def write(self: SegmentWriter, block: PairBlock, too_long: int) -> None:
        nonlocal written
        ahead.append(taken - written)
        real(self, block, too_long)
        written += len(block.digest_P)

    monkeypatch.setattr(SegmentWriter, "write", write)
    Datastore.build(tmp_path / "store", stream(), tiny)
    assert written == 400 and len(ahead) == 100
    # A batch of each of 4 blocks per thread, and blocks that are read, tokenized, waiting and written.
    assert max(ahead) <= 8 + BLOCK * (4 * workers() + 6)


class FullDiskError(OSError):
    """Raised in place of a block that is written."""


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("block", [0, 2, 24])
def test_a_block_that_cannot_be_written_ends_the_build(
    block: int, tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing goes on in a thread of its own; its errors are not lost, the last block's neither."""
    real, calls = SegmentWriter.write, iter(range(1000))

    def write(self: SegmentWriter, *given: Any) -> None:
        if next(calls) == block:
            raise FullDiskError
        real(self, *given)

    pairs = make_pairs(100)
    with monkeypatch.context() as patch:
        patch.setattr(SegmentWriter, "write", write)
        with pytest.raises(FullDiskError):
            Datastore.build(tmp_path / "store", pairs, tiny)
    assert_unfinished(tmp_path / "store")
    store = Datastore.build(tmp_path / "store", pairs, tiny)
    assert arrays(store.path) == arrays(Datastore.build(tmp_path / "whole", pairs, tiny).path)


@pytest.mark.usefixtures("small_blocks")
def test_input_that_breaks_off_ends_the_build(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.datastore.edit.reductions._FITTING_PAIRS", 8)

    def stream() -> Iterator[Pair]:
        yield from make_pairs(100)
        raise InputError("line 101 cannot be read")

    with pytest.raises(InputError, match="line 101"):
        build(tmp_path / "store", stream(), tiny, BuildConfig())
    assert_unfinished(tmp_path / "store")
    encoded = count_encoded(monkeypatch)
    build(tmp_path / "store", make_pairs(100), tiny, BuildConfig())
    assert sum(encoded) < 8 + 100  # blocks that were written are not encoded again


@pytest.mark.usefixtures("small_blocks")
def test_blocks_are_encoded_in_order_however_many_batches_they_have(
    tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among them blocks of which no pair fits the model."""
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], forced_tokens=40))
    exceeds = Pair(long_text(tiny, tiny.seq2seq.positions + 1), "a")
    blocks = [make_pairs(5, seed=1), [exceeds], [exceeds, *make_pairs(3, seed=2)], [exceeds] * 2]
    blocks = [*blocks, *[make_pairs(9, seed=seed) for seed in range(12)], [exceeds]]
    told: list[int] = []
    found = [list(block.units()) for block in encode_blocks(tiny, iter(blocks), progress=told.append)]
    assert [[unit.pair for unit in block] for block in found] == blocks
    expected = [list(encode_block(tiny, block)) for block in blocks]
    for unit, alone in zip(chain(*found), chain(*expected), strict=True):
        assert (unit.tokens, unit.source) == (alone.tokens, alone.source)
        assert (unit.key_TD is None) == (alone.key_TD is None) == (unit.pair == exceeds)
        if unit.key_TD is not None and alone.key_TD is not None:
            torch.testing.assert_close(unit.key_TD, alone.key_TD, rtol=1e-4, atol=1e-4)
    assert told == sorted(told) and told[-1] == sum(map(len, blocks)) - 1


@pytest.fixture
def as_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Several blocks are cut into batches together, and processes make tokens and words: sizes of the blocks that were
    prepared here."""
    as_gpu = replace(DEVICES["cuda"], forced_tokens=100, forced_blocks=3, preparers=2, index_files=True)
    monkeypatch.setitem(DEVICES, "cpu", as_gpu)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    prepared_here: list[int] = []
    real = Preparation.__call__

    def prepare(self: Preparation, some: Sequence[Pair]) -> PreparedPairs:
        prepared_here.append(len(some))
        return real(self, some)

    monkeypatch.setattr(Preparation, "__call__", prepare)
    return prepared_here


def assert_same_content(found: Datastore, expected: Datastore) -> None:
    """But for the rounding of keys, which depends on the batch."""
    exact = ("token.i32", "end.i64", "pairs.jsonl", "source.i32", "id.u64", "word.u16")
    one, other = (
        {name: data for name, data in arrays(store.path).items() if name.endswith(exact)} for store in (found, expected)
    )
    assert one == other
    torch.testing.assert_close(all_keys(found), all_keys(expected), rtol=1e-3, atol=2e-3)


@pytest.mark.usefixtures("small_blocks")
def test_processes_prepare_what_threads_prepare(
    tiny: TranslationModel, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """What cannot be sent to a process is prepared here."""
    exceeds = Pair(long_text(tiny, tiny.seq2seq.positions + 1), "a", metadata=MappingProxyType({"a": "b"}))
    pairs = [*make_pairs(40), exceeds, *make_pairs(3, seed=4)]
    expected = Datastore.build(tmp_path / "threads", pairs, tiny)
    prepared_here = request.getfixturevalue("as_for_a_gpu")
    assert_same_content(Datastore.build(tmp_path / "processes", pairs, tiny), expected)
    # Twice, because the reduction is fitted first: the first blocks, and the one that cannot be sent.
    assert sum(prepared_here) == 2 * (4 * BLOCK + BLOCK)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("program", ["", "import time; time.sleep(60)", "print('not an answer')"])
def test_blocks_of_a_process_that_fails_are_prepared_here(
    program: str,
    tiny: TranslationModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    pairs = make_pairs(40)
    expected = Datastore.build(tmp_path / "threads", pairs, tiny)
    prepared_here = request.getfixturevalue("as_for_a_gpu")

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", program]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if "sleep" in program:
            threading.Timer(0.5, process.kill).start()
        return process

    monkeypatch.setattr("nearmt.datastore.edit.preparing._start", start)
    assert_same_content(Datastore.build(tmp_path / "processes", pairs, tiny), expected)
    assert sum(prepared_here) == 2 * 40


def assert_unfinished(path: Path) -> None:
    with pytest.raises(DatastoreError, match="an unfinished build; the same `nearmt build` goes on with it"):
        Datastore.open(path)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("blocks", [1, 3])
def test_an_interrupted_build_goes_on(
    blocks: int, tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = make_pairs(18, seed=3)
    with pytest.raises(KeyboardInterrupt):
        Datastore.build(tmp_path / "store", pairs, tiny, progress=stop_after(blocks))
    assert_unfinished(tmp_path / "store")
    with monkeypatch.context() as patch:
        encoded = count_encoded(patch)
        resumed = Datastore.build(tmp_path / "store", pairs, tiny)
    # All pairs once more to fit the reduction; only the missing ones to write them.
    assert sum(encoded) == 18 + (18 - BLOCK * blocks)
    whole = Datastore.build(tmp_path / "whole", pairs, tiny)
    assert arrays(resumed.path) == arrays(whole.path)
    assert resumed.snapshot().identity == whole.snapshot().identity
    assert replace(resumed.manifest, created="") == replace(whole.manifest, created="")
    assert_no_strays(resumed.path)


@pytest.mark.usefixtures("small_blocks")
def test_a_failing_encoder_leaves_no_store(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = make_pairs(20, seed=3)
    with monkeypatch.context() as patch:
        count_encoded(patch, fail_at=5 + 2)  # five blocks to fit, two written
        with pytest.raises(MemoryError):
            Datastore.build(tmp_path / "store", pairs, tiny)
    assert_unfinished(tmp_path / "store")
    with monkeypatch.context() as patch:
        encoded = count_encoded(patch)
        store = Datastore.build(tmp_path / "store", pairs, tiny)
    assert sum(encoded) == 20 + 12
    assert arrays(store.path) == arrays(Datastore.build(tmp_path / "whole", pairs, tiny).path)


@pytest.mark.usefixtures("small_blocks")
def test_a_build_with_other_settings_starts_anew(tiny: TranslationModel, tiny_folder: Path, tmp_path: Path) -> None:
    from nearmt.models import ModelConfig, load_model

    pairs = make_pairs(20, seed=3)  # few enough to be kept whole: the reduction is the same for both layers
    other = load_model(ModelConfig(model=str(tiny_folder), device="cpu", key_layer="feed-forward"))
    with pytest.raises(KeyboardInterrupt):
        Datastore.build(tmp_path / "store", pairs, other, progress=stop_after(2))
    store = Datastore.build(tmp_path / "store", pairs, tiny)
    assert not reduction_of(store.path).fitted
    assert arrays(store.path) == arrays(Datastore.build(tmp_path / "whole", pairs, tiny).path)


@pytest.mark.usefixtures("small_blocks")
def test_a_changed_corpus_is_not_mixed_with_the_old(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = make_pairs(20, seed=3)
    changed = [*pairs[:10], *make_pairs(10, seed=4)]
    with pytest.raises(KeyboardInterrupt):
        Datastore.build(tmp_path / "store", pairs, tiny, progress=stop_after(2))
    store = Datastore.build(tmp_path / "store", changed, tiny)
    whole = Datastore.build(tmp_path / "whole", changed, tiny)
    assert list(store.pairs()) == list(whole.pairs())
    torch.testing.assert_close(all_keys(store), all_keys(whole), rtol=1e-3, atol=1e-3)
    assert_no_strays(store.path)


def test_progress_counts_pairs(tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", 8)
    told: list[tuple[int, int]] = []
    Datastore.build(tmp_path / "store", make_pairs(20), tiny, progress=lambda done, total: told.append((done, total)))
    assert told == [(8, 0), (16, 0), (20, 0)]


# An existing folder, a full disk.


@pytest.fixture
def old_store(tiny: TranslationModel, tmp_path: Path) -> Datastore:
    return Datastore.build(tmp_path / "store", make_pairs(10, seed=9), tiny)


def assert_intact(store: Datastore, before: dict[str, bytes]) -> None:
    assert contents(store.path) == before
    again = Datastore.open(store.path, verify=True)
    query = some_queries(store, 3)
    assert torch.equal(again.snapshot().search(query, 4).entry_BK, store.snapshot().search(query, 4).entry_BK)


def test_an_existing_store_is_refused(tiny: TranslationModel, old_store: Datastore) -> None:
    before = contents(old_store.path)
    with pytest.raises(OutputError, match="already there; give --overwrite"):
        Datastore.build(old_store.path, make_pairs(3), tiny)
    assert_intact(old_store, before)
    assert_no_strays(old_store.path)


def test_overwriting_replaces(tiny: TranslationModel, old_store: Datastore) -> None:
    store = Datastore.build(old_store.path, make_pairs(3), tiny, overwrite=True)
    assert [pair.source for pair in store.pairs()] == [pair.source for pair in make_pairs(3)]
    assert_no_strays(store.path)


def test_a_store_can_be_rebuilt_from_its_own_pairs(tiny: TranslationModel, old_store: Datastore) -> None:
    before = list(old_store.pairs())
    store = Datastore.build(old_store.path, old_store.pairs(), tiny, overwrite=True)
    assert list(store.pairs()) == before


def test_a_failed_overwrite_leaves_the_old(
    tiny: TranslationModel, old_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(old_store.path)
    monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", 8)
    with pytest.raises(KeyboardInterrupt):
        Datastore.build(old_store.path, make_pairs(20), tiny, overwrite=True, progress=stop_after(1))
    assert_intact(old_store, before)
    store = Datastore.build(old_store.path, make_pairs(20), tiny, overwrite=True)
    assert store.manifest.pairs == 20
    assert_no_strays(store.path)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_something_else_is_never_overwritten(what: str, tiny: TranslationModel, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    if what == "file":
        path.write_text("precious", encoding="utf-8")
    else:
        path.mkdir()
        (path / "thesis.txt").write_text("precious", encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="exists and is not a datastore"):
            Datastore.build(path, make_pairs(3), tiny, overwrite=overwrite)
    assert (path if what == "file" else path / "thesis.txt").read_text(encoding="utf-8") == "precious"


def test_an_empty_folder_may_be_used(tiny: TranslationModel, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    assert Datastore.build(tmp_path / "store", make_pairs(3), tiny).manifest.pairs == 3
    assert_no_strays(tmp_path / "store")


@pytest.mark.parametrize("call", ["os.fsync", "nearmt.datastore.disk.files.sync"])
def test_a_full_disk_leaves_the_old_store(
    call: str, tiny: TranslationModel, old_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(old_store.path)
    with monkeypatch.context() as patch:
        patch.setattr(call, full_disk)
        with pytest.raises(OutputError, match="the disk is full") as caught:
            Datastore.build(old_store.path, make_pairs(20), tiny, overwrite=True)
    assert "\n" not in str(caught.value)
    assert_intact(old_store, before)
    store = Datastore.build(old_store.path, make_pairs(20), tiny, overwrite=True)
    assert_no_strays(store.path)


def test_an_index_that_cannot_be_written(
    tiny: TranslationModel, old_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(old_store.path)
    segment = old_store.path / "building" / "segment-000001"
    (segment / "index-0.faiss").mkdir(parents=True)  # a folder in its place, as good as a full disk
    monkeypatch.setattr("secrets.token_hex", lambda size: "0")
    with pytest.raises(OutputError, match=r"index-0\.faiss: cannot be written"):
        Datastore.build(old_store.path, make_pairs(20), tiny, BuildConfig(index="Flat"), overwrite=True)
    assert_intact(old_store, before)


def test_a_reduction_that_cannot_be_written(
    tiny: TranslationModel, old_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Reduction.save
    nowhere = Path("/nonexistent/folder/reduction.safetensors")
    monkeypatch.setattr(Reduction, "save", lambda self, path: save(self, nowhere))
    with pytest.raises(OutputError, match="cannot be written"):
        Datastore.build(old_store.path, make_pairs(20), tiny, overwrite=True)


def test_a_store_that_cannot_take_its_name_leaves_the_old(
    tiny: TranslationModel, old_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(old_store.path)
    rename = Path.rename

    def fails_for_the_new(self: Path, target: Path) -> Path:
        if self.parent.name == "building":
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fails_for_the_new)
        with pytest.raises(OutputError, match="cannot be written"):
            Datastore.build(old_store.path, make_pairs(20), tiny, overwrite=True)
    assert_intact(old_store, before)


# The index of a new store.


def test_an_ivf_store_measures_its_recall(tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = make_pairs(150, seed=5)
    store = Datastore.build(tmp_path / "store", pairs, tiny, BuildConfig(index="IVF16,SQ8"))
    record = store.manifest.segments[0]
    assert record.index["kind"] == "faiss" and record.index["factory"] == "IVF16,SQ8"
    recall = store.manifest.calibration.recall
    assert recall is not None and recall == record.index["recall"]
    assert 0.98 <= recall <= 1.0
    # The same measure by hand, on other queries.
    query = all_keys(store)[1::5]
    expected, _ = nearest_by_hand(store, query, 8)
    found = store.snapshot().search(query, 8).entry_BK
    hits = np.mean([len(set(a) & set(b)) / 8 for a, b in zip(expected.tolist(), found.tolist(), strict=True)])
    assert float(hits) == pytest.approx(recall, abs=0.03)
    assert_no_strays(store.path)
    assert Manifest.load(store.path).calibration.recall == recall


def test_a_poor_index_says_so(tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four bits an entry and few nominees: the recall in the manifest is that of the index, not a constant."""
    monkeypatch.setattr("nearmt.index.faiss._OVERSAMPLING", {})
    config = BuildConfig(index="IVF16,PQ1x4np")
    store = Datastore.build(tmp_path / "store", make_pairs(150, seed=5), tiny, config)
    recall = store.manifest.calibration.recall
    assert recall is not None and 0.2 < recall < 0.97
    assert store.manifest.segments[0].index["effort"] == 16  # all lists, in vain


def test_the_default_index_follows_the_size(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.index.faiss.SMALL", 500)
    small = Datastore.build(tmp_path / "small", make_pairs(10), tiny)
    large = Datastore.build(tmp_path / "large", make_pairs(100), tiny)
    assert small.manifest.segments[0].index["kind"] == "exact"
    assert large.manifest.segments[0].index["kind"] == "faiss"


def test_without_faiss_a_store_is_exact_and_reindexed_later(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.index.faiss.SMALL", 100)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "faiss", None)
        store = Datastore.build(tmp_path / "store", make_pairs(60), tiny)
        assert store.manifest.segments[0].index == {"kind": "exact"}
        query = some_queries(store)
        expected = store.snapshot().search(query, 8)
        with pytest.raises(MissingPackageError, match="faiss"):
            Datastore.open(store.path, nominate="faiss")
        with pytest.raises(MissingPackageError, match="faiss"):
            reindex(store.path, "IVF16,SQ8")
    manifest = reindex(store.path)
    assert manifest.segments[0].index["kind"] == "faiss"
    assert manifest.identity == store.snapshot().identity
    found = Datastore.open(store.path, nominate="faiss").snapshot().search(query, 8)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=0.05, atol=1e-3)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "faiss", None)
        found = Datastore.open(store.path).snapshot().search(query, 8)
    assert torch.equal(found.entry_BK, expected.entry_BK)


@pytest.mark.parametrize("nominate", ["exact", "torch", "faiss", "auto"])
@pytest.mark.parametrize("pairs", [0, 60])
def test_every_search_of_an_exact_store_agrees(
    nominate: str, pairs: int, tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    if not pairs:
        store = Datastore.open(Datastore.build(tmp_path / "store", [], tiny).path, nominate=nominate)
        assert store.snapshot().search(torch.zeros(1, 16), 2).entry_BK.tolist() == [[-1, -1]]
        return
    query = some_queries(tiny_store)
    found = Datastore.open(tiny_store.path, nominate=nominate).snapshot().search(query, 8)
    entries, distances = nearest_by_hand(tiny_store, query, 8)
    np.testing.assert_array_equal(found.entry_BK, entries)
    np.testing.assert_allclose(found.distance_BK, distances, rtol=1e-3, atol=1e-6)


def test_an_unknown_search_is_refused(tiny_store: Datastore) -> None:
    with pytest.raises(ConfigError, match="must be one of auto, faiss, torch, exact"):
        Datastore.open(tiny_store.path, nominate="fiass")


@pytest.mark.parametrize(("index", "message"), [("nonsense", "not a factory"), ("IVF5000,Flat", "too few to train")])
def test_an_index_that_cannot_be_made_is_a_config_error(
    index: str, message: str, tiny: TranslationModel, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        Datastore.build(tmp_path / "store", make_pairs(20), tiny, BuildConfig(index=index))
    with pytest.raises(DatastoreError):
        Datastore.open(tmp_path / "store")


def test_a_bad_factory_string_is_told_before_encoding(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = count_encoded(monkeypatch)
    with pytest.raises(ConfigError, match="not a factory"):
        Datastore.build(tmp_path / "store", make_pairs(20), tiny, BuildConfig(index="nonsense"))
    assert sum(encoded) == 0


def test_a_failed_index_does_not_cost_the_encoding(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="too few"):
        Datastore.build(tmp_path / "store", make_pairs(20), tiny, BuildConfig(index="IVF5000,Flat"))
    encoded = count_encoded(monkeypatch)
    Datastore.build(tmp_path / "store", make_pairs(20), tiny)
    assert sum(encoded) == 20  # to fit the reduction; none to write


# Distances as a unit.


def scales_by_hand(store: Datastore) -> tuple[float, float]:
    """Medians over every entry's eight nearest in other sentences."""
    key = all_keys(store).double()
    owner = torch.tensor([int(store.snapshot().entries.pair_numbers(torch.tensor([n]))) for n in range(len(store))])
    squared = (key[None] - key[:, None]).square().sum(dim=-1)
    squared[owner[None] == owner[:, None]] = torch.inf
    nearest = squared.sort(dim=1).values[:, :8]
    nearest = nearest[torch.isfinite(nearest)]
    return float(nearest.median()), float(nearest.median().sqrt())


def test_scales_are_the_median_distances(tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", make_pairs(25), tiny)  # fewer entries than are sampled
    calibration = store.manifest.calibration
    assert calibration.queries == len(store) <= 256 and calibration.k == 8
    search, cache = scales_by_hand(store)
    assert store.snapshot().profile.search_scale == pytest.approx(search, rel=1e-3)
    assert store.snapshot().calibration.cache_scale == pytest.approx(cache, rel=1e-3)


@pytest.mark.parametrize("kind", ["empty", "one", "identical", "fitted and identical"])
def test_scales_are_positive_where_nothing_can_be_measured(kind: str, tiny: TranslationModel, tmp_path: Path) -> None:
    pairs = {"empty": 0, "one": 1, "identical": 10, "fitted and identical": 100}[kind] * make_pairs(1)
    store = Datastore.build(tmp_path / "store", pairs, tiny)
    size = tiny.seq2seq.hidden_size
    for value, most in (
        (store.snapshot().profile.search_scale, 20.0 * size),
        (store.snapshot().calibration.cache_scale, (20.0 * size) ** 0.5),
    ):
        assert 1e-3 < value <= most


# Opening.


def test_a_damaged_file_is_named_when_a_store_is_opened(tiny_store: Datastore, tmp_path: Path) -> None:
    shutil.copytree(tiny_store.path, tmp_path / "store")
    key = tmp_path / "store" / "segment-000001" / "key.f16"
    key.write_bytes(key.read_bytes()[:-2])
    with pytest.raises(DatastoreError, match=r"key\.f16: has \d+ bytes instead of"):
        Datastore.open(tmp_path / "store")


def test_a_mask_of_the_wrong_size_is_refused(tiny_store: Datastore) -> None:
    with pytest.raises(ConfigError, match=f"the mask has 3 elements, the datastore {len(tiny_store)} entries"):
        tiny_store.snapshot().search(some_queries(tiny_store, 1), 4, torch.ones(3, dtype=torch.bool))


def test_one_build_at_a_time(tiny: TranslationModel, tmp_path: Path) -> None:
    """A second one would write into the files of the first."""

    def pairs() -> Iterator[Pair]:
        with pytest.raises(DatastoreError, match="another process is writing to it"):
            Datastore.build(tmp_path / "store", make_pairs(3), tiny)
        yield from make_pairs(5)

    assert len(list(Datastore.build(tmp_path / "store", pairs(), tiny).pairs())) == 5
