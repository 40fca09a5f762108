"""Calibrating the sealed segments of a store, in place or before they become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from nearmt.datastore.disk import Calibration, Manifest, Segment, SegmentRecord
from nearmt.datastore.disk.content import deleted_mask
from nearmt.datastore.search.calibrate import measured
from nearmt.datastore.search.snapshot import Part, Snapshot
from nearmt.models import TranslationModel
from nearmt.reduction import Reduction

#: Key columns that the neighbours' cache compares by default; the store is calibrated for them.
CACHE_COLUMNS = 64


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
    if len({recall for recall, _ in recalls}) < 2:
        return float(recalls[0][0]) if recalls else None  # exactly, without rounding
    return float(sum(recall * n for recall, n in recalls) / sum(n for _, n in recalls))


def cache_columns_of(reduction: Reduction) -> int:
    """Columns that the cache compares; all of them for unreduced states, which are not ordered by variance."""
    return min(CACHE_COLUMNS, reduction.columns) if reduction.fitted else reduction.columns
