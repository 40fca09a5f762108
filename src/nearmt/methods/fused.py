"""Weighing neighbours and mixing them in, in one kernel: what `FixedMixer` and `mix` do, on a GPU or a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from nearmt.contracts import Origin, Scores
from nearmt.engines.cpu import scores as native
from nearmt.engines.cpu.library import Mixing
from nearmt.engines.cuda.gathered import GatheredEntries, power_of_two
from nearmt.methods.mixing import FixedMixer
from nearmt.retrieval.ends import NearEnds
from nearmt.retrieval.retriever import Retrieved
from nearmt.retrieval.source import EntrySource
from nearmt.timing import timed


class EndRule(NamedTuple):
    """What kernels know of `NearEnds`, and the one token that ends a sentence."""

    token: int
    search: float
    cache: float
    likely: float


#: All neighbours speak for all tokens.
NO_RULE = EndRule(-1, 0.0, 0.0, 0.0)
# Logits that are read at a time, and by how many warps.
_BLOCK, _WARPS = 4096, 16


def mix_found(
    logits_BV: Tensor,
    found: Retrieved,
    store: EntrySource,
    mixer: FixedMixer,
    trust_B: Tensor | None,
    near: NearEnds | None = None,
    ends: Sequence[int] = (),
) -> Scores | None:
    """Equations 2 and 3; the logits change in place. `trust_B` is how much of their share neighbours get.

    `near` says who may speak for the tokens that end a sentence. None where no kernel can do it.
    """
    if near is not None and len(ends) > 1:
        return None
    rule = NO_RULE if near is None or not ends else EndRule(ends[0], near.search, near.cache, near.likely)
    gathered, rows = store.gathered, store.rows
    if gathered is not None and gathered.token_N.device == logits_BV.device:
        return mix_gathered(logits_BV, found, gathered, mixer, trust_B, rule)
    if rows is not None and not rows.weighted and native.serves(logits_BV):
        retrieved = found.entry_BK, found.distance_BK, found.asked_B
        with timed("mix"):
            return Scores(
                logits_BV, native.mix_neighbours(_mixing(mixer, rule), logits_BV, *retrieved, rows.token_N, trust_B)
            )
    return None


@lru_cache(maxsize=64)
def _mixing(mixer: FixedMixer, rule: EndRule) -> Mixing:
    """Both as a kernel on a CPU reads them."""
    weights = mixer.weight, mixer.temperature, mixer.cache_weight, mixer.cache_temperature
    return Mixing(*weights, int(Origin.SEARCH), *rule)


def mix_gathered(
    logits_BV: Tensor,
    found: Retrieved,
    gathered: GatheredEntries,
    mixer: FixedMixer,
    trust_B: Tensor | None,
    rule: EndRule = NO_RULE,
) -> Scores:
    """The same on a GPU."""
    from nearmt.engines.cuda.step_kernels import mix

    (rows, k), vocabulary = found.entry_BK.shape, logits_BV.shape[1]
    offset_B = torch.empty(rows, device=logits_BV.device)
    weight_N = gathered.weight_N
    with timed("mix"):
        mix[(rows,)](
            logits_BV, logits_BV.stride(0), found.entry_BK.contiguous(), found.distance_BK.contiguous(), found.asked_B,
            gathered.token_N, gathered.token_N if weight_N is None else weight_N,
            offset_B if trust_B is None else trust_B, offset_B, k, vocabulary,
            mixer.weight, mixer.temperature, mixer.cache_weight, mixer.cache_temperature, *rule,
            SEARCH=int(Origin.SEARCH), WEIGHTED=weight_N is not None, GUARDED=trust_B is not None,
            PLACES=power_of_two(k), BLOCK=_BLOCK, num_warps=_WARPS,
        )  # fmt: skip
    return Scores(logits_BV, offset_B)
