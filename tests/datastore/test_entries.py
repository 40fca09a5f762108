"""Entries: chunks, pairs and tokens by number, over any segments."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.errors import DatastoreError
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.helpers import all_keys
from tests.tiny import tiny_marian_folder


@pytest.fixture(scope="module", params=[1, 3])
def store(
    request: pytest.FixtureRequest, tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory
) -> Datastore:
    """The same 24 pairs in one segment, or in three of unequal size, the last of them live."""
    pairs = make_pairs(24, seed=6)
    path = tmp_path_factory.mktemp("entries") / "store"
    if request.param == 1:
        return Datastore.build(path, pairs, tiny)
    made = Datastore.build(path, pairs[:5], tiny)
    made.add(pairs[5:6], tiny)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearmt.datastore.edit.editor.LIVE_ENTRIES", 1)
        made.add(pairs[6:12], tiny)
    made.add(pairs[12:], tiny)
    assert len(made.manifest.segments) == 2 and made.manifest.pairs == 12 < made.snapshot().pair_count
    return made


@pytest.fixture(scope="module")
def targets(tiny: TranslationModel) -> list[list[int]]:
    return [tiny.codec.target_ids(pair.target) for pair in make_pairs(24, seed=6)]


@pytest.mark.parametrize("size", [1, 4, 100])
def test_chunks_end_with_their_sentence(size: int, store: Datastore, targets: list[list[int]]) -> None:
    entry = torch.arange(len(store))
    chunk = store.snapshot().chunks(entry[:, None], size)[:, 0]
    expected, start = [], 0
    for target in targets:
        for place in range(len(target)):
            inside = list(range(start + place, min(start + place + size, start + len(target))))
            expected.append([*inside, *[-1] * (size - len(inside))])
        start += len(target)
    assert chunk.tolist() == expected


def test_chunks_read_the_text(store: Datastore, targets: list[list[int]], tiny: TranslationModel) -> None:
    """The chunk at a sentence's first entry is the sentence, closed by its end and by nothing else."""
    start = 0
    for target in targets:
        chunk = store.snapshot().chunks(torch.tensor([[start]]), 50)[0, 0]
        assert store.snapshot().tokens(chunk[chunk >= 0]).tolist() == target
        start += len(target)
    eos = tiny.seq2seq.eos_ids[0]
    chunk = store.snapshot().chunks(torch.arange(len(store))[None], 50)[0]
    inner = torch.where(chunk >= 0, store.snapshot().tokens(chunk), -1)
    assert bool(((inner == eos).sum(dim=1) == 1).all())


def test_the_chunk_of_no_entry_is_empty(store: Datastore) -> None:
    assert store.snapshot().chunks(torch.tensor([[-1, 0]]), 3)[0, 0].tolist() == [-1, -1, -1]
    assert store.snapshot().tokens(torch.tensor([-1])).shape == (1,)


def test_pair_of_every_entry(store: Datastore, targets: list[list[int]]) -> None:
    owners = [pair.target for pair, target in zip(make_pairs(24, seed=6), targets, strict=True) for _ in target]
    assert [store.snapshot().pair_of(entry).target for entry in range(len(store))] == owners
    with pytest.raises(IndexError):
        store.snapshot().pair_of(len(store))


@pytest.mark.parametrize("numbers", [[], [0], [23, 0, 5, 6, 5], list(range(24))])
def test_entries_of_pairs_one_after_the_other(numbers: list[int], store: Datastore, targets: list[list[int]]) -> None:
    entries = store.snapshot().entries
    found = entries.of_pairs_each(torch.tensor([numbers], dtype=torch.long))[0]
    assert entries.tokens(found).tolist() == [token for number in numbers for token in targets[number]]
    assert entries.pair_numbers(found).tolist() == [number for number in numbers for _ in targets[number]]


def test_entries_of_pairs_of_several_sentences(store: Datastore, targets: list[list[int]]) -> None:
    """Of unequal length, with none among them or at all, and a pair twice."""
    entries = store.snapshot().entries
    number_SP = [[3, -1, 0, 23], [-1] * 4, [5, 5, -1, -1], [-1, -1, 22, 6]]
    found = entries.of_pairs_each(torch.tensor(number_SP))
    wanted = [[number for number in numbers if number >= 0] for numbers in number_SP]
    lengths = [sum(len(targets[number]) for number in numbers) for numbers in wanted]
    assert found.shape == (4, max(lengths)) and 0 in lengths
    for row, numbers, length in zip(found, wanted, lengths, strict=True):
        assert row[length:].tolist() == [-1] * (max(lengths) - length)
        assert entries.tokens(row[:length]).tolist() == [token for number in numbers for token in targets[number]]
        assert torch.equal(row[:length], torch.cat([row[:0], *(entries.of_pair(number) for number in numbers)]))


def test_entries_of_no_pairs(store: Datastore, tiny: TranslationModel, tmp_path: Path) -> None:
    entries = store.snapshot().entries
    assert entries.of_pairs_each(torch.zeros(3, 0, dtype=torch.long)).shape == (3, 0)
    assert entries.of_pairs_each(torch.full((3, 2), -1)).shape == (3, 0)
    empty = Datastore.build(tmp_path / "store", [], tiny).snapshot().entries
    assert empty.of_pairs_each(torch.full((2, 1), -1)).shape == (2, 0)
    assert empty.of_pairs_each(torch.full((2, 1), -1)).dtype == torch.long


def test_keys_by_number_in_any_order_and_width(store: Datastore) -> None:
    every = all_keys(store)
    place = torch.randperm(len(store), generator=torch.Generator().manual_seed(0))
    assert torch.equal(store.snapshot().keys(place, 16), every[place])
    assert torch.equal(store.snapshot().keys(place, 5), every[place][:, :5])


def test_an_empty_store_has_empty_chunks(tiny: TranslationModel, tmp_path: Path) -> None:
    empty = Datastore.build(tmp_path / "store", [], tiny)
    assert empty.snapshot().chunks(torch.full((2, 3), -1), 4).tolist() == [[[-1] * 4] * 3] * 2
    assert empty.snapshot().tokens(torch.tensor([[-1]])).tolist() == [[0]]
    assert empty.snapshot().chunks(torch.full((2, 3), -1), 4).dtype == torch.long


# Models that do not fit.


def test_another_model_is_refused_naming_both(tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path) -> None:
    other = load_model(ModelConfig(model=str(tiny_marian_folder(tmp_path, seed=1)), device="cpu"))
    before = tiny_store.snapshot().identity
    for use in (lambda: tiny_store.add(make_pairs(1), other), lambda: Translator(other, tiny_store)):
        with pytest.raises(DatastoreError) as caught:
            use()
        for part in (tiny.name, tiny.fingerprint, other.name, other.fingerprint):
            assert part in str(caught.value)
    assert tiny_store.snapshot().identity == before == Datastore.open(tiny_store.path).snapshot().identity


def test_another_direction_is_refused_naming_both(tiny: TranslationModel, tiny_store: Datastore) -> None:
    codec = copy.copy(tiny.codec)
    codec.target_lang = "fr"
    with pytest.raises(DatastoreError, match="translates de to en, the model de to fr"):
        tiny_store.check_model(replace(tiny, codec=codec))


@pytest.fixture(scope="module")
def feed_forward(tiny_folder: Path) -> TranslationModel:
    return load_model(ModelConfig(model=str(tiny_folder), device="cpu", key_layer="feed-forward"))


def test_another_key_layer_is_refused(feed_forward: TranslationModel, tiny_store: Datastore) -> None:
    with pytest.raises(DatastoreError, match="has keys of layer 'output'"):
        tiny_store.check_model(feed_forward)


def test_another_key_layer_is_refused_naming_both(feed_forward: TranslationModel, tiny_store: Datastore) -> None:
    with pytest.raises(DatastoreError, match=r"'output'.*'feed-forward'"):
        tiny_store.check_model(feed_forward)


def test_the_same_model_from_another_folder_is_accepted(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    other = load_model(ModelConfig(model=str(tiny_marian_folder(tmp_path)), device="cpu"))
    assert other.name != tiny.name
    tiny_store.check_model(other)


def test_pair_of_is_the_pair(tiny_store: Datastore) -> None:
    first: Pair = next(tiny_store.pairs())
    assert tiny_store.snapshot().pair_of(0) == first and first.id
