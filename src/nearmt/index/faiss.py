"""FAISS on the CPU, described by its factory string: Flat, IVF1024,SQ8, IVF4096,PQ64, HNSW32, ..."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearmt.errors import ConfigError, DatastoreError, MissingPackageError, OutputError

#: Below this an exact search is fast enough.
SMALL = 20_000
_BLOCK = 65_536
#: Candidates nominated per neighbour asked for: quantised codes blur the order, stored keys restore it.
_OVERSAMPLING = {"PQ": 16, "SQ": 2}


def import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingPackageError(
            "faiss is not installed: `pip install faiss-cpu`, or search with --search torch"
        ) from error
    # The default (128,000) keeps small batches of queries away from matrix products: twice as slow.
    faiss.cvar.distance_compute_blas_threshold = 20
    return faiss


def default_factory(entries: int) -> str:
    """The factory string for a store of this size: `exact` while that is fast enough."""
    if entries < SMALL:
        return "exact"
    lists = 2 ** round(math.log2(2 * math.sqrt(entries)))
    return f"IVF{lists},SQ8"


def make_index(factory: str, columns: int) -> Any:
    """An empty index; a string that FAISS does not know is refused."""
    with _refusing(factory, "not a factory string that FAISS knows"):
        return import_faiss().index_factory(columns, factory)


@contextmanager
def _refusing(factory: str, reason: str) -> Iterator[None]:
    """FAISS raises one kind of error for everything; the step that fails tells the reason."""
    try:
        yield
    except RuntimeError as error:
        raise ConfigError(f"index = {factory!r}: {reason}") from error


def _inner(index: Any) -> Any:
    """The index as what it really is."""
    return import_faiss().downcast_index(index)


class FaissIndex:
    """A trained FAISS index over all entries of a segment."""

    def __init__(self, index: Any, factory: str, effort: int = 0) -> None:
        self._index, self._factory = index, factory
        self.effort = effort
        self._oversampling = next((n for code, n in _OVERSAMPLING.items() if code in factory), 1)

    @classmethod
    def build(cls, key_ND: np.ndarray, factory: str) -> FaissIndex:
        found = cls(train(key_ND, factory), factory)
        found.effort = found.efforts[0] if found.efforts else 0
        found.fill(key_ND)
        return found

    def fill(self, key_ND: np.ndarray) -> None:
        """Add the entries, and see whether they can be searched as they will be."""
        entries, columns = key_ND.shape
        reason = "FAISS cannot search it with a mask; use Flat, IVF...,SQ8, IVF...,PQ... or HNSW..."
        with _refusing(self._factory, reason):
            for start in range(0, entries, _BLOCK):
                self._index.add(np.ascontiguousarray(key_ND[start : start + _BLOCK], dtype=np.float32))
            self.nominate(torch.zeros(1, columns), 1, torch.ones(entries, dtype=torch.bool))

    @property
    def efforts(self) -> list[int]:
        """Settings from fast to thorough: probed lists (IVF) or candidates (HNSW); empty for Flat."""
        lists = getattr(_inner(self._index), "nlist", 0)
        if lists:
            return [probe for probe in (8, 16, 32, 64, 128, 256) if probe < lists] + [lists]
        return [32, 64, 128, 256, 512] if "HNSW" in self._factory else []

    def describe(self) -> dict[str, Any]:
        """What `load` has to be told, for the manifest."""
        return {"kind": "faiss", "factory": self._factory, "effort": self.effort}

    def save(self, path: Path) -> None:
        write(self._index, path)

    @classmethod
    def load(cls, path: Path, description: dict[str, Any]) -> FaissIndex:
        return cls(read(path), description["factory"], description["effort"])

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        wanted = min(self.width(count), max(1, self._index.ntotal))
        # The parameters only point at the selector: it has to outlive the search.
        selector = None if allowed_N is None else selector_of(allowed_N)
        _, entry = self._index.search(as_queries(query_BD), wanted, params=self._parameters(selector, wanted))
        entry_BK = torch.from_numpy(entry).to(query_BD.device)
        short = count - entry_BK.shape[1]
        return torch.nn.functional.pad(entry_BK, (0, short), value=-1) if short > 0 else entry_BK

    def width(self, count: int) -> int:
        """How many are nominated where so many are asked for."""
        return count * self._oversampling

    def _parameters(self, selector: Any, wanted: int) -> Any:
        faiss = import_faiss()
        if getattr(_inner(self._index), "nlist", 0):
            parameters = faiss.SearchParametersIVF(nprobe=self.effort)
        elif "HNSW" in self._factory:
            parameters = faiss.SearchParametersHNSW(efSearch=max(self.effort, wanted))
        else:
            parameters = faiss.SearchParameters()
        if selector is not None:
            parameters.sel = selector
        return parameters


def as_queries(query_BD: Tensor) -> np.ndarray:
    return np.ascontiguousarray(query_BD.detach().cpu().numpy(), dtype=np.float32)


def selector_of(allowed_N: Tensor) -> Any:
    faiss = import_faiss()
    bitmap = np.packbits(allowed_N.cpu().numpy(), bitorder="little")
    selector = faiss.IDSelectorBitmap(bitmap)
    selector.bitmap_kept_alive = bitmap
    return selector


def train(key_ND: np.ndarray, factory: str) -> Any:
    """An index without entries, trained on a sample of these if it has to be."""
    entries, columns = key_ND.shape
    index = make_index(factory, columns)
    if not index.is_trained:
        # Annealing for a kind of search that is never used here takes longer than all the rest.
        if hasattr(_inner(index), "do_polysemous_training"):
            _inner(index).do_polysemous_training = False
        # Tables of distances between centres and codes would take more memory than the codes of all entries.
        if hasattr(_inner(index), "use_precomputed_table"):
            _inner(index).use_precomputed_table = -1
        with _refusing(factory, f"{entries} entries are too few to train it; leave the choice to nearmt"):
            index.train(_training_sample(key_ND, index))
    return index


def _training_sample(key_ND: np.ndarray, index: Any) -> np.ndarray:
    """Enough keys to train on, evenly spaced."""
    stride = max(1, len(key_ND) // _training_size(index))
    return np.ascontiguousarray(key_ND[::stride], dtype=np.float32)


def _training_size(index: Any) -> int:
    """FAISS wants at least 39 keys a list, and more only cost time."""
    return 48 * max(256, getattr(_inner(index), "nlist", 256))


def training_size(factory: str, columns: int) -> int:
    """How many keys an index of this kind is trained on."""
    return _training_size(make_index(factory, columns))


def write(index: Any, path: Path) -> None:
    try:
        import_faiss().write_index(index, str(path))
    except RuntimeError as error:  # FAISS's only kind, a full disk included
        reason = str(error).rpartition(": ")[2].strip() or "FAISS could not write it"
        raise OutputError(f"{path}: cannot be written ({reason})") from error


def read(path: Path) -> Any:
    faiss = import_faiss()
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
    except RuntimeError as error:
        raise DatastoreError(f"{path}: not a readable index; run `nearmt reindex`") from error
