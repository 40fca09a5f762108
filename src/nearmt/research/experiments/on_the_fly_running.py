"""Run a system over a stream, step by step; every finished step is kept on disk."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearmt.contracts import Pair, Progress
from nearmt.errors import InputError
from nearmt.research.experiments.data import Domain
from nearmt.research.experiments.on_the_fly_steps import LEARN, TRANSLATE, Done, Journal, Step, plan
from nearmt.research.experiments.on_the_fly_systems import Frozen, GrowingDatastore, Retrained, System, SystemParts
from nearmt.research.experiments.on_the_fly_windows import whole, windows
from nearmt.research.experiments.rows import Measured, Row
from nearmt.research.machine import describe_machine
from nearmt.research.training.loop import FinetuneConfig
from nearmt.translator import Translator

if TYPE_CHECKING:
    from nearmt.research.experiments.artefacts import Artefacts
    from nearmt.research.experiments.cells import Cell

#: Sentences of a block, for systems whose results do not depend on it.
BLOCK = 250
#: The paper's settings of on-the-fly fine-tuning.
LEARNING_RATE, SCHEDULE, MOST_EPOCHS = 5e-5, "inverse-sqrt", 5


@dataclass(frozen=True)
class Stream:
    """The pairs of a stream in order; the first `at_hand` are known from the start."""

    pairs: list[Pair]
    at_hand: int

    @property
    def translated(self) -> list[Pair]:
        return self.pairs[self.at_hand :]

    def digest(self) -> str:
        content = "\0".join(f"{pair.source}\0{pair.target}" for pair in self.pairs)
        found = hashlib.sha256(f"{self.at_hand}\0{content}".encode("utf-8", "surrogateescape"))
        return found.hexdigest()[:16]


class Streaming:
    """The procedure of the experiment (`rows.Procedure`)."""

    def __init__(self, make: Callable[[Artefacts, Domain, Row, Path], System] | None = None) -> None:
        self._make = make or make_system

    def check(self, artefacts: Artefacts, domain: Domain, rows: list[Row]) -> None:
        stream_of(artefacts, domain)

    def signature(self, artefacts: Artefacts, domain: Domain, row: Row) -> str:
        """The size of windows is not part of it: windows are computed when reports are written."""
        setup = artefacts.setup
        settings = json.dumps(settings_of(artefacts, domain, row)[0], sort_keys=True)
        parts = [setup.model_signature(domain), f"method:{row.method}", f"settings:{settings}"]
        if row.method != "plain":
            parts.append(setup.store.signature())
        if row.fine_tuned:
            parts.append(fine_tuning(artefacts).signature())
        stream = stream_of(artefacts, domain).digest()
        parts += [f"stream:{stream}", f"every:{row.learn_every}", f"batch:{setup.config.batch_size}"]
        return "|".join([*parts, setup.beam.signature()])

    def test_digest(self, artefacts: Artefacts, domain: Domain) -> str:
        return f"{domain.name}-stream-{stream_of(artefacts, domain).digest()}"

    def measure(self, artefacts: Artefacts, domain: Domain, row: Row) -> Measured:
        stream, counts = stream_of(artefacts, domain), not artefacts.setup.config.side_by_side
        about = {
            "signature": self.signature(artefacts, domain, row),
            "device": describe_machine(artefacts.setup.model)["device"],
        }
        steps = _plan(stream, row)
        journal = Journal(_folder(artefacts, domain, row), about, steps, only_counting=counts)
        system = self._make(artefacts, domain, row, journal.folder)
        learned = [done.step.end for done in journal.done if done.step.kind == LEARN]
        with artefacts.progress_bar(f"on-the-fly {domain.name} {row.name}") as progress:
            if journal.done:
                system.restore(stream.pairs[: max(learned, default=0)], learned)
            for step in steps[len(journal.done) :]:
                done = _run_step(system, stream, step, progress)
                journal.add(dataclasses.replace(done, counts=counts))
        return _measured(artefacts, domain, row, stream, journal.done, system)

    def tidy(self, artefacts: Artefacts, domain: Domain, row: Row) -> None:
        shutil.rmtree(_folder(artefacts, domain, row), ignore_errors=True)

    def shown(self, artefacts: Artefacts, cell: Cell) -> Cell:
        """Replace the steps of a cell by scores and times of windows."""
        evaluation = {name: value for name, value in cell.evaluation.items() if name != "steps"}
        texts, references = artefacts.results.translations(cell), artefacts.results.test_lines(cell.test, "reference")
        found = windows(cell.evaluation["steps"], texts, references, artefacts.setup.config.window)
        return dataclasses.replace(cell, evaluation={**evaluation, "windows": found})


def stream_of(artefacts: Artefacts, domain: Domain) -> Stream:
    """Concatenate the parts of a stream. Pair ids are positions, because ids of different files may collide."""
    config = artefacts.setup.config
    found = [pair for part in config.stream_parts for pair in domain.pairs(part)]
    at_hand = round(config.at_hand * len(found))
    end = len(found) if config.limit is None else min(len(found), at_hand + config.limit)
    if end <= at_hand:
        raise InputError(
            f"{domain.folder}: its {len(found)} pairs leave nothing to translate; give more, or a smaller --at-hand"
        )
    return Stream([dataclasses.replace(pair, id=f"{index:08d}") for index, pair in enumerate(found[:end])], at_hand)


def settings_of(artefacts: Artefacts, domain: Domain, row: Row) -> tuple[dict[str, Any], str]:
    """Return a row's retrieval settings and their origin: none, store (calibrated) or main (tuned there).

    Settings tuned on the dev set are not used if that set is part of the stream.
    """
    config, own = artefacts.setup.config, dict(row.settings)
    if row.method == "plain":
        return {}, "none"
    if config.tune == "none" or "dev" in config.stream_parts:
        return own, "store"
    known = artefacts.known_settings(domain, row)
    return known, "store" if known == own else "main"


def fine_tuning(artefacts: Artefacts) -> FinetuneConfig:
    config = artefacts.setup.config
    return FinetuneConfig(
        learning_rate=LEARNING_RATE,
        schedule=SCHEDULE,
        epochs=min(MOST_EPOCHS, config.fine_tune_epochs),
        batch_tokens=config.fine_tune_batch_tokens,
        dev_limit=0,
    )


def make_system(artefacts: Artefacts, domain: Domain, row: Row, folder: Path) -> System:
    """Make the system of a row, before it learns; translate one sentence to warm up the model."""
    setup, model = artefacts.setup, artefacts.model(domain)
    parts = SystemParts(model, setup.model_of(domain), setup.beam, setup.config.batch_size, folder)
    Translator(model, None, "plain", None, setup.beam).translate(stream_of(artefacts, domain).pairs[0].source)
    if row.fine_tuned:
        return Retrained(parts, fine_tuning(artefacts))
    if row.method == "plain":
        return Frozen(parts)
    return GrowingDatastore(parts, setup.store, row.method, settings_of(artefacts, domain, row)[0])


def _plan(stream: Stream, row: Row) -> list[Step]:
    learns = row.fine_tuned or row.method != "plain"
    block = BLOCK if row.fine_tuned else row.learn_every or BLOCK
    return plan(len(stream.pairs), stream.at_hand, block, row.learn_every if learns else None, learns)


def _run_step(system: System, stream: Stream, step: Step, progress: Progress | None) -> Done:
    """Run and time one step of a stream."""
    return _learn(system, stream, step) if step.kind == LEARN else _translate(system, stream, step, progress)


def _learn(system: System, stream: Stream, step: Step) -> Done:
    known = stream.pairs[: step.end]
    system.prepare()
    start = time.perf_counter()
    facts = system.learn(known, step.start)
    seconds = time.perf_counter() - start
    system.commit(step.end)
    return Done(step, round(seconds, 6), facts=facts)


def _translate(system: System, stream: Stream, step: Step, progress: Progress | None) -> Done:
    """Translate a block. The system sees the sources only."""
    sources = [pair.source for pair in stream.pairs[step.start : step.end]]
    before, total = step.start - stream.at_hand, len(stream.pairs) - stream.at_hand
    start = time.perf_counter()
    # Overlong sentences are split into segments, so progress is scaled to the number of sentences.
    translations = system.translate(
        sources, progress and (lambda done, of: progress(before + done * len(sources) // max(of, 1), total))
    )
    seconds = time.perf_counter() - start
    return Done(
        step,
        round(seconds, 6),
        tokens=sum(found.tokens for found in translations),
        searches=sum(found.searches for found in translations),
        truncated=sum(found.truncated for found in translations),
        texts=[found.text for found in translations],
    )


def _measured(
    artefacts: Artefacts, domain: Domain, row: Row, stream: Stream, done: list[Done], system: System
) -> Measured:
    texts = [text for each in done if each.step.kind == TRANSLATE for text in each.texts]
    evaluation = whole(done, texts, [pair.target for pair in stream.translated])
    evaluation["signature"] = system.translator.signature()
    settings, settings_from = settings_of(artefacts, domain, row)
    facts: dict[str, Any] = {
        "stream": artefacts.setup.config.stream_parts,
        "at_hand": stream.at_hand,
        "learn_every": row.learn_every,
        "settings_from": settings_from,
    }
    learned = [each for each in done if each.step.kind == LEARN]
    if row.fine_tuned:
        how = fine_tuning(artefacts).public_values()
        facts["fine-tuning"] = {"settings": how, "rounds": [{**d.facts, "seconds": d.seconds} for d in learned]}
    elif learned:
        facts["memory"] = {"first": learned[0].facts, "last": learned[-1].facts, "times": len(learned)}
    counts = all(each.counts for each in done)
    return Measured(evaluation, texts, settings, facts, stream.translated, counts)


def _folder(artefacts: Artefacts, domain: Domain, row: Row) -> Path:
    return artefacts.setup.out / "streams" / f"{domain.name}.{row.name}"
