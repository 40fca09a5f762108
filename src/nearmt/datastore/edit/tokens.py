"""The tokens of a pair as a datastore has them: protected spans are marks, as in translating."""

from __future__ import annotations

from nearmt.contracts import Pair
from nearmt.corpus.marks import MARKS, MarkedText, marked
from nearmt.models.codec import TextCodec


def tokens_of(codec: TextCodec, pair: Pair, marks: str = MARKS) -> tuple[list[int], list[int]]:
    """Source and target tokens; `marks` is the store's way of marking spans, empty for none."""
    source = marked(pair.source) if marks else MarkedText(pair.source)
    return codec.source_ids(source.text), codec.target_ids(source.target(pair.target))
