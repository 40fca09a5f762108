"""Encoding pairs as entries: the decoder state before every target token."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.edit.tokens import marks_of, tokens_of_all
from nearmt.engines.devices import device_of, spread, spread_in_order
from nearmt.models import TranslationModel
from nearmt.models.words import aligned_words
from nearmt.reduction import FittingSample, Reduction
from nearmt.threads import prefetched

#: Blocks that are read and tokenized while an earlier one is encoded.
_AHEAD = 1


@dataclass
class EncodedPair:
    """A pair and its entries: T target tokens, keys [T, D] and codes of the source words that they are aligned with
    [T]; none if the pair is too long."""

    pair: Pair
    source: list[int]
    tokens: list[int]
    key_TD: Tensor | None = None
    word_T: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype="<u2"))


@dataclass
class TokenizedBlock:
    """A block whose pairs have tokens, and keys as far as it is encoded."""

    pairs: list[EncodedPair]
    #: Numbers of the pairs that are encoded together.
    batches: list[list[int]]
    too_long: int
    #: Pairs that are done: encoded or too long.
    done: int


def encode_block(
    model: TranslationModel,
    pairs: list[Pair],
    reduction: Reduction | None = None,
    progress: Callable[[int], None] | None = None,
    marks: str | None = None,
) -> Iterator[EncodedPair]:
    """Force-decode a block in batches of similar length; yield the results in the order of the pairs.

    Keys are the model's states, reduced if a reduction is given. `progress` is called after each batch with the
    number of pairs done; `marks` is how the store marks protected spans, if not
    as a new one does.
    """
    encoder = _Encoder(model, reduction, marks)
    block = encoder.tokenized(pairs)
    for _, size in spread([partial(encoder.encode, block, batch) for batch in block.batches], model.seq2seq.device):
        block.done += size
        if progress:
            progress(block.done)
    yield from block.pairs


def encode_blocks(
    model: TranslationModel,
    blocks: Iterable[list[Pair]],
    reduction: Reduction | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[list[EncodedPair]]:
    """The same for many blocks, without a gap between them: blocks are read and tokenized in a thread of their own, and
    batches of a block are begun before the last ones of the block before have ended. Few blocks are held at a time."""
    encoder = _Encoder(model, reduction)
    begun: deque[TokenizedBlock] = deque()
    before = 0

    def tasks() -> Iterator[Callable[[], int]]:
        for block in prefetched(map(encoder.tokenized, blocks), _AHEAD):
            begun.append(block)
            yield from (partial(encoder.encode, block, batch) for batch in block.batches)

    for size in spread_in_order(tasks(), model.seq2seq.device):
        # Blocks without batches.
        while begun[0].done == len(begun[0].pairs):
            before += len(begun[0].pairs)
            yield begun.popleft().pairs
        begun[0].done += size
        if progress:
            progress(before + begun[0].done)
        if begun[0].done == len(begun[0].pairs):
            before += len(begun[0].pairs)
            yield begun.popleft().pairs
    yield from (block.pairs for block in begun)


class _Encoder:
    """Tokenizes blocks and encodes their batches."""

    def __init__(self, model: TranslationModel, reduction: Reduction | None, marks: str | None = None) -> None:
        self._model, self._reduction = model, reduction
        self._marks = marks_of(model) if marks is None else marks

    def tokenized(self, pairs: list[Pair]) -> TokenizedBlock:
        model = self._model.seq2seq
        tokens = tokens_of_all(self._model.codec, pairs, self._marks)
        encoded = [EncodedPair(pair, source, target) for pair, (source, target) in zip(pairs, tokens, strict=True)]
        positions, prompt = model.positions, len(model.prompt)
        fitting = []
        for number, unit in enumerate(encoded):
            if len(unit.source) <= positions and len(unit.tokens) + prompt - 1 <= positions:
                fitting.append(number)
            else:
                unit.tokens = []
        batches = list(_batches(fitting, encoded, device_of(model.device).forced_tokens))
        too_long = len(pairs) - len(fitting)
        return TokenizedBlock(encoded, batches, too_long, done=too_long)

    def encode(self, block: TokenizedBlock, batch: list[int]) -> int:
        """Give the pairs of a batch their keys and words; return their number."""
        chosen = [block.pairs[number] for number in batch]
        sources = [unit.source for unit in chosen]
        found = self._model.seq2seq.force_aligned(sources, [unit.tokens for unit in chosen])
        states = [state_TH for state_TH, _ in found]
        words = aligned_words(self._model.codec, sources, [weight_TS for _, weight_TS in found])
        keys = states if self._reduction is None else _reduced(states, self._reduction)
        for unit, key_TD, word_T in zip(chosen, keys, words, strict=True):
            unit.key_TD, unit.word_T = key_TD, word_T
        return len(batch)


def _reduced(states: list[Tensor], reduction: Reduction) -> list[Tensor]:
    """Stored keys, fp16 on the CPU: a whole batch with one product and one copy."""
    key_ND = reduction.apply(torch.cat(states)).half().cpu()
    return list(key_ND.split([len(state_TH) for state_TH in states]))


def fitting_sample(model: TranslationModel, pairs: Iterable[Pair]) -> FittingSample:
    """Accumulate the states of pairs for fitting a reduction."""
    sample = FittingSample(model.seq2seq.hidden_size)
    for block in encode_blocks(model, blocks_of(pairs)):
        for unit in block:
            if unit.key_TD is not None:
                sample.add(unit.key_TD)
    return sample


def _batches(numbers: list[int], encoded: list[EncodedPair], budget: int) -> Iterator[list[int]]:
    """Group pairs by length into batches whose padded size stays within the budget."""

    def size(number: int) -> int:
        return len(encoded[number].source) + len(encoded[number].tokens)

    batch: list[int] = []
    for number in sorted(numbers, key=size, reverse=True):
        if batch and (len(batch) + 1) * size(batch[0]) > budget:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
