"""Timing systems against each other: in turns, so that whatever else the machine does disturbs all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nearmt.engines.devices import DEVICES
from nearmt.models import TextCodec
from nearmt.research.bench.load import others_seconds
from nearmt.research.bench.runners import Cell, Output, Runner

#: Sentences that follow each other in a sample, at least.
STRETCH = 16


@dataclass
class Measured:
    """What a system took for each block, repeat by repeat, and what it said."""

    cell: Cell
    signature: str
    #: By repeat, then by block.
    seconds: list[list[float]] = field(default_factory=list)
    #: In the order of the sentences; all repeats say the same.
    outputs: list[Output] = field(default_factory=list)
    #: CPU time that other programs took meanwhile.
    others: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(output.tokens for output in self.outputs)

    @property
    def speed(self) -> float:
        """Tokens a second: all tokens over the sum of the blocks' median times."""
        seconds: float = sum(statistics.median(times) for times in zip(*self.seconds, strict=True))
        return self.tokens / seconds

    @property
    def speed_quartiles(self) -> tuple[float, float]:
        """The same of the blocks' quartiles."""
        fast, slow = zip(*(quartiles(times) for times in zip(*self.seconds, strict=True)), strict=True)
        return self.tokens / sum(slow), self.tokens / sum(fast)

    @property
    def others_share(self) -> float:
        """CPUs that other programs kept busy while this system ran."""
        return self.others / sum(map(sum, self.seconds))

    @property
    def speeds(self) -> list[float]:
        """Tokens a second of each repeat."""
        return [self.tokens / sum(blocks) for blocks in self.seconds]


def ratios(measured: Measured, reference: Measured) -> list[float]:
    """How many times as fast as the reference, in each repeat."""
    return [mine / other for mine, other in zip(measured.speeds, reference.speeds, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third; of few values, those between which they lie."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def sorted_by_length(texts: Sequence[str], codec: TextCodec) -> list[int]:
    """Places of the texts, the longest first: whoever translates all of them makes batches in this order."""
    lengths = [codec.source_length(codec.source_ids(text)) for text in texts]
    return sorted(range(len(texts)), key=lambda place: lengths[place], reverse=True)


def sample(count: int, wanted: int, together: int) -> list[int]:
    """About `wanted` of `count` places, in stretches of `together`, evenly spread.

    Of texts sorted by length, a stretch has texts of similar length, as batches of the whole have. A few lines from
    anywhere would make batches of short and long ones, in which a system that lets finished sentences leave shines.
    """
    if wanted >= count:
        return list(range(count))
    together = min(wanted, together)
    parts = wanted // together
    starts = [(count - together) * (2 * part + 1) // (2 * parts) for part in range(parts)]
    return sorted({place for start in starts for place in range(start, start + together)})


def stretch(batch_size: int) -> int:
    """Whole batches, and at least `STRETCH` sentences."""
    return batch_size * max(1, STRETCH // batch_size)


def blocks_of(texts: Sequence[str], batch_size: int, batches: int = DEVICES["cpu"].batches) -> list[list[str]]:
    """What systems translate when it is their turn: whole batches, as many as nearmt takes on at a time."""
    size = max(stretch(batch_size), batch_size * batches)
    return [list(texts[start : start + size]) for start in range(0, len(texts), size)]


def take_turns(
    runners: dict[Cell, Runner],
    blocks: Sequence[list[str]],
    repeats: int,
    failed: Callable[[Cell, Exception], None],
    progress: Callable[[], None] = lambda: None,
) -> list[Measured]:
    """Every system translates block after block, the next system first each time.

    One that cannot is told to `failed` and left out from then on.
    """
    running: dict[Cell, Measured] = {}
    for cell, runner in runners.items():
        try:
            # What is made at the first use is made now: a batch of middling length is enough.
            runner.translate(blocks[len(blocks) // 2][-cell.batch_size :])
            running[cell] = Measured(cell, runner.signature())
        except Exception as error:
            failed(cell, error)
    turn = 0
    for repeat in range(repeats):
        for block in blocks:
            order = list(running)
            turn += 1
            for cell in [*order[turn % len(order) :], *order[: turn % len(order)]] if order else []:
                try:
                    _time_block(running[cell], runners[cell], block, repeat)
                except Exception as error:
                    failed(cell, error)
                    del running[cell]
                progress()
    return list(running.values())


def _time_block(measured: Measured, runner: Runner, block: list[str], repeat: int) -> None:
    before, began = others_seconds(), time.perf_counter()
    outputs = runner.translate(block)
    taken, after = time.perf_counter() - began, others_seconds()
    if before is not None and after is not None:
        measured.others += max(0.0, after - before)
    if repeat == len(measured.seconds):
        measured.seconds.append([])
    measured.seconds[repeat].append(taken)
    if repeat == 0:
        measured.outputs += outputs
