"""A model that remembers what does not depend on the settings: source tokens and encoder states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from nearmt.models import DecoderState, Seq2SeqModel, TextCodec, TranslationModel

#: Encoder states kept, in bytes; what does not fit is computed again.
_ROOM = 2 << 30


class MemoEncoder:
    """Encodes a batch once. Everything else is the model's."""

    def __init__(self, model: Seq2SeqModel, room: int = _ROOM) -> None:
        self._inner, self._room = model, room
        self._states: dict[tuple[tuple[int, ...], ...], DecoderState] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def encode(self, sources: Sequence[Sequence[int]]) -> DecoderState:
        batch = tuple(tuple(source) for source in sources)
        known = self._states.get(batch)
        if known is None:
            known = self._inner.encode(sources)
            size = known.encoded_SFH.nbytes + known.mask_SF.nbytes
            if size > self._room:
                return known
            self._room -= size
            self._states[batch] = known
        # What a search makes of a state, it makes of copies.
        return type(known)(known.encoded_SFH, known.mask_SF.clone(), list(known.source_lengths))


class MemoCodec:
    """Tokenises a source once. Everything else is the codec's."""

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
    """The same model; for one dev set, translated many times."""
    seq2seq, codec = MemoEncoder(model.seq2seq), MemoCodec(model.codec)
    return replace(model, seq2seq=cast(Seq2SeqModel, seq2seq), codec=cast(TextCodec, codec))
