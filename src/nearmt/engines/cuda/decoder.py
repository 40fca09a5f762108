"""Steps of a decoder on a GPU as captured CUDA graphs, one for each shape: one launch instead of two hundred.

A graph reads and writes the same memory at every replay. So the sentences of a request use a *static batch*: buffers
with a fixed number of slots, cached tokens and source positions, rounded up. What changes from step to step (the tokens
that are fed, the rows that they continue, where the new keys and values go) is read from tensors. A finished sentence
is replaced in its slot. When slots are removed or the cache is full, the state moves to a static batch that fits.

Shapes as in `decoder_state`.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.cuda.forcing import WholeTargets
from nearmt.engines.cuda.graphs import capture
from nearmt.engines.cuda.sizes import padded_size
from nearmt.engines.reference.decoder import TorchDecoder
from nearmt.engines.reference.decoder_state import DecoderState, KeyValues, Offset, refill_slots
from nearmt.engines.reference.step_decoder import Output
from nearmt.timing import timed

#: Cached tokens and source positions of a slot come in multiples of these.
_TOKENS, _POSITIONS = 128, 16
#: The largest share of a device's memory that static batches may take.
_SHARE = 1 / 8

#: Steps before one is captured.
_WARM_UP = 3


class Shape(NamedTuple):
    """The shape for which a graph is captured."""

    slots: int
    rows_each: int
    tokens: int
    positions: int

    @classmethod
    def of(cls, state: DecoderState) -> Shape:
        """A shape that holds a state and some more steps."""
        tokens = state.used + state.rows_each
        return cls(
            padded_size(state.slots),
            state.rows_each,
            _rounded(tokens + tokens // 4, _TOKENS),
            _rounded(state.width, _POSITIONS),
        )


class StaticBatch:
    """Buffers of fixed shape for a step: a `DecoderState` whose counts are tensors of one element."""

    def __init__(self, shape: Shape, like: DecoderState) -> None:
        device = like.mask_SF.device
        self.slots, self.rows_each = shape.slots, shape.rows_each
        #: All cached tokens and source positions are read, and masks say which of them count.
        self.used, self.width = shape.tokens, shape.positions
        self.mask_SF = like.mask_SF.new_zeros(shape.slots, shape.positions)
        assert like.source is not None
        groups = like.source.groups // like.slots * shape.slots
        self.source = KeyValues.zeros(shape.positions, groups, like.source)
        self.own = KeyValues.zeros(shape.tokens, groups, like.source)
        self.ancestor_SRX = torch.zeros(*shape[:3], dtype=torch.bool, device=device)
        self.position_SX = torch.zeros(shape.slots, shape.tokens, dtype=torch.long, device=device)
        self.position_S = torch.zeros(shape.slots, dtype=torch.long, device=device)
        #: 1 for slots in use. Positions of the others stay, so that they never exceed the model's.
        self._occupied_S = torch.zeros_like(self.position_S)
        self._start = torch.zeros(1, dtype=torch.long, device=device)
        #: Tokens to be fed, and the rows that they continue.
        self.token_B = torch.zeros(self.slots * self.rows_each, dtype=torch.long, device=device)
        self.same_B = torch.arange(len(self.token_B), device=device)
        self.row_B = self.same_B.clone()
        self._row_R = torch.arange(self.rows_each, device=device)
        self._itself_SRR = torch.eye(self.rows_each, dtype=torch.bool, device=device).repeat(self.slots, 1, 1)
        self.offset: Offset = self._row_R
        #: The state that uses the buffers, and what runs a step.
        self.used_by: weakref.ref[GraphState] | None = None
        self.replay: Callable[[], Output] | None = None

    def begin_step(self) -> None:
        """Reorder rows, and reserve a cached token for each."""
        ancestor_BX = self.ancestor_SRX.flatten(0, 1).index_select(0, self.row_B)
        self.ancestor_SRX.copy_(ancestor_BX.view_as(self.ancestor_SRX))
        self.offset = offset_R = self._start + self._row_R
        self.ancestor_SRX.index_copy_(2, offset_R, self._itself_SRR)
        self.position_SX.index_copy_(1, offset_R, self.position_S[:, None].expand(-1, self.rows_each))
        self._start += self.rows_each

    def end_step(self) -> None:
        """Advance the position of the next token."""
        self.position_S += self._occupied_S

    def load(self, state: DecoderState) -> None:
        """Copy a state into the first slots. Unused slots attend to a dummy source; their output is ignored."""
        self.mask_SF.fill_(1)
        self.mask_SF[: state.slots] = 0
        self.ancestor_SRX.zero_()
        self.position_S.zero_()
        self._occupied_S.zero_()
        self._occupied_S[: state.slots] = 1
        for mine, theirs in zip(_tensors(self), _tensors(state), strict=True):
            # Spare capacity of the state holds nothing.
            both = [slice(0, min(sizes)) for sizes in zip(mine.shape, theirs.shape, strict=True)]
            mine[tuple(both)].copy_(theirs[tuple(both)])
        self._start.fill_(state.used)

    def refill(self, slots: Sequence[int], newer: DecoderState, chosen: Sequence[int], used: int) -> None:
        """Put sentences of a newer state that fits into these slots; `used` cached tokens are in use from now on."""
        refill_slots(self, slots, newer, chosen)
        self._start.fill_(used)

    def is_free_for(self, state: GraphState | None) -> bool:
        """Whether no other living state uses the buffers."""
        user = None if self.used_by is None else self.used_by()
        return user is None or user is state

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in _tensors(self))


def _tensors(state: StaticBatch | DecoderState) -> list[Tensor]:
    assert state.own is not None and state.source is not None
    cached = [part for each in (state.own, state.source) for part in (each.key, each.value_LGXD)]
    return [state.mask_SF, state.ancestor_SRX, state.position_SX, state.position_S, *cached]


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


@dataclass
class GraphState(DecoderState):
    """A state whose tensors may be in a static batch; then only its counts are its own."""

    batch: StaticBatch | None = None
    #: The static batch in use, or the last one: after `unbind`, keys and values are still views of its buffers.
    last_batch: StaticBatch | None = None
    #: While in a static batch: the rows that the next tokens continue, if they were reordered.
    parent_B: Tensor | None = None

    def reorder(self, row_B: Tensor, kept: Sequence[int] | None = None) -> None:
        if self.batch is not None and len(row_B) == self.slots * self.rows_each:
            self.parent_B = row_B if self.parent_B is None else self.parent_B[row_B]
            return
        self.unbind()
        super().reorder(row_B, kept)

    def replace(self, slots: Sequence[int], newer: DecoderState, chosen: Sequence[int]) -> None:
        batch = self.batch
        if batch is None or newer.width > batch.width or newer.used > batch.used:
            self.unbind()
            super().replace(slots, newer, chosen)
            return
        self._count_refilled(slots, newer, chosen)
        batch.refill(slots, newer, chosen, self.used)
        if self.parent_B is not None:  # the new rows continue themselves
            rows = [slot * self.rows_each + row for slot in slots for row in range(self.rows_each)]
            row_R = torch.from_numpy(np.array(rows)).to(self.parent_B.device, non_blocking=True)
            self.parent_B = self.parent_B.index_copy(0, row_R, row_R)

    def fits(self) -> bool:
        """Whether the static batch in use has capacity for another step."""
        return self.batch is not None and self.used + self.rows_each <= self.batch.used

    def bind(self, batch: StaticBatch) -> None:
        """Move into a static batch that is free or already this state's."""
        batch.load(self)
        if self.last_batch is not None:
            self.last_batch.used_by = None
        batch.used_by, self.batch, self.last_batch = weakref.ref(self), batch, batch
        self.own = self.source = None

    def unbind(self) -> None:
        """Move out of the static batch; keys and values stay views of its buffers until they are copied."""
        batch, self.batch = self.batch, None
        if batch is None:
            return
        count = self.slots
        groups = batch.own.groups // batch.slots * count
        self.own, self.source = batch.own.first(groups), batch.source.first(groups)
        self.mask_SF, self.position_SX = batch.mask_SF[:count].clone(), batch.position_SX[:count].clone()
        self.position_S = batch.position_S[:count].clone()
        self.ancestor_SRX = batch.ancestor_SRX[:count].clone()
        if self.parent_B is not None:
            super().reorder(self.parent_B)
        self.parent_B = None


class GraphDecoder:
    """A `TorchDecoder` whose steps are captured and replayed. A static batch serves one request at a time; a request
    that finds none takes its step without a graph."""

    def __init__(self, decoder: TorchDecoder) -> None:
        self._decoder = decoder
        whole = WholeTargets(decoder.parts, decoder.joined, decoder.key_layer)
        forcing = whole if WholeTargets.supports(decoder.parts) else decoder
        self.force, self.force_aligned = forcing.force, forcing.force_aligned
        self.force_with_logits = decoder.force_with_logits
        self.batches: OrderedDict[Shape, StaticBatch] = OrderedDict()
        self._lock = threading.Lock()
        self._pool: Any = None  # memory that all graphs share

    def begin(self, encoded_SFH: Tensor, mask_SF: Tensor, lengths: list[int]) -> GraphState:
        """The state of a batch of encoded sources of these lengths, one row each."""
        return GraphState(encoded_SFH, mask_SF, lengths)

    def step(self, state: DecoderState, token_BT: Tensor) -> Output:
        """Feed the newest tokens of every row: logits and keys in fp32, in memory that the next step overwrites."""
        assert isinstance(state, GraphState)
        if token_BT.shape[1] == 1:
            with timed("model/step"):
                output = self._replayed(state, token_BT[:, 0])
            if output is not None:
                return output
        return self._decoder.step(state, token_BT)

    def _replayed(self, state: GraphState, token_B: Tensor) -> Output | None:
        """A step by a graph; None if there is no static batch for this state now."""
        if not state.fits() and not self._find_batch(state):
            return None
        batch, rows = state.batch, len(token_B)
        assert batch is not None and batch.replay is not None
        batch.token_B[:rows] = token_B
        batch.row_B[:rows] = batch.same_B[:rows] if state.parent_B is None else state.parent_B
        state.parent_B = None
        logits_BV, key_BH = batch.replay()
        state.used += state.rows_each
        return logits_BV[:rows], key_BH[:rows]

    def _find_batch(self, state: GraphState) -> bool:
        """Bind a state to a static batch of its shape, if that is free."""
        if state.batch is not None:
            state.unbind()
            state.compact()
        if state.own is None:  # the first step defines the format of keys and values
            return False
        with self._lock:
            batch = self.batches.get(shape := Shape.of(state))
            if batch is not None and not batch.is_free_for(state):
                return False
            if batch is None:
                batch = self._set_up(shape, state)
            self.batches.move_to_end(shape)
            state.bind(batch)
        return True

    def _set_up(self, shape: Shape, like: DecoderState) -> StaticBatch:
        batch = StaticBatch(shape, like)
        batch.replay = self._capture(batch) if like.mask_SF.is_cuda else lambda: _as_floats(self._step(batch))
        self.batches[shape] = batch
        self._evict(like.mask_SF.device)
        return batch

    def _step(self, batch: StaticBatch) -> Output:
        hidden_BH, key_BH = self._decoder.run(batch, batch.token_B)
        return self._decoder.project(hidden_BH), key_BH

    def _capture(self, batch: StaticBatch) -> Callable[[], Output]:
        """Capture a step of a batch that is not in use yet, so that warm-up steps may change its buffers."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        batch.mask_SF.fill_(1)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                like = _as_floats(self._step(batch))
        torch.cuda.current_stream().wait_stream(side)
        graph = capture(lambda: self._step(batch), like, self._pool)
        if graph is None:
            return lambda: _as_floats(self._step(batch))

        def replay() -> Output:
            logits_BV, key_BH = graph.replay()
            return logits_BV, key_BH

        return replay

    def _evict(self, device: torch.device) -> None:
        """Drop the least recently used static batches while all together take too much memory."""
        if device.type != "cuda":
            return
        most = _SHARE * torch.cuda.get_device_properties(device).total_memory
        for shape, batch in list(self.batches.items())[:-1]:
            if sum(batch.nbytes for batch in self.batches.values()) <= most:
                break
            if batch.is_free_for(None):
                del self.batches[shape]


def _as_floats(output: Output) -> Output:
    logits_BV, key_BH = output
    return logits_BV.float(), key_BH.float()
