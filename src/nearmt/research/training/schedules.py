"""Learning rates over the updates of a training.

`inverse-sqrt` is fairseq's: with u counted from 1 and E updates an epoch,

    with warm-up     rate(u) = peak * u / E             while u <= E
                     rate(u) = peak * sqrt(E / u)       afterwards
    without          rate(u) = peak                     while u <= E, then the same

Without a warm-up there is no number of updates to relate the decay to. Taking one epoch for it as well makes
the two differ in the first epoch only, which is what the paper's grid compares.

`plateau` keeps the peak (behind the warm-up, if there is one) and halves it after each epoch whose dev loss was
not the lowest so far.
"""

from __future__ import annotations

import math

SCHEDULES = ("inverse-sqrt", "plateau")


def learning_rate(
    peak: float, schedule: str, warmup: bool, *, update: int, updates_per_epoch: int, halvings: int = 0
) -> float:
    """The rate of one update, the first being 1."""
    if warmup and update <= updates_per_epoch:
        return peak * update / updates_per_epoch
    if schedule == "plateau":
        return peak * math.pow(0.5, halvings)
    return peak * math.sqrt(updates_per_epoch / max(update, updates_per_epoch))
