"""Every table and ablation of the paper, one function each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nearmt.methods import PRESETS
from nearmt.research.experiments.data import GENERAL
from nearmt.research.experiments.examples import explain, write_examples
from nearmt.research.experiments.on_the_fly import make_on_the_fly
from nearmt.research.experiments.rows import Experiment, Row

BASE = Row("base", "Base MT")
FINE_TUNED = Row("fine-tuned", "Fine-tuned", fine_tuned=True)
#: The systems of others as they are: what nearmt adds is off.
AS_PUBLISHED = {"guard": False, "ends": "all", "give-up": False}
KNN = Row("knn", "kNN-MT", "knn", AS_PUBLISHED)
EFFICIENT = Row("efficient", "Efficient kNN-MT", "efficient", AS_PUBLISHED, pruned=True)
CHUNK = Row("chunk", "Chunk-based kNN-MT (nearmt)", "chunk")
PAPER = Row("paper", "Chunk-based kNN-MT (paper's cache)", "chunk", dict(PRESETS["paper"]))
ADAPTIVE_KNN = Row("adaptive-knn", "Adaptive kNN-MT", "knn", adaptive=True)
ADAPTIVE_CHUNK = Row("adaptive-chunk", "Adaptive chunk-based kNN-MT", "chunk", adaptive=True)

#: TER is shown where earlier runs measured it; new runs do not.
QUALITY = ("bleu", "chrf", "ter", "comet")
SPEED = ("tokens_per_second",)


def main() -> Experiment:
    """Table 1: all systems on all domains."""
    rows = (BASE, FINE_TUNED, KNN, EFFICIENT, CHUNK, PAPER, ADAPTIVE_KNN, ADAPTIVE_CHUNK)
    metrics = (*QUALITY, *SPEED, "searches_per_sentence")
    return Experiment("main", "All systems", rows, metrics, reference="knn")


def strategies() -> Experiment:
    """Table 3: what a cache holds and who shares it, with c = i = 6."""
    steps = {"chunk": 6, "schedule": "every:6"}
    labels = {
        "in-order": "Maintain order",
        "single-chunk": "Single chunk",
        "beam-batch": "Beam-batch-level",
        "sentence": "Sentence-level",
    }
    rows = [Row(f"{preset}-6", label, "chunk", {**PRESETS[preset], **steps}) for preset, label in labels.items()]
    own = Row("every-6", "Source-level, seeded, no duplicates (nearmt)", "chunk", steps)
    return Experiment(
        "strategies", "Strategies, c = 6, i = 6", (*rows, own), ("bleu", "chrf", *SPEED), reference="sentence-6"
    )


def schedules() -> Experiment:
    """Tables 4 and 5: when to search, with c = i or c = i_max and the paper's cache."""
    rows = [*(every(steps) for steps in (6, 8)), *(geometric(longest) for longest in (8, 16, 32))]
    metrics = ("bleu", "chrf", *SPEED, "average_interval", "searches_per_sentence")
    return Experiment("schedules", "When to search", tuple(rows), metrics, reference="geometric-16")


def every(steps: int) -> Row:
    settings = {**PRESETS["paper"], "chunk": steps, "schedule": f"every:{steps}"}
    return Row(f"paper-every-{steps}", f"i = {steps}", "chunk", settings)


def geometric(longest: int) -> Row:
    settings = {**PRESETS["paper"], "chunk": longest, "schedule": f"geometric:2:{longest}"}
    row = Row(f"geometric-{longest}", f"GP (i_max = {longest})", "chunk", settings)
    # This is the paper's own setting: what is tuned for it serves here.
    return replace(row, settings=PAPER.settings, tuned_as="paper") if longest == 16 else row


def chunk_size() -> Experiment:
    """Appendix A: chunks of one length, or as long as the interval that follows."""
    fixed = replace(geometric(16), name="fixed", label="c = i_max")
    varying = Row("varying", "c_k = i_k", "chunk", {**PRESETS["paper"], "varying-chunk": True})
    return Experiment("chunk-size", "Length of chunks", (fixed, varying), ("bleu", "chrf", *SPEED), reference="fixed")


def neighbours() -> Experiment:
    """Appendix B: how many chunks a search brings."""
    rows = [Row(f"k-{k}", f"k = {k}", "chunk", {**PRESETS["paper"], "k": k}) for k in (2, 4, 8, 16)]
    rows[2] = replace(rows[2], settings=PAPER.settings, tuned_as="paper")
    return Experiment("neighbours", "Neighbours", tuple(rows), ("bleu", "chrf", *SPEED), reference="k-8")


def cache() -> Experiment:
    """Not in the paper: from its cache to nearmt's, one step at a time."""
    unseeded = {"seeds": 0, **AS_PUBLISHED}
    rows = (
        PAPER,
        Row("own-scope", "of one source, without duplicates", "chunk", {**unseeded, "cache-columns": 64}),
        Row("all-columns", "and compared on all columns", "chunk", unseeded),
        Row("recall-8", "and seeded with 128 similar sources", "chunk", {"cache-k": 8, **AS_PUBLISHED}),
        Row("seeds-128", "and 16 neighbours recalled instead of 8", "chunk", AS_PUBLISHED),
        Row("seeds-32", "with 32 similar sources", "chunk", {"seeds": 32, **AS_PUBLISHED}),
        Row("seeds-512", "with 512", "chunk", {"seeds": 512, **AS_PUBLISHED}),
        Row("guarded", "with 128, and the guard", "chunk", {**AS_PUBLISHED, "guard": True}),
        Row("near-ends", "and ends only of near neighbours", "chunk", {"give-up": False}),
        replace(CHUNK, label="and what is far behind given up (nearmt's default)"),
        KNN,
    )
    metrics = ("bleu", "chrf", *SPEED, "searches_per_sentence")
    return Experiment("cache", "From the paper's cache to nearmt's", rows, metrics, reference="knn")


def speed() -> Experiment:
    """Figure 3: tokens a second by batch size, searching on the CPU and where the model runs."""
    rows = []
    for batch_size in (1, 8, 16):
        rows.append(replace(BASE, name=f"base-b{batch_size}", batch_size=batch_size))
        for row in (KNN, EFFICIENT, CHUNK):
            for device in ("cpu", "model"):
                rows.append(_timed(row, batch_size, device))
    rows = [replace(row, label=f"{row.label}, batch {row.batch_size}") for row in rows]
    return Experiment("speed", "Speed", tuple(rows), (*SPEED, "bleu"), borrows=False)


def _timed(row: Row, batch_size: int, device: str) -> Row:
    label = f"{row.label}, search on {'the CPU' if device == 'cpu' else 'its device'}"
    name = f"{row.name}-b{batch_size}-{device}"
    return replace(
        row, name=name, label=label, tuned_as=row.name, tune=False, batch_size=batch_size, search_device=device
    )


def languages() -> Experiment:
    """Appendix C: other languages, with a multilingual model."""
    return Experiment("languages", "Languages", (BASE, KNN, CHUNK, PAPER), (*QUALITY, *SPEED), reference="knn")


def off_domain() -> Experiment:
    """What the memory of a domain does to general text."""
    unguarded = Row("unguarded", "Chunk-based kNN-MT, unguarded", "chunk", {"guard": False})
    # The same system as chunk but for the guard, so with the same settings.
    unguarded = replace(unguarded, tuned_as="chunk", tune=False)
    rows = (BASE, KNN, unguarded, CHUNK, ADAPTIVE_KNN, ADAPTIVE_CHUNK)
    return Experiment("off-domain", "General text", rows, QUALITY, reference="base", tested_on=GENERAL)


def on_the_fly() -> Experiment:
    """Section 4.2: the memory grows, or the model is trained again, while texts arrive."""
    return make_on_the_fly(BASE, FINE_TUNED, KNN, CHUNK, PAPER)


def examples() -> Experiment:
    """The paper's appendix of examples: what was retrieved at which step, and what became of it."""
    row = replace(CHUNK, name="example", tuned_as="chunk", tune=False, batch_size=1)
    return Experiment(
        "examples",
        "Examples",
        (row,),
        (),
        beams=1,
        few=True,
        borrows=False,
        measure=explain,
        write=write_examples,
    )


_FUNCTIONS: tuple[Callable[[], Experiment], ...] = (
    main,
    strategies,
    schedules,
    chunk_size,
    neighbours,
    cache,
    speed,
    languages,
    off_domain,
    on_the_fly,
    examples,
)
EXPERIMENTS: dict[str, Experiment] = {made.name: made for made in (function() for function in _FUNCTIONS)}
