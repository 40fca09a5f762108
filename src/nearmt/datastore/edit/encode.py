"""Encoding pairs as entries: the decoder state before every target token."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from nearmt.contracts import Pair
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.datastore.edit.preparing import Preparation, PreparedPairs, Preparers
from nearmt.datastore.edit.tokens import marks_of
from nearmt.engines.devices import device_of, spread, spread_in_order
from nearmt.models import TranslationModel
from nearmt.models.forced import ForcedPairs
from nearmt.models.ragged import ranges
from nearmt.reduction import FittingSample, Reduction
from nearmt.timing import timed


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
class EncodedBlock:
    """Pairs and their N entries, on the model's device while they are encoded, then in main memory."""

    pairs: list[Pair]
    prepared: PreparedPairs
    #: Numbers of the pairs that are encoded together.
    batches: list[np.ndarray]
    key_ND: Tensor
    word_N: Tensor
    #: Pairs that are done: encoded or too long.
    done: int
    #: Told by a GPU when the entries are in main memory.
    copied: torch.cuda.Event | None = None

    @property
    def is_done(self) -> bool:
        return self.done == len(self.pairs)

    def land(self) -> None:
        """Copy the entries to main memory, on a GPU while the program goes on."""
        if self.key_ND.device.type == "cuda":
            self.key_ND, self.word_N = _pinned_copy(self.key_ND), _pinned_copy(self.word_N)
            self.copied = torch.cuda.Event()
            self.copied.record()

    def landed(self) -> EncodedBlock:
        """The same block, once its entries are in main memory."""
        if self.copied is not None:
            with timed("build/wait for device"):
                self.copied.synchronize()
        return self

    def units(self) -> Iterator[EncodedPair]:
        """Each pair with its entries."""
        forced = self.prepared.forced
        rows = zip(self.pairs, forced.source.rows(), forced.target.rows(), strict=True)
        keys = self.key_ND.split(forced.target.length_R.tolist())
        words = np.split(self.word_N.numpy().astype("<u2"), forced.target.end_R[:-1])
        for (pair, source, target), key_TD, word_T in zip(rows, keys, words, strict=True):
            key = key_TD if len(target) else None
            yield EncodedPair(pair, source.tolist(), target.tolist(), key, word_T)


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
    if not pairs:
        return
    encoder = Encoder(model, reduction, marks)
    block = encoder.begun([(pairs, encoder.prepare(pairs))])
    for _, size in spread([partial(encoder.encode, block, batch) for batch in block.batches], model.seq2seq.device):
        block.done += size
        if progress:
            progress(block.done)
    block.land()
    yield from block.landed().units()


def encode_blocks(
    model: TranslationModel,
    blocks: Iterable[list[Pair]],
    reduction: Reduction | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[EncodedBlock]:
    """The same for many blocks, without a gap between them: blocks are prepared by threads or processes of their own,
    and batches of a block are begun before the last ones of the block before have ended. Few blocks are held at a
    time. On a GPU several blocks become one."""
    encoder, device = Encoder(model, reduction), device_of(model.seq2seq.device)
    begun: deque[EncodedBlock] = deque()
    landing: deque[EncodedBlock] = deque()
    before = 0
    with Preparers(encoder.prepare, blocks, processes(model.seq2seq.device)) as preparers:
        tasks = _tasks(encoder, preparers, begun, device.forced_blocks)
        for size in spread_in_order(tasks, model.seq2seq.device):
            if size:  # else of a block without batches
                begun[0].done += size
            if progress and size:
                progress(before + begun[0].done)
            while begun and begun[0].is_done:
                before += len(begun[0].pairs)
                begun[0].land()
                landing.append(begun.popleft())
            while len(landing) > device.forced_ahead:
                yield landing.popleft().landed()
        yield from (block.landed() for block in landing)


def _tasks(
    encoder: Encoder, preparers: Preparers, begun: deque[EncodedBlock], together: int
) -> Iterator[Callable[[], int]]:
    """Encode a batch, for all batches of all blocks. Between them, further blocks are read, so that a GPU has work
    meanwhile."""
    prepared = iter(preparers)
    while parts := list(islice(prepared, together)):
        with timed("build/begin block"):
            block = encoder.begun(parts)
        begun.append(block)
        for batch in block.batches:
            yield partial(encoder.encode, block, batch)
            with timed("build/read"):
                for _ in range(1 + together // len(block.batches)):
                    preparers.read_ahead()
        if not block.batches:
            yield lambda: 0  # so that the block is passed on


def processes(device: torch.device) -> int:
    """How many processes prepare pairs for a device: not on all cores, one is the caller's."""
    return min(device_of(device).preparers, len(os.sched_getaffinity(0)) - 1)


class Encoder:
    """Encodes the batches of prepared blocks."""

    def __init__(self, model: TranslationModel, reduction: Reduction | None, marks: str | None = None) -> None:
        self._model, self._reduction = model.seq2seq, reduction
        marks = marks_of(model) if marks is None else marks
        self.prepare = Preparation(model.codec, marks, self._model.positions, len(self._model.prompt))

    def begun(self, parts: list[tuple[list[Pair], PreparedPairs]]) -> EncodedBlock:
        """A block of which nothing is encoded yet."""
        pairs = [pair for some, _ in parts for pair in some]
        prepared = PreparedPairs.joined([part for _, part in parts])
        device, reduction = self._model.device, self._reduction
        entries = int(prepared.forced.target.length_R.sum())
        columns, kind = (
            (self._model.hidden_size, torch.float32) if reduction is None else (reduction.columns, torch.half)
        )
        fitting_P = np.flatnonzero(prepared.fits_P)
        batches = list(_batches(prepared.forced, fitting_P, device_of(device).forced_tokens))
        return EncodedBlock(
            pairs,
            prepared,
            batches,
            torch.empty(entries, columns, dtype=kind, device=device),
            torch.empty(entries, dtype=torch.int32, device=device),
            done=len(pairs) - len(fitting_P),
        )

    def encode(self, block: EncodedBlock, batch: np.ndarray) -> int:
        """Give the pairs of a batch their keys and words; return their number."""
        target = block.prepared.forced.target
        with timed("build/take"):
            chosen = block.prepared.forced.take(batch)
            entry_N = self._model.sent(ranges(target.start_R[batch], target.length_R[batch]))
        state_NH, code_N = self._model.force_entries(chosen)
        with torch.inference_mode(), timed("build/reduce"):
            key_ND = state_NH if self._reduction is None else self._reduction.apply(state_NH)
            block.key_ND.index_copy_(0, entry_N, key_ND.to(block.key_ND.dtype))
            block.word_N.index_copy_(0, entry_N, code_N.int())
        return len(batch)


def _pinned_copy(on_device: Tensor) -> Tensor:
    copy = torch.empty(on_device.shape, dtype=on_device.dtype, pin_memory=True)
    return copy.copy_(on_device, non_blocking=True)


def fitting_sample(model: TranslationModel, pairs: Iterable[Pair]) -> FittingSample:
    """Accumulate the states of pairs for fitting a reduction."""
    sample = FittingSample(model.seq2seq.hidden_size)
    for block in encode_blocks(model, blocks_of(pairs)):
        sample.add(block.key_ND)
    return sample


def _batches(pairs: ForcedPairs, chosen: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Group pairs of similar length into batches whose padded size stays within the budget.

    Pairs of similar length on both sides: ordered by both together, a third of all positions would be padding.
    """
    source_P, target_P = pairs.source.length_R[chosen], pairs.target.length_R[chosen]
    longer_P = np.maximum(source_P, target_P)
    order_P = np.lexsort((np.minimum(source_P, target_P), longer_P))[::-1]
    start = 0
    while start < len(order_P):
        most = max(1, budget // int(longer_P[order_P[start]]))
        order_X = order_P[start : start + most]
        longest_X = sum(np.maximum.accumulate(length_P[order_X]) for length_P in (source_P, target_P))
        count = max(1, int(np.searchsorted(longest_X * np.arange(1, len(order_X) + 1), budget, "right")))
        yield chosen[order_X[:count]]
        start += count
