"""An untrusted store with valid checksums and wrong numbers: it works or is refused with one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest, record_format
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.live_segment import Block
from nearmt.datastore.disk.manifest import FILE_NAME
from nearmt.datastore.disk.records import read_records
from nearmt.datastore.upkeep.repair import repair
from nearmt.datastore.upkeep.verify import verify
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.datastore.hostile_stores import hostile_stores
from tests.datastore.mutations import refit

#: Other mutations with every other number; the slow campaign takes as many as it is told to.


@pytest.fixture(scope="module")
def stores(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_stores(tmp_path_factory.mktemp("hostile"), tiny)


@pytest.fixture
def edited(stores: Path, tmp_path: Path) -> Path:
    """A store with everything, to be altered."""
    return shutil.copytree(stores / "edited-0", tmp_path / "store")


def outcomes(stores: Path, model: Path, first: int, count: int) -> list[dict[str, Any]]:
    """The outcomes of stores altered with `count` seeds, read in other processes: a crash is reported."""
    program = [sys.executable, "-m", "tests.datastore.hostile_reader", str(stores), str(model)]
    seeds = "".join(f"{seed}\n" for seed in range(first, first + count))
    root = Path(__file__).parents[2]
    done = subprocess.run(program, input=seeds, capture_output=True, text=True, cwd=root, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == count, done.stderr[-2000:]
    return found


def assert_harmless(found: list[dict[str, Any]]) -> None:
    assert [case for case in found if "died" in case or case["failed"]] == []
    assert all("\n" not in line for case in found for line in case["refused"])
    # Neither are all of them refused, nor none.
    assert 0.2 < sum(bool(case["refused"]) for case in found) / len(found) < 0.9


def test_an_altered_store_works_or_is_refused(stores: Path, tiny_folder: Path) -> None:
    assert_harmless(outcomes(stores, tiny_folder, 0, 160))


@pytest.mark.slow
def test_thousands_of_altered_stores_work_or_are_refused(stores: Path, tiny_folder: Path, campaign_seed: int) -> None:
    assert_harmless(outcomes(stores, tiny_folder, 1_000_000 + 10_000 * campaign_seed, 8000))


def segment_file(store: Path, pattern: str) -> Path:
    return next((store / "segment-000001").glob(pattern))


def put(dtype: str, index: int, value: float) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        numbers = np.fromfile(path, dtype=dtype)
        numbers[index] = value
        path.write_bytes(numbers.tobytes())

    return change


ARRAYS = [
    ("token.i32", put("<i4", 5, -1), "a token"),
    ("token.i32", put("<i4", 5, 2**31 - 1), "a token"),
    ("end.i64", put("<i8", 3, -1), "do not follow one another"),
    ("end.i64", put("<i8", -1, 2**40), "do not follow one another"),
    ("source.i32", put("<i4", 0, -5), "a token"),
    ("source_end.i64", put("<i8", -1, 7), "do not follow one another"),
    ("pair_start.i64", put("<i8", 4, 2**62), "begin where no line does"),
    ("pair_start.i64", put("<i8", 0, 1), "begin where no line does"),
    ("weight-*.i32", put("<i4", 0, -3), "weights of"),
    ("deleted-*.i64", put("<i8", 0, 10**6), "deleted pairs that do not exist"),
    ("key.f16", put("<f2", 9, np.nan), "keys that are no numbers"),
    ("key.f16", put("<f2", 9, -np.inf), "keys that are no numbers"),
]


@pytest.mark.parametrize(("pattern", "change", "reason"), ARRAYS)
def test_a_number_that_leads_nowhere_is_refused(
    pattern: str, change: Callable[[Path], None], reason: str, edited: Path
) -> None:
    path = segment_file(edited, pattern)
    change(path)
    refit(edited)
    told = rf"{path.name}: damaged \(.*{reason}.*\); `nearmt verify --repair` salvages what is left"
    with pytest.raises(DatastoreError, match=told):
        Datastore.open(edited)
    # Verification reports the same, although the checksums are valid.
    assert [finding.file for finding in verify(edited) if finding.damaged] == [f"segment-000001/{path.name}"]
    if pattern != "key.f16":  # which a ledger does not read
        with pytest.raises(DatastoreError, match=told):
            Ledger(edited)


@pytest.mark.parametrize("pattern", ["token.i32", "pair_start.i64", "deleted-*.i64", "key.f16", "weight-*.i32"])
def test_what_is_refused_can_be_repaired(pattern: str, edited: Path, tiny: TranslationModel) -> None:
    path = segment_file(edited, pattern)
    change = next(change for name, change, _ in ARRAYS if name == pattern)
    change(path)
    refit(edited)
    repair(edited, verify(edited), lambda settings: tiny)
    assert not [finding for finding in verify(edited) if finding.damaged]
    Translator(tiny, Datastore.open(edited)).translate("pumpe welle")


def test_a_claim_that_is_refused_can_be_repaired(edited: Path, tiny: TranslationModel) -> None:
    """What else such a manifest says is not believed: folders and logs are looked for."""
    raw = json.loads((edited / FILE_NAME).read_text())
    raw["segments"][1]["deleted"] = 1e-30
    (edited / FILE_NAME).write_text(json.dumps(raw))
    refit(edited)
    repaired = repair(edited, verify(edited), lambda settings: tiny)
    assert not repaired.lost and Datastore.open(edited).snapshot().pair_count == repaired.pairs > 20


def test_a_file_that_no_checksum_is_computed_of_is_checked_too(edited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a gigabyte only sizes are compared at opening."""
    monkeypatch.setattr("nearmt.datastore.disk.manifest.VERIFIED_AT_OPENING", 0)
    put("<i8", 3, -1)(segment_file(edited, "end.i64"))
    with pytest.raises(DatastoreError, match=r"end\.i64: damaged"):
        Datastore.open(edited)


def test_a_token_that_the_model_does_not_know_is_refused(edited: Path, tiny: TranslationModel) -> None:
    put("<i4", 5, tiny.seq2seq.vocabulary)(segment_file(edited, "token.i32"))
    refit(edited)
    store = Datastore.open(edited)  # without a model it does no harm
    with pytest.raises(DatastoreError, match=r"token\.i32: has the token 70, .* knows 70 tokens"):
        Translator(tiny, store)
    with pytest.raises(DatastoreError, match=r"token\.i32"):
        store.compact(tiny)


def test_claims_are_not_allocated(edited: Path) -> None:
    """A manifest that speaks of a million million entries is compared with the size of the files."""
    raw = json.loads((edited / FILE_NAME).read_text())
    for name in ("entries", "pairs"):
        changed = json.loads(json.dumps(raw))
        changed["segments"][0][name] = 10**12
        (edited / FILE_NAME).write_text(json.dumps(changed))
        refit(edited)
        for opens in (Ledger, Datastore.open):
            with pytest.raises(DatastoreError, match=r"damaged \(.* bytes for .* pairs of .* entries\)"):
                opens(edited)


def test_a_block_that_is_none_is_computed_again(edited: Path, tiny: TranslationModel) -> None:
    """Blocks follow from the log: nothing is lost with them."""
    path = next(edited.glob("live-*.blocks"))
    columns = Manifest.load(edited).columns
    block = Block.from_bytes(read_records(path).payloads[0], columns)
    assert block is not None and block.tokens[0]
    before = [pair.id for pair in Datastore.open(edited).pairs()]
    wrong = [[-1, *block.tokens[0][1:]], *block.tokens[1:]]
    path.write_bytes(record_format.header() + record_format.frame(replace(block, tokens=wrong).to_bytes(), 0))
    store = Datastore.open(edited)
    assert store.pending > 2
    assert Ledger(edited).pending == store.pending
    store.catch_up(tiny)
    assert store.pending == 0
    assert {pair.id for pair in store.pairs()} > set(before)


def test_keys_that_are_no_numbers_do_no_harm_in_a_large_store(
    edited: Path, tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("disk.manifest", "search.checks"):
        monkeypatch.setattr(f"nearmt.datastore.{module}.VERIFIED_AT_OPENING", 0)
    path = segment_file(edited, "key.f16")
    key_X = np.fromfile(path, dtype="<f2")
    key_X[::5] = np.nan
    key_X[1::7] = np.inf
    path.write_bytes(key_X.tobytes())
    store = Datastore.open(edited)
    for method in ("knn", "chunk"):
        Translator(tiny, store, method).translate(["pumpe welle motor", "ventil"])
