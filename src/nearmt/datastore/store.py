"""The datastore for users and translators: a database of pairs, and the source of neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import torch

from nearmt.config.building import BuildConfig
from nearmt.config.store import StoreConfig
from nearmt.contracts import Pair, Progress
from nearmt.corpus import Match
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.adapting import read_adapter
from nearmt.datastore.edit.build import build
from nearmt.datastore.edit.editor import Editor, editing
from nearmt.datastore.edit.open_store import OpenStore
from nearmt.datastore.live_store import LiveStore
from nearmt.datastore.search.checks import check_bounds
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.errors import DatastoreError, warn_renamed
from nearmt.index.milvus import RemoteUse
from nearmt.models import Adapter, TranslationModel
from nearmt.timing import timed


class Datastore(LiveStore):
    """A translation memory as decoder states: build or open it, edit it, search it.

    When `add`, `update` or `delete` returns, the change is on disk and every later translation sees it.
    """

    def __init__(self, store: OpenStore) -> None:
        self._store = store

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        nominate: str = "auto",
        device: str = "cpu",
        verify: bool | None = None,
        search: str | None = None,
        remote: RemoteUse | None = None,
    ) -> Self:
        """Open a finished datastore.

        `nominate`: what proposes the candidates of a search, like the setting of this name; `search` is its old name.
        `verify`: whether to compare checksums of all files; by default if the store has at most 1 GiB.
        `remote`: how the server of an index is used, if it has one.
        """
        if search is not None:
            warn_renamed("Datastore.open(search=...)", "nominate")
            nominate = search
        StoreConfig(nominate=nominate)
        with timed("store/open"):
            return cls(OpenStore(Path(path), nominate, torch.device(device), verify, remote))

    @classmethod
    def build(
        cls,
        path: str | Path,
        pairs: Iterable[Pair],
        model: TranslationModel,
        config: BuildConfig | None = None,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Encode pairs with a model and write them as a datastore. An empty iterable makes an empty store."""
        build(
            Path(path),
            pairs,
            model,
            config or BuildConfig(),
            overwrite=overwrite,
            allow_empty=True,
            progress=progress,
        )
        return cls.open(path, device=str(model.seq2seq.device))

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def manifest(self) -> Manifest:
        return self._store.manifest

    @property
    def device(self) -> torch.device:
        return self._store.device

    @property
    def adapter(self) -> Adapter | None:
        """What is merged into the weights of its model; read from disk."""
        return read_adapter(self.path, self.manifest)

    @property
    def cleaning(self) -> str:
        return self.manifest.cleaning

    @property
    def marks(self) -> str:
        return self.manifest.marks

    def check_model(self, model: TranslationModel) -> None:
        """Refuse a model other than the one that computed the keys, naming both."""
        check_model(self.path, self.manifest, model)
        check_bounds(self.path, self.snapshot().segments, self._store.reduction, model)

    def refresh(self, *, wait: bool = True) -> bool:
        """Load changes that other processes made; returns whether there were any.

        Without `wait`, nothing is loaded while another thread changes the store.
        """
        return self._store.refresh(wait=wait)

    # Reading

    def snapshot(self) -> Snapshot:
        """The present content, as far as it was read: `refresh` reads on. A snapshot never changes. Its files stay for
        `manifest.keep_replaced` seconds after another process replaced them, so ask for a new one from time to time."""
        self._store.renew()
        return self._store.current

    def __len__(self) -> int:
        """The number of entries: one for every target token, deleted ones included until they are compacted."""
        return len(self.snapshot())

    def pairs(self) -> Iterator[Pair]:
        """All pairs that searches find, in corpus order."""
        return self.snapshot().pairs()

    def matches(self, source: str, limit: int = 3, threshold: float = 0.5) -> list[Match]:
        """The pairs with the most similar sources (fuzzy matches), best first."""
        return self.snapshot().matches(source, limit, threshold)

    # Editing

    def add(
        self,
        pairs: Iterable[Pair],
        model: TranslationModel | None = None,
        progress: Progress | None = None,
        *,
        skip_unchanged: bool = False,
    ) -> int:
        """Add pairs and return their number; a pair replaces the pair with its id.

        Without a model the pairs are logged only: they are on disk, and found once `catch_up` has encoded them.
        With `skip_unchanged`, pairs that the store already has exactly as they are, id included, are left out.
        """
        added = 0
        with self._editing(model) as editor:
            for block in editor.changes.add(pairs, skip_unchanged=skip_unchanged):
                self._make_visible(editor, model, _offset(progress, added))
                added += len(block)
        return added

    def update(self, identity: str, target: str, model: TranslationModel | None = None) -> Pair:
        """Give a pair a new target, and return the new pair."""
        with self._editing(model) as editor:
            pair = editor.changes.update(identity, target)
            self._make_visible(editor, model)
        return pair

    def delete(self, ids: Iterable[str]) -> int:
        """Delete pairs and return their number. Their text is removed from disk by `compact`."""
        with editing(self._store) as editor:
            deleted = editor.changes.delete(ids)
            if deleted:
                self._store.publish()
        return deleted

    def compact(
        self, model: TranslationModel | None = None, index: str = "auto", *, keep_replaced: int | None = None
    ) -> None:
        """Merge all segments into one without deleted pairs; with a model, calibrate the weight again.

        `keep_replaced`: for how many seconds files that are replaced stay on disk, for readers on other machines, from
        now on; 0 removes them at once.
        """
        with self._editing(model) as editor:
            if model is not None:
                editor.encode_pending(model)
            editor.compact(index, model, keep_replaced)

    @property
    def total_pairs(self) -> int:
        """Number of pairs in their latest version, pending ones included."""
        return self._store.content.pair_count

    @property
    def pending(self) -> int:
        """Number of pairs that are logged and not encoded yet, so searches do not find them."""
        return len(self._store.content.pending())

    def catch_up(self, model: TranslationModel, progress: Progress | None = None) -> int:
        """Encode the pending pairs and return their number."""
        with self._editing(model) as editor:
            pending = self.pending
            editor.encode_pending(model, _offset(progress, 0))
        return pending

    @contextmanager
    def _editing(self, model: TranslationModel | None) -> Iterator[Editor]:
        """Lock the store for changes, with a model that must be the store's."""
        with editing(self._store) as editor:
            if model is not None:
                self.check_model(model)  # under the lock: another process may have built the store again
            yield editor

    def _make_visible(
        self, editor: Editor, model: TranslationModel | None, progress: Callable[[int], None] | None = None
    ) -> None:
        """Encode what was logged, or without a model publish its effect on the pairs that are encoded."""
        if model is None:
            self._store.publish()
        else:
            editor.encode_pending(model, progress)


def check_model(store: Path, mine: Manifest, model: TranslationModel) -> None:
    """Refuse a model other than the one a store was built with, naming both."""
    if mine.adapter is not None and model.fingerprint == mine.adapter.base:
        raise DatastoreError(
            f"{store}: built with an adapter of model '{mine.model}' ({mine.adapter.identity}), which is not merged "
            "into this one: `load_model(config, store.adapter)` does it; "
            f"`nearmt adapt {store} --remove` takes the adapter out"
        )
    if model.fingerprint != mine.fingerprint:
        raise DatastoreError(
            f"{store}: built with model '{mine.model}' ({mine.fingerprint}), not with '{model.name}' "
            f"({model.fingerprint}); use --model {mine.model} or build the store again"
        )
    if model.language_pair != (mine.source_lang, mine.target_lang):
        raise DatastoreError(
            f"{store}: translates {mine.source_lang} to {mine.target_lang}, "
            f"the model {model.language_pair[0]} to {model.language_pair[1]}"
        )
    if model.key_layer != mine.key_layer:
        raise DatastoreError(
            f"{store}: has keys of layer '{mine.key_layer}', the model gives '{model.key_layer}'; "
            f"set key-layer={mine.key_layer}"
        )


def _offset(progress: Progress | None, start: int) -> Callable[[int], None] | None:
    """Report progress within a block as progress of the whole, whose size is unknown."""
    return (lambda done: progress(start + done, 0)) if progress else None
