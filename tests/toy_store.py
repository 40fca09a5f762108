"""A store that is not in this process: numpy arrays behind a function call. All methods run over it.

`ToyServer` answers requests of plain arrays, as a server would; `ToyStore` is the client, and all that a remote store
has to implement (`retrieval.source.EntrySource`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Neighbours, Pair, SimilarSources, StoreProfile
from nearmt.engines.base import CONTESTED, KNOWN, TERM, AgreementRule, CachePlan, SentenceCache, SentenceWords
from nearmt.engines.reference.cache import ReferenceCache
from nearmt.retrieval.source import EntrySource

Arrays = dict[str, Any]


class ToyServer:
    """Compares queries with every key. A sentence is like the pair with the number of its first token, and the next."""

    def __init__(self, key_ND: np.ndarray, token_N: np.ndarray, ends: Sequence[int]) -> None:
        assert (ends[-1] if len(ends) else 0) == len(key_ND) == len(token_N)
        self.key_ND, self.token_N, self.end_P = key_ND, token_N, np.array(ends, dtype=np.int64)
        self.familiarity, self.closeness = np.inf, 0.0
        #: Codes of words that are terms.
        self.terms: frozenset[int] = frozenset()
        #: How many entries each stands for, in a pruned store.
        self.weight_N: np.ndarray | None = None
        #: Codes of the source words that entries are aligned with; None where they are unknown.
        self.word_N: np.ndarray | None = None

    def __call__(self, request: str, **given: Any) -> Arrays:
        answer: Callable[..., Arrays] = getattr(self, f"answer_{request}")
        return answer(**given)

    def answer_search(self, query: np.ndarray, k: int) -> Arrays:
        squared_BN = np.square(query[:, None] - self.key_ND[None]).sum(axis=2, dtype=np.float32)
        order_BK = squared_BN.argsort(axis=1, kind="stable")[:, :k]
        missing = ((0, 0), (0, k - order_BK.shape[1]))
        distance_BK = np.take_along_axis(squared_BN, order_BK, axis=1)
        return {
            "entry": np.pad(order_BK, missing, constant_values=-1),
            "distance": np.pad(distance_BK, missing, constant_values=np.inf),
        }

    def answer_tokens(self, entry: np.ndarray) -> Arrays:
        """Entry -1 gets the last token, so that giving it weight shows."""
        return {"token": self.token_N[entry] if len(self.token_N) else np.zeros_like(entry)}

    def answer_weights(self, entry: np.ndarray) -> Arrays:
        if self.weight_N is None:
            return {"weight": None}
        return {"weight": np.where(entry < 0, 1.0, self.weight_N[entry.clip(min=0)]).astype(np.float32)}

    def answer_agreement(
        self, entry: np.ndarray, known: np.ndarray, near: np.ndarray, trust: np.ndarray, rule: AgreementRule
    ) -> Arrays:
        if self.word_N is None:
            return {"kept": None}
        rows = len(entry) // len(known)
        kept = []
        for row, found in enumerate(entry.tolist()):
            slot = row // rows
            words, nearness, trusted = known[slot], float(near[slot]), float(trust[slot])
            kept.append([self._trusted(each, words, nearness, trusted, rule) for each in found])
        return {"kept": np.array(kept, dtype=np.float32).reshape(entry.shape)}

    def _trusted(self, entry: int, known_X: np.ndarray, near: float, trust: float, rule: AgreementRule) -> float:
        assert self.word_N is not None
        if entry < 0 or (self.word_N[entry] and known_X[self.word_N[entry]] == TERM):
            return 1.0
        return trust * self._kept(entry, known_X, near, rule)

    def _kept(self, entry: int, known_X: np.ndarray, near: float, rule: AgreementRule) -> float:
        assert self.word_N is not None
        if not (own := self.word_N[entry]) or known_X[own] == KNOWN:
            return 1.0
        if known_X[own] == CONTESTED:
            return 0.0
        pair = int(np.searchsorted(self.end_P, entry, side="right"))
        first = max(entry - rule.window, self.end_P[pair - 1] if pair else 0)
        around = self.word_N[first : min(entry + rule.window + 1, self.end_P[pair])]
        others = [known_X[word] != 0 for word in around if word not in (0, own)]
        share = np.mean(others) if others else 1.0
        left = float(np.clip((rule.contrast - share) / (rule.contrast - rule.paraphrase), 0.0, 1.0))
        applied = rule.strength * (near + (1 - near) * rule.elsewhere)
        return 1 - applied * (1 - (1 - near) * left)

    def answer_keys(self, entry: np.ndarray, columns: int) -> Arrays:
        return {"key": self.key_ND[entry, :columns]}

    def answer_chunks(self, entry: np.ndarray, size: int) -> Arrays:
        chunk = entry[..., None] + np.arange(size)
        if not len(self.end_P):
            return {"chunk": np.full_like(chunk, -1)}
        end = self.end_P[np.searchsorted(self.end_P, entry.clip(min=0), side="right")]
        return {"chunk": np.where((chunk < end[..., None]) & (entry[..., None] >= 0), chunk, -1)}

    def answer_similar(self, sources: Sequence[Sequence[int]], count: int, candidates: int) -> Arrays:
        found = [self._similar(source, count, candidates) for source in sources]
        width = max((len(entries) for entries in found), default=0)
        padded = [[*entries, *[-1] * (width - len(entries))] for entries in found]
        entry_SX = np.array(padded, dtype=np.int64).reshape(len(found), width)
        alike = {"familiarity": self.familiarity, "closeness": self.closeness, "close": []}
        return {"entry": entry_SX, **{name: [value] * len(found) for name, value in alike.items()}}

    def _similar(self, source: Sequence[int], count: int, candidates: int) -> list[int]:
        if not source or not len(self.end_P):
            return []
        last = min(source[0] % len(self.end_P) + max(count, candidates), len(self.end_P))
        first = max(source[0] % len(self.end_P), last - count)  # the last candidates have the fewest edits
        return list(range(self.end_P[first - 1] if first else 0, self.end_P[last - 1])) if last > first else []


class ToyStore:
    """An `EntrySource` that asks a server for everything."""

    def __init__(
        self, key_ND: Tensor, token_N: Tensor, ends: Sequence[int], projection_HD: Tensor | None = None
    ) -> None:
        self.server = ToyServer(key_ND.numpy(), token_N.numpy(), ends)
        self.key_ND, self.token_N, self.ends = key_ND, token_N, list(ends)
        self.projection_HD = torch.eye(key_ND.shape[1]) if projection_HD is None else projection_HD
        self.search_scale, self.likely_weight = 20.0, 0.4

    def __len__(self) -> int:
        return len(self.key_ND)

    def snapshot(self) -> Self:
        return self

    @property
    def columns(self) -> int:
        return self.key_ND.shape[1]

    @property
    def profile(self) -> StoreProfile:
        return StoreProfile(
            identity="toy",
            pairs=len(self.ends),
            entries=len(self),
            columns=self.columns,
            search_scale=self.search_scale,
            scale=lambda columns: float(self.search_scale**0.5),
            likely_weight=self.likely_weight,
            agreement=None,
            knows_sources=True,
            terms=self.server.terms.intersection,
        )

    def query(self, hidden_BH: Tensor) -> Tensor:
        return hidden_BH @ self.projection_HD

    def search(self, query_BD: Tensor, k: int) -> Neighbours:
        found = self.server("search", query=query_BD.numpy(), k=k)
        return Neighbours(torch.from_numpy(found["entry"]), torch.from_numpy(found["distance"]))

    def tokens(self, entry: Tensor) -> Tensor:
        return torch.from_numpy(self.server("tokens", entry=entry.numpy())["token"])

    def weights(self, entry: Tensor) -> Tensor | None:
        weight = self.server("weights", entry=entry.numpy())["weight"]
        return None if weight is None else torch.from_numpy(weight)

    def agreement(self, entry_BK: Tensor, words: SentenceWords, rule: AgreementRule) -> Tensor | None:
        given = {"known": words.known_SX.numpy(), "near": words.near_S.numpy(), "trust": words.trust_S.numpy()}
        kept = self.server("agreement", entry=entry_BK.numpy(), rule=rule, **given)["kept"]
        return None if kept is None else torch.from_numpy(kept)

    def keys(self, entry_M: Tensor, columns: int) -> Tensor:
        return torch.from_numpy(self.server("keys", entry=entry_M.numpy(), columns=columns)["key"])

    def chunks(self, entry_BK: Tensor, size: int) -> Tensor:
        return torch.from_numpy(self.server("chunks", entry=entry_BK.numpy(), size=size)["chunk"])

    def similar(self, sources: Sequence[Sequence[int]], count: int, candidates: int = 0) -> SimilarSources:
        found = self.server("similar", sources=sources, count=count, candidates=candidates)
        return SimilarSources(torch.from_numpy(found.pop("entry")), **found)

    def new_cache(self, plan: CachePlan, device: torch.device) -> SentenceCache:
        return ReferenceCache(self, plan, device)

    def pair_of(self, entry: int) -> Pair:
        return Pair("", "", id=str(np.searchsorted(self.ends, entry, side="right")))


def _is_an_entry_source(store: ToyStore) -> EntrySource:
    """Checked by mypy."""
    return store
