"""What is compiled, and what is done where nothing can be."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from nearmt import compiling
from nearmt.compiling import compiled, has_compiler
from nearmt.models import TranslationModel
from nearmt.store import Datastore
from nearmt.translator import Translator
from tests.conftest import make_pairs


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    has_compiler.cache_clear()
    yield
    has_compiler.cache_clear()


def _sum_up(numbers):  # type: ignore[no-untyped-def]
    total = 0.0
    for number in numbers:
        total += number
    return total


def test_a_function_is_compiled() -> None:
    assert has_compiler()
    made = compiled(_sum_up)
    assert made(np.array([1.0, 2.5])) == 3.5 and made is not _sum_up


def test_it_is_compiled_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    real = numba.njit

    def njit(*args, cache=False, **options):  # type: ignore[no-untyped-def]
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", njit)
    assert compiled(_sum_up)(np.array([4.0])) == 4.0


def test_without_numba_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not has_compiler()


def test_nor_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    assert not has_compiler()


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_translations_are_the_same_without(
    method: str, tiny: TranslationModel, tiny_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [pair.source for pair in make_pairs(6, seed=5)]

    def translate() -> list[tuple[str, int, int]]:
        found = Translator(tiny, Datastore.open(tiny_store.path), method, batch_size=3).translate(sources)
        scores.append([translation.score for translation in found])
        return [(translation.text, translation.steps, translation.searches) for translation in found]

    scores: list[list[float]] = []
    with_it = translate()
    monkeypatch.setitem(sys.modules, "numba", None)
    compiling.has_compiler.cache_clear()
    assert translate() == with_it
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
