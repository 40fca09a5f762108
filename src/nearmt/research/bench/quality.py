"""Quality of approximate search: recall of the index on these sentences, and BLEU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.edit.encode import encode_block
from nearmt.datastore.search.recall import NEIGHBOURS, sample, share_found
from nearmt.models import TranslationModel
from nearmt.research.evaluation.metrics import make_metric

#: Enough queries for recall within a third of a percent; exact search for more takes long.
QUERIES = 2048
_BATCH = 256


def bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    return round(float(make_metric("bleu").corpus_score(list(outputs), [list(references)]).score), 2)


def queries_of(model: TranslationModel, sources: Sequence[str], outputs: Sequence[str]) -> Tensor:
    """Sample decoder states before the tokens of these translations, [Q, H]: the queries of their searches."""
    pairs = [Pair(source, output) for source, output in zip(sources, outputs, strict=True)]
    states = [unit.key_TD for unit in encode_block(model, pairs) if unit.key_TD is not None]
    hidden_QH = torch.cat(states) if states else torch.zeros(0, model.seq2seq.hidden_size)
    return hidden_QH[sample(len(hidden_QH), QUERIES).to(hidden_QH.device)]


def recall(store: Datastore, exact: Datastore, hidden_QH: Tensor) -> float:
    """Share of the 8 nearest entries that the index finds; entries at equal distance count as found."""
    found = []
    for hidden_BH in hidden_QH.split(_BATCH):
        query_BD = store.snapshot().query(hidden_BH)
        nearest = exact.snapshot().search(query_BD, NEIGHBOURS).distance_BK
        found.append(share_found(store.snapshot().search(query_BD, NEIGHBOURS).distance_BK, nearest) * len(hidden_BH))
    return round(sum(found) / max(1, len(hidden_QH)), 4)
