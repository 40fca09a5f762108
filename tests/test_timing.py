"""Named timers count only while a `Timings` is active."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from nearmt.datastore import Datastore
from nearmt.engines.cuda.graphs import CapturedGraph
from nearmt.models import TranslationModel
from nearmt.timing import Timings, timed
from nearmt.translator import Translator


def test_timers_without_active_timings() -> None:
    timings = Timings()
    with timed("a"):
        pass
    assert timings.calls == {}


def test_names_and_calls() -> None:
    timings = Timings()
    with timings.active():
        for _ in range(3):
            with timed("a/b"):
                pass
    with timed("a/b"):
        pass
    assert timings.calls == {"a/b": 3} and timings.seconds["a/b"] >= 0


def test_the_time_of_a_timer_within_another_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("nearmt.timing.time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    timings = Timings()
    with timings.active(), timed("outer"):  # 0 to 7, 1 to 6
        with timed("inner"):  # 2 to 3
            pass
        with timed("inner"):  # 4 to 5
            pass
    assert timings.seconds == {"outer": 3.0, "inner": 2.0} and timings.elapsed == 7.0
    assert timings.shares() == pytest.approx({"outer": 3 / 7, "inner": 2 / 7, "": 2 / 7})


def test_shares_of_threads_side_by_side_are_never_more_than_the_whole() -> None:
    timings = Timings(seconds={"a": 6.0, "b": 2.0}, calls={"a": 1, "b": 1}, elapsed=4.0)
    assert timings.shares() == {"a": 0.75, "b": 0.25, "": 0.0}
    assert Timings().shares() == {"": 1.0}


def test_a_listener_may_synchronise() -> None:
    """Once before a timer is started and once before it is stopped, and only for who asked."""
    waited: list[int] = []
    timings = Timings(synchronise=lambda: waited.append(len(timings.calls)))
    with timings.active(), timed("a"):
        assert waited == [0]
    assert waited == [0, 0] and timings.calls == {"a": 1}
    with Timings().active(), timed("a"):
        pass
    assert len(waited) == 2


def test_what_is_recorded_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording in which the program waited would be none."""
    waited: list[int] = []
    timings = Timings(synchronise=lambda: waited.append(1))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **settings: nullcontext())

    def doubled() -> tuple[torch.Tensor, ...]:
        with timed("a"):
            return (torch.tensor([2.0]),)

    with timings.active():
        CapturedGraph(doubled, (torch.zeros(1),), None)
        assert waited == [] and timings.calls == {}
        doubled()
    assert waited == [1, 1] and timings.calls == {"a": 1}


def test_a_translation_reports_its_parts(tiny: TranslationModel, tiny_store: Datastore) -> None:
    timings = Timings()
    with timings.active():
        found = Translator(tiny, tiny_store).translate("die pumpe prüfen")
    expected = {
        "model/encode",
        "model/layers",
        "model/output",
        "index/search",
        "cache/search",
        "mix",
        "beam/top",
        "beam/reorder",
    }
    assert expected <= set(timings.calls)
    # At the first step all search; later on those that do not search recall.
    assert timings.calls["model/layers"] == timings.calls["mix"] == timings.calls["cache/search"] + 1
    assert timings.calls["index/search"] == found.searches > 1
