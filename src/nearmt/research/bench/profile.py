"""The share of each part of a translation in its time."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nearmt.timing import Timings
from nearmt.translator import Translator

#: Prefixes of the timers of each part; the first part that matches counts.
PARTS: dict[str, tuple[str, ...]] = {
    "encoder": ("model/encode",),
    "output projection": ("model/output",),
    "decoder layers": ("model/",),
    "similar sources": ("index/similar", "store/similar"),
    "search": ("index/", "search"),
    "cache": ("cache/",),
    "mixing": ("mix", "method/"),
    "bookkeeping": ("beam/",),
}
#: Timers of no part above, and time outside all timers.
OTHER, UNNAMED = "other", "not timed"


def profile(translator: Translator, texts: Sequence[str]) -> Timings:
    """Run one pass with timers; on a GPU they synchronise, so this pass is slower than the timed ones."""
    device = translator.model.seq2seq.device
    timings = Timings(synchronise=torch.cuda.synchronize if device.type == "cuda" else None)
    with timings.active():
        translator.translate(list(texts))
    return timings


def part_of(timer: str) -> str:
    fits = (part for part, prefixes in PARTS.items() if timer.startswith(prefixes))
    return next(fits, OTHER)


def shares(timings: Timings) -> dict[str, float]:
    """Return the share of time of each part; parts without any are left out."""
    found: dict[str, float] = {}
    for name, seconds in timings.seconds.items():
        found[part_of(name)] = found.get(part_of(name), 0.0) + seconds
    found[UNNAMED] = max(0.0, timings.elapsed - sum(found.values()))
    order = [*PARTS, OTHER, UNNAMED]
    return {part: round(found[part] / timings.elapsed, 4) for part in order if found.get(part)}
