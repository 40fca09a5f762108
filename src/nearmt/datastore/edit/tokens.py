"""The tokens of a pair as a datastore has them: protected spans are marks, as in translating."""

from __future__ import annotations

from collections.abc import Sequence

from nearmt.contracts import Pair
from nearmt.corpus.marks import MARKS, marked_as
from nearmt.models import TranslationModel
from nearmt.models.codec import TextCodec


def marks_of(model: TranslationModel) -> str:
    """How a datastore of the model marks spans."""
    return MARKS if model.writes_marks else ""


def tokens_of(codec: TextCodec, pair: Pair, marks: str) -> tuple[list[int], list[int]]:
    """Source and target tokens; `marks` is the store's way of marking spans, empty for none."""
    source = marked_as(marks, pair.source)
    return codec.source_ids(source.text), codec.target_ids(source.target(pair.target))


def tokens_of_all(codec: TextCodec, pairs: Sequence[Pair], marks: str) -> list[tuple[list[int], list[int]]]:
    """`tokens_of` for many pairs."""
    sources = [marked_as(marks, pair.source) for pair in pairs]
    targets = [source.target(pair.target) for source, pair in zip(sources, pairs, strict=True)]
    source_ids, target_ids = codec.source_batch([source.text for source in sources]), codec.target_batch(targets)
    return list(zip(source_ids, target_ids, strict=True))
