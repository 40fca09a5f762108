"""The datastore as methods and users see it: a database of pairs, and the source of neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

import torch

from nearmt.config.store import StoreConfig
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.log import Added, Deleted
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.edit.build import BuildConfig, build
from nearmt.datastore.edit.editor import Editor
from nearmt.datastore.edit.opened import Opened
from nearmt.datastore.memory import Memory
from nearmt.datastore.search.bounds import check_bounds
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from nearmt.timing import timed


class Datastore(Memory):
    """A translation memory as decoder states: build or open it, edit it, search it.

    What `add`, `update` and `delete` returned for is on disk, and seen by every translation that starts afterwards.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @classmethod
    def open(cls, path: str | Path, *, search: str = "auto", device: str = "cpu", verify: bool | None = None) -> Self:
        """Open a finished datastore; its files are checked, byte by byte unless they are large (or `verify`)."""
        StoreConfig(nominate=search)
        with timed("store/open"):
            return cls(Opened(Path(path), search, torch.device(device), verify))

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
        return self._opened.path

    @property
    def manifest(self) -> Manifest:
        return self._opened.manifest

    @property
    def device(self) -> torch.device:
        return self._opened.device

    # Editing

    def add(
        self, pairs: Iterable[Pair], model: TranslationModel | None = None, progress: Progress | None = None
    ) -> int:
        """Add pairs and return how many; one whose id is known takes the place of the old one.

        Without a model they are only logged: safe, and found once somebody with a model catches up.
        """
        if model is not None:
            self.check_model(model)
        editor, added = Editor(self._opened), 0
        with editor.changing():
            for block in blocks_of(with_ids(pairs, lambda known: self._opened.content.find(known) is not None)):
                editor.log([Added(pair) for pair in block])
                if model is None:
                    self._opened.publish()
                else:
                    editor.take_in(model, _behind(added, progress))
                added += len(block)
        return added

    def update(self, identity: str, target: str, model: TranslationModel | None = None) -> Pair:
        """Give a pair another target, and return the pair as it is now."""
        changed: list[Pair] = []

        def change() -> Iterator[Pair]:
            # Asked for by `add` when nobody else can change it.
            self._opened.content.check_known([identity], self.path)
            known = self._opened.content.find(identity)
            assert known is not None
            changed.append(replace(known, target=target))
            yield from changed

        self.add(change(), model)
        return changed[0]

    def delete(self, ids: Iterable[str]) -> int:
        """Delete pairs and return how many. Their text is gone from disk after `compact`."""
        wanted = tuple(dict.fromkeys(ids))
        editor = Editor(self._opened)
        with editor.changing():
            self._opened.content.check_known(wanted, self.path)
            if wanted:
                editor.log([Deleted(wanted)])
                self._opened.publish()
        return len(wanted)

    def compact(self, model: TranslationModel | None = None, index: str = "auto") -> None:
        """Make one segment of all, without what was deleted; with a model, the weight is measured anew."""
        editor = Editor(self._opened)
        with editor.changing():
            if model is not None:
                self.check_model(model)
                editor.take_in(model)
            editor.compact(index, model)

    @property
    def held(self) -> int:
        """Pairs in their latest version, those that wait for a model among them."""
        return self._opened.content.count

    @property
    def pending(self) -> int:
        """Pairs that are in the log and wait for a model to be found by searches."""
        return len(self._opened.content.waiting())

    def catch_up(self, model: TranslationModel, progress: Progress | None = None) -> int:
        """Encode the pairs that wait for a model, and return how many those were."""
        self.check_model(model)
        editor = Editor(self._opened)
        with editor.changing():
            waiting = self.pending
            editor.take_in(model, _behind(0, progress))
        return waiting

    def refresh(self) -> bool:
        """See what other processes did to the store; whether there was anything."""
        return self._opened.refresh()

    def check_model(self, model: TranslationModel) -> None:
        """Refuse a model whose states are not those of this store, naming both."""
        check_model(self.path, self.manifest, model)
        check_bounds(self.path, self.snapshot().segments, self._opened.reduction, model)

    def snapshot(self) -> Snapshot:
        return self._opened.now

    @property
    def cleaning(self) -> str:
        return self.manifest.cleaning


def check_model(store: Path, mine: Manifest, model: TranslationModel) -> None:
    """Refuse a model whose states are not those of a store, naming both."""
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


def _behind(start: int, progress: Progress | None) -> Callable[[int], None] | None:
    """Progress within a block as progress of the whole, whose size is not known."""
    return (lambda done: progress(start + done, 0)) if progress else None
