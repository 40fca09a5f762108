"""Steps of a decoder on a GPU, recorded once for each shape and replayed: one launch instead of two hundred.

A recording reads and writes the same memory every time. So the sentences of a request take seats on a *stage* of
fixed shape: so many sentences, slots and source positions, rounded up. What changes from step to step, which tokens
are fed, which rows they continue and where the newest slots are, is read from tensors. A sentence that is done gives
its seat to another one. When some leave, or slots run out, those that go on move to a stage that fits.

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

from nearmt.engines.cuda.graphs import capture
from nearmt.engines.cuda.sizes import padded_size
from nearmt.engines.reference.decoder import StepDecoder
from nearmt.engines.reference.decoder_state import DecoderState, Place, Slots, replace_sentences

#: Slots of a sentence, and its source positions, come in multiples of these.
_SLOTS, _POSITIONS = 128, 16
#: The most of a device's memory that stages may hold.
_SHARE = 1 / 8

#: Steps before one is recorded.
_WARM_UP = 3

#: Logits [B, V] and keys [B, H] of the next tokens.
Output = tuple[Tensor, Tensor]


class Shape(NamedTuple):
    """What a recording is made for."""

    sentences: int
    rows_each: int
    slots: int
    positions: int

    @classmethod
    def of(cls, state: DecoderState) -> Shape:
        """A shape that holds a state and some steps more."""
        slots = state.used + state.rows_each
        return cls(
            padded_size(state.sentences),
            state.rows_each,
            _rounded(slots + slots // 4, _SLOTS),
            _rounded(state.width, _POSITIONS),
        )


class Stage:
    """To `StepDecoder` a `DecoderState` of fixed shape, whose numbers are tensors of one element."""

    def __init__(self, shape: Shape, like: DecoderState) -> None:
        device = like.mask_SF.device
        self.sentences, self.rows_each = shape.sentences, shape.rows_each
        #: All slots and positions are looked at, and masks say which of them count.
        self.used, self.width = shape.slots, shape.positions
        self.mask_SF = like.mask_SF.new_zeros(shape.sentences, shape.positions)
        assert like.source is not None
        groups = like.source.groups // like.sentences * shape.sentences
        self.source = Slots.blank(shape.positions, groups, like.source)
        self.own = Slots.blank(shape.slots, groups, like.source)
        self.ancestor_SRX = torch.zeros(*shape[:3], dtype=torch.bool, device=device)
        self.position_SX = torch.zeros(shape.sentences, shape.slots, dtype=torch.long, device=device)
        self.position_S = torch.zeros(shape.sentences, dtype=torch.long, device=device)
        #: 1 for a seat that is taken. Others do not move on: they would leave the model's positions.
        self._taken_S = torch.zeros_like(self.position_S)
        self._start = torch.zeros(1, dtype=torch.long, device=device)
        #: Tokens to be fed, and the rows that they continue.
        self.token_B = torch.zeros(self.sentences * self.rows_each, dtype=torch.long, device=device)
        self.same_B = torch.arange(len(self.token_B), device=device)
        self.row_B = self.same_B.clone()
        self._row_R = torch.arange(self.rows_each, device=device)
        self._itself_SRR = torch.eye(self.rows_each, dtype=torch.bool, device=device).repeat(self.sentences, 1, 1)
        self.place: Place = self._row_R
        #: Who is on it, and how a step is done.
        self.owner: weakref.ref[GraphedState] | None = None
        self.replay: Callable[[], Output] | None = None

    def begin_step(self) -> None:
        """Rows become what they continue, and get a slot each."""
        ancestor_BX = self.ancestor_SRX.flatten(0, 1).index_select(0, self.row_B)
        self.ancestor_SRX.copy_(ancestor_BX.view_as(self.ancestor_SRX))
        self.place = place_R = self._start + self._row_R
        self.ancestor_SRX.index_copy_(2, place_R, self._itself_SRR)
        self.position_SX.index_copy_(1, place_R, self.position_S[:, None].expand(-1, self.rows_each))
        self._start += self.rows_each

    def end_step(self) -> None:
        """What follows stands one position further on."""
        self.position_S += self._taken_S

    def load(self, state: DecoderState) -> None:
        """A state takes the first seats. The others look at all of an empty source, and nobody looks at them."""
        self.mask_SF.fill_(1)
        self.mask_SF[: state.sentences] = 0
        self.ancestor_SRX.zero_()
        self.position_S.zero_()
        self._taken_S.zero_()
        self._taken_S[: state.sentences] = 1
        for mine, theirs in zip(_tensors(self), _tensors(state), strict=True):
            # Room that the state has beyond its slots holds nothing.
            both = [slice(0, min(sizes)) for sizes in zip(mine.shape, theirs.shape, strict=True)]
            mine[tuple(both)].copy_(theirs[tuple(both)])
        self._start.fill_(state.used)

    def take(self, places: Sequence[int], newer: DecoderState, chosen: Sequence[int], used: int) -> None:
        """Sentences of a newer state, which fits, take the seats of others; `used` slots are in use from now on."""
        replace_sentences(self, places, newer, chosen)
        self._start.fill_(used)

    def free_for(self, state: GraphedState | None) -> bool:
        """Whether nobody else is on it; who is gone has left it."""
        owner = None if self.owner is None else self.owner()
        return owner is None or owner is state

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in _tensors(self))


def _tensors(state: Stage | DecoderState) -> list[Tensor]:
    assert state.own is not None and state.source is not None
    slots = [part for slots in (state.own, state.source) for part in (slots.key, slots.value_LGXD)]
    return [state.mask_SF, state.ancestor_SRX, state.position_SX, state.position_S, *slots]


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


@dataclass
class GraphedState(DecoderState):
    """A state that may be on a stage, where only its counts are its own."""

    stage: Stage | None = None
    #: The stage that it is on, or was on last: what it took along may still be there.
    booked: Stage | None = None
    #: On a stage: the rows that the next tokens continue, where they have moved.
    moved_B: Tensor | None = None

    def reorder(self, row_B: Tensor, kept: Sequence[int] | None = None) -> None:
        if self.stage is not None and len(row_B) == self.sentences * self.rows_each:
            self.moved_B = row_B if self.moved_B is None else self.moved_B[row_B]
            return
        self.step_down()
        super().reorder(row_B, kept)

    def replace(self, places: Sequence[int], newer: DecoderState, chosen: Sequence[int]) -> None:
        stage = self.stage
        if stage is None or newer.width > stage.width or newer.used > stage.used:
            self.step_down()
            super().replace(places, newer, chosen)
            return
        self._follow(places, newer, chosen)
        stage.take(places, newer, chosen, self.used)
        if self.moved_B is not None:  # the new ones have not moved
            rows = [place * self.rows_each + row for place in places for row in range(self.rows_each)]
            row_R = torch.from_numpy(np.array(rows)).to(self.moved_B.device, non_blocking=True)
            self.moved_B = self.moved_B.index_copy(0, row_R, row_R)

    def fits(self) -> bool:
        """Whether it is on a stage that has slots for another step."""
        return self.stage is not None and self.used + self.rows_each <= self.stage.used

    def step_up(self, stage: Stage) -> None:
        """Go onto a stage that is free or its own."""
        stage.load(self)
        if self.booked is not None:
            self.booked.owner = None
        stage.owner, self.stage, self.booked = weakref.ref(self), stage, stage
        self.own = self.source = None

    def step_down(self) -> None:
        """Leave the stage and take along what is there."""
        stage, self.stage = self.stage, None
        if stage is None:
            return
        count = self.sentences
        groups = stage.own.groups // stage.sentences * count
        self.own, self.source = stage.own.first(groups), stage.source.first(groups)
        self.mask_SF, self.position_SX = stage.mask_SF[:count].clone(), stage.position_SX[:count].clone()
        self.position_S = stage.position_S[:count].clone()
        self.ancestor_SRX = stage.ancestor_SRX[:count].clone()
        if self.moved_B is not None:
            super().reorder(self.moved_B)
        self.moved_B = None


class GraphedDecoder:
    """Does what a `StepDecoder` and its projection do. One request at a time is on a stage, others do without."""

    def __init__(self, decoder: StepDecoder) -> None:
        self._decoder = decoder
        self._stages: OrderedDict[Shape, Stage] = OrderedDict()
        self._lock = threading.Lock()
        self._memory: Any = None  # that all recordings share

    def step(self, state: GraphedState, token_B: Tensor) -> Output | None:
        """Logits and keys, in memory that the next step overwrites; None if there is no stage for this state now."""
        if not state.fits() and not self._find_stage(state):
            return None
        stage, rows = state.stage, len(token_B)
        assert stage is not None and stage.replay is not None
        stage.token_B[:rows] = token_B
        stage.row_B[:rows] = stage.same_B[:rows] if state.moved_B is None else state.moved_B
        state.moved_B = None
        logits_BV, key_BH = stage.replay()
        state.used += state.rows_each
        return logits_BV[:rows], key_BH[:rows]

    def _find_stage(self, state: GraphedState) -> bool:
        """Put a state on a stage that fits, if that is free."""
        if state.stage is not None:
            state.step_down()
            state.make_room()
        if state.own is None:  # the first step shows what a stage is like
            return False
        with self._lock:
            stage = self._stages.get(shape := Shape.of(state))
            if stage is not None and not stage.free_for(state):
                return False
            if stage is None:
                stage = self._set_up(shape, state)
            self._stages.move_to_end(shape)
            state.step_up(stage)
        return True

    def _set_up(self, shape: Shape, like: DecoderState) -> Stage:
        stage = Stage(shape, like)
        stage.replay = self._record(stage) if like.mask_SF.is_cuda else lambda: _as_floats(self._step(stage))
        self._stages[shape] = stage
        self._forget(like.mask_SF.device)
        return stage

    def _step(self, stage: Stage) -> Output:
        hidden_BH, key_BH = self._decoder.step(stage, stage.token_B)
        return self._decoder.logits(hidden_BH), key_BH

    def _record(self, stage: Stage) -> Callable[[], Output]:
        """Record a step. Nobody is on the stage yet, so it does not matter what is computed meanwhile."""
        if self._memory is None:
            self._memory = torch.cuda.graph_pool_handle()
        stage.mask_SF.fill_(1)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                like = _as_floats(self._step(stage))
        torch.cuda.current_stream().wait_stream(side)
        recording = capture(lambda: self._step(stage), like, self._memory)
        if recording is None:
            return lambda: _as_floats(self._step(stage))

        def replay() -> Output:
            logits_BV, key_BH = recording.replay()
            return logits_BV, key_BH

        return replay

    def _forget(self, device: torch.device) -> None:
        """Let go of the stages that were not used for the longest time, where all together are too large."""
        if device.type != "cuda":
            return
        most = _SHARE * torch.cuda.get_device_properties(device).total_memory
        for shape, stage in list(self._stages.items())[:-1]:
            if sum(stage.nbytes for stage in self._stages.values()) <= most:
                break
            if stage.free_for(None):
                del self._stages[shape]


def _as_floats(output: Output) -> Output:
    logits_BV, key_BH = output
    return logits_BV.float(), key_BH.float()
