"""A datastore at one moment: what a translation reads from its first step to its last, whatever is added meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from copy import copy
from functools import cache, cached_property, partial
from math import inf

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import CloseSource, Neighbours, Pair, SimilarSources, StoreProfile
from nearmt.corpus import Match, Unit
from nearmt.datastore.disk import AnySegment, Calibration
from nearmt.datastore.disk.ids import DigestIndex, digest_of
from nearmt.datastore.search.agreement import CLOSE
from nearmt.datastore.search.containing import FoundPairs, pairs_containing
from nearmt.datastore.search.contexts import ExactMatch
from nearmt.datastore.search.edits import by_similarity
from nearmt.datastore.search.entries import open_entries
from nearmt.datastore.search.indexing import open_index
from nearmt.datastore.search.matches import SegmentSources, SourceLookup
from nearmt.datastore.search.recall import measure_recall
from nearmt.datastore.search.searcher import Searcher
from nearmt.datastore.search.similar import COMPARED, Postings, SourceIndex
from nearmt.datastore.search.terms import AlignedWords, StoreTerms
from nearmt.engines.base import AgreementRule, CachePlan, Index, RowSearch, SentenceCache, SentenceWords
from nearmt.errors import ConfigError
from nearmt.index.milvus import RemoteUse
from nearmt.reduction import Reduction
from nearmt.timing import timed

#: Threads that wait for servers. Each request waits for one search at a time.
_ASKING = 64
#: Share of the score of the same source from which a source counts as present in the store.
SAME = 0.99


@cache
def _asking() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_ASKING, "nearmt-index")


class Part:
    """A segment as it is searched: keys where searches run, an index, postings once they are needed."""

    def __init__(
        self, segment: AnySegment, device: torch.device, nominate: str, remote: RemoteUse | None = None
    ) -> None:
        self.segment = segment
        self.key_ND = torch.from_numpy(segment.key_ND).to(device)
        self.index: Index = open_index(segment, self.key_ND, nominate, remote)

    def with_segment(self, segment: AnySegment) -> Part:
        """The same part when nothing of the segment changed but what is deleted."""
        same = copy(self)
        same.segment = segment
        return same

    @cached_property
    def ids(self) -> DigestIndex:
        return DigestIndex(self.segment.id_P)

    @cached_property
    def sources(self) -> SegmentSources:
        return SegmentSources(self.segment)

    @cached_property
    def postings(self) -> Postings:
        with timed("store/similar"):
            return Postings(self.segment)

    @cached_property
    def words(self) -> AlignedWords:
        with timed("store/terms"):
            return AlignedWords(self.segment)


class Snapshot:
    """Implements `retrieval.source.EntrySource`. Entries and keys live on the store's device; tensors are moved there,
    and results back to the caller's. Deleted pairs and entries keep their numbers and are not found."""

    def __init__(
        self,
        identity: str,
        parts: Sequence[Part],
        reduction: Reduction,
        calibration: Calibration,
        cache_columns: int,
        device: torch.device,
        seen_P: np.ndarray | None,
    ) -> None:
        """`seen_P` says which pairs can be found; None stands for all."""
        self.identity, self.calibration, self.device = identity, calibration, device
        self.reduction = reduction
        self._parts, self._cache_columns = parts, cache_columns
        keys = [part.key_ND for part in parts]
        self.entries = open_entries([part.segment for part in parts], device, keys)
        self._searcher = Searcher(self.entries, [part.index for part in parts], reduction.columns)
        self._see(seen_P)

    def _see(self, seen_P: np.ndarray | None) -> None:
        self.seen_P = None if seen_P is None or seen_P.all() else seen_P
        self._seen_N: Tensor | None = None
        if self.seen_P is not None:
            self._seen_N = torch.repeat_interleave(torch.from_numpy(self.seen_P), self.pair_lengths()).to(self.device)

    def findable_N(self) -> Tensor | None:
        """Which entries a search can find: those in sight that were not merged away; None stands for all."""
        if self._seen_N is None or self.entries.kept_N is None:
            return self.entries.kept_N if self._seen_N is None else self._seen_N
        return self._seen_N & self.entries.kept_N

    def findable(self) -> int:
        """Entries that a search can find."""
        found_N = self.findable_N()
        return len(self) if found_N is None else int(found_N.sum())

    def restricted(self, seen_P: np.ndarray, name: str) -> Snapshot:
        """The same with fewer pairs in sight; `name` tells it from others."""
        fewer = copy(self)
        for made in ("_sources", "_lookup", "profile"):
            vars(fewer).pop(made, None)
        fewer.identity = f"{self.identity}-{name}"
        fewer._see(seen_P if self.seen_P is None else seen_P & self.seen_P)
        return fewer

    def snapshot(self) -> Snapshot:
        return self

    @property
    def segments(self) -> list[AnySegment]:
        """What it is made of."""
        return [part.segment for part in self._parts]

    def __len__(self) -> int:
        """Entries, the deleted ones among them."""
        return len(self.entries)

    # Pairs

    def numbers(self) -> Iterator[int]:
        """The numbers of all pairs that can be found, in corpus order."""
        count = self.entries.pair_count
        return iter(range(count)) if self.seen_P is None else iter(np.flatnonzero(self.seen_P).tolist())

    def pair(self, number: int) -> Pair:
        for segment in self.segments:
            if number < segment.record.pairs:
                return segment.pair(number)
            number -= segment.record.pairs
        raise IndexError(number)

    def pairs(self) -> Iterator[Pair]:
        """All pairs that can be found, in corpus order."""
        return (self.pair(number) for number in self.numbers())

    @property
    def pair_count(self) -> int:
        """Pairs that can be found."""
        return self.entries.pair_count if self.seen_P is None else int(self.seen_P.sum())

    def pair_lengths(self) -> Tensor:
        """How many entries each pair has, [P], in corpus order, deleted ones among them."""
        zero = torch.zeros(1, dtype=torch.long)
        lengths = [torch.diff(torch.from_numpy(part.segment.end_P), prepend=zero) for part in self._parts]
        return torch.cat([zero[:0], *lengths])

    def pair_of(self, entry: int) -> Pair:
        """The pair that an entry comes from."""
        return self.pair(int(self.entries.pair_numbers(torch.tensor([entry], device=self.device))))

    @cached_property
    def _lookup(self) -> SourceLookup:
        return SourceLookup([part.sources for part in self._parts], self.seen_P)

    def exact(self, source: str) -> Pair | None:
        """The latest pair with this very source."""
        with timed("store/lookup"):
            return self._lookup.exact(source)

    def exact_match(self, unit: Unit) -> ExactMatch | None:
        """The pair with the source of a unit whose context fits best, else the latest."""
        with timed("store/lookup"):
            return self._lookup.exact_match(unit)

    def matches(self, source: str, limit: int = 3, threshold: float = 0.5) -> list[Match]:
        """The pairs whose sources resemble this one most, best first."""
        return self._lookup.fuzzy(source, limit, threshold)

    def containing(self, term: str, limit: int) -> list[Pair]:
        """The latest pairs whose sources contain a term as whole words."""
        return self._lookup.containing(term, limit)

    def pairs_containing(self, text: str, offset: int, limit: int) -> FoundPairs:
        """Pairs whose source or target has a text, in any letter case."""
        return pairs_containing(self.segments, self.seen_P, text, offset, limit)

    def find(self, identity: str) -> int | None:
        """The number of the pair with this id, if it can be found; the latest, should there be several."""
        digest, end = digest_of(identity), self.entries.pair_count
        for part in reversed(self._parts):
            start = end - part.segment.record.pairs
            for number in reversed(part.ids.find(digest)):
                seen = self.seen_P is None or bool(self.seen_P[start + number])
                if seen and part.segment.pair(number).id == identity:
                    return start + number
            end = start
        return None

    # Neighbours

    @cached_property
    def profile(self) -> StoreProfile:
        return StoreProfile(
            identity=self.identity,
            pairs=self.pair_count,
            entries=self.findable(),
            columns=self.reduction.columns,
            search_scale=self.calibration.search_scale,
            scale=partial(_scale, self.calibration, self.reduction, self._cache_columns),
            likely_weight=self.calibration.likely_weight,
            agreement=self.calibration.agreement,
            # An empty store knows sources once something is added to it.
            knows_sources=not len(self) or any(len(part.segment.source_S) for part in self._parts),
            # The profile is kept: it must not keep the snapshot.
            terms=StoreTerms(partial(_words_of, self._parts), self.seen_P).among,
        )

    @property
    def columns(self) -> int:
        return self.reduction.columns

    def query(self, hidden_BH: Tensor) -> Tensor:
        return self.reduction.apply(hidden_BH.to(self.device)).to(hidden_BH.device)

    def search(self, query_BD: Tensor, k: int, allowed_N: Tensor | None = None) -> Neighbours:
        """The k nearest entries that are in sight and allowed (a mask over all entries), with squared distances."""
        if allowed_N is not None and len(allowed_N) != len(self):
            raise ConfigError(f"the mask has {len(allowed_N)} elements, the datastore {len(self)} entries")
        seen_N = self._seen_N
        if seen_N is not None and allowed_N is not None:
            allowed_N = seen_N & allowed_N.to(seen_N.device)
        found = self._searcher.search(query_BD.to(self.device), k, seen_N if allowed_N is None else allowed_N)
        return Neighbours(found.entry_BK.to(query_BD.device), found.distance_BK.to(query_BD.device), found.missed)

    def start_search(self, query_BD: Tensor, k: int) -> Callable[[], Neighbours]:
        """Begin a search, whose neighbours are there when the result is called: a server searches meanwhile."""
        if not self._searcher.is_remote:
            return partial(self.search, query_BD, k)
        return _asking().submit(copy_context().run, self.search, query_BD, k).result

    def recall(self) -> float:
        """Share of the nearest neighbours of a sample of entries that searches find."""
        return measure_recall(self._searcher, self._seen_N)

    def tokens(self, entry: Tensor) -> Tensor:
        return self.entries.tokens(entry.to(self.device)).to(entry.device)

    def weights(self, entry: Tensor) -> Tensor | None:
        weight = self.entries.weights(entry.to(self.device))
        return None if weight is None else weight.to(entry.device)

    def agreement(self, entry_BK: Tensor, words: SentenceWords, rule: AgreementRule) -> Tensor | None:
        kept_BK = self.entries.agreement(entry_BK.to(self.device), words.to(self.device), rule)
        return None if kept_BK is None else kept_BK.to(entry_BK.device)

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        return self.entries.keys(entry_M.to(self.device), columns).to(entry_M.device)

    @property
    def capturable(self) -> bool:
        """Whether every search issues the same work and does not synchronise: then CUDA graphs can hold it."""
        return self._seen_N is None and self._searcher.complete

    def row_search(self, k: int) -> RowSearch | None:
        """A kernel that searches for some rows in place, if there is one."""
        return self._searcher.row_search(k) if self._seen_N is None else None

    def new_cache(self, plan: CachePlan, device: torch.device) -> SentenceCache:
        return self.entries.new_cache(self, plan, device)

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        return self.entries.chunks(entry_BK.to(self.device), size).to(entry_BK.device)

    # Sources

    @cached_property
    def _sources(self) -> SourceIndex:
        return SourceIndex([part.postings for part in self._parts], self.seen_P, self.device)

    def similar(self, sources: Sequence[Sequence[int]], count: int, candidates: int = 0) -> SimilarSources:
        with timed("index/similar"):
            number_SP, shares = self._sources.best_of_each(sources, max(count, candidates, COMPARED))
            nearest = zip(number_SP[:, :COMPARED].tolist(), shares, strict=True)
            usual = self.calibration.familiar
            familiarity = [inf if usual is None else _familiarity(best, usual) for best in shares]
            closeness = [float(best[-1]) for best in shares]
            close = [self._close(numbers, best) for numbers, best in nearest]
            if candidates:
                number_SP = self._by_edits(sources, number_SP[:, :candidates])
            return SimilarSources(self.entries.of_pairs_each(number_SP[:, :count]), familiarity, closeness, close)

    def _by_edits(self, sources: Sequence[Sequence[int]], number_SP: Tensor) -> Tensor:
        """The numbers of pairs (-1: none) for each sentence, those with the most similar sources by edits first."""
        ordered_SP = torch.full(number_SP.shape, -1)
        for ordered_P, source, numbers in zip(ordered_SP, sources, number_SP.tolist(), strict=True):
            found = [number for number in numbers if number >= 0]
            places = by_similarity(source, [self._sources.source(number) for number in found])
            ordered_P[: len(found)] = torch.tensor([found[place] for place in places], dtype=torch.long)
        return ordered_SP

    def source(self, number: int) -> list[int]:
        """The source tokens of a pair."""
        return self._sources.source(number)

    def close_sources(self, source: Sequence[int], without: int) -> list[CloseSource]:
        """The sources of the most similar pairs, but of one pair, that have much in common with a source."""
        best = self._sources.best_shares(source, without)
        numbers = [number for number in self.similar_pairs(source, COMPARED + 1) if number != without]
        return self._close(numbers, best)

    def _close(self, numbers: Sequence[int], shares: np.ndarray) -> list[CloseSource]:
        """The sources among those of the most similar pairs (best first; shares best last) that are close."""
        best = zip(numbers, shares[::-1].tolist(), strict=False)
        return [CloseSource(self._sources.source(n), share) for n, share in best if n >= 0 and share >= CLOSE]

    def similar_pairs(self, source: Sequence[int], count: int) -> list[int]:
        """Numbers of the pairs with the most similar sources, best first."""
        return [int(number) for number in self._sources.best(source, count)]

    def typical_familiarity(self) -> float | None:
        """How familiar nearly all of its own sources are to the store; None if it knows not all of them."""
        # Merged with others, pairs from before nearmt 0.3 have no source tokens; every source has some.
        known = all(part.segment.knows_sources and part.postings.length_P.all() for part in self._parts)
        return self._sources.typical_familiarity() if known else None


def _words_of(parts: Sequence[Part]) -> list[AlignedWords]:
    return [part.words for part in parts]


def _familiarity(best: np.ndarray, usual: float) -> float:
    """The mean score of the most similar sources in units of the usual one; inf for a source that is in the store."""
    return inf if best[-1] > SAME else float(best.mean()) / max(usual, 1e-6)


def _scale(calibration: Calibration, reduction: Reduction, measured: int, columns: int) -> float:
    """Typical distance, not squared, on the first columns; it is measured for a number of columns."""
    if columns == measured:
        return calibration.cache_scale
    # Not measured: squared distances spread over the columns as the variance does.
    variance_D = reduction.variance_D
    share = float(variance_D[:columns].sum() / variance_D.sum().clamp(min=1e-12))
    return float((calibration.search_scale * share) ** 0.5)
