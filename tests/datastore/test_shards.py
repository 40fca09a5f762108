"""Parts of a corpus: merged, they are the datastore of a single build."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from nearmt.config.shard import Shard
from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.segment import FILES
from nearmt.datastore.edit.merge_shards import merge_shards
from nearmt.datastore.edit.shards import Corpus, build_shard, fit_reduction
from nearmt.errors import ConfigError, DatastoreError, OutputError
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.helpers import (
    all_keys,
    arrays,
    assert_no_strays,
    contents,
    count_encoded,
    some_queries,
    stop_after,
)
from tests.kernels import needs_kernels

Parts = Callable[..., list[Path]]


@pytest.fixture
def corpus() -> list[Pair]:
    """Pairs of uneven length, some of them repeated and one with an id that occurs twice."""
    pairs = make_pairs(40, seed=5)
    named = [dataclasses.replace(pair, id="named") for pair in pairs[3:5]]
    return [*pairs[:20], *named, *pairs[10:40], *pairs[:4]]


@pytest.fixture
def parts(tiny: TranslationModel, corpus: list[Pair], tmp_path: Path) -> Parts:
    """Builds all parts with a reduction fitted once."""

    def build(count: int, pairs: Sequence[Pair] = corpus, model: TranslationModel = tiny) -> list[Path]:
        if not (tmp_path / "pca").exists():
            fit_reduction(tmp_path / "pca", corpus, tiny)
        shards = [Shard(number, count) for number in range(1, count + 1)]
        config = BuildConfig(reduction_of=str(tmp_path / "pca"))
        for shard in shards:
            build_shard(tmp_path / f"part-{shard.number}", lambda: iter(pairs), model, shard, config)
        return [tmp_path / f"part-{shard.number}" for shard in shards]

    return build


def joined_arrays(path: Path) -> dict[str, bytes]:
    """The files of all segments, one segment behind the other: offsets count from the beginning of the first."""
    found: dict[str, bytes] = {}
    shift = {"end.i64": 0, "pair_start.i64": 0, "source_end.i64": 0}
    for record in Manifest.load(path).segments:
        content = {name: (path / record.name / name).read_bytes() for name in FILES}
        for name, data in content.items():
            if name in shift:
                data = (np.frombuffer(data, dtype="<i8") + shift[name]).tobytes()  # noqa: PLW2901
            found[name] = found.get(name, b"") + data
        shift["end.i64"] += record.entries
        shift["pair_start.i64"] += len(content["pairs.jsonl"])
        shift["source_end.i64"] += len(content["source.i32"]) // 4
    return found


def bare(manifest: Manifest) -> Manifest:
    """All but the division into segments and the date."""
    return dataclasses.replace(manifest, segments=(), created="")


def answers(model: TranslationModel, store: Datastore, pairs: Sequence[Pair]) -> list[tuple[str, float]]:
    translator = Translator(model, store, "chunk", {})
    return [(found.text, found.score) for found in translator.translate([pair.source for pair in pairs])]


# What is merged.


@needs_kernels
@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("index", ["exact", "IVF8,SQ8_direct_signed"])
def test_merged_parts_are_a_single_build(
    count: int, index: str, tiny: TranslationModel, corpus: list[Pair], parts: Parts, tmp_path: Path
) -> None:
    whole = Datastore.build(tmp_path / "whole", corpus, tiny, BuildConfig(index=index))
    merge_shards(tmp_path / "merged", parts(count), tiny, index)
    merged = Datastore.open(tmp_path / "merged", verify=True)
    assert len(merged.manifest.segments) == count
    assert list(merged.pairs()) == list(whole.pairs())
    assert joined_arrays(merged.path) == joined_arrays(whole.path)
    assert bare(merged.manifest) == bare(whole.manifest)
    query = some_queries(whole)
    found, expected = (store.snapshot().search(query, 8) for store in (merged, whole))
    assert torch.equal(found.entry_BK, expected.entry_BK)
    assert torch.equal(found.distance_BK, expected.distance_BK)
    assert answers(tiny, merged, make_pairs(12, seed=8)) == answers(tiny, whole, make_pairs(12, seed=8))
    assert_no_strays(merged.path)
    merged.compact(keep_replaced=0)
    single = {name: data for name, data in arrays(whole.path).items() if name.startswith("segment-")}
    compacted = {f"segment-000001/{Path(name).name}": data for name, data in arrays(merged.path).items() if "/" in name}
    assert compacted == single


def test_no_keys_are_copied(tiny: TranslationModel, parts: Parts, tmp_path: Path) -> None:
    shards = parts(3)
    merge_shards(tmp_path / "merged", shards, tiny)
    for number, shard in enumerate(shards, 1):
        for name in FILES:
            mine, its = tmp_path / "merged" / f"segment-{number:06d}" / name, shard / "segment-000001" / name
            assert mine.samefile(its)
    before = contents(tmp_path / "merged")
    for shard in shards:
        shutil.rmtree(shard)
    assert contents(tmp_path / "merged") == before
    Datastore.open(tmp_path / "merged", verify=True)


def test_files_are_copied_where_there_are_no_hard_links(
    tiny: TranslationModel, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    shards = parts(2)
    monkeypatch.setattr("os.link", refuse)
    merge_shards(tmp_path / "merged", shards, tiny)
    assert (tmp_path / "merged/segment-000001/key.f16").stat().st_nlink == 1
    Datastore.open(tmp_path / "merged", verify=True)


def test_parts_may_come_in_any_order_and_be_empty(
    tiny: TranslationModel, corpus: list[Pair], parts: Parts, tmp_path: Path
) -> None:
    shards = parts(5, corpus[:3])
    assert sorted(Manifest.load(shard).pairs for shard in shards) == [0, 0, 1, 1, 1]
    merge_shards(tmp_path / "merged", shards[::-1], tiny)
    assert [(p.source, p.target) for p in Datastore.open(tmp_path / "merged").pairs()] == [
        (p.source, p.target) for p in corpus[:3]
    ]


def test_a_merged_store_replaces_and_learns_like_any_other(
    tiny: TranslationModel, corpus: list[Pair], parts: Parts, tmp_path: Path
) -> None:
    whole = Datastore.build(tmp_path / "whole", corpus, tiny)
    merge_shards(tmp_path / "merged", parts(3), tiny)
    merged = Datastore.open(tmp_path / "merged")
    for store in (whole, merged):
        store.add([Pair("neue quelle", "new target", id="named")], tiny)
        store.delete([next(iter(store.pairs())).id])
    assert list(merged.pairs()) == list(whole.pairs())
    assert sum(pair.id == "named" for pair in merged.pairs()) == 1


def test_an_existing_store_is_replaced_only_when_asked(
    tiny: TranslationModel, corpus: list[Pair], parts: Parts, tmp_path: Path
) -> None:
    shards = parts(2)
    Datastore.build(tmp_path / "store", make_pairs(4), tiny)
    with pytest.raises(OutputError, match="already there"):
        merge_shards(tmp_path / "store", shards, tiny)
    merge_shards(tmp_path / "store", shards, tiny, overwrite=True)
    assert Datastore.open(tmp_path / "store").manifest.pairs == len(corpus)
    assert_no_strays(tmp_path / "store")


def test_a_merge_over_an_unfinished_one_begins_anew(tiny: TranslationModel, parts: Parts, tmp_path: Path) -> None:
    shards = parts(2)
    left = tmp_path / "merged/building/segment-000009"
    left.mkdir(parents=True)
    (left / "key.f16").write_bytes(b"left")
    merge_shards(tmp_path / "merged", shards, tiny)
    assert_no_strays(tmp_path / "merged")


# What is refused.


def refused(
    tiny: TranslationModel, shards: Sequence[Path], reason: str, error: type[Exception] = DatastoreError
) -> None:
    out = shards[0].parent / "merged" if shards else Path("merged")
    with pytest.raises(error, match=reason) as caught:
        merge_shards(out, shards, tiny)
    assert "\n" not in str(caught.value) and not (out / "manifest.json").exists()


def test_missing_and_repeated_parts(tiny: TranslationModel, parts: Parts, tmp_path: Path) -> None:
    one, two, three = parts(3)
    refused(tiny, [one, three], "of 3 parts these are missing: 2$")
    shutil.copytree(two, tmp_path / "copy")
    refused(tiny, [one, two, tmp_path / "copy", three], "both are part 2 of 3")
    refused(tiny, [], "no parts to merge", ConfigError)


def test_parts_of_different_builds(tiny: TranslationModel, corpus: list[Pair], parts: Parts, tmp_path: Path) -> None:
    one, _ = parts(2)
    config = BuildConfig(reduction_of=str(tmp_path / "pca"))

    def other(name: str, pairs: Sequence[Pair], shard: Shard, config: BuildConfig = config, cleaning: str = "") -> Path:
        build_shard(tmp_path / name, lambda: iter(pairs), tiny, shard, config, cleaning=cleaning)
        return tmp_path / name

    refused(tiny, [one, other("thirds", corpus, Shard(2, 3))], "one of 2 parts, one of 3")
    changed = [*corpus[:-1], Pair("anders", "different")]
    refused(tiny, [one, other("changed", changed, Shard(2, 2))], "different corpora, or of a corpus that has changed")
    refused(tiny, [one, other("cleaned", corpus, Shard(2, 2), cleaning="rule")], "another cleaning rules")
    fit_reduction(tmp_path / "other-pca", make_pairs(60, seed=9), tiny)
    unlike = BuildConfig(reduction_of=str(tmp_path / "other-pca"))
    refused(tiny, [one, other("reduced", corpus, Shard(2, 2), unlike)], "another reduction")


def test_stores_that_are_no_parts_or_were_changed(
    tiny: TranslationModel, corpus: list[Pair], parts: Parts, tmp_path: Path
) -> None:
    one, two = parts(2)
    whole = Datastore.build(tmp_path / "whole", corpus, tiny)
    refused(tiny, [whole.path], "is not a part of a corpus")
    store = Datastore.open(two)
    store.delete([next(iter(store.pairs())).id])
    refused(tiny, [one, two], "was changed after it was built")
    store.compact()
    refused(tiny, [one, two], "was changed after it was built|build them again")


def test_a_damaged_part(tiny: TranslationModel, parts: Parts) -> None:
    one, two = parts(2)
    key = two / "segment-000001/key.f16"
    key.write_bytes(bytes(key.stat().st_size))
    refused(tiny, [one, two], "altered")


def test_parts_without_a_common_reduction(tiny: TranslationModel, corpus: list[Pair], tmp_path: Path) -> None:
    for config in (BuildConfig(), BuildConfig(fit_reduction=True)):
        with pytest.raises(ConfigError, match="nearmt fit-reduction"):
            build_shard(tmp_path / "part", lambda: iter(corpus), tiny, Shard(1, 2), config)
    assert not (tmp_path / "part").exists()
    assert build_shard(tmp_path / "part", lambda: iter(corpus), tiny, Shard(1, 1)).pairs == len(corpus)


# One part.


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100])
def test_parts_are_even_and_cover_the_corpus_once(count: int, corpus: list[Pair]) -> None:
    whole = Corpus.of(corpus)
    found = [list(whole.part(iter(corpus), Shard(number, count))) for number in range(1, count + 1)]
    assert [number for part in found for number, _ in part] == list(range(len(corpus)))
    longest = max(len(pair.source) + len(pair.target) for pair in corpus)
    for part in found:
        assert abs(sum(len(p.source) + len(p.target) for _, p in part) - whole.characters / count) <= longest


def test_a_part_reads_no_further_than_its_end(corpus: list[Pair]) -> None:
    taken = 0

    def read() -> Iterator[Pair]:
        nonlocal taken
        for pair in corpus:
            taken += 1
            yield pair

    found = list(Corpus.of(corpus).part(read(), Shard(1, 4)))
    assert taken == len(found) + 1


@pytest.mark.usefixtures("small_blocks")
def test_an_interrupted_part_goes_on(
    tiny: TranslationModel, corpus: list[Pair], parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = contents(parts(2)[1])
    config = BuildConfig(reduction_of=str(tmp_path / "pca"))

    def again(**more: object) -> None:
        build_shard(tmp_path / "again", lambda: iter(corpus), tiny, Shard(2, 2), config, **more)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        again(progress=stop_after(2))
    encoded = count_encoded(monkeypatch)
    again()
    assert 0 < sum(encoded) < Manifest.load(tmp_path / "again").pairs
    found = contents(tmp_path / "again")
    assert found.keys() == expected.keys()
    assert {name for name in found if found[name] != expected[name]} <= {"manifest.json"}  # has a date


def test_a_finished_part_is_not_built_again(
    tiny: TranslationModel, corpus: list[Pair], parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = parts(2)
    before, config = contents(one), BuildConfig(reduction_of=str(tmp_path / "pca"))
    with monkeypatch.context() as patch:
        encoded = count_encoded(patch)
        manifest = build_shard(one, lambda: iter(corpus), tiny, Shard(1, 2), config)
        assert encoded == [] and manifest == Manifest.load(one) and contents(one) == before
    for shard, pairs, cleaning in (
        (Shard(2, 2), corpus, ""),
        (Shard(1, 3), corpus, ""),
        (Shard(1, 2), corpus[1:], ""),
        (Shard(1, 2), corpus, "rule"),
    ):
        with pytest.raises(OutputError, match="already there"):
            build_shard(one, lambda pairs=pairs: iter(pairs), tiny, shard, config, cleaning=cleaning)  # type: ignore[misc]
    assert contents(one) == before
    build_shard(one, lambda: iter(corpus[1:]), tiny, Shard(1, 2), config, overwrite=True)
    assert contents(one) != before


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", 4)


def test_a_part_is_a_store_that_searches_exactly(tiny: TranslationModel, parts: Parts) -> None:
    one, _ = parts(2)
    store = Datastore.open(one)
    assert store.manifest.shard is not None and store.manifest.shard["number"] == 1
    key = all_keys(store)
    assert store.snapshot().search(key, 1).distance_BK.max() < 1e-3


def test_a_fitted_reduction_is_that_of_a_build(tiny: TranslationModel, corpus: list[Pair], tmp_path: Path) -> None:
    manifest = fit_reduction(tmp_path / "pca", corpus, tiny)
    whole = Datastore.build(tmp_path / "whole", corpus, tiny)
    assert manifest.pairs == 0 and manifest.reduction == whole.manifest.reduction
    assert_no_strays(tmp_path / "pca")
    with pytest.raises(OutputError, match="already there"):
        fit_reduction(tmp_path / "pca", corpus, tiny)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3", "١/٢", "1/9999999"])
def test_a_shard_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="must be I/N"):
        Shard.parse(text)


def test_a_shard_is_written_as_it_is_read() -> None:
    assert str(Shard.parse("3/8")) == "3/8"
