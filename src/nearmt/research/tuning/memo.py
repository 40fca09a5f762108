"""A model that caches what does not depend on the settings: source tokens and encoder states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from nearmt.models import DecoderState, Seq2SeqModel, TextCodec, TranslationModel

#: Capacity for encoder states in bytes; further ones are not cached.
_CAPACITY = 2 << 30


class MemoEncoder:
    """Caches encoder states by batch; delegates everything else to the model."""

    def __init__(self, model: Seq2SeqModel, capacity: int = _CAPACITY) -> None:
        self._inner, self._capacity = model, capacity
        self._states: dict[tuple[tuple[int, ...], ...], DecoderState] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def encode(self, sources: Sequence[Sequence[int]]) -> DecoderState:
        batch = tuple(tuple(source) for source in sources)
        known = self._states.get(batch)
        if known is None:
            known = self._inner.encode(sources)
            size = known.encoded_SFH.nbytes + known.mask_SF.nbytes
            if size > self._capacity:
                return known
            self._capacity -= size
            self._states[batch] = known
        # Beam search modifies the mask and the lengths, so it gets copies.
        return type(known)(known.encoded_SFH, known.mask_SF.clone(), list(known.source_lengths))


class MemoCodec:
    """Caches source tokens; delegates everything else to the codec."""

    def __init__(self, codec: TextCodec) -> None:
        self._inner = codec
        self._ids: dict[str, list[int]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def source_ids(self, text: str) -> list[int]:
        if text not in self._ids:
            self._ids[text] = self._inner.source_ids(text)
        return list(self._ids[text])


def with_memo(model: TranslationModel) -> TranslationModel:
    """Wrap a model for translating the same dev set many times."""
    seq2seq, codec = MemoEncoder(model.seq2seq), MemoCodec(model.codec)
    return replace(model, seq2seq=cast(Seq2SeqModel, seq2seq), codec=cast(TextCodec, codec))
