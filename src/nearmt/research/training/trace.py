"""What a method retrieves along given translations: what there is to learn weights from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from nearmt.contracts import Origin, Pair, Progress
from nearmt.methods.mixing import multiplicity
from nearmt.methods.retrieving import RetrievingMethod
from nearmt.models import TranslationModel

# Sentences that are read together; of similar length, as all are padded to the longest.
_TOGETHER = {"cpu": 32, "cuda": 64}


@dataclass(frozen=True)
class Trace:
    """X target tokens: the neighbours at their steps, and what the model said of token and neighbours."""

    origin_X: Tensor
    distance_XK: Tensor
    token_XK: Tensor
    count_XK: Tensor  # entries that each neighbour stands for
    spoken_XK: Tensor  # the model's log-probability of each neighbour's token
    surest_X: Tensor  # and of its own best token
    gold_X: Tensor
    gold_log_prob_X: Tensor

    def __len__(self) -> int:
        return len(self.gold_X)

    def select(self, chosen: Tensor) -> Trace:
        return Trace(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def nearest(self, k: int) -> Trace:
        """The same with the k nearest neighbours only."""
        near = {f.name: getattr(self, f.name)[:, :k] for f in fields(self) if f.name.endswith("K")}
        return replace(self, **near)

    @classmethod
    def join(cls, parts: Sequence[Trace]) -> Trace:
        if not parts:
            return cls(*(torch.zeros(0, 0) if field.name.endswith("K") else torch.zeros(0) for field in fields(cls)))
        return cls(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def trace_pairs(
    model: TranslationModel, method: RetrievingMethod, pairs: Sequence[Pair], progress: Progress | None = None
) -> Trace:
    """Walk along the targets of pairs as if the method had chosen them; pairs too long for the model are left out."""
    encoded = [(model.codec.source_ids(pair.source), model.codec.target_ids(pair.target)) for pair in pairs]
    longest = model.seq2seq.positions - len(model.seq2seq.prompt)
    fitting = [(s, t) for s, t in encoded if len(s) <= model.seq2seq.positions and len(t) <= longest]
    fitting.sort(key=lambda pair: len(pair[1]))
    together = _TOGETHER.get(model.seq2seq.device.type, _TOGETHER["cpu"])
    parts: list[Trace] = []
    for start in range(0, len(fitting), together):
        batch = fitting[start : start + together]
        parts += list(_walk(model, method, [s for s, _ in batch], [t for _, t in batch]))
        if progress:
            progress(min(start + together, len(fitting)), len(fitting))
    return Trace.join(parts)


@torch.inference_mode()
def _walk(
    model: TranslationModel, method: RetrievingMethod, sources: list[list[int]], targets: list[list[int]]
) -> Iterator[Trace]:
    """One batch, step by step; sentences leave when they end."""
    taught = model.seq2seq.teach(sources, targets)
    steps = max(len(target) for target in targets)
    lengths = [model.codec.source_length(ids) for ids in sources]
    store = method.store.snapshot()
    retriever = method.retriever(store, lengths, steps, sources)
    going = list(range(len(targets)))
    for place in range(steps):
        rows = [row for row, sentence in enumerate(going) if place < len(targets[sentence])]
        if len(rows) < len(going):
            retriever.reorder(torch.tensor(rows, device=model.seq2seq.device))
            going = [going[row] for row in rows]
        hidden_BH = torch.stack([taught[sentence][0][place] for sentence in going])
        log_prob_BV = torch.stack([taught[sentence][1][place] for sentence in going])
        found = retriever.retrieve(store.query(hidden_BH), [place + 1] * len(going), going)
        token_BK = store.tokens(found.entry_BK)
        gold_B = torch.tensor([targets[sentence][place] for sentence in going], device=hidden_BH.device)
        count_BK = multiplicity(found, store)
        step = Trace(
            origin_X=found.origin_B,
            distance_XK=found.distance_BK,
            token_XK=token_BK,
            count_XK=torch.ones_like(found.distance_BK) if count_BK is None else count_BK,
            spoken_XK=log_prob_BV.gather(1, token_BK),
            surest_X=log_prob_BV.max(dim=1).values,
            gold_X=gold_B,
            gold_log_prob_X=log_prob_BV.gather(1, gold_B[:, None])[:, 0],
        )
        yield step.select(found.origin_B != int(Origin.MODEL))
