"""Cached tokens and encoder states do not change translations."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.models import DecoderState, TranslationModel
from nearmt.research.tuning.memo import MemoEncoder, with_memo
from nearmt.translator import Translator

SOURCES = ["die pumpe prüfen", "der motor und die welle", "ventil", "das ventil vor der pumpe öffnen und prüfen"]
BEAM = BeamConfig(beams=3, max_new_tokens=10)


@pytest.fixture
def encoded(tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that the model encodes."""
    sizes: list[int] = []
    encode = tiny.seq2seq.encode

    def counting(sources: Sequence[Sequence[int]]) -> DecoderState:
        sizes.append(len(sources))
        return encode(sources)

    monkeypatch.setattr(tiny.seq2seq, "encode", counting)
    return sizes


def test_sources_are_encoded_once_with_equal_translations(
    tiny: TranslationModel, tiny_store: Datastore, encoded: list[int]
) -> None:
    memo = with_memo(tiny)
    systems = [("plain", {}), ("knn", {"lambda": 0.7}), ("chunk", {"lambda": 0.3}), ("chunk", {"cache-lambda": 0.9})]
    expected = []
    for method, settings in systems:
        store = None if method == "plain" else tiny_store
        expected.append(Translator(tiny, store, method, settings, BEAM, 2).translate(SOURCES))
    assert encoded == [2, 2] * 4
    encoded.clear()
    for (method, settings), without in zip(systems, expected, strict=True):
        store = None if method == "plain" else tiny_store
        translator = Translator(memo, store, method, settings, BEAM, 2)
        assert translator.translate(SOURCES) == without
        assert translator.signature() == Translator(tiny, store, method, settings, BEAM, 2).signature()
    assert encoded == [2, 2]


def test_sources_are_tokenised_once(tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> None:
    memo = with_memo(tiny)
    tokenised: list[str] = []
    source_ids = tiny.codec.source_ids

    def counting(text: str) -> list[int]:
        tokenised.append(text)
        return source_ids(text)

    monkeypatch.setattr(tiny.codec, "source_ids", counting)
    for _ in range(3):
        Translator(memo, beam=BEAM).translate(SOURCES)
    assert sorted(tokenised) == sorted(SOURCES)
    memo.codec.source_ids(SOURCES[0]).append(99)
    assert memo.codec.source_ids(SOURCES[0]) == source_ids(SOURCES[0])


def test_batches_beyond_the_capacity_are_encoded_again(tiny: TranslationModel, encoded: list[int]) -> None:
    model = MemoEncoder(tiny.seq2seq, capacity=0)
    first, second = (model.encode([[3, 4, 0]]) for _ in range(2))
    assert torch.equal(first.encoded_SFH, second.encoded_SFH) and encoded == [1, 1]


def test_states_are_cached_by_batch(tiny: TranslationModel, encoded: list[int]) -> None:
    model = MemoEncoder(tiny.seq2seq)
    for batch in ([[3, 0]], [[3, 0], [4, 0]], [[4, 0], [3, 0]], [[3, 0]]):
        model.encode(batch)
    assert encoded == [1, 2, 2]
