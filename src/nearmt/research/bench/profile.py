"""Where the time of a translation goes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nearmt.timing import Timings
from nearmt.translator import Translator

#: Part of a translation -> the timers that belong to it, by how their names begin; the first that fits counts.
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
#: Timers that belong to nothing above, and time that no timer saw.
OTHER, UNNAMED = "other", "not timed"


def profile(translator: Translator, texts: Sequence[str]) -> Timings:
    """Timers of one pass; on a GPU they wait for it, so this pass is never one that counts."""
    device = translator.model.seq2seq.device
    timings = Timings(synchronise=torch.cuda.synchronize if device.type == "cuda" else None)
    with timings.active():
        translator.translate(list(texts))
    return timings


def part_of(timer: str) -> str:
    fits = (part for part, beginnings in PARTS.items() if timer.startswith(beginnings))
    return next(fits, OTHER)


def shares(timings: Timings) -> dict[str, float]:
    """Share of the time by part; parts that took none are left out."""
    found: dict[str, float] = {}
    for name, seconds in timings.seconds.items():
        found[part_of(name)] = found.get(part_of(name), 0.0) + seconds
    found[UNNAMED] = max(0.0, timings.elapsed - sum(found.values()))
    order = [*PARTS, OTHER, UNNAMED]
    return {part: round(found[part] / timings.elapsed, 4) for part in order if found.get(part)}
