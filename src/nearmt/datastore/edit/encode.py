"""Encoding pairs as entries: the decoder state before every target token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.edit.tokens import marks_of, tokens_of
from nearmt.engines.devices import device_of, spread
from nearmt.models import TranslationModel
from nearmt.models.words import aligned_words
from nearmt.reduction import FittingSample, Reduction


@dataclass
class EncodedPair:
    """A pair and its entries: T target tokens, keys [T, D] and codes of the source words that they are aligned with
    [T]; none if the pair is too long."""

    pair: Pair
    source: list[int]
    tokens: list[int]
    key_TD: Tensor | None = None
    word_T: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype="<u2"))


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
    marks = marks_of(model) if marks is None else marks
    encoded = [EncodedPair(pair, *tokens_of(model.codec, pair, marks)) for pair in pairs]
    sources = [unit.source for unit in encoded]
    positions, prompt = model.seq2seq.positions, len(model.seq2seq.prompt)
    fitting = []
    for number, unit in enumerate(encoded):
        if len(sources[number]) <= positions and len(unit.tokens) + prompt - 1 <= positions:
            fitting.append(number)
        else:
            unit.tokens = []
    done = len(pairs) - len(fitting)
    budget = device_of(model.seq2seq.device).forced_tokens
    batches = list(_batches(fitting, sources, encoded, budget))

    def entries_of(batch: list[int]) -> tuple[list[Tensor], list[np.ndarray]]:
        forced = [sources[n] for n in batch], [encoded[n].tokens for n in batch]
        found = model.seq2seq.force_aligned(*forced)
        states = [state_TH for state_TH, _ in found]
        words = aligned_words(model.codec, forced[0], [weight_TS for _, weight_TS in found])
        return states if reduction is None else _reduced(states, reduction), words

    for index, (keys, words) in spread([partial(entries_of, batch) for batch in batches], model.seq2seq.device):
        for number, key_TD, word_T in zip(batches[index], keys, words, strict=True):
            encoded[number].key_TD, encoded[number].word_T = key_TD, word_T
        done += len(batches[index])
        if progress:
            progress(done)
    yield from encoded


def _reduced(states: list[Tensor], reduction: Reduction) -> list[Tensor]:
    """Stored keys, fp16 on the CPU: a whole batch with one product and one copy."""
    key_ND = reduction.apply(torch.cat(states)).half().cpu()
    return list(key_ND.split([len(state_TH) for state_TH in states]))


def fitting_sample(model: TranslationModel, pairs: Iterable[Pair]) -> FittingSample:
    """Accumulate the states of pairs for fitting a reduction."""
    sample = FittingSample(model.seq2seq.hidden_size)
    for block in blocks_of(pairs):
        for unit in encode_block(model, block):
            if unit.key_TD is not None:
                sample.add(unit.key_TD)
    return sample


def _batches(
    numbers: list[int], sources: list[list[int]], encoded: list[EncodedPair], budget: int
) -> Iterator[list[int]]:
    """Group pairs by length into batches whose padded size stays within the budget."""

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
