"""Weighing neighbours and mixing them in, in one go: what `FixedMixer` and `mix` do step by step."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Origin, Scores
from nearmt.index.gathered import GatheredEntries, power_of_two
from nearmt.methods.mixing import FixedMixer, multiplicity
from nearmt.retrieval.retriever import Retrieved
from nearmt.retrieval.source import EntrySource
from nearmt.timing import timed

# Logits that are read at a time, and by how many warps.
_BLOCK, _WARPS = 4096, 16


def mix_found(
    logits_BV: Tensor, found: Retrieved, gathered: GatheredEntries, mixer: FixedMixer, trust_B: Tensor | None
) -> Scores:
    """Equations 2 and 3 on a GPU; the logits change in place. `trust_B` is how much of their share neighbours get."""
    from nearmt.retrieval.kernels import mix

    (rows, k), vocabulary = found.entry_BK.shape, logits_BV.shape[1]
    offset_B = torch.empty(rows, device=logits_BV.device)
    weight_N = gathered.weight_N
    with timed("mix"):
        mix[(rows,)](
            logits_BV, logits_BV.stride(0), found.entry_BK.contiguous(), found.distance_BK.contiguous(), found.asked_B,
            gathered.token_N, gathered.token_N if weight_N is None else weight_N,
            offset_B if trust_B is None else trust_B, offset_B, k, vocabulary,
            mixer.weight, mixer.temperature, mixer.cache_weight, mixer.cache_temperature,
            SEARCH=int(Origin.SEARCH), WEIGHTED=weight_N is not None, GUARDED=trust_B is not None,
            PLACES=power_of_two(k), BLOCK=_BLOCK, num_warps=_WARPS,
        )  # fmt: skip
    return Scores(logits_BV, offset_B)


def mix_by_compiler(
    scores: Scores, found: Retrieved, store: EntrySource, mixer: FixedMixer, trust_B: Tensor | None
) -> Scores:
    """The same on a CPU, where the store is as well; the scores change in place."""
    from nearmt.retrieval.compiled import mix

    times_BK = multiplicity(found, store)
    tensors = (
        scores.logits_BV, scores.offset_B, found.entry_BK, store.tokens(found.entry_BK), found.distance_BK,
        torch.ones_like(found.distance_BK) if times_BK is None else times_BK, found.asked_B == int(Origin.SEARCH),
        torch.ones(len(found.asked_B)) if trust_B is None else trust_B,
    )  # fmt: skip
    with timed("mix"):
        mix(
            mixer.weight, mixer.temperature, mixer.cache_weight, mixer.cache_temperature,
            *(part.numpy() for part in tensors),
        )  # fmt: skip
    return scores
