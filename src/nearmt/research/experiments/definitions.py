"""The experiments: a function for each table and ablation of the paper, and a few of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nearmt.methods import PRESETS
from nearmt.research.experiments.contrast import make_contrast
from nearmt.research.experiments.data import GENERAL
from nearmt.research.experiments.examples import explain, write_examples
from nearmt.research.experiments.on_the_fly import make_on_the_fly
from nearmt.research.experiments.rows import Experiment, Row
from nearmt.research.experiments.support import count_support

BASE = Row("base", "Base MT")
FINE_TUNED = Row("fine-tuned", "Fine-tuned", fine_tuned=True)
#: Other people's systems as published: nearmt's additions are off.
AS_PUBLISHED = {"guard": False, "agreement": 0, "break-loops": False, "ends": "all", "give-up": False}
KNN = Row("knn", "kNN-MT", "knn", AS_PUBLISHED)
EFFICIENT = Row("efficient", "Efficient kNN-MT", "efficient", AS_PUBLISHED, pruned=True)
CHUNK = Row("chunk", "Chunk-based kNN-MT (nearmt)", "chunk")
PAPER = Row("paper", "Chunk-based kNN-MT (paper's cache)", "chunk", dict(PRESETS["paper"]))
ADAPTIVE_KNN = Row("adaptive-knn", "Adaptive kNN-MT", "knn", adaptive=True)
SUBSET = Row("subset", "Subset kNN-MT", "subset", AS_PUBLISHED)
SK_MT = Row("sk-mt", "SK-MT", "sk-mt", AS_PUBLISHED, tune=False)
RETOMATON = Row("retomaton", "RetoMaton", "retomaton", AS_PUBLISHED)
#: The networks of others, as published: nothing guards them.
ADAPTIVE = Row("adaptive", "Adaptive kNN-MT", "knn", AS_PUBLISHED, adaptive=True)
KERNEL_SMOOTHED = replace(ADAPTIVE, name="kernel-smoothed", label="Kernel-smoothed kNN-MT", network="kernel-smoothed")
ROBUST = replace(ADAPTIVE, name="robust", label="Robust kNN-MT", network="robust")
ADAPTIVE_CHUNK = Row("adaptive-chunk", "Adaptive chunk-based kNN-MT", "chunk", adaptive=True)

#: TER appears only in reports of earlier runs; new runs do not compute it.
QUALITY = ("bleu", "chrf", "ter", "comet")
SPEED = ("tokens_per_second",)


def main() -> Experiment:
    """Table 1: all systems on all domains."""
    rows = (BASE, FINE_TUNED, KNN, EFFICIENT, CHUNK, PAPER, ADAPTIVE_KNN, ADAPTIVE_CHUNK)
    metrics = (*QUALITY, *SPEED, "searches_per_sentence")
    return Experiment("main", "All systems", rows, metrics, reference="knn")


def strategies() -> Experiment:
    """Table 3: contents and scope of the cache, with c = i = 6."""
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
    # The same system as row `paper`, so it shares its tuned settings.
    return replace(row, settings=PAPER.settings, tuned_as="paper") if longest == 16 else row


def chunk_size() -> Experiment:
    """Appendix A: chunks of fixed length, or as long as the next interval."""
    fixed = replace(geometric(16), name="fixed", label="c = i_max")
    varying = Row("varying", "c_k = i_k", "chunk", {**PRESETS["paper"], "varying-chunk": True})
    return Experiment("chunk-size", "Chunk length", (fixed, varying), ("bleu", "chrf", *SPEED), reference="fixed")


def neighbours() -> Experiment:
    """Appendix B: number of chunks retrieved by a search."""
    rows = [Row(f"k-{k}", f"k = {k}", "chunk", {**PRESETS["paper"], "k": k}) for k in (2, 4, 8, 16)]
    rows[2] = replace(rows[2], settings=PAPER.settings, tuned_as="paper")
    return Experiment("neighbours", "Neighbours", tuple(rows), ("bleu", "chrf", *SPEED), reference="k-8")


def cache() -> Experiment:
    """Not in the paper: from its cache to nearmt's, one change at a time."""
    unseeded = {"seeds": 0, **AS_PUBLISHED}
    rows = (
        PAPER,
        Row("own-scope", "a cache for each source, no duplicates", "chunk", {**unseeded, "cache-columns": 64}),
        Row("all-columns", "and distances on all columns", "chunk", unseeded),
        Row("recall-8", "and seeded with 128 similar sources", "chunk", {"cache-k": 8, **AS_PUBLISHED}),
        Row("seeds-128", "and 16 neighbours recalled instead of 8", "chunk", AS_PUBLISHED),
        Row("seeds-32", "with 32 similar sources", "chunk", {"seeds": 32, **AS_PUBLISHED}),
        Row("seeds-512", "with 512", "chunk", {"seeds": 512, **AS_PUBLISHED}),
        Row("guarded", "with 128, and the guard", "chunk", {**AS_PUBLISHED, "guard": True}),
        Row("near-ends", "and end of sentence only from near neighbours", "chunk", {"give-up": False}),
        replace(CHUNK, label="and early stopping (nearmt's default)"),
        KNN,
    )
    metrics = ("bleu", "chrf", *SPEED, "searches_per_sentence")
    return Experiment("cache", "From the paper's cache to nearmt's", rows, metrics, reference="knn")


def speed() -> Experiment:
    """Figure 3: tokens a second by batch size, with the index on the CPU and on the model's device."""
    rows = []
    for batch_size in (1, 8, 16):
        rows.append(replace(BASE, name=f"base-b{batch_size}", batch_size=batch_size))
        for row in (KNN, EFFICIENT, CHUNK):
            for device in ("cpu", "model"):
                rows.append(_timed(row, batch_size, device))
    rows = [replace(row, label=f"{row.label}, batch {row.batch_size}") for row in rows]
    return Experiment("speed", "Speed", tuple(rows), (*SPEED, "bleu"), reuses_cells=False)


def _timed(row: Row, batch_size: int, device: str) -> Row:
    label = f"{row.label}, search on {'the CPU' if device == 'cpu' else 'its device'}"
    name = f"{row.name}-b{batch_size}-{device}"
    return replace(
        row, name=name, label=label, tuned_as=row.name, tune=False, batch_size=batch_size, search_device=device
    )


def field() -> Experiment:
    """Not in the paper: what others do in place of a search at every step, and of a fixed weight."""
    rows = (BASE, KNN, CHUNK, SUBSET, SK_MT, RETOMATON, ADAPTIVE, KERNEL_SMOOTHED, ROBUST)
    metrics = ("bleu", "chrf", "searches_per_sentence", "compared_per_sentence", *SPEED)
    return Experiment("field", "The field side by side", rows, metrics, reference="knn")


def languages() -> Experiment:
    """Appendix C: other language pairs, with a multilingual model."""
    return Experiment("languages", "Languages", (BASE, KNN, CHUNK, PAPER), (*QUALITY, *SPEED), reference="knn")


def off_domain() -> Experiment:
    """Translate general text with the datastore of a domain."""
    unguarded = Row("unguarded", "Chunk-based kNN-MT, unguarded", "chunk", {"guard": False})
    # The same system as chunk except for the guard, so it shares its tuned settings.
    unguarded = replace(unguarded, tuned_as="chunk", tune=False)
    rows = (BASE, KNN, unguarded, CHUNK, ADAPTIVE_KNN, ADAPTIVE_CHUNK)
    return Experiment("off-domain", "General text", rows, QUALITY, reference="base", tested_on=GENERAL)


def on_the_fly() -> Experiment:
    """Section 4.2: the datastore grows, or the model is retrained, while texts arrive."""
    return make_on_the_fly(BASE, FINE_TUNED, KNN, CHUNK, PAPER)


def contrast() -> Experiment:
    """Not in the paper: sentences that differ from a stored one in a word or two, and terms."""
    return make_contrast(BASE, KNN, CHUNK, PAPER)


def support() -> Experiment:
    """Not in the paper: words that only neighbours brought, by whether the neighbours' sources support them."""
    rows = (
        BASE,
        KNN,
        Row("knn-all", "kNN-MT (nearmt), without source agreement", "knn", {"agreement": 0}),
        Row("knn-agreement", "kNN-MT (nearmt)", "knn"),
        Row("chunk-all", "Chunk-based kNN-MT (nearmt), without source agreement", "chunk", {"agreement": 0}),
        CHUNK,
    )
    return Experiment(
        "support",
        "Words brought by neighbours",
        rows,
        ("bleu", "chrf", "unsupported_share", "unsupported_precision", "supported_share", "supported_precision"),
        part="dev",
        reuses_cells=False,
        measure=count_support,
    )


def examples() -> Experiment:
    """The paper's appendix of examples: the chunks retrieved at each step, and the output."""
    row = replace(CHUNK, name="example", tuned_as="chunk", tune=False, batch_size=1)
    return Experiment(
        "examples",
        "Examples",
        (row,),
        (),
        beams=1,
        sampled=True,
        reuses_cells=False,
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
    field,
    languages,
    off_domain,
    on_the_fly,
    contrast,
    support,
    examples,
)
EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in (define() for define in _FUNCTIONS)}
