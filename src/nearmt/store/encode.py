"""Pairs to entries: the decoder's state before every target token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore.pairs import blocks_of
from nearmt.models import TranslationModel
from nearmt.reduction import FittingSample

#: Most source and target tokens, padding included, of one forward pass.
BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}


@dataclass
class EncodedPair:
    """A pair and its entries: T keys (states, not yet reduced) and T target tokens; none if it is too long."""

    pair: Pair
    source: list[int]
    tokens: list[int]
    hidden_TH: Tensor | None = None


def encode_block(
    model: TranslationModel, pairs: list[Pair], progress: Callable[[int], None] | None = None
) -> Iterator[EncodedPair]:
    """Force-decode a block in batches of similar length; the results come in the order of the pairs.

    `progress` is told after each batch how many pairs of the block are done.
    """
    sources = [model.codec.source_ids(pair.source) for pair in pairs]
    targets = [model.codec.target_ids(pair.target) for pair in pairs]
    encoded = [EncodedPair(*unit) for unit in zip(pairs, sources, targets, strict=True)]
    positions, prompt = model.seq2seq.positions, len(model.seq2seq.prompt)
    fitting = []
    for number, unit in enumerate(encoded):
        if len(sources[number]) <= positions and len(unit.tokens) + prompt - 1 <= positions:
            fitting.append(number)
        else:
            unit.tokens = []
    done = len(pairs) - len(fitting)
    for batch in _batches(fitting, sources, encoded, BATCH_TOKENS.get(model.seq2seq.device.type, BATCH_TOKENS["cpu"])):
        states = model.seq2seq.force_decode([sources[n] for n in batch], [encoded[n].tokens for n in batch])
        for number, hidden_TH in zip(batch, states, strict=True):
            encoded[number].hidden_TH = hidden_TH
        done += len(batch)
        if progress:
            progress(done)
    yield from encoded


def fitting_sample(model: TranslationModel, pairs: Iterable[Pair]) -> FittingSample:
    """The states of pairs, as far as fitting a reduction needs them."""
    sample = FittingSample(model.seq2seq.hidden_size)
    for block in blocks_of(pairs):
        for unit in encode_block(model, block):
            if unit.hidden_TH is not None:
                sample.add(unit.hidden_TH)
    return sample


def _batches(
    numbers: list[int], sources: list[list[int]], encoded: list[EncodedPair], budget: int
) -> Iterator[list[int]]:
    """Groups of similar length whose padded size stays within the budget."""

    def size(number: int) -> int:
        return len(sources[number]) + len(encoded[number].tokens)

    batch: list[int] = []
    for number in sorted(numbers, key=size, reverse=True):
        if batch and (len(batch) + 1) * size(batch[0]) > budget:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
