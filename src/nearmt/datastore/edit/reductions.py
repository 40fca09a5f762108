"""Which reduction a new datastore gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from nearmt.config.building import BuildConfig
from nearmt.contracts import Pair
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.encode import fitting_sample
from nearmt.datastore.edit.pretrained import pretrained_reduction
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.reduction import Reduction

#: Number of pairs, from the beginning of the corpus, on which a reduction is fitted if the model has none.
_FITTING_PAIRS = 4096


def known_reduction(model: TranslationModel, config: BuildConfig) -> Reduction | None:
    """The reduction of the store that the settings name, or the model's own; None if one has to be fitted."""
    if config.reduction_of is not None:
        return _reduction_of(Path(config.reduction_of), model)
    return None if config.fit_reduction else pretrained_reduction(model)


def fitted_reduction(model: TranslationModel, pairs: Iterable[Pair]) -> Reduction:
    """A reduction fitted on the first pairs; the identity if these are too few."""
    sample = fitting_sample(model, islice(pairs, _FITTING_PAIRS))
    return Reduction.fit(sample) if sample.enough else Reduction.identity_of(model.seq2seq.hidden_size)


def reduction_for(
    model: TranslationModel, pairs: Iterator[Pair], config: BuildConfig
) -> tuple[Reduction, Iterator[Pair]]:
    """The reduction of a new store, and all pairs."""
    known = known_reduction(model, config)
    if known is not None:
        return known, pairs
    first = list(islice(pairs, _FITTING_PAIRS))
    return fitted_reduction(model, first), chain(first, pairs)


def _reduction_of(path: Path, model: TranslationModel) -> Reduction:
    """The reduction of another store of the same model."""
    manifest = Manifest.load(path)
    if (manifest.fingerprint, manifest.key_layer) != (model.fingerprint, model.key_layer):
        raise DatastoreError(
            f"{path}: built with model '{manifest.model}' (layer {manifest.key_layer}), not with '{model.name}' "
            f"(layer {model.key_layer}); its reduction does not fit"
        )
    return Reduction.load(path / manifest.reduction_name)
