"""The best continuations of every sentence, without an order of the whole vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Scores
from nearmt.threads import scripted

# Tokens that are looked at as one: the best tokens lie in the blocks with the best maxima.
_BLOCK = 64
# Blocks for each candidate wanted below which that is no gain.
_MANY = 4


def best_candidates(scores: Scores, score_B: Tensor, sentences: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, rows and tokens of the best continuations of each sentence, [S, count or as many as there are].

    The rows of a sentence stand together and all sentences have equally many. A continuation scores what its row
    has so far (`score_B`) and its token's log-probability. Equal scores come in an order that depends on nothing
    but the sentence's own numbers.
    """
    rows, vocabulary = scores.logits_BV.shape
    base_B = scores.offset_B + score_B
    count = min(count, rows // sentences * vocabulary)
    if scores.logits_BV.is_cuda or rows // sentences * (vocabulary // _BLOCK) < _MANY * count:
        total_SX = (scores.logits_BV + base_B[:, None]).view(sentences, -1)
        score_SK, place_SK = total_SX.topk(count)
    else:
        score_SK, place_SK = _by_blocks(scores.logits_BV, base_B, sentences, count, _BLOCK)
    row_SK = place_SK // vocabulary
    first_S1 = torch.arange(0, rows, rows // sentences, device=row_SK.device)[:, None]
    return score_SK, row_SK + first_S1, place_SK - row_SK * vocabulary


@scripted
def _by_blocks(logits_BV: Tensor, base_B: Tensor, sentences: int, count: int, size: int) -> tuple[Tensor, Tensor]:
    """What `topk` finds among all tokens of a sentence's rows, [S, count]: values, and places row * V + token.

    Adding and rounding keep the order of numbers, so no token beats the maximum of its block of `size`. Those behind
    the last whole block take part one by one.
    """
    rows, vocabulary = logits_BV.size(0), logits_BV.size(1)
    each, blocks = rows // sentences, vocabulary // size
    whole_RGX: Tensor = logits_BV[:, : blocks * size].unflatten(1, (blocks, size))
    maximum_SG = (whole_RGX.amax(dim=2) + base_B[:, None]).view(sentences, each * blocks)
    block_SK = maximum_SG.topk(count, sorted=False)[1]
    first_SK1 = torch.arange(0, rows, each)[:, None]
    row_SK, inner_SK = block_SK // blocks + first_SK1, block_SK % blocks
    value_SX = (whole_RGX[row_SK, inner_SK] + base_B[row_SK][:, :, None]).flatten(1)
    place_SK1 = (block_SK // blocks * vocabulary + inner_SK * size)[:, :, None]
    place_SX = (place_SK1 + torch.arange(size)).flatten(1)
    if blocks * size < vocabulary:
        rest_SX = (logits_BV[:, blocks * size :] + base_B[:, None]).reshape(sentences, -1)
        rest_RX = torch.arange(each)[:, None] * vocabulary + torch.arange(blocks * size, vocabulary)
        value_SX = torch.cat([value_SX, rest_SX], dim=1)
        place_SX = torch.cat([place_SX, rest_RX.flatten().expand(sentences, -1)], dim=1)
    value_SK, order_SK = value_SX.topk(count)
    return value_SK, place_SX.gather(1, order_SK)
