"""The tokens of a pair as a datastore has them: protected spans are marks, as in translating."""

from __future__ import annotations

from nearmt.contracts import Pair
from nearmt.corpus.marks import MARKS, MarkedText, marked
from nearmt.models import TranslationModel
from nearmt.models.codec import TextCodec


def marks_of(model: TranslationModel) -> str:
    """How a datastore of the model marks spans."""
    return MARKS if model.writes_marks else ""


def tokens_of(codec: TextCodec, pair: Pair, marks: str) -> tuple[list[int], list[int]]:
    """Source and target tokens; `marks` is the store's way of marking spans, empty for none."""
    source = marked(pair.source) if marks else MarkedText(pair.source)
    return codec.source_ids(source.text), codec.target_ids(source.target(pair.target))
