"""Sentences of many requests share batches, and each is translated as it is alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nearmt.contracts import Pair, Translation
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError
from nearmt.models import TranslationModel
from nearmt.scheduler import (
    Cancelled,
    DeadlineExceeded,
    Priority,
    QueueFull,
    Scheduler,
    SchedulerConfig,
    Stopped,
    Ticket,
)
from nearmt.translator import Translator

BEAM = BeamConfig(beams=3, max_new_tokens=12)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler(SchedulerConfig(slots=3, workers=2))
    yield made
    made.close()


def compared(translation: Translation) -> tuple[Any, ...]:
    return translation.text, translation.score, translation.steps, translation.searches, translation.truncated


@pytest.fixture
def translators(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair], tmp_path: Path
) -> list[Translator]:
    """Several memories, methods, settings and beams of one model."""
    other = Datastore.build(tmp_path / "other", [Pair(p.source, p.target[::-1]) for p in tiny_pairs[:5]], tiny)
    return [
        Translator(tiny, beam=BEAM),
        Translator(tiny, tiny_store, "knn", beam=BEAM),
        Translator(tiny, tiny_store, "chunk", beam=BEAM),
        Translator(tiny, other, "chunk", beam=BEAM),
        Translator(tiny, tiny_store, "chunk", {"lambda": 0.2, "k": 3}, beam=BEAM),
        Translator(tiny, tiny_store, "subset", {"subset": 20}, beam=BEAM),
        Translator(tiny, other, "sk-mt", beam=BEAM),
        Translator(tiny, other, "knn", beam=BeamConfig(beams=2, max_new_tokens=12)),
    ]


def side_by_side(
    scheduler: Scheduler, translators: Sequence[Translator], texts: Sequence[str], each: int
) -> list[list[Translation]]:
    """All texts by all translators, in requests of so many texts, all at once."""
    jobs = [
        (number, texts[start : start + each])
        for start in range(0, len(texts), each)
        for number in range(len(translators))
    ]

    def run(job: tuple[int, Sequence[str]]) -> list[Translation]:
        number, part = job
        ticket = Ticket(f"client {number}", Priority(number % 2))
        return translators[number].decoding_with(scheduler.decoder(ticket)).translate(part)

    with ThreadPoolExecutor(len(jobs)) as pool:
        results = list(pool.map(run, jobs))
    return [
        [found for (owner, _), part in zip(jobs, results, strict=True) if owner == number for found in part]
        for number in range(len(translators))
    ]


@pytest.mark.parametrize("each", [1, 4, 100])
def test_a_shared_batch_changes_nothing(
    scheduler: Scheduler, translators: list[Translator], tiny_pairs: list[Pair], each: int
) -> None:
    texts = [pair.source for pair in tiny_pairs] + ["ventil [1] %s", "", "die pumpe"]
    shared = side_by_side(scheduler, translators, texts, each)
    for translator, found in zip(translators, shared, strict=True):
        alone = translator.translate(texts)
        assert [compared(one) for one in found] == [compared(one) for one in alone]
    assert scheduler.queued == scheduler.running == 0


def test_alternatives_are_those_of_the_beam(scheduler: Scheduler, tiny: TranslationModel) -> None:
    translator = Translator(tiny, beam=BEAM)
    alone = translator.translate("die pumpe vor der welle", alternatives=2)
    shared = translator.decoding_with(scheduler.decoder(Ticket())).translate("die pumpe vor der welle", alternatives=2)
    assert alone.alternatives == shared.alternatives and len(alone.alternatives) == 2
    assert alone.text not in alone.alternatives
    assert translator.translate("die pumpe vor der welle").alternatives == ()


def test_explained_translations_are_the_same(
    scheduler: Scheduler, tiny: TranslationModel, tiny_store: Datastore
) -> None:
    translator = Translator(tiny, tiny_store, beam=BEAM)
    shared = translator.decoding_with(scheduler.decoder(Ticket()))
    found = shared.translate("die pumpe", explain=True)
    assert compared(found) == compared(shared.translate("die pumpe")) and found.provenance is not None


def test_what_was_learnt_is_used_by_sentences_that_begin_afterwards(
    scheduler: Scheduler, tiny: TranslationModel, tmp_path: Path, tiny_pairs: list[Pair]
) -> None:
    store = Datastore.build(tmp_path / "store", tiny_pairs[:3], tiny)
    translator = Translator(tiny, store, "knn", {"lambda": 0.9}, beam=BEAM)
    texts = [pair.source for pair in tiny_pairs]
    before = [compared(t) for t in translator.decoding_with(scheduler.decoder(Ticket())).translate(texts)]
    store.add([Pair(p.source, p.target) for p in tiny_pairs[3:]], tiny)
    after = [compared(t) for t in translator.decoding_with(scheduler.decoder(Ticket())).translate(texts)]
    assert after == [compared(t) for t in translator.translate(texts)] != before


def test_shared_neighbours_are_refused(scheduler: Scheduler, tiny: TranslationModel, tiny_store: Datastore) -> None:
    translator = Translator(tiny, tiny_store, "chunk", {"scope": "batch"}, beam=BEAM)
    with pytest.raises(ConfigError, match="share neighbours"):
        translator.decoding_with(scheduler.decoder(Ticket())).translate("die pumpe")


class Slow:
    """A method whose steps wait until they may go on."""

    def __init__(self, translator: Translator) -> None:
        self.go, self.began = threading.Event(), threading.Event()
        self._begin = translator.method.begin
        translator.method.begin = self.begin  # type: ignore[method-assign]

    def begin(self, request: Any) -> Any:
        self.began.set()
        assert self.go.wait(20)
        return self._begin(request)


@pytest.fixture
def held(tiny: TranslationModel) -> Iterator[tuple[Scheduler, Translator, Slow]]:
    """A scheduler with one worker, and a translator whose first sentence holds it up."""
    scheduler, translator = Scheduler(SchedulerConfig(slots=1, workers=1, queue=4)), Translator(tiny, beam=BEAM)
    slow = Slow(translator)
    yield scheduler, translator, slow
    slow.go.set()
    scheduler.close()


def test_late_and_cancelled_requests_end_with_one_line(held: tuple[Scheduler, Translator, Slow]) -> None:
    scheduler, translator, slow = held
    with pytest.raises(DeadlineExceeded, match=r"within 0\.05 seconds"):
        translator.decoding_with(scheduler.decoder(Ticket(deadline=0.05))).translate(["die pumpe", "ventil"])
    ticket = Ticket()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(translator.decoding_with(scheduler.decoder(ticket)).translate, "ventil")
        ticket.cancel()
        with pytest.raises(Cancelled):
            waiting.result(timeout=20)
    slow.go.set()
    found = translator.decoding_with(scheduler.decoder(Ticket())).translate("ventil")
    assert compared(found) == compared(translator.translate("ventil"))
    assert scheduler.queued == 0


def test_a_request_is_cancelled_while_its_sentence_waits(held: tuple[Scheduler, Translator, Slow]) -> None:
    scheduler, translator, slow = held
    ticket = Ticket()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(translator.decoding_with(scheduler.decoder(Ticket())).translate, "die pumpe")
        assert slow.began.wait(20)
        second = pool.submit(translator.decoding_with(scheduler.decoder(ticket)).translate, "ventil")
        while not scheduler.queued:
            time.sleep(0.01)
        ticket.cancel()
        with pytest.raises(Cancelled):
            second.result(20)
        assert not first.done()
        slow.go.set()
        assert first.result(20).text == translator.translate("die pumpe").text


def test_a_full_queue_refuses_interactive_requests_only(held: tuple[Scheduler, Translator, Slow]) -> None:
    scheduler, translator, slow = held
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(translator.decoding_with(scheduler.decoder(Ticket())).translate, ["die pumpe"] * 4)
        assert slow.began.wait(20)
        with pytest.raises(QueueFull, match="try again"):
            translator.decoding_with(scheduler.decoder(Ticket())).translate(["ventil"] * 4)
        bulk = pool.submit(
            translator.decoding_with(scheduler.decoder(Ticket(priority=Priority.BULK))).translate, ["motor"] * 30
        )
        slow.go.set()
        assert len(first.result(20)) == 4 and len(bulk.result(20)) == 30


def test_interactive_work_comes_first_and_bulk_work_goes_on(held: tuple[Scheduler, Translator, Slow]) -> None:
    scheduler, translator, slow = held
    order: list[str] = []

    def run(name: str, priority: Priority, count: int) -> None:
        translator.decoding_with(scheduler.decoder(Ticket(name, priority))).translate(["die pumpe"] * count)
        order.append(name)

    threads = [threading.Thread(target=run, args=("bulk", Priority.BULK, 40))]
    threads[0].start()
    assert slow.began.wait(20)
    threads += [threading.Thread(target=run, args=(f"quick {n}", Priority.INTERACTIVE, 1)) for n in range(3)]
    for thread in threads[1:]:
        thread.start()
    while scheduler.queued < 40:
        time.sleep(0.005)
    slow.go.set()
    for thread in threads:
        thread.join(20)
    assert order[-1] == "bulk" and sorted(order[:3]) == ["quick 0", "quick 1", "quick 2"]


def test_an_error_ends_the_requests_that_it_concerns(
    scheduler: Scheduler, tiny: TranslationModel, tiny_store: Datastore
) -> None:
    good, bad = Translator(tiny, beam=BEAM), Translator(tiny, tiny_store, "knn", beam=BEAM)

    def broken(request: Any) -> Any:
        raise OSError("the disk is gone")

    bad.method.begin = broken  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        failing = pool.submit(bad.decoding_with(scheduler.decoder(Ticket())).translate, ["die pumpe"] * 5)
        found = pool.submit(good.decoding_with(scheduler.decoder(Ticket())).translate, ["ventil"] * 5)
        with pytest.raises(OSError, match="the disk is gone"):
            failing.result(20)
        assert {t.text for t in found.result(20)} == {good.translate("ventil").text}
    assert good.decoding_with(scheduler.decoder(Ticket())).translate("ventil").text == good.translate("ventil").text


def test_closing_finishes_what_runs_and_refuses_what_comes(tiny: TranslationModel) -> None:
    scheduler, translator = Scheduler(SchedulerConfig(slots=2, workers=1)), Translator(tiny, beam=BEAM)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(translator.decoding_with(scheduler.decoder(Ticket())).translate, ["die pumpe"] * 20)
        while not (scheduler.running or running.done()):
            time.sleep(0.001)
        scheduler.close(drain=20)
        assert len(running.result(20)) == 20
    with pytest.raises(Stopped):
        translator.decoding_with(scheduler.decoder(Ticket())).translate("ventil")
