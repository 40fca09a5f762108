"""Memory, threads and files of a server that is left running are bounded."""

from __future__ import annotations

import gc
import random
import shutil
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from nearmt.contracts import Pair
from nearmt.models import TranslationModel
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.service import MemoryUse, Service, TranslationRequest

#: Small memories on disk, and how many of them fit the budget.
COUNT, FITTING = 1000, 20
HANDLES = Path("/proc/self/fd")


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def all_gone(references: list[weakref.ref[object]]) -> bool:
    """Whether the objects are freed; a thread may hold one for a moment longer."""
    end = time.monotonic() + 30
    while any(reference() is not None for reference in references):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_nothing_of_a_closed_memory_waits_for_the_garbage_collector(service: Service) -> None:
    """Memories are large, and full collections are rare."""
    service.create_memory(ANONYMOUS, "a")
    with without_collector():
        references: list[weakref.ref[object]] = []
        for number, method in enumerate(["plain", "knn", "chunk", "chunk"]):
            service.add_pairs(ANONYMOUS, "a", [Pair(f"die pumpe {number} .", "the pump .")])
            request = TranslationRequest(
                ["die pumpe öffnen .", "die pumpe 0 ."],
                memories=[MemoryUse("a")],
                method=method,
                matches=2,
                explain=True,
            )
            service.translate(ANONYMOUS, request)
            with service.memories.using("a") as store:
                references.append(weakref.ref(store.snapshot()))
        assert all_gone(references[:-1])
        with service.memories.using("a") as store:
            references.append(weakref.ref(store))
        del store
        service.memories.close()
        assert all_gone(references)


@pytest.fixture
def many(service: Service, tiny: TranslationModel) -> list[str]:
    """The names of memories, of which few fit the budget; each knows the translation of a text of its own."""
    service.create_memory(ANONYMOUS, "m0")
    service.add_pairs(ANONYMOUS, "m0", [Pair("die pumpe .", "the pump .")])
    service.memories.close()
    folder = service.memories.folder
    names = [f"m{number}" for number in range(COUNT)]
    for name in names[1:]:
        shutil.copytree(folder / "m0", folder / name)
    with service.memories.using("m0"):
        service.memories.budget = FITTING * service.memories.open_bytes["m0"]
    return names


def test_thousands_of_memories_are_used_within_the_budget(
    service: Service, client: TestClient, many: list[str]
) -> None:
    """All are listed, any can be used by several clients at a time, and few are open."""
    assert len(client.get("/api/v1/memories").json()["memories"]) == COUNT
    handles = len(list(HANDLES.iterdir())) if HANDLES.is_dir() else 0
    errors: list[BaseException] = []
    most: list[int] = []

    def use(seed: int) -> None:
        try:
            for name in random.Random(seed).sample(many, 80):
                service.learn(ANONYMOUS, f"die welle {name} .", f"the shaft {name} .", memory=name)
                request = TranslationRequest([f"die welle {name} .", "die pumpe ."], memories=[MemoryUse(name)])
                found = [each.text for each in service.translate(ANONYMOUS, request).translations]
                assert found == [f"the shaft {name} .", "the pump ."]
                most.append(len(service.memories.open_bytes))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    # Those in use are open beyond the budget.
    assert FITTING / 2 <= max(most) <= FITTING + len(threads)
    assert sum(service.memories.open_bytes.values()) <= service.memories.budget
    if handles:
        assert len(list(HANDLES.iterdir())) - handles <= service.memories.handles
    infos = {info["name"]: info["pairs"] for info in client.get("/api/v1/memories").json()["memories"]}
    assert len(infos) == COUNT and set(infos.values()) == {1, 2}


def test_numbers_of_the_server_do_not_grow_with_memories(service: Service, client: TestClient) -> None:
    """Series are named after routes and dialects, never after what clients send."""

    def series(name: str) -> int:
        client.get(f"/api/v1/memories/{name}/pairs")
        client.get(f"/api/v1/memories/none-{name}")
        client.get(f"/nothing/{name}")
        client.get("/metrics")
        return len(client.get("/metrics").text.splitlines())

    names = ["a", "b", "c"]
    for name in names:
        service.create_memory(ANONYMOUS, name)
    before = series(names[0])
    assert [series(name) for name in names[1:]] == [before] * 2
