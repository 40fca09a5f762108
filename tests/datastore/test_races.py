"""Several processes add to a store, replace it and read it at the same time: what was acknowledged is there."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.upkeep.reindex import rebuild
from nearmt.datastore.upkeep.verify import verify
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from tests.conftest import make_pairs

BASE = make_pairs(4, seed=41)
#: Whether something was done.
Work = Callable[[Path, TranslationModel, Random, Callable[..., None]], bool]


def generation(name: str) -> list[Pair]:
    """The pairs of one build."""
    return [replace(pair, id=f"{name}/{number}") for number, pair in enumerate(BASE)]


def done(change: Callable[[], object]) -> bool:
    """Whether a change was made; another writer at work is no failure."""
    try:
        change()
    except DatastoreError as error:
        if "another process is writing" not in str(error):
            raise
        return False
    return True


def build_over(path: Path, model: TranslationModel, random: Random, say: Callable[..., None]) -> bool:
    name = f"g{os.getpid()}-{random.randrange(10**9)}"
    start = time.monotonic()
    built = done(lambda: Datastore.build(path, generation(name), model, overwrite=True))
    if built:
        say(built=name, start=start, end=time.monotonic())
    return built


def add(path: Path, model: TranslationModel, random: Random, say: Callable[..., None]) -> bool:
    pair = Pair("eine welle", "a shaft", f"a{os.getpid()}-{random.randrange(10**9)}")
    start = time.monotonic()

    def change() -> None:
        if random.random() < 0.5:
            Datastore.open(path).add([pair], model)
        else:
            with Ledger.changing(path) as ledger:
                ledger.add([pair])

    added = done(change)
    if added:
        say(added=pair.id, start=start, end=time.monotonic())
    return added


def upkeep(path: Path, model: TranslationModel, random: Random, say: Callable[..., None]) -> bool:
    changes = [lambda: Datastore.open(path).compact(model), lambda: rebuild(path, model, BuildConfig())]
    return done(random.choice(changes))


def read(path: Path, model: TranslationModel, random: Random, say: Callable[..., None]) -> bool:
    """A reader always sees one complete generation."""
    store = Datastore.open(path)
    ids = [pair.id for pair in store.pairs() if "/" in pair.id]
    assert ids == [pair.id for pair in generation(ids[0].split("/")[0])], ids
    assert not any(finding.damaged for finding in verify(path))
    return True


def run(work: Work, path: Path, model: TranslationModel, seed: int, until: float, journal: Path) -> int:
    """Do something over and over, a few times at least, in a process of its own; its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        random = Random(seed)
        warnings.simplefilter("ignore")
        with journal.open("w", encoding="utf-8") as file:
            count = 0
            while time.monotonic() < until or count < 3:
                count += work(path, model, random, lambda **what: print(json.dumps(what), file=file))
        code = 0
    finally:
        if code:
            import traceback

            traceback.print_exc()
        os._exit(code)


def race(model: TranslationModel, tmp_path: Path, seconds: float, seed: int) -> None:
    path = tmp_path / "store"
    Datastore.build(path, generation("first"), model)
    works = [build_over, add, add, upkeep, read, read]
    until = time.monotonic() + seconds
    children = [
        run(work, path, model, seed * 100 + number, until, tmp_path / f"journal-{number}")
        for number, work in enumerate(works)
    ]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(works)
    said: list[dict[str, Any]] = []
    for number in range(len(works)):
        said += map(json.loads, (tmp_path / f"journal-{number}").read_text(encoding="utf-8").splitlines())
    builds = {what["built"]: what for what in said if "built" in what}
    additions = {what["added"]: what for what in said if "added" in what}
    assert len(builds) > 1 and len(additions) > 1
    store = Datastore.open(path, verify=True)
    store.catch_up(model)
    held = {pair.id for pair in store.pairs()}
    (base,) = {identity.split("/")[0] for identity in held if "/" in identity}
    built = builds.get(base, {"start": 0.0, "end": 0.0})
    assert not any(other["start"] > built["end"] for other in builds.values())
    expected = {name for name, what in additions.items() if what["start"] > built["end"]}
    possible = {name for name, what in additions.items() if what["end"] > built["start"]}
    assert expected <= {identity for identity in held if "/" not in identity} <= possible


def test_nothing_acknowledged_is_lost_in_a_race(tiny: TranslationModel, tmp_path: Path) -> None:
    race(tiny, tmp_path, 4, 1)


@pytest.mark.slow
def test_races_of_minutes(tiny: TranslationModel, tmp_path: Path, campaign_seed: int) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        race(tiny, tmp_path / str(number), 30, campaign_seed + number)
