"""The best continuations of every sentence, without an order of the whole vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from nearmt.contracts import Scores
from nearmt.engines.cpu import scores as native
from nearmt.engines.cuda.graphs import Recorder
from nearmt.threads import scripted

# Tokens that are looked at as one: the best tokens lie in the blocks with the best maxima.
_BLOCK = 64
# Blocks for each candidate wanted below which that is no gain.
_MANY = 4


def recorded_best(record: Recorder, scores: Scores, score_B: Tensor, sentences: int, count: int) -> Tensor:
    """What `best_candidates` gives as one tensor, [S, 3, count]; doubles hold all three exactly."""
    each = len(score_B) // sentences
    if native.serves(scores.logits_BV):
        most = min(count, each * scores.logits_BV.shape[1])
        return native.best(scores.logits_BV, scores.offset_B + score_B, sentences, most)

    def best(logits_BV: Tensor, offset_B: Tensor, score_B: Tensor) -> tuple[Tensor, ...]:
        found = best_candidates(Scores(logits_BV, offset_B), score_B, len(score_B) // each, count)
        return (torch.stack([part_SK.double() for part_SK in found], dim=1),)

    inputs = scores.logits_BV, scores.offset_B, score_B
    return record(("best", each, count), best, *inputs, sentences=sentences)[0]


def best_candidates(scores: Scores, score_B: Tensor, sentences: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, rows and tokens of the best continuations of each sentence, [S, count or as many as there are].

    The rows of a sentence stand together and all sentences have equally many. A continuation scores what its row
    has so far (`score_B`) and its token's log-probability. Equal scores come in an order that depends on nothing
    but the sentence's own numbers.
    """
    rows, vocabulary = scores.logits_BV.shape
    base_B = scores.offset_B + score_B
    count = min(count, rows // sentences * vocabulary)
    if rows // sentences * (vocabulary // _BLOCK) < _MANY * count:
        total_SX = (scores.logits_BV + base_B[:, None]).view(sentences, -1)
        score_SK, place_SK = total_SX.topk(count)
    else:
        # A GPU records what is done, and has no use for TorchScript.
        by_blocks = _by_blocks if scores.logits_BV.is_cuda else _scripted_by_blocks
        score_SK, place_SK = by_blocks(scores.logits_BV, base_B, sentences, count, _BLOCK)
    row_SK = place_SK // vocabulary
    first_S1 = torch.arange(0, rows, rows // sentences, device=row_SK.device)[:, None]
    return score_SK, row_SK + first_S1, place_SK - row_SK * vocabulary


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
    device = logits_BV.device
    first_SK1 = torch.arange(0, rows, each, device=device)[:, None]
    row_SK, inner_SK = block_SK // blocks + first_SK1, block_SK % blocks
    value_SX = (whole_RGX[row_SK, inner_SK] + base_B[row_SK][:, :, None]).flatten(1)
    place_SK1 = (block_SK // blocks * vocabulary + inner_SK * size)[:, :, None]
    place_SX = (place_SK1 + torch.arange(size, device=device)).flatten(1)
    if blocks * size < vocabulary:
        rest_SX = (logits_BV[:, blocks * size :] + base_B[:, None]).reshape(sentences, -1)
        rest_X = torch.arange(blocks * size, vocabulary, device=device)
        rest_RX = torch.arange(each, device=device)[:, None] * vocabulary + rest_X
        value_SX = torch.cat([value_SX, rest_SX], dim=1)
        place_SX = torch.cat([place_SX, rest_RX.flatten().expand(sentences, -1)], dim=1)
    value_SK, order_SK = value_SX.topk(count)
    return value_SK, place_SX.gather(1, order_SK)


_scripted_by_blocks = scripted(_by_blocks)
