"""The speed benchmark: time all systems, then measure quality and profiles."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nearmt import __version__
from nearmt.contracts import Pair, Progress
from nearmt.errors import InputError
from nearmt.research.bench.config import RETRIEVING
from nearmt.research.bench.loading import EXACT, SystemLoader, threads_set
from nearmt.research.bench.measuring import (
    Measured,
    blocks_of,
    quartiles,
    ratios,
    run_length,
    sample,
    sorted_by_length,
    take_turns,
)
from nearmt.research.bench.profile import profile, shares
from nearmt.research.bench.quality import bleu, queries_of, recall
from nearmt.research.bench.report import make_report
from nearmt.research.bench.runners import OwnRunner, Runner, Variant
from nearmt.research.cache_engine import cache_engine
from nearmt.research.progress import ProgressBar


@dataclass
class Bench:
    """The systems, the sentences and the results so far."""

    loader: SystemLoader
    #: Longest source first.
    pairs: list[Pair]
    data: str
    progress_bar: ProgressBar
    cells: list[dict[str, Any]] = field(default_factory=list)
    not_run: list[dict[str, Any]] = field(default_factory=list)
    #: BLEU with exact search, by system, precision and beams.
    _exact: dict[tuple[str, str, int], float] = field(default_factory=dict)

    @classmethod
    def of(cls, loader: SystemLoader, pairs: Iterable[Pair], data: str, progress_bar: ProgressBar) -> Bench:
        """Sort the pairs and apply the limit, in runs of whole batches.

        Sentences too long for the model are left out, because programs split them differently.
        """
        model = loader.model("fp32")
        positions = model.seq2seq.positions
        kept = [pair for pair in pairs if len(model.codec.source_ids(pair.source)) <= positions]
        if not kept:
            raise InputError(f"{data}: has no pairs that fit the model: nothing to measure")
        order = sorted_by_length([pair.source for pair in kept], model.codec)
        sizes = loader.config.sizes(on_gpu=loader.device.type == "cuda")
        together = max(run_length(size) for size in sizes)
        chosen = sample(len(order), loader.config.limit or len(order), together)
        return cls(loader, [kept[order[index]] for index in chosen], data, progress_bar)

    @property
    def sources(self) -> list[str]:
        return [pair.source for pair in self.pairs]

    def run(self) -> Iterator[dict[str, Any]]:
        """Yield the growing report for every batch size and beam size: first speeds, then quality and profiles."""
        for batch_size, beams, variants in self.loader.variants():
            runners = self._load(variants)
            with self.progress_bar(f"batch {batch_size}, beam {beams}") as progress:
                measured = self._take_turns(runners, batch_size, progress)
            rows = self._described(measured)
            self.cells += rows
            yield self.report()  # quality and profiles take long
            with self.progress_bar(f"batch {batch_size}, beam {beams}: quality and profile"):
                for row, each in zip(rows, measured, strict=True):
                    row.update(self._quality(each) if self.loader.config.quality else {})
                    row.update(self._profile(runners[each.variant]) if self.loader.config.profile else {})
            yield self.report()

    def _load(self, variants: Sequence[Variant]) -> dict[Variant, Runner]:
        runners = {}
        for variant in variants:
            with self.progress_bar(f"loading {variant.name}"):
                try:
                    runners[variant] = self.loader.runner(variant)
                except Exception as error:  # the others can still run
                    self._failed(variant, error)
        return runners

    def _take_turns(self, runners: dict[Variant, Runner], batch_size: int, progress: Progress | None) -> list[Measured]:
        repeats, done = self.loader.config.repeats, 0
        blocks = blocks_of(self.sources, batch_size, self.loader.batches)
        turns = len(runners) * len(blocks) * repeats

        def tick() -> None:
            nonlocal done
            done += 1
            if progress:
                progress(done, turns)

        return take_turns(runners, blocks, repeats, self._failed, tick)

    def _failed(self, variant: Variant, error: Exception) -> None:
        reason = " ".join(str(error).split()) or type(error).__name__
        self.not_run.append({**vars(variant), "reason": reason})

    def _described(self, found: Sequence[Measured]) -> list[dict[str, Any]]:
        """Make a row for each system, relative to the reference and to nearmt's plain of the same precision."""
        by_name = {(each.variant.system, each.variant.precision): each for each in found}
        reference = by_name.get(self.loader.config.parsed_reference())
        rows = []
        for each in found:
            row = _timed(each)
            row |= _relative_to("reference", each, reference)
            if each.variant.system in RETRIEVING:
                row |= _relative_to("plain", each, by_name.get(("plain", each.variant.precision)))
            row["bleu"] = bleu([output.text for output in each.outputs], [pair.target for pair in self.pairs])
            rows.append({**row, "signature": each.signature})
        return rows

    def _quality(self, measured: Measured) -> dict[str, Any]:
        """Measure recall of the index on the decoder states of these translations, and BLEU with exact search."""
        variant = measured.variant
        if variant.system not in RETRIEVING:
            return {}
        store, exact = self.loader.store(self.loader.config.nominate), self.loader.store(EXACT)
        texts = [output.text for output in measured.outputs]
        hidden_QH = queries_of(self.loader.model(variant.precision), self.sources, texts)
        key = variant.system, variant.precision, variant.beams
        if key not in self._exact:
            found = self.loader.translator(variant, EXACT).translate(self.sources)
            self._exact[key] = bleu([translation.text for translation in found], [pair.target for pair in self.pairs])
        return {"recall": recall(store, exact, hidden_QH), "exact_bleu": self._exact[key]}

    def _profile(self, runner: Runner) -> dict[str, Any]:
        if not isinstance(runner, OwnRunner):
            return {}
        # One thread: the times of concurrent parts would sum up to more than the total.
        with threads_set(1):
            return {"shares": shares(profile(runner.translator, self.sources))}

    def report(self) -> dict[str, Any]:
        """Collect all results except the translations."""
        config = self.loader.config
        more: dict[str, Any] = {
            "nearmt": __version__,
            "sentences": len(self.pairs),
            "repeats": config.repeats,
            "reference": config.reference,
        }
        if config.datastore is not None:
            store = self.loader.store(config.nominate)
            more["datastore"] = {
                "identity": store.snapshot().identity,
                "entries": len(store),
                "search": config.nominate,
                "search_device": str(store.device.type),
                "index": [record.index.get("factory", "exact") for record in store.manifest.segments],
            }
        report = make_report("speed", self.loader.model_config, self.data, self.cells, **more)
        return {**report, "not_run": self.not_run}


def _timed(measured: Measured) -> dict[str, Any]:
    cache = cache_engine(measured.variant.system, {})
    return {
        **vars(measured.variant),
        **({} if cache is None else {"cache": cache}),
        "tokens_per_second": round(measured.speed, 1),
        "quartiles": _rounded(measured.speed_quartiles, 1),
        "tokens": measured.tokens,
        "seconds": [round(sum(blocks), 3) for blocks in measured.seconds],
        "others": round(measured.others_share, 3),
        "searches_per_sentence": round(sum(output.searches for output in measured.outputs) / len(measured.outputs), 2),
    }


def _relative_to(name: str, measured: Measured, other: Measured | None) -> dict[str, Any]:
    """Compute the speed relative to another variant of the same run, and the share of equal translations."""
    if other is None:
        return {}
    found = ratios(measured, other)
    same = sum(one.text == two.text for one, two in zip(measured.outputs, other.outputs, strict=True))
    return {
        f"to_{name}": round(statistics.median(found), 3),
        f"to_{name}_quartiles": _rounded(quartiles(found), 3),
        **({"same_as_reference": round(same / len(measured.outputs), 3)} if name == "reference" else {}),
    }


def _rounded(values: Iterable[float], digits: int) -> list[float]:
    return [round(value, digits) for value in values]
