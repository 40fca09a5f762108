"""Checks of a store before it is searched, and before it is used with a model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nearmt.datastore.disk import AnySegment, Segment
from nearmt.datastore.disk.array_checks import damaged
from nearmt.datastore.disk.manifest import VERIFIED_AT_OPENING
from nearmt.datastore.disk.segment import TOKEN
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.reduction import Reduction


def check_keys(segments: Iterable[AnySegment], verify: bool | None) -> None:
    """Refuse keys that are not finite; `verify` None: if the keys are not too large.

    Unchecked keys do no harm: an entry at an infinite distance is never found.
    """
    sealed = [segment for segment in segments if isinstance(segment, Segment)]
    if verify is None:
        verify = sum(segment.key_ND.nbytes for segment in sealed) <= VERIFIED_AT_OPENING
    for segment in sealed if verify else ():
        for damage in segment.key_damage():
            raise damaged(segment.folder / damage.file, damage.reason)


def check_bounds(store: Path, segments: Iterable[AnySegment], reduction: Reduction, model: TranslationModel) -> None:
    """Refuse tokens outside a model's vocabulary, and a reduction of states of another size."""
    size, vocabulary = len(reduction.mean_H), model.seq2seq.vocabulary
    if size != model.seq2seq.hidden_size:
        raise DatastoreError(
            f"{store}: reduces states of {size} numbers, those of '{model.name}' have {model.seq2seq.hidden_size}; "
            "build the store again"
        )
    for segment in segments:
        if segment.largest_token >= vocabulary:
            file = segment.folder / TOKEN if isinstance(segment, Segment) else store
            raise DatastoreError(
                f"{file}: has the token {segment.largest_token}, '{model.name}' knows {vocabulary} tokens; "
                "build the store again"
            )
