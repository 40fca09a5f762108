"""Building one part of a corpus as a datastore of its own, which `merge_shards` joins with the others.

Every process reads the whole corpus and encodes only its part: N parts of about the same number of characters, in
corpus order. So ids, which count repetitions in the whole corpus, and cleaning rules are those of a single build, and
processes need nothing from each other but a reduction.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt.config.building import BuildConfig
from nearmt.config.shard import Shard
from nearmt.contracts import Pair, Progress
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.files import writer_lock
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.manifest import FILE_NAME
from nearmt.datastore.disk.replacement import make_folder, publish
from nearmt.datastore.edit.build import build_locked, check_free, new_manifest
from nearmt.datastore.edit.reductions import fitted_reduction, known_reduction
from nearmt.errors import ConfigError, DatastoreError
from nearmt.models import TranslationModel
from nearmt.opening import BUILDING


@dataclass(frozen=True)
class Corpus:
    """What all parts of a corpus have to agree on."""

    pairs: int
    characters: int
    #: Hash of all pairs, in order.
    digest: str

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Corpus:
        """Read a corpus once."""
        count, characters, content = 0, 0, hashlib.blake2b(digest_size=8)
        for count, pair in enumerate(pairs, 1):  # noqa: B007
            characters += len(pair.source) + len(pair.target)
            content.update(f"{pair.id}\0{pair.source}\0{pair.target}\0".encode(errors="surrogatepass"))
        return cls(count, characters, content.hexdigest())

    def part(self, pairs: Iterable[Pair], shard: Shard) -> Iterator[tuple[int, Pair]]:
        """The pairs of a part, numbered from 0 throughout the corpus, with ids."""
        before = 0
        for number, pair in enumerate(with_ids(pairs)):
            part = 1 + before * shard.count // max(1, self.characters)
            if part > shard.number:
                return
            if part == shard.number:
                yield number, pair
            before += len(pair.source) + len(pair.target)


def build_shard(
    path: Path,
    read: Callable[[], Iterable[Pair]],
    model: TranslationModel,
    shard: Shard,
    config: BuildConfig | None = None,
    *,
    corpus: Corpus | None = None,
    overwrite: bool = False,
    cleaning: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build one part of the corpus that `read` reads, as often as it is called; an interrupted build continues.

    Without `corpus`, the corpus is read once more to measure it.
    """
    config = config or BuildConfig()
    check_part(path, shard, overwrite)
    check_reduction(model, config, shard)
    cleaning = signature_of(read) if cleaning is None else cleaning
    corpus = corpus or Corpus.of(read())
    mark = {"number": shard.number, "count": shard.count, **dataclasses.asdict(corpus)}
    if finished := _finished(path, mark, model, config, cleaning, overwrite):
        return finished
    make_folder(path)
    with writer_lock(path) as lock:
        check_free(path, overwrite)
        first, part = _counted(corpus.part(read(), shard))
        manifest = build_locked(lock, part, model, config, cleaning, progress, shard={**mark, "first": first})
        assert manifest is not None
    return manifest


def signature_of(read: Callable[[], Iterable[Pair]]) -> str:
    """The cleaning rules of a reader of files; other pairs are taken as they are."""
    return str(getattr(read(), "signature", ""))


def check_part(path: Path, shard: Shard, overwrite: bool) -> None:
    """Refuse a folder with anything but this part of some corpus."""
    if overwrite or not (path / FILE_NAME).is_file():
        check_free(path, overwrite)
        return
    mark = Manifest.load(path).shard
    if mark is None or (mark["number"], mark["count"]) != (shard.number, shard.count):
        check_free(path, overwrite)


def _finished(
    path: Path, mark: dict[str, Any], model: TranslationModel, config: BuildConfig, cleaning: str, overwrite: bool
) -> Manifest | None:
    """The part, if it was built before from the same corpus in the same way. A damaged one is built again if it may be
    overwritten."""
    if not (path / FILE_NAME).is_file():
        return None
    manifest, reduction = Manifest.load(path), known_reduction(model, config)
    mine = model.fingerprint, model.key_layer, model.seq2seq.precision, cleaning
    same = mine == (manifest.fingerprint, manifest.key_layer, manifest.precision, manifest.cleaning)
    same = same and (reduction is None or reduction.identity == manifest.reduction)
    if not same or {**(manifest.shard or {}), **mark} != manifest.shard:
        return None
    try:
        shard_of(path, manifest)
        manifest.check_files(path)
    except DatastoreError:
        if overwrite:
            return None
        raise
    return manifest


def check_reduction(model: TranslationModel, config: BuildConfig, shard: Shard) -> None:
    """Refuse settings under which each part would fit a reduction of its own."""
    if shard.count > 1 and known_reduction(model, config) is None:
        raise ConfigError(
            f"shard = '{shard}': all shards need the same PCA; fit it once with `nearmt fit-reduction FILE --out DIR` "
            "and give --reduction-of DIR"
        )


def fit_reduction(
    path: Path, pairs: Iterable[Pair], model: TranslationModel, *, overwrite: bool = False, cleaning: str = ""
) -> Manifest:
    """Fit a reduction on the first pairs, as a build does, and make it that of a datastore without pairs."""
    check_free(path, overwrite)
    reduction = fitted_reduction(model, pairs)
    make_folder(path)
    with writer_lock(path) as lock:
        check_free(path, overwrite)
        manifest = new_manifest(path / BUILDING, model, reduction, cleaning)
        return publish(path / BUILDING, path, manifest, lock)


def shard_of(path: Path, manifest: Manifest) -> dict[str, Any]:
    """Which part of which corpus a datastore is; an error if it is none, or was changed since."""
    if manifest.shard is None:
        raise DatastoreError(f"{path}: is not a part of a corpus; `nearmt build --shard I/N` makes parts")
    if manifest.log is not None or any(record.deleted or record.pruned for record in manifest.segments):
        raise DatastoreError(f"{path}: was changed after it was built; merge parts first, then edit the datastore")
    return manifest.shard


def _counted(numbered: Iterator[tuple[int, Pair]]) -> tuple[int, Iterator[Pair]]:
    """The number of the first pair (0 if there is none), and all pairs."""
    first = next(numbered, None)
    if first is None:
        return 0, iter(())

    def pairs() -> Iterator[Pair]:
        yield first[1]
        for _, pair in numbered:
            yield pair

    return first[0], pairs()
