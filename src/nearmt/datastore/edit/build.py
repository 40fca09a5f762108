"""Building a datastore from pairs.

The store is written to `DIR/building` and becomes the content of DIR when it is complete. Pairs are encoded and
written block by block, so memory use does not grow with the corpus; an interrupted build continues behind its last
block when the same build is started again.
"""

from __future__ import annotations

import contextvars
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nearmt import __version__
from nearmt.config.building import BuildConfig
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk import FileRecord, Manifest, PairBlock, SegmentWriter
from nearmt.datastore.disk.file_names import segment_name
from nearmt.datastore.disk.files import LOCK, WriterLock, writer_lock
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.manifest import FILE_NAME, missing_manifest, reduction_name
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.disk.recovery import recover
from nearmt.datastore.disk.replacement import make_folder, publish, remove_unused
from nearmt.datastore.edit.adapting import write_adapter
from nearmt.datastore.edit.calibrating import cache_columns_of, calibrated
from nearmt.datastore.edit.encode import EncodedBlock, encode_blocks
from nearmt.datastore.edit.reductions import reduction_for
from nearmt.datastore.edit.tokens import marks_of
from nearmt.datastore.search.calibrate import expected
from nearmt.datastore.search.index_store import Indexing, check_index, index_store, release_rows
from nearmt.errors import DatastoreError, OutputError, writing
from nearmt.models import TranslationModel
from nearmt.models.naming import recorded_name
from nearmt.opening import BUILDING
from nearmt.reduction import Reduction
from nearmt.timing import timed


def build(
    path: Path,
    pairs: Iterable[Pair],
    model: TranslationModel,
    config: BuildConfig,
    *,
    overwrite: bool = False,
    allow_empty: bool = False,
    cleaning: str | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> Manifest:
    """Build the datastore `path` and return its manifest; `tell` is told what is waited for at the end."""
    check_free(path, overwrite)
    check_index(indexing_of(config), model.seq2seq.hidden_size)
    # A `PairStream` knows its cleaning rules; other pairs are taken as they are.
    if cleaning is None:
        cleaning = str(getattr(pairs, "signature", ""))
    make_folder(path)
    with writer_lock(path) as lock:
        check_free(path, overwrite)  # another build may have finished in between
        manifest = build_locked(lock, pairs, model, config, cleaning, progress, allow_empty, tell=tell)
        if manifest is None:
            remove_unused(path)
            raise DatastoreError("the corpus has no pairs: nothing to build from")
    return manifest


def build_locked(
    lock: WriterLock,
    pairs: Iterable[Pair],
    model: TranslationModel,
    config: BuildConfig,
    cleaning: str,
    progress: Progress | None = None,
    allow_empty: bool = True,
    shard: dict[str, Any] | None = None,
    tell: Callable[[str], None] | None = None,
    known: int | None = None,
) -> Manifest | None:
    """Build a store from pairs and make it the content of the locked folder; None if there are no pairs.

    A `shard` is neither indexed nor calibrated: that needs all parts of the corpus. `known`: how many of the pairs are
    older than the model's adapter; None for all.
    """
    work = lock.folder / BUILDING
    identified = with_ids(pairs)
    reduction, identified = reduction_for(model, identified, config)
    writer = SegmentWriter(work / segment_name(1), build_settings(model, reduction))
    write_pairs(writer, identified, model, reduction, progress)
    if not writer.pairs and not allow_empty:
        shutil.rmtree(work)
        return None
    manifest = replace(new_manifest(work, model, reduction, cleaning), keep_replaced=config.keep_replaced)
    if model.adapter is not None:
        older = writer.pairs if known is None else min(known, writer.pairs)
        manifest = replace(manifest, adapter=write_adapter(work, model.adapter, older))
    sealed = (writer.seal(),) if writer.pairs else ()
    if shard is None:
        records = index_store(work, manifest, sealed, indexing_of(config, tell))
        manifest = calibrated(work, manifest, reduction, records, model)
    else:
        manifest = replace(manifest, segments=sealed, shard=shard)
    return replace_content(work, lock, manifest)


def indexing_of(config: BuildConfig, tell: Callable[[str], None] | None = None) -> Indexing:
    """The index that is asked for."""
    return Indexing(config.index, config.index_patience, tell or (lambda _: None))


def replace_content(work: Path, lock: WriterLock, manifest: Manifest) -> Manifest:
    """Make what is in `work` the content of a locked folder; what the old content had on a server is removed there."""
    before = Manifest.load(lock.folder).segments if (lock.folder / FILE_NAME).is_file() else ()
    published = publish(work, lock.folder, manifest, lock)
    release_rows(lock.folder, before, published.segments)
    return published


def write_pairs(
    writer: SegmentWriter,
    pairs: Iterator[Pair],
    model: TranslationModel,
    reduction: Reduction,
    progress: Progress | None = None,
) -> None:
    """Encode and append all pairs that the writer has not written yet; a block is written while others are encoded."""
    left = writer.keep_common(pairs)
    start = writer.pairs
    told = (lambda done: progress(start + done, 0)) if progress else None
    encoded = encode_blocks(model, blocks_of(left), reduction.to(model.seq2seq.device), told)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, "nearmt-writer") as thread:
        written: Future[None] | None = None
        for block in encoded:
            if written is not None:
                with timed("build/wait for writer"):
                    written.result()
            written = thread.submit(context.run, _append, writer, block)
        if written is not None:
            written.result()


def _append(writer: SegmentWriter, block: EncodedBlock) -> None:
    forced, lines = block.prepared.forced, block.prepared.lines
    with timed("build/write"):
        writer.write(
            PairBlock(
                key_ND=block.key_ND.numpy(),
                token_N=forced.target.value_X,
                token_P=forced.target.length_R,
                line_L=lines.value_X,
                line_P=lines.length_R,
                source_S=forced.source.value_X,
                source_P=forced.source.length_R,
                digest_P=block.prepared.digest_P,
                word_N=block.word_N.numpy(),
            ),
            len(block.pairs) - int(block.prepared.fits_P.sum()),
        )


def new_manifest(folder: Path, model: TranslationModel, reduction: Reduction, cleaning: str) -> Manifest:
    """Write the reduction to a folder, and make the manifest of a store there that has no segments yet."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        reduction.save(folder / reduction_name(reduction.identity))
    source_lang, target_lang = model.language_pair
    return Manifest(
        model=recorded_name(model.name),
        fingerprint=model.fingerprint,
        source_lang=source_lang,
        target_lang=target_lang,
        key_layer=model.key_layer,
        precision=model.seq2seq.precision,
        columns=reduction.columns,
        cache_columns=cache_columns_of(reduction),
        reduction=reduction.identity,
        reduction_file=FileRecord.of(folder / reduction_name(reduction.identity)),
        calibration=expected(reduction, cache_columns_of(reduction)),
        segments=(),
        nearmt=__version__,
        created=now(),
        cleaning=cleaning,
        marks=marks_of(model),
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_free(path: Path, overwrite: bool) -> None:
    """Refuse to overwrite anything but a datastore, and a datastore only with `overwrite`."""
    recover(path)
    if not path.exists():
        return
    if (path / FILE_NAME).is_file():
        if not overwrite:
            raise OutputError(f"{path}: a datastore is already there; give --overwrite to replace it, or another --out")
    elif not path.is_dir() or not {inner.name for inner in path.iterdir()} <= {LOCK, BUILDING}:
        what = missing_manifest(path) if path.is_dir() else "not a datastore"
        raise OutputError(f"{path}: exists and is {what.partition(';')[0]}; name another folder")


def build_settings(model: TranslationModel, reduction: Reduction) -> dict[str, Any]:
    """Settings by which an unfinished build is recognised as the same build, and continued."""
    return {
        "nearmt": __version__,
        "fingerprint": model.fingerprint,
        "languages": list(model.language_pair),
        "key_layer": model.key_layer,
        "precision": model.seq2seq.precision,
        "reduction": reduction.identity,
    }
