"""The neighbours that a method retrieves along given translations: the training data of adaptive networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from nearmt.contracts import Origin, Pair, Progress
from nearmt.datastore.edit.tokens import marks_of, tokens_of_all
from nearmt.methods.mixing import votes_of
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import TranslationModel
from nearmt.steps import Request

#: The most likeliest tokens that a network sees.
LIKELIEST = 8
#: Batch size by device.
_BATCH_SIZE = {"cpu": 32, "cuda": 64}


@dataclass(frozen=True)
class Trace:
    """The neighbours at X decoding steps, and the model's log-probabilities."""

    origin_X: Tensor
    distance_XK: Tensor
    token_XK: Tensor
    count_XK: Tensor  # number of entries that each neighbour represents
    log_prob_XK: Tensor  # the model's log-probability of each neighbour's token
    likeliest_XR: Tensor  # the model's log-probabilities of its likeliest tokens, best first
    gold_X: Tensor
    gold_log_prob_X: Tensor
    entry_XK: Tensor
    query_XD: Tensor

    def __len__(self) -> int:
        return len(self.gold_X)

    def select(self, chosen: Tensor) -> Trace:
        return Trace(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def nearest(self, k: int) -> Trace:
        """Keep only the k nearest neighbours."""
        near = {f.name: getattr(self, f.name)[:, :k] for f in fields(self) if f.name.endswith("K")}
        return replace(self, **near)

    @classmethod
    def join(cls, parts: Sequence[Trace]) -> Trace:
        if not parts:
            return cls(*(torch.zeros(0) if field.name.endswith("_X") else torch.zeros(0, 0) for field in fields(cls)))
        return cls(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def trace_pairs(
    model: TranslationModel, method: RetrievingMethod, pairs: Sequence[Pair], progress: Progress | None = None
) -> Trace:
    """Retrieve at every step of forced decoding of the pairs; pairs too long for the model are left out."""
    encoded = tokens_of_all(model.codec, pairs, marks_of(model))
    longest = model.seq2seq.positions - len(model.seq2seq.prompt)
    fitting = [(s, t) for s, t in encoded if len(s) <= model.seq2seq.positions and len(t) <= longest]
    fitting.sort(key=lambda pair: len(pair[1]))
    batch_size = _BATCH_SIZE.get(model.seq2seq.device.type, _BATCH_SIZE["cpu"])
    parts: list[Trace] = []
    for start in range(0, len(fitting), batch_size):
        batch = fitting[start : start + batch_size]
        parts += list(_walk(model, method, [s for s, _ in batch], [t for _, t in batch]))
        if progress:
            progress(min(start + batch_size, len(fitting)), len(fitting))
    return Trace.join(parts)


@torch.inference_mode()
def _walk(
    model: TranslationModel, method: RetrievingMethod, sources: list[list[int]], targets: list[list[int]]
) -> Iterator[Trace]:
    """Yield the steps of one batch; sentences are released when they end."""
    taught = model.seq2seq.teach(sources, targets)
    steps = max(len(target) for target in targets)
    lengths = [model.codec.source_length(ids) for ids in sources]
    store, device = method.store.snapshot(), model.seq2seq.device
    retriever = method.retriever(store, Request(sources, lengths, steps, device, model.seq2seq.scoring))
    active = list(range(len(targets)))
    if method.seeds:
        retriever.begin(active, store.similar(sources, method.seeds).entry_SX)
    for step in range(steps):
        rows = [row for row, sentence in enumerate(active) if step < len(targets[sentence])]
        if len(rows) < len(active):
            retriever.reorder(torch.tensor(rows, device=device))
            active = [active[row] for row in rows]
        query_BD = store.query(torch.stack([taught[sentence][0][step] for sentence in active]))
        log_prob_BV = torch.stack([taught[sentence][1][step] for sentence in active])
        found = retriever.retrieve(query_BD, [step + 1] * len(active), active)
        _, token_BK, count_BK = votes_of(found, store)[:3]
        gold_B = torch.tensor([targets[sentence][step] for sentence in active], device=query_BD.device)
        trace = Trace(
            origin_X=found.origin_B,
            distance_XK=found.distance_BK,
            token_XK=token_BK,
            count_XK=torch.ones_like(found.distance_BK) if count_BK is None else count_BK,
            log_prob_XK=log_prob_BV.gather(1, token_BK),
            likeliest_XR=log_prob_BV.topk(min(LIKELIEST, log_prob_BV.shape[1]), dim=1).values,
            gold_X=gold_B,
            gold_log_prob_X=log_prob_BV.gather(1, gold_B[:, None])[:, 0],
            entry_XK=found.entry_BK.clone(),
            query_XD=query_BD,
        )
        yield trace.select(found.origin_B != int(Origin.MODEL))
