"""What is damaged is mended as far as the pairs allow; what is lost is named; the damaged store is kept."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore, PruneConfig, prune
from nearmt.datastore.disk import Manifest
from nearmt.datastore.search.indexing import index_segments
from nearmt.datastore.upkeep.repair import Repaired, repair
from nearmt.datastore.upkeep.verify import verify
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore.damage import altered, edited_store
from tests.datastore.helpers import all_keys, assert_no_strays, contents, some_queries

FIRST, SECOND = "segment-000001", "segment-000002"


@pytest.fixture(scope="module")
def whole(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is not damaged; tests damage copies of it."""
    return edited_store(tmp_path_factory.mktemp("repaired") / "store", tiny)


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "store"))


@pytest.fixture
def load(tiny: TranslationModel) -> Callable[[dict[str, Any]], TranslationModel]:
    def load(settings: dict[str, Any]) -> TranslationModel:
        assert settings["model"] == tiny.name
        return tiny

    return load


def no_model(settings: dict[str, Any]) -> TranslationModel:
    raise AssertionError("needs no model")


def mended(path: Path, load: Callable[[dict[str, Any]], TranslationModel]) -> Repaired:
    """Repair, and check what holds for every repair."""
    before = contents(path)
    found = verify(path)
    assert any(finding.damaged for finding in found)
    done = repair(path, found, load)
    kept = contents(done.kept_as)
    assert {**kept, ".lock": b""} == {**before, ".lock": b""}
    assert not any(finding.damaged for finding in verify(path))
    shutil.rmtree(done.kept_as)
    assert_no_strays(path)
    return done


def assert_same(path: Path, other: Path) -> None:
    """The same pairs, the same entries, the same search."""
    mine, theirs = Datastore.open(path), Datastore.open(other)
    assert list(mine.pairs()) == list(theirs.pairs()) and mine.pending == theirs.pending == 0
    query = some_queries(theirs)
    found, expected = mine.snapshot().search(query, 5), theirs.snapshot().search(query, 5)
    torch.testing.assert_close(found.distance_BK, expected.distance_BK, rtol=1e-2, atol=1e-2)
    tokens = mine.snapshot().tokens(found.entry_BK), theirs.snapshot().tokens(expected.entry_BK)
    assert float((tokens[0] == tokens[1]).float().mean()) > 0.95


@pytest.mark.parametrize("name", ["key.f16", "token.i32", "end.i64", "source.i32", "source_end.i64"])
@pytest.mark.parametrize("missing", [False, True])
def test_what_the_model_computes_is_computed_again(
    name: str, missing: bool, store: Path, whole: Path, load: Callable[..., TranslationModel]
) -> None:
    path = store / FIRST / name
    path.unlink() if missing else altered(path, path.stat().st_size // 2)
    done = mended(store, load)
    assert done.lost == [] and any(name in line for line in done.report)
    assert_same(store, whole)
    second = segments_of(store)[1]
    same = [file.name for file in (whole / SECOND).iterdir()]
    assert same and all((second / name).read_bytes() == (whole / SECOND / name).read_bytes() for name in same)


@pytest.mark.parametrize("name", ["pair_start.i64", "id.u64"])
def test_what_pairs_tell_needs_no_model(name: str, store: Path, whole: Path) -> None:
    altered(store / FIRST / name, 9)
    assert mended(store, no_model).lost == []
    assert (segments_of(store)[0] / name).read_bytes() == (whole / FIRST / name).read_bytes()
    assert_same(store, whole)


def test_a_lost_index_is_built_again(tiny: TranslationModel, tmp_path: Path) -> None:
    path = tmp_path / "store"
    Datastore.build(path, make_pairs(40), tiny, BuildConfig(index="Flat"))
    before = [pair.id for pair in Datastore.open(path).pairs()]
    altered(next(path.glob("*/index-*")), 100)
    done = mended(path, no_model)
    assert "built again" in done.report[0] and [pair.id for pair in Datastore.open(path).pairs()] == before


@pytest.mark.parametrize("missing", [False, True])
def test_what_indexes_share_is_named_and_mended(missing: bool, tiny: TranslationModel, tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = Datastore.build(path, make_pairs(60), tiny)
    records = index_segments(path, store.manifest.segments, store.manifest.columns, "IVF2,SQ8")
    replace(store.manifest, segments=tuple(records)).save(path)
    shared = path / next(iter(Manifest.load(path).quantisers))
    Datastore.open(path)
    shared.unlink() if missing else altered(shared, 30)
    with pytest.raises(DatastoreError, match=shared.name):
        Datastore.open(path)
    done = mended(path, no_model)
    assert "indexed again" in done.report[0] and done.lost == []
    assert list(Datastore.open(path).pairs()) == list(store.pairs())


def test_lost_weights_undo_the_pruning(tiny: TranslationModel, tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = Datastore.build(path, make_pairs(40), tiny)
    prune(path, PruneConfig(device="cpu"))
    assert Manifest.load(path).kept < len(store)
    altered(next(path.glob("*/weight-*")), 4)
    done = mended(path, no_model)
    assert "pruning is lost" in done.report[0]
    assert Manifest.load(path).kept == len(store) == len(Datastore.open(path))


def lines_of(segment: Path) -> list[bytes]:
    return (segment / "pairs.jsonl").read_bytes().splitlines(keepends=True)


def segments_of(store: Path) -> list[Path]:
    """The folders of a store's segments, which a repair numbers again."""
    return [store / record.name for record in Manifest.load(store).segments]


@pytest.mark.parametrize("field", ["id", "source", "target", "brace"])
def test_a_damaged_pair_is_lost_and_the_others_are_not(
    field: str, store: Path, whole: Path, load: Callable[..., TranslationModel]
) -> None:
    """Also where its line can still be read: then its id or its tokens tell."""
    lines = lines_of(store / FIRST)
    raw = json.loads(lines[7])
    before = list(Datastore.open(whole).pairs())
    if field == "brace":
        lines[7] = b"[" + lines[7][1:]
    else:
        other = raw[field][:-1] + "0" if field == "id" else " ".join(reversed(raw[field].split()))
        assert other != raw[field]
        lines[7] = json.dumps({**raw, field: other}, ensure_ascii=False).encode() + b"\n"
    (store / FIRST / "pairs.jsonl").write_bytes(b"".join(lines))
    done = mended(store, load)
    assert list(Datastore.open(store).pairs()) == [pair for pair in before if pair.id != raw["id"]]
    assert done.lost == [raw["id"] if field in ("source", "target") else f"pair 8 of {FIRST}"]


def test_every_altered_byte_of_the_pairs_loses_at_most_one_pair(
    store: Path, whole: Path, load: Callable[..., TranslationModel], tmp_path: Path
) -> None:
    """And never leaves another source or target in the store."""
    expected = {(pair.id, pair.source, pair.target) for pair in Datastore.open(whole).pairs()}
    data = (store / FIRST / "pairs.jsonl").read_bytes()
    for offset in range(3, len(data), len(data) // 8):
        altered(store / FIRST / "pairs.jsonl", offset)
        done = mended(store, load)
        found = {(pair.id, pair.source, pair.target) for pair in Datastore.open(store).pairs()}
        assert found <= expected and len(expected) - len(found) <= len(done.lost) <= 1, offset
        shutil.rmtree(store)
        shutil.copytree(whole, store)


def test_bytes_that_came_or_went_lose_only_what_they_hit(
    store: Path, whole: Path, load: Callable[..., TranslationModel]
) -> None:
    before = list(Datastore.open(whole).pairs())
    lines = lines_of(store / FIRST)
    gone = json.loads(lines[5])["id"]
    lines[5] = lines[5][:20] + lines[5][25:]
    (store / FIRST / "pairs.jsonl").write_bytes(b"".join(lines))
    assert mended(store, load).lost == [f"pair 6 of {FIRST}"]
    assert list(Datastore.open(store).pairs()) == [pair for pair in before if pair.id != gone]


def test_pairs_without_any_witness_are_kept_if_they_can_be_read(
    store: Path, whole: Path, load: Callable[..., TranslationModel]
) -> None:
    for name in ("id.u64", "pair_start.i64", "token.i32", "source.i32"):
        altered(store / FIRST / name, 9)
    lines = lines_of(store / FIRST)
    gone = json.loads(lines[5])["id"]
    (store / FIRST / "pairs.jsonl").write_bytes(b"".join([*lines[:5], b"\xff\xff\n", *lines[6:]]))
    done = mended(store, load)
    assert done.lost == [f"pair 6 of {FIRST}"]
    expected = [pair for pair in Datastore.open(whole).pairs() if pair.id != gone]
    assert list(Datastore.open(store).pairs()) == expected


def test_a_file_of_pairs_that_is_gone(store: Path, whole: Path, load: Callable[..., TranslationModel]) -> None:
    (store / FIRST / "pairs.jsonl").unlink()
    ids = {json.loads(line)["id"] for line in lines_of(whole / FIRST)}
    deleted = np.fromfile(next((whole / FIRST).glob("deleted-*")), dtype="<i8")
    assert len(mended(store, load).lost) == len(ids) - len(deleted)
    expected = [pair for pair in Datastore.open(whole).pairs() if pair.id not in ids]
    assert list(Datastore.open(store).pairs()) == expected
    (left,) = segments_of(store)
    assert lines_of(left) == lines_of(whole / SECOND)


@pytest.mark.parametrize("offset", [0, 5, 8, 15])
def test_a_flipped_bit_does_not_bring_deleted_pairs_back(offset: int, store: Path, whole: Path) -> None:
    altered(next((store / FIRST).glob("deleted-*")), offset)
    done = mended(store, no_model)
    assert any("one bit was flipped; restored" in line for line in done.report)
    assert list(Datastore.open(store).pairs()) == list(Datastore.open(whole).pairs())


def test_deleted_pairs_that_are_still_known_stay_deleted(store: Path, whole: Path) -> None:
    """The beginning of a file that was cut short is what it was."""
    path = next((store / FIRST).glob("deleted-*"))
    path.write_bytes(path.read_bytes()[:11])
    done = mended(store, no_model)
    assert any("1 of its deleted pairs are not known any more" in line for line in done.report)
    pairs = list(Datastore.open(store).pairs())
    ids = [json.loads(line)["id"] for line in lines_of(whole / FIRST)]
    # The third was deleted in the log, which is whole.
    assert [pair.id for pair in pairs[:2]] == [ids[1], ids[3]]
    assert pairs[1:] == list(Datastore.open(whole).pairs())


def test_deleted_pairs_stay_deleted_where_the_manifest_is_damaged_too(
    store: Path, whole: Path, load: Callable[..., TranslationModel]
) -> None:
    """What it says about the file can still be read."""
    altered(next((store / FIRST).glob("deleted-*")), 8)
    path = store / "manifest.json"
    path.write_bytes(b"[" + path.read_bytes()[1:])
    done = mended(store, load)
    assert any("one bit was flipped; restored" in line for line in done.report)
    assert list(Datastore.open(store).pairs()) == list(Datastore.open(whole).pairs())


@pytest.mark.parametrize("damage", ["bits", "longer"])
def test_numbers_that_may_be_wrong_delete_no_other_pair(damage: str, store: Path, whole: Path) -> None:
    """Also where they look like numbers of pairs."""
    path = next((store / FIRST).glob("deleted-*"))
    data = bytearray(path.read_bytes())
    data[8] ^= 6
    path.write_bytes(data if damage == "bits" else data + (9).to_bytes(8, "little"))
    mended(store, no_model)
    found = {pair.id for pair in Datastore.open(store).pairs()}
    assert {pair.id for pair in Datastore.open(whole).pairs()} <= found


def test_deleted_pairs_come_back_if_they_are_not_known_any_more(store: Path, whole: Path) -> None:
    next((store / FIRST).glob("deleted-*")).unlink()
    done = mended(store, no_model)
    assert any("not known any more" in line for line in done.report) and done.lost == []
    pairs = list(Datastore.open(store).pairs())
    ids = [json.loads(line)["id"] for line in lines_of(whole / FIRST)]
    assert [pair.id for pair in pairs[:3]] == [ids[0], ids[1], ids[3]]
    assert pairs[2:] == list(Datastore.open(whole).pairs())


def test_replaced_pairs_stay_replaced(tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    store = Datastore.build(path, make_pairs(10), tiny)
    old = list(store.pairs())[4]
    monkeypatch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
    store.add([replace(old, target="the motor")], tiny)
    altered(next((path / FIRST).glob("deleted-*")), 3)
    before = list(store.pairs())
    mended(path, no_model)
    assert list(Datastore.open(path).pairs()) == before
    altered(segments_of(path)[0] / "key.f16", 0)
    altered(next(segments_of(path)[0].glob("deleted-*")), 3)
    mended(path, lambda settings: tiny)
    assert list(Datastore.open(path).pairs()) == before


def test_a_damaged_log_keeps_its_other_operations(
    store: Path, whole: Path, load: Callable[..., TranslationModel]
) -> None:
    log = next(store.glob("log-*.log"))
    before = list(Datastore.open(whole).pairs())
    altered(log, 40)
    done = mended(store, load)
    assert any("operations are left" in line for line in done.report) and done.lost
    again = Datastore.open(store)
    # The first addition is damaged; the others are encoded when a model is loaded.
    assert again.pending == 4
    again.catch_up(load({"model": Manifest.load(store).model}))
    ids = [pair.id for pair in again.pairs()]
    assert ids == [pair.id for pair in before if pair.id in ids] and len(ids) == len(before) - 1


def test_a_log_that_is_gone(store: Path, whole: Path) -> None:
    next(store.glob("log-*.log")).unlink()
    done = mended(store, no_model)
    assert any("all of it is lost" in line for line in done.report)
    assert len(list(Datastore.open(store).pairs())) == 26


def test_a_lost_reduction_is_fitted_again(store: Path, whole: Path, load: Callable[..., TranslationModel]) -> None:
    altered(next(store.glob("reduction-*")), 200)
    done = mended(store, load)
    assert "is lost: all pairs are encoded again" in done.report[0]
    assert list(Datastore.open(store).pairs()) == list(Datastore.open(whole).pairs())
    assert len(Datastore.open(store).manifest.segments) == 1


@pytest.mark.parametrize("damage", ["digit", "brace", "deleted"])
def test_a_damaged_manifest(
    damage: str, store: Path, whole: Path, load: Callable[..., TranslationModel], tiny: TranslationModel
) -> None:
    path = store / "manifest.json"
    text = path.read_text(encoding="utf-8")
    if damage == "digit":
        path.write_text(
            text.replace('"queries": 1', '"queries": 2', 1).replace('"k": 8', '"k": 9', 1), encoding="utf-8"
        )
    elif damage == "brace":
        path.write_text(text[:-10], encoding="utf-8")
    else:
        path.unlink()
    done = mended(store, load if damage != "deleted" else lambda settings: tiny)
    assert done.lost == []
    assert list(Datastore.open(store).pairs()) == list(Datastore.open(whole).pairs())


@pytest.mark.parametrize(("name", "other"), [(SECOND, "segment-000003"), (SECOND, FIRST), ("log-", "log-9")])
def test_a_damaged_manifest_that_names_what_is_not_there(
    name: str, other: str, store: Path, whole: Path, load: Callable[..., TranslationModel]
) -> None:
    """A flipped bit can turn a name into another one that looks right."""
    path = store / "manifest.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(name, other), encoding="utf-8")
    assert mended(store, load).lost == []
    assert list(Datastore.open(store).pairs()) == list(Datastore.open(whole).pairs())


def test_another_model_is_refused_where_keys_are_kept(
    store: Path, tiny: TranslationModel, load: Callable[..., TranslationModel]
) -> None:
    altered(store / FIRST / "key.f16", 0)
    before = contents(store)
    other = replace(tiny, fingerprint="another")
    with pytest.raises(DatastoreError, match="built with model"):
        repair(store, verify(store), lambda settings: other)
    assert {**contents(store), ".lock": b""} == {**before, ".lock": b""}
    # What that left is no obstacle.
    mended(store, load)


def test_an_interrupted_repair_leaves_the_store(
    store: Path, load: Callable[..., TranslationModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    altered(store / FIRST / "key.f16", 0)
    before = contents(store)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repair(store, verify(store), load, interrupt)
    assert {**contents(store), ".lock": b""} == {**before, ".lock": b""}
    assert mended(store, load).lost == []


def test_a_folder_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos"
    path.mkdir()
    (path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(DatastoreError, match="not a datastore"):
        repair(path, [], no_model)
    assert [file.name for file in tmp_path.iterdir()] == ["photos"]
    assert [file.name for file in path.iterdir()] == ["notes.txt"]


def test_an_older_damaged_store_is_kept_too(store: Path, load: Callable[..., TranslationModel]) -> None:
    store.with_name("store.damaged").mkdir()
    altered(store / FIRST / "key.f16", 0)
    assert repair(store, verify(store), load).kept_as == store.with_name("store.damaged-2")


def test_long_pairs_have_no_tokens_to_tell(tiny: TranslationModel, tmp_path: Path) -> None:
    path = tmp_path / "store"
    long = Pair("pumpe", " ".join(["motor"] * 100), "long")
    Datastore.build(path, [*make_pairs(5), long], tiny)
    altered(path / FIRST / "pairs.jsonl", 3)
    repair(path, verify(path), lambda settings: tiny)
    again = Datastore.open(path)
    assert list(again.pairs())[-1] == long and all_keys(again).shape[0] == len(again)
    assert re.fullmatch(r"[0-9a-f]+", next(again.pairs()).id)


@pytest.mark.parametrize("seed", range(12))
def test_any_damage_is_found_and_mended(seed: int, store: Path, whole: Path, tiny: TranslationModel) -> None:
    damage_and_mend(seed, store, whole, tiny)


@pytest.mark.slow
def test_hundreds_of_damages_are_found_and_mended(
    store: Path, whole: Path, tiny: TranslationModel, campaign_seed: int
) -> None:
    for seed in range(campaign_seed, campaign_seed + 1500):
        damage_and_mend(seed, store, whole, tiny)
        shutil.rmtree(store)
        shutil.copytree(whole, store)


def damage_and_mend(seed: int, store: Path, whole: Path, tiny: TranslationModel) -> None:
    """Several files are altered, cut, longer or gone: what comes out is whole, and holds nothing that was not there."""
    chance = random.Random(seed)
    files = [name for name, data in contents(store).items() if data and not name.startswith("live")]
    hit = chance.sample(files, 3)
    for name in hit:
        data = bytearray((store / name).read_bytes())
        offset = chance.randrange(len(data))
        match chance.choice(["altered", "cut", "longer", "gone"]):
            case "altered":
                data[offset] ^= 1 << chance.randrange(8)
            case "cut":
                data = data[:offset]
            case "longer":
                data[offset:offset] = chance.randbytes(3)
            case _:
                data = bytearray()
        (store / name).unlink()
        if data:
            (store / name).write_bytes(data)
    mended(store, lambda settings: tiny)
    there = [json.loads(line) for file in whole.glob("*/pairs.jsonl") for line in file.read_bytes().splitlines()]
    texts = {(raw["source"], raw["target"]) for raw in there}
    texts |= {(pair.source, pair.target) for pair in Datastore.open(whole).pairs()}
    found = {(pair.source, pair.target) for pair in Datastore.open(store).pairs()}
    # What would contradict an altered text may be hit as well.
    segments = [name.split("/")[0] for name in hit if name.endswith("pairs.jsonl")]
    unwitnessed = any(name.startswith(f"{segment}/") for segment in segments for name in hit if "pairs" not in name)
    assert found <= texts or "manifest.json" in hit or unwitnessed
    if not any("pairs" in name or "log" in name for name in hit):
        assert {(pair.source, pair.target) for pair in Datastore.open(whole).pairs()} <= found
