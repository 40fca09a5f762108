"""Timing of several systems: they alternate block by block, so that other load on the machine affects all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nearmt.engines.devices import DEVICES
from nearmt.models import TextCodec
from nearmt.research.bench.load import other_cpu_seconds
from nearmt.research.bench.runners import Output, Runner, Variant

#: Least number of consecutive sentences in a sample.
SHORTEST_RUN = 16


@dataclass
class Measured:
    """The times and outputs of one variant."""

    variant: Variant
    signature: str
    #: By repeat, then by block.
    seconds: list[list[float]] = field(default_factory=list)
    #: Of the first repeat, in the order of the sentences.
    outputs: list[Output] = field(default_factory=list)
    #: CPU seconds that other programs used meanwhile.
    others: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(output.tokens for output in self.outputs)

    @property
    def speed(self) -> float:
        """Tokens a second: all tokens divided by the sum of the blocks' median times."""
        seconds: float = sum(statistics.median(times) for times in zip(*self.seconds, strict=True))
        return self.tokens / seconds

    @property
    def speed_quartiles(self) -> tuple[float, float]:
        """Tokens a second computed from the blocks' quartiles."""
        fast, slow = zip(*(quartiles(times) for times in zip(*self.seconds, strict=True)), strict=True)
        return self.tokens / sum(slow), self.tokens / sum(fast)

    @property
    def others_share(self) -> float:
        """Average number of CPUs that other programs used while this variant ran."""
        return self.others / sum(map(sum, self.seconds))

    @property
    def speeds(self) -> list[float]:
        """Tokens a second of each repeat."""
        return [self.tokens / sum(blocks) for blocks in self.seconds]


def ratios(measured: Measured, reference: Measured) -> list[float]:
    """Speed relative to the reference, for each repeat."""
    return [mine / other for mine, other in zip(measured.speeds, reference.speeds, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and third quartile; a single value is both."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def sorted_by_length(texts: Sequence[str], codec: TextCodec) -> list[int]:
    """Return the indexes of the texts, longest first: the order in which a whole test set is batched."""
    lengths = [codec.source_length(codec.source_ids(text)) for text in texts]
    return sorted(range(len(texts)), key=lambda index: lengths[index], reverse=True)


def sample(count: int, wanted: int, together: int) -> list[int]:
    """Choose about `wanted` of `count` indexes, in evenly spread runs of `together` consecutive ones.

    In a list sorted by length, consecutive texts have similar lengths, like the batches of the whole test set.
    Single random lines would mix short and long sentences in a batch, which favours systems that release finished
    sentences early.
    """
    if wanted >= count:
        return list(range(count))
    together = min(wanted, together)
    parts = wanted // together
    starts = [(count - together) * (2 * part + 1) // (2 * parts) for part in range(parts)]
    return sorted({index for start in starts for index in range(start, start + together)})


def run_length(batch_size: int) -> int:
    """Return the size of a run of whole batches with at least `SHORTEST_RUN` sentences if batches are smaller."""
    return batch_size * max(1, SHORTEST_RUN // batch_size)


def blocks_of(texts: Sequence[str], batch_size: int, batches: int = DEVICES["cpu"].batches) -> list[list[str]]:
    """Cut texts into blocks of whole batches, as many as nearmt translates concurrently."""
    size = max(run_length(batch_size), batch_size * batches)
    return [list(texts[start : start + size]) for start in range(0, len(texts), size)]


def take_turns(
    runners: dict[Variant, Runner],
    blocks: Sequence[list[str]],
    repeats: int,
    failed: Callable[[Variant, Exception], None],
    progress: Callable[[], None] = lambda: None,
) -> list[Measured]:
    """Let all variants translate each block in turn; another variant begins each time.

    A variant that raises an error is passed to `failed` and left out from then on.
    """
    running: dict[Variant, Measured] = {}
    for variant, runner in runners.items():
        try:
            # Warm up with a batch of medium length.
            runner.translate(blocks[len(blocks) // 2][-variant.batch_size :])
            running[variant] = Measured(variant, runner.signature())
        except Exception as error:
            failed(variant, error)
    turn = 0
    for repeat in range(repeats):
        for block in blocks:
            order = list(running)
            turn += 1
            for variant in [*order[turn % len(order) :], *order[: turn % len(order)]] if order else []:
                try:
                    _time_block(running[variant], runners[variant], block, repeat)
                except Exception as error:
                    failed(variant, error)
                    del running[variant]
                progress()
    return list(running.values())


def _time_block(measured: Measured, runner: Runner, block: list[str], repeat: int) -> None:
    before, began = other_cpu_seconds(), time.perf_counter()
    outputs = runner.translate(block)
    taken, after = time.perf_counter() - began, other_cpu_seconds()
    if before is not None and after is not None:
        measured.others += max(0.0, after - before)
    if repeat == len(measured.seconds):
        measured.seconds.append([])
    measured.seconds[repeat].append(taken)
    if repeat == 0:
        measured.outputs += outputs
