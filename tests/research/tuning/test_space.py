"""The settings to tune and the values to try."""

from __future__ import annotations

import pytest

from nearmt.errors import ConfigError
from nearmt.research.tuning.space import Axis, Point, make_axes, names_to_tune
from tests.random_stores import random_store

STORE = random_store(0, sentences=5, columns=4, vocabulary=9)  # search scale 20, cache scale its square root
CHUNK: Point = {
    **{"k": 8, "lambda": 0.58, "temperature": 10.0, "chunk": 16, "schedule": "geometric:2:16", "recall": "cache"},
    **{"cache-lambda": 0.48, "cache-temperature": 0.9, "cache-columns": 4, "scope": "source"},
}


def test_ranges_scale_with_the_store() -> None:
    axes = make_axes(["lambda", "temperature", "cache-lambda", "cache-temperature"], "store", STORE, CHUNK)
    ends = [(axis.values[0], axis.values[-1], axis.default) for axis in axes]
    assert ends == [(0.2, 0.8, 0.58), (2.0, 40.0, 10.0), (0.2, 0.8, 0.48), (0.4472, 4.472, 0.9)]
    assert all(list(axis.values) == sorted(axis.values) for axis in axes)


def test_grid_of_the_paper_has_36_points() -> None:
    names = names_to_tune(None, CHUNK, {}, "paper")
    assert names == ["lambda", "cache-lambda", "cache-temperature"]
    axes = make_axes(names, "paper", STORE, CHUNK)
    assert [axis.values for axis in axes] == [(0.5, 0.6, 0.7, 0.8), (0.4, 0.5, 0.6), (1.0, 2.0, 3.0)]


def test_fixed_settings_are_not_tuned() -> None:
    assert names_to_tune(None, CHUNK, {"temperature": 3.0, "k": 4}, "store") == [
        "lambda",
        "cache-lambda",
        "cache-temperature",
    ]
    assert names_to_tune("all", CHUNK, {"lambda": 0.5}, "store") == [
        "temperature",
        "cache-lambda",
        "cache-temperature",
        "k",
        "chunk",
        "schedule",
    ]
    with pytest.raises(ConfigError, match="'lambda' is given and to be tuned"):
        names_to_tune("lambda", CHUNK, {"lambda": 0.5}, "store")
    with pytest.raises(ConfigError, match="nothing to tune"):
        names_to_tune(None, {"lambda": 0.5, "temperature": 1.0}, {"lambda": 0.5, "temperature": 1.0}, "store")


def test_chunks_in_order_have_no_cache_temperature() -> None:
    assert "cache-temperature" not in names_to_tune("all", {**CHUNK, "recall": "in-order"}, {}, "store")


def test_settings_are_tuned_in_a_fixed_order() -> None:
    assert names_to_tune(" cache-lambda , lambda ", CHUNK, {}, "store") == ["lambda", "cache-lambda"]


@pytest.mark.parametrize("asked", ["lamda", "scope", "lambda,,beams", "", ","])
def test_unknown_settings_are_refused(asked: str) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'lambda'|cannot be tuned|name settings"):
        names_to_tune(asked, CHUNK, {}, "store")


def test_method_without_settings_cannot_be_tuned() -> None:
    with pytest.raises(ConfigError, match="nothing to tune"):
        names_to_tune(None, {}, {}, "store")


def test_positions_between_and_beyond_values() -> None:
    axis = Axis("x", (1.0, 2.0, 4.0), 2.0)
    assert [axis.position(value) for value in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0)] == [
        -0.5,
        0.0,
        0.5,
        1.0,
        1.5,
        2.0,
        2.5,
    ]
    assert axis.distance(4.0) == axis.distance(1.0) == 1.0


def test_nearby_values_come_nearest_first() -> None:
    axis = Axis("x", (1.0, 2.0, 3.0, 4.0, 5.0), 3.0)
    assert axis.nearby(3.0, 9) == [2.0, 4.0, 1.0, 5.0]
    assert axis.nearby(3.0, 1) == [2.0, 4.0]
    assert axis.nearby(1.0, 2) == [2.0, 3.0]
    assert axis.nearby(3.9, 9) == [3.0, 5.0, 2.0, 1.0, 4.0]  # 4 is less than half a step away
    words = Axis("schedule", ("every:2", "geometric:2:8", "geometric:2:16"), "geometric:2:16")
    assert words.nearby("geometric:2:16", 9) == ["geometric:2:8", "every:2"]
    assert words.nearby("every:99", 9) == ["every:2", "geometric:2:8", "geometric:2:16"]
    assert words.distance("every:2") == words.distance("geometric:2:8") == 1.0


def test_refining_inserts_midpoints() -> None:
    assert Axis("x", (0.2, 0.4, 0.8), 0.4).refined().values == (0.2, 0.3, 0.4, 0.6, 0.8)
    assert Axis("k", (2, 4, 8), 8).refined().values == (2, 4, 8)
    assert Axis("s", ("a", "b"), "a").refined().values == ("a", "b")


def test_adaptive_methods_tune_other_settings() -> None:
    """With `adaptive` there is neither lambda nor T."""
    assert names_to_tune(None, {"lambda": None, "temperature": None, "k": 8}, {}, "store") == ["k"]
