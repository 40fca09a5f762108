"""Building a datastore from pairs.

The store is written to `DIR/building` and becomes the content of DIR when it is complete. Pairs are encoded and
written block by block, so memory use does not grow with the corpus; an interrupted build continues behind its last
block when the same build is started again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nearmt import __version__
from nearmt.config import Config, option
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk import Calibration, FileRecord, Manifest, Segment, SegmentRecord, SegmentWriter
from nearmt.datastore.disk.content import deleted_mask
from nearmt.datastore.disk.file_names import segment_name
from nearmt.datastore.disk.files import LOCK, WriterLock, writer_lock
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.manifest import FILE_NAME, missing_manifest, reduction_name
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.disk.recovery import recover
from nearmt.datastore.disk.replacement import make_folder, publish, remove_unused
from nearmt.datastore.edit.encode import encode_block, fitting_sample
from nearmt.datastore.edit.pretrained import pretrained_reduction
from nearmt.datastore.edit.tokens import marks_of
from nearmt.datastore.search.calibrate import expected, measured
from nearmt.datastore.search.indexing import check_factory, index_segments
from nearmt.datastore.search.snapshot import Part, Snapshot
from nearmt.errors import ConfigError, DatastoreError, OutputError, writing
from nearmt.models import TranslationModel
from nearmt.models.naming import recorded_name
from nearmt.opening import BUILDING
from nearmt.reduction import Reduction

#: Key columns that the neighbours' cache compares by default; the store is calibrated for them.
CACHE_COLUMNS = 64
#: Number of pairs, from the beginning of the corpus, on which a reduction is fitted if the model has none.
_FITTING_PAIRS = 4096


@dataclass(frozen=True)
class BuildConfig(Config):
    """How a datastore is built."""

    index: str = option("auto", "exact, or a FAISS factory string such as IVF1024,SQ8 (default: by size)")
    fit_reduction: bool = option(False, "fit the PCA on these pairs even if the model comes with one")
    reduction_of: str | None = option(None, "take the PCA of this datastore, to search both together")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fit_reduction and self.reduction_of is not None:
            raise ConfigError("fit-reduction makes a new PCA, reduction-of takes an existing one; give one of them")


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
) -> Manifest:
    """Build the datastore `path` and return its manifest."""
    check_free(path, overwrite)
    check_factory(config.index, model.seq2seq.hidden_size)
    # A `PairStream` knows its cleaning rules; other pairs are taken as they are.
    if cleaning is None:
        cleaning = str(getattr(pairs, "signature", ""))
    make_folder(path)
    with writer_lock(path) as lock:
        check_free(path, overwrite)  # another build may have finished in between
        manifest = build_locked(lock, pairs, model, config, cleaning, progress, allow_empty)
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
) -> Manifest | None:
    """Build a store from pairs and make it the content of the locked folder; None if there are no pairs."""
    work = lock.folder / BUILDING
    identified = with_ids(pairs)
    reduction, identified = _reduction_for(model, identified, config)
    writer = SegmentWriter(work / segment_name(1), build_settings(model, reduction))
    write_pairs(writer, identified, model, reduction, progress)
    if not writer.pairs and not allow_empty:
        shutil.rmtree(work)
        return None
    sealed = [writer.seal()] if writer.pairs else []
    records = index_segments(work, sealed, reduction.columns, config.index)
    return publish(work, lock.folder, _manifest_of(work, model, reduction, records, cleaning), lock)


def write_pairs(
    writer: SegmentWriter,
    pairs: Iterator[Pair],
    model: TranslationModel,
    reduction: Reduction,
    progress: Progress | None = None,
) -> None:
    """Encode and append all pairs that the writer has not written yet."""
    reduction = reduction.to(model.seq2seq.device)
    for block in blocks_of(writer.keep_common(pairs)):
        kept, keys, tokens, sources, words, too_long = [], [], [], [], [], 0
        for unit in encode_block(model, block, reduction, _from(writer.pairs, progress)):
            kept.append(unit.pair)
            tokens.append(unit.tokens)
            sources.append(unit.source)
            words.append(unit.word_T)
            too_long += unit.key_TD is None
            if unit.key_TD is not None:
                keys.append(unit.key_TD.numpy())
        writer.append(kept, keys, tokens, sources, too_long, words)


def _from(start: int, progress: Progress | None) -> Callable[[int], None] | None:
    """Report progress within a block as progress of the whole."""
    return (lambda done: progress(start + done, 0)) if progress else None


def _manifest_of(
    folder: Path, model: TranslationModel, reduction: Reduction, records: list[SegmentRecord], cleaning: str
) -> Manifest:
    """Write the reduction, and make the manifest of a folder that is otherwise complete."""
    with writing(folder):
        reduction.save(folder / reduction_name(reduction.identity))
    source_lang, target_lang = model.language_pair
    manifest = Manifest(
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
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        cleaning=cleaning,
        marks=marks_of(model),
    )
    return calibrated(folder, manifest, reduction, records, model)


def calibrated(
    folder: Path,
    manifest: Manifest,
    reduction: Reduction,
    records: list[SegmentRecord],
    model: TranslationModel | None = None,
) -> Manifest:
    """The manifest with these segments and a new calibration; without a model, `likely_weight` is kept."""
    manifest = replace(manifest, segments=tuple(records))
    return replace(manifest, calibration=calibrate(folder, manifest, reduction, model))


def calibrate(folder: Path, manifest: Manifest, reduction: Reduction, model: TranslationModel | None) -> Calibration:
    """Calibrate the sealed segments that a manifest names."""
    device = torch.device("cpu") if model is None else model.seq2seq.device
    segments = [Segment(folder / record.name, record, reduction.columns) for record in manifest.segments]
    parts = [Part(segment, device, "auto") for segment in segments]
    visible = [~deleted_mask(segment) for segment in segments]
    columns = cache_columns_of(reduction)
    store = Snapshot(
        manifest.identity,
        parts,
        reduction.to(device),
        manifest.calibration,
        columns,
        device,
        np.concatenate(visible) if visible else None,
    )
    return measured(store, manifest.calibration, columns, mean_recall(manifest.segments), model)


def mean_recall(records: Sequence[SegmentRecord]) -> float | None:
    """Mean recall of all approximate indexes; None if all are exact."""
    recalls = [(record.index["recall"], record.kept) for record in records if "recall" in record.index]
    return sum(recall * n for recall, n in recalls) / sum(n for _, n in recalls) if recalls else None


def cache_columns_of(reduction: Reduction) -> int:
    """Columns that the cache compares; all of them for unreduced states, which are not ordered by variance."""
    return min(CACHE_COLUMNS, reduction.columns) if reduction.fitted else reduction.columns


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


def _reduction_for(
    model: TranslationModel, pairs: Iterator[Pair], config: BuildConfig
) -> tuple[Reduction, Iterator[Pair]]:
    """The model's own reduction, or one fitted on the first pairs; the identity if these are too few."""
    known = None if config.fit_reduction else pretrained_reduction(model)
    if config.reduction_of is not None:
        known = _reduction_of(Path(config.reduction_of), model)
    if known is not None:
        return known, pairs
    first = list(islice(pairs, _FITTING_PAIRS))
    sample = fitting_sample(model, first)
    reduction = Reduction.fit(sample) if sample.enough else Reduction.identity_of(model.seq2seq.hidden_size)
    return reduction, chain(first, pairs)


def _reduction_of(path: Path, model: TranslationModel) -> Reduction:
    """The reduction of another store of the same model."""
    manifest = Manifest.load(path)
    if (manifest.fingerprint, manifest.key_layer) != (model.fingerprint, model.key_layer):
        raise DatastoreError(
            f"{path}: built with model '{manifest.model}' (layer {manifest.key_layer}), not with '{model.name}' "
            f"(layer {model.key_layer}); its reduction does not fit"
        )
    return Reduction.load(path / manifest.reduction_name)


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
