"""Where each token of a translation comes from."""

from __future__ import annotations

import math

from torch import Tensor

from nearmt.contracts import Evidence, Origin, Silenced, TokenProvenance, Witness
from nearmt.corpus.marks import marked
from nearmt.decoding import Hypothesis
from nearmt.models import TextCodec
from nearmt.retrieval.source import EntrySource

_NAMES = {Origin.MODEL: "model", Origin.SEARCH: "search", Origin.CACHE: "cache"}


def explain_hypothesis(
    hypothesis: Hypothesis,
    evidence: list[Evidence] | None,
    codec: TextCodec,
    store: EntrySource | None,
    chunk: int,
) -> tuple[TokenProvenance, ...]:
    """The provenance of every token of a traced hypothesis (end of sentence included)."""
    subwords = codec.subwords(hypothesis.tokens)
    explained = []
    for number, (token, subword, step) in enumerate(zip(hypothesis.tokens, subwords, hypothesis.trace, strict=True)):
        origin, witnesses, chunks = Origin.MODEL, tuple[Witness, ...](), tuple[str, ...]()
        silenced = tuple[Silenced, ...]()
        searched = False
        if evidence is not None and store is not None:
            found = evidence[number]
            origin = Origin(int(found.origin_B[step.row]))
            searched = origin == Origin.SEARCH
            witnesses = _witnesses(found, step.row, token, store)
            silenced = _silenced(found, step.row, codec, store)
            chunks = _chunk_texts(found.entry_BK[step.row], store, codec, chunk) if searched else ()
        explained.append(
            TokenProvenance(
                token=subword,
                origin=_NAMES[origin] if witnesses else "model",
                searched=searched,
                model_probability=math.exp(step.model_log_prob),
                probability=math.exp(step.log_prob),
                witnesses=witnesses,
                chunks=chunks,
                silenced=silenced,
            )
        )
    return tuple(explained)


def _witnesses(evidence: Evidence, row: int, token: int, store: EntrySource) -> tuple[Witness, ...]:
    """Pairs that spoke for this token, with their shares of the neighbours' distribution, largest first."""
    shares: dict[str, float] = {}
    columns = (evidence.entry_BK[row], evidence.token_BK[row], evidence.weight_BK[row])
    for entry, spoken, weight in zip(*(column.tolist() for column in columns), strict=True):
        if entry >= 0 and spoken == token and weight > 0 and float(evidence.share_B[row]) > 0:
            pair_id = store.pair_of(entry).id
            shares[pair_id] = shares.get(pair_id, 0.0) + weight
    ranked = sorted(shares.items(), key=lambda item: item[1], reverse=True)
    return tuple(Witness(pair_id, share) for pair_id, share in ranked)


def _silenced(evidence: Evidence, row: int, codec: TextCodec, store: EntrySource) -> tuple[Silenced, ...]:
    """Pairs whose neighbours lost their shares by source agreement, and the tokens that they predicted."""
    if evidence.silenced_BK is None:
        return ()
    lost: dict[tuple[str, int], float] = {}
    columns = (evidence.entry_BK[row], evidence.token_BK[row], evidence.silenced_BK[row])
    for entry, token, share in zip(*(column.tolist() for column in columns), strict=True):
        if entry >= 0 and share > 0:
            key = store.pair_of(entry).id, token
            lost[key] = lost.get(key, 0.0) + share
    ranked = sorted(lost.items(), key=lambda item: item[1], reverse=True)
    return tuple(Silenced(pair_id, codec.subwords([token])[0], share) for (pair_id, token), share in ranked)


def _chunk_texts(entry_K: Tensor, store: EntrySource, codec: TextCodec, size: int) -> tuple[str, ...]:
    """The retrieved chunks as text, nearest first, each once."""
    entry_KC = store.chunks(entry_K[None], size)[0]
    texts = []
    for entries, tokens in zip(entry_KC.tolist(), store.tokens(entry_KC).tolist(), strict=True):
        kept = [token for entry, token in zip(entries, tokens, strict=True) if entry >= 0]
        if kept:
            # A chunk may begin within a word.
            within = not codec.subwords(kept[:1])[0].startswith(" ")
            text = marked(store.pair_of(entries[0]).source).with_spans(codec.text(kept))
            texts.append(("…" if within else "") + text)
    return tuple(dict.fromkeys(texts))
