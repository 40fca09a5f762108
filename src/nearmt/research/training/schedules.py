"""Schedules of the learning rate.

`inverse-sqrt` is fairseq's: with u counted from 1 and E updates an epoch,

    with warm-up     rate(u) = peak * u / E             while u <= E
                     rate(u) = peak * sqrt(E / u)       afterwards
    without          rate(u) = peak                     while u <= E, then the same

Without a warm-up, the decay has no natural unit of updates; one epoch is used as well, so that the two differ in the
first epoch only, which is what the paper's grid compares.

`plateau` keeps the peak (after the warm-up, if any) and halves it after each epoch whose dev loss was not the lowest
so far.
"""

from __future__ import annotations

import math

SCHEDULES = ("inverse-sqrt", "plateau")


def learning_rate(
    peak: float, schedule: str, warmup: bool, *, update: int, updates_per_epoch: int, halvings: int = 0
) -> float:
    """Return the rate of an update; the first is number 1."""
    if warmup and update <= updates_per_epoch:
        return peak * update / updates_per_epoch
    if schedule == "plateau":
        return peak * math.pow(0.5, halvings)
    return peak * math.sqrt(updates_per_epoch / max(update, updates_per_epoch))
