"""Pairs of memories: reading, adding, correcting, deleting."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from tempfile import TemporaryFile
from typing import IO, Literal

from nearmt.contracts import Pair
from nearmt.corpus import clean
from nearmt.corpus.context import context_of
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import text_to
from nearmt.corpus.writers import WRITERS
from nearmt.datastore import Datastore
from nearmt.datastore.disk.ids import with_ids
from nearmt.errors import InputError
from nearmt.serve.errors import NotFound
from nearmt.serve.memories import Memories
from nearmt.serve.texts import check_text
from nearmt.serve.values import PairPage

ExportFormat = Literal["tmx", "tsv", "jsonl", "po"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = ("tmx", "tsv", "jsonl", "po")
#: Bytes of a file that is sent at a time.
_CHUNK = 1 << 16
#: Most pairs of a page, and most metadata of a pair.
MOST_PAIRS, MOST_METADATA = 1000, 100
_LONGEST_ID = 1000


def page(memories: Memories, name: str, query: str, offset: int, limit: int) -> PairPage:
    """Pairs whose source or target has a text, in corpus order."""
    if offset < 0 or not 0 <= limit <= MOST_PAIRS:
        raise InputError(f"offset must be at least 0, and limit between 0 and {MOST_PAIRS}")
    with memories.using(name) as store:
        found = store.snapshot().pairs_containing(query, offset, limit)
    return PairPage(found.pairs, found.total, found.complete)


def pair(memories: Memories, name: str, identity: str) -> Pair:
    with memories.using(name) as store:
        return _stored(store, name, identity)


def add(memories: Memories, name: str, pairs: Sequence[Pair]) -> list[Pair]:
    """Add pairs, or replace those with the same ids; they are on disk and used when this returns."""
    checked = [_checked(pair) for pair in pairs]
    model = memories.model(name)
    with memories.editing(name) as store:
        # The id of a pair without one is made of its text: one that is there already stays as it is.
        named = list(with_ids(checked))
        store.add(named, model, skip_unchanged=True)
    return named


def learn(memories: Memories, name: str, pair: Pair) -> Pair:
    """Add a corrected translation; without an id it replaces what was learnt for the same source and context before.

    If the memory's latest translation of this source is the same, there is nothing to learn.
    """
    return learn_and_tell(memories, name, pair)[0]


def learn_and_tell(memories: Memories, name: str, pair: Pair) -> tuple[Pair, Pair | None]:
    """Like `learn`; also return the pair that had this id before."""
    pair = _checked(pair)
    model = memories.model(name)
    with memories.editing(name) as store:
        snapshot = store.snapshot()
        if not pair.id:
            known = snapshot.exact(pair.source)
            if known is not None and clean(known.target) == pair.target and not pair.metadata:
                return known, known
            pair = replace(pair, id=_learnt_id(pair))
        number = snapshot.find(pair.id)
        before = None if number is None else snapshot.pair(number)
        store.add([pair], model)
    return pair, before


def update(memories: Memories, name: str, identity: str, target: str) -> Pair:
    """Give a pair a new target."""
    target = clean(check_text(target, "target"))
    if not target:
        raise InputError("a pair needs a target that is not empty")
    model = memories.model(name)
    with memories.editing(name) as store:
        _stored(store, name, identity)
        return store.update(identity, target, model)


def delete(memories: Memories, name: str, identity: str) -> None:
    with memories.editing(name) as store:
        _stored(store, name, identity)
        store.delete([identity])


def export(memories: Memories, name: str, format: ExportFormat) -> Iterator[bytes]:
    """All pairs of a memory as a file."""
    if format not in EXPORT_FORMATS:
        raise InputError(f"format '{str(format)[:40]}': must be one of {', '.join(EXPORT_FORMATS)}")
    file = TemporaryFile()  # noqa: SIM115  # closed when it is sent
    try:
        with memories.using(name) as store, text_to(file, Encoding(), name) as out:
            languages = store.manifest.source_lang, store.manifest.target_lang
            WRITERS[format](store.snapshot().pairs(), out, *languages)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return _chunks(file)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _stored(store: Datastore, name: str, identity: str) -> Pair:
    snapshot = store.snapshot()
    number = snapshot.find(check_text(identity, "id"))
    if number is None:
        raise NotFound(f"memory '{name}' has no pair '{identity[:100]}'")
    return snapshot.pair(number)


def _checked(pair: Pair) -> Pair:
    """A pair with clean texts; refuses what cannot be stored."""
    source, target = clean(check_text(pair.source, "source")), clean(check_text(pair.target, "target"))
    if not source or not target:
        raise InputError("a pair needs a source and a target that are not empty")
    if len(pair.id) > _LONGEST_ID or len(pair.metadata) > MOST_METADATA:
        raise InputError(f"an id has at most {_LONGEST_ID} characters, and a pair {MOST_METADATA} metadata")
    metadata = {check_text(key, "metadata"): check_text(value, "metadata") for key, value in pair.metadata.items()}
    return Pair(source, target, check_text(pair.id, "id"), check_text(pair.origin, "origin"), metadata)


def _learnt_id(pair: Pair) -> str:
    content = f"{pair.source}\t{context_of(pair.metadata)}".encode()
    return f"learnt-{hashlib.blake2b(content, digest_size=8).hexdigest()}"
