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

from nearmt.engines.base import KernelLists
from nearmt.engines.choose import assign_rounded
from nearmt.engines.reference.clusters import find_centres, nearest_centre
from nearmt.errors import ConfigError, MissingPackageError, OutputError
from nearmt.index.faiss_files import MOST_BITS, MOST_BITS_IN_GRAPH, Layout, check_index, unreadable
from nearmt.opening import opened

#: Below this an exact search is fast enough.
SMALL = 20_000
_BLOCK = 65_536
_KNOWN = "Flat, IVF...,SQ8, IVF...,PQ... or HNSW..."
#: Candidates nominated per neighbour asked for: quantised codes blur the order, stored keys restore it.
_OVERSAMPLING = {"PQ": 16, "SQ": 2}
#: The code that takes whole numbers from -128 to 127 as they are: compared as integers, three times as fast as SQ8.
WHOLE_NUMBERS = "SQ8_direct_signed"
_LEAST, _MOST = -128, 127
# All but this share of the keys fit into these numbers; what does not is cut off.
_OUTSIDE = 0.001
# Cells that are looked into, from fast to thorough.
_PROBES = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256)


def import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingPackageError("faiss is not installed: `pip install faiss-cpu`, or set nominate=torch") from error
    # The default (128,000) keeps small batches of queries away from matrix products: twice as slow.
    faiss.cvar.distance_compute_blas_threshold = 20
    return faiss


def default_factory(entries: int) -> str:
    """The factory string for a store of this size: `exact` while that is fast enough."""
    if entries < SMALL:
        return "exact"
    lists = 2 ** round(math.log2(4 * math.sqrt(entries)))
    return f"IVF{lists},{WHOLE_NUMBERS}"


def make_index(factory: str, columns: int) -> Any:
    """An empty index; a string that FAISS does not know is refused."""
    with _refusing(factory, "not a factory string that FAISS knows"):
        index = import_faiss().index_factory(columns, factory)
    if not _is_stored(index):
        raise ConfigError(f"index = {factory!r}: nearmt cannot check such a file; use {_KNOWN}")
    if WHOLE_NUMBERS in factory and hasattr(_inner(index), "by_residual"):
        # The residual of a key from its centre would be rounded with the same step as the key itself.
        _inner(index).by_residual = False
    return index


@contextmanager
def _refusing(factory: str, reason: str) -> Iterator[None]:
    """FAISS raises one kind of error for everything; the step that fails tells the reason."""
    try:
        yield
    except RuntimeError as error:
        raise ConfigError(f"index = {factory!r}: {reason}") from error


def _is_stored(index: Any) -> bool:
    """Whether `check_index` knows files of this kind."""
    faiss, inner = import_faiss(), _inner(index)
    coarse = (faiss.IndexFlat, faiss.IndexFlatL2, faiss.IndexHNSWFlat)
    inverted = (faiss.IndexIVFFlat, faiss.IndexIVFScalarQuantizer, faiss.IndexIVFPQ)
    others = (faiss.IndexPQ, faiss.IndexScalarQuantizer, faiss.IndexHNSWSQ, faiss.IndexHNSWPQ)
    # Not their subclasses, which are stored in ways of their own.
    if type(inner) not in (*coarse, *inverted, *others):
        return False
    if type(inner) in inverted and type(_inner(inner.quantizer)) not in coarse:
        return False
    coded = _inner(inner.storage) if isinstance(inner, faiss.IndexHNSWPQ) else inner
    most = MOST_BITS if coded is inner else MOST_BITS_IN_GRAPH
    return not hasattr(coded, "pq") or coded.pq.nbits <= most


def _inner(index: Any) -> Any:
    """The index as what it really is."""
    return import_faiss().downcast_index(index)


def unit_of(key_SD: np.ndarray, factory: str) -> float | None:
    """What keys are divided by before they are rounded to whole numbers; None where codes take them as they are.

    One unit for all columns keeps the order of distances.
    """
    if WHOLE_NUMBERS not in factory or not len(key_SD):
        return None
    largest_S = np.abs(key_SD).max(axis=1).astype(np.float32)
    return max(float(np.quantile(largest_S, 1 - _OUTSIDE)), 1e-6) / _MOST


def coded(key_XD: np.ndarray, unit: float | None) -> np.ndarray:
    """Keys or queries as FAISS has to see them."""
    if unit is None:
        return np.ascontiguousarray(key_XD, dtype=np.float32)
    number_XD = key_XD.astype(np.float32)
    number_XD *= np.float32(1) / np.float32(unit)  # as kernels compute it
    return np.clip(np.rint(number_XD, out=number_XD), _LEAST, _MOST, out=number_XD)


class FaissIndex:
    """A trained FAISS index over all entries of a segment."""

    #: Probed lists may have fewer entries than are asked for.
    complete = False

    scan = None

    @property
    def lists(self) -> KernelLists | None:
        return None

    def __init__(self, index: Any, factory: str, effort: int = 0, unit: float | None = None) -> None:
        self._index, self._factory, self._unit = index, factory, unit
        self.effort = effort
        self._oversampling = next((n for code, n in _OVERSAMPLING.items() if code in factory), 1)

    @classmethod
    def build(cls, key_ND: np.ndarray, factory: str) -> FaissIndex:
        index, unit = train(key_ND, factory)
        found = cls(index, factory, unit=unit)
        found.effort = found.efforts[0] if found.efforts else 0
        found.fill(key_ND)
        return found

    def fill(self, key_ND: np.ndarray) -> None:
        """Add the entries, and see whether they can be searched as they will be."""
        entries, columns = key_ND.shape
        reason = f"FAISS cannot search it with a mask; use {_KNOWN}"
        with _refusing(self._factory, reason):
            for start in range(0, entries, _BLOCK):
                self._add(key_ND[start : start + _BLOCK])
            self.nominate(torch.zeros(1, columns), 1, torch.ones(entries, dtype=torch.bool))

    def _add(self, key_XD: np.ndarray) -> None:
        code_XD, centres = coded(key_XD, self._unit), flat_centres(self._index)
        if centres is None:
            self._index.add(code_XD)
            return
        nearest = nearest_centre if self._unit is None else assign_rounded
        cell_X = nearest(torch.from_numpy(code_XD), centres).numpy()
        faiss = import_faiss()
        self._index.add_core(len(code_XD), faiss.swig_ptr(code_XD), None, faiss.swig_ptr(cell_X))

    @property
    def efforts(self) -> list[int]:
        """Settings from fast to thorough: probed lists (IVF) or candidates (HNSW); empty for Flat."""
        lists = getattr(_inner(self._index), "nlist", 0)
        if lists:
            return [probe for probe in _PROBES if probe < lists] + [lists]
        return [32, 64, 128, 256, 512] if "HNSW" in self._factory else []

    def describe(self) -> dict[str, Any]:
        """What `load` has to be told, for the manifest."""
        unit = {} if self._unit is None else {"unit": self._unit}
        return {"kind": "faiss", "factory": self._factory, "effort": self.effort, **unit}

    def save(self, path: Path) -> None:
        write(self._index, path)

    @classmethod
    def load(cls, path: Path, description: dict[str, Any], columns: int, entries: int) -> FaissIndex:
        """An index of `entries` entries, as `describe` described it; anything else is refused."""
        layout = check_index(path, columns, entries)
        check_use(path, layout, description["factory"], description["effort"])
        return cls(read(path), description["factory"], description["effort"], description.get("unit"))

    def nominate(self, query_BD: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        wanted = min(self.width(count), max(1, self._index.ntotal))
        entry_BK = self._search(as_queries(query_BD), wanted, allowed_N).to(query_BD.device)
        short = count - entry_BK.shape[1]
        return torch.nn.functional.pad(entry_BK, (0, short), value=-1) if short > 0 else entry_BK

    def _search(self, query_BD: np.ndarray, wanted: int, allowed_N: Tensor | None) -> Tensor:
        """What FAISS finds, [B, wanted]."""
        # The parameters only point at the selector: it has to outlive the search.
        selector = None if allowed_N is None else selector_of(allowed_N)
        query = coded(query_BD, self._unit)
        _, entry = self._index.search(query, wanted, params=self._parameters(selector, wanted))
        return torch.from_numpy(entry)

    def width(self, count: int) -> int:
        """How many candidates are nominated for `count` neighbours."""
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


def flat_centres(index: Any) -> Tensor | None:
    """The centres of an index's cells where they lie, [C, D]; None where it has none or they are not a plain list."""
    faiss = import_faiss()
    if not isinstance(index, faiss.IndexIVF):
        return None
    coarse = _inner(index.quantizer)
    if not (isinstance(coarse, faiss.IndexFlat) and coarse.metric_type == faiss.METRIC_L2):
        return None
    if not coarse.ntotal:
        return torch.zeros(0, coarse.d)
    centre_X = faiss.rev_swig_ptr(coarse.get_xb(), coarse.ntotal * coarse.d)
    return torch.from_numpy(centre_X).view(coarse.ntotal, coarse.d)


def as_queries(query_BD: Tensor) -> np.ndarray:
    return np.ascontiguousarray(query_BD.detach().cpu().numpy(), dtype=np.float32)


def selector_of(allowed_N: Tensor) -> Any:
    faiss = import_faiss()
    bitmap = np.packbits(allowed_N.cpu().numpy(), bitorder="little")
    selector = faiss.IDSelectorBitmap(bitmap)
    selector.bitmap_kept_alive = bitmap
    return selector


def train(key_ND: np.ndarray, factory: str) -> tuple[Any, float | None]:
    """An index without entries, trained on a sample of these if it has to be, and the unit of its codes."""
    entries, columns = key_ND.shape
    index = make_index(factory, columns)
    sample_SD = _training_sample(key_ND, index)
    unit = unit_of(sample_SD, factory)
    if not index.is_trained:
        # Annealing for a kind of search that is never used here takes longer than all the rest.
        if hasattr(_inner(index), "do_polysemous_training"):
            _inner(index).do_polysemous_training = False
        # Tables of distances between centres and codes would take more memory than the codes of all entries.
        if hasattr(_inner(index), "use_precomputed_table"):
            _inner(index).use_precomputed_table = -1
        sample_SD = sample_SD if unit is None else sample_SD * np.float32(1 / unit)
        with _refusing(factory, f"{entries} entries are too few to train it; leave the choice to nearmt"):
            if flat_centres(index) is not None and len(sample_SD) >= index.nlist:
                # FAISS finds centres too, in three times the time.
                nearest = nearest_centre if unit is None else assign_rounded
                index.quantizer.add(find_centres(torch.from_numpy(sample_SD), index.nlist, nearest=nearest).numpy())
            index.train(sample_SD)
    return index, unit


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
    """A file that was checked before (`faiss_files`)."""
    faiss = import_faiss()
    try:
        # Through its descriptor: a link is not followed.
        with opened(path) as file:
            return faiss.read_index(f"/dev/fd/{file.fileno()}", faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
    except (RuntimeError, MemoryError) as error:
        raise unreadable(path, "FAISS refuses it") from error


def check_use(path: Path, layout: Layout, factory: str, effort: int) -> None:
    """Refuse an index that is not searched the way its description says."""
    if not layout.lists and layout.is_graph != ("HNSW" in factory):
        raise unreadable(path, f"it is described as {factory!r}")
    if layout.lists and effort < 1:
        raise unreadable(path, f"its effort is {effort}")
