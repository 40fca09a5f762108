"""What translates a request, checked."""

from __future__ import annotations

from typing import Any

import pytest

from nearmt.errors import ConfigError
from nearmt.models import TranslationModel
from nearmt.serve.systems import System, system_of
from nearmt.serve.values import MemoryUse

MINE = [MemoryUse("mine")]


def test_the_method_follows_from_the_memories(tiny: TranslationModel) -> None:
    assert system_of(tiny, []).method == "plain"
    assert system_of(tiny, MINE).method == "chunk"
    plain = system_of(tiny, MINE, method="plain")
    assert (plain.method, plain.memories) == ("plain", ())


def test_equal_requests_have_equal_systems(tiny: TranslationModel) -> None:
    one = system_of(tiny, MINE, settings={"k": 4, "lambda": 0.5, "beams": 2})
    other = system_of(tiny, [MemoryUse("mine", 3.0)], settings={"lambda": 0.5, "k": 4}, beams=2)
    assert one == other
    assert hash(one) == hash(other)
    assert one != system_of(tiny, MINE, settings={"k": 5, "lambda": 0.5}, beams=2)


def test_memories_of_weight_0_are_left_out(tiny: TranslationModel) -> None:
    used = system_of(tiny, [MemoryUse("a", 0), MemoryUse("b", 2), MemoryUse("c")]).memories
    assert used == (MemoryUse("b", 2), MemoryUse("c"))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"memories": [MemoryUse("a"), MemoryUse("a")]}, "named twice"),
    ({"memories": [MemoryUse("a", -1)]}, "weight"),
    ({"memories": [MemoryUse("a", float("nan"))]}, "weight"),
    ({"memories": [MemoryUse("a", 0)]}, "no memory has a weight"),
    ({"memories": [MemoryUse(str(number)) for number in range(17)]}, "at most 16"),
    ({"memories": [], "method": "knn"}, "needs a memory"),
    ({"memories": [], "filter": "a=b"}, "nothing to filter"),
    ({"filter": "no condition"}, "KEY=VALUE"),
    ({"filter": ["a=b"] * 17}, "at most 16"),
    ({"method": "efficient"}, "must be one of"),
    ({"method": "none"}, "must be one of"),
    ({"settings": {"adaptive": "/etc/passwd"}}, "names a file"),
    ({"settings": {"scope": "batch"}}, "experiments"),
    ({"settings": {"recall": "in-order"}}, "experiments"),
    ({"settings": {"preset": "paper"}}, "unknown setting 'preset'"),
    ({"settings": {"glossary": "/etc/passwd"}}, "unknown setting 'glossary'"),
    ({"settings": {"model": "/etc"}}, "unknown setting 'model'"),
    ({"settings": {"batch-size": 1}}, "unknown setting"),
    ({"settings": {"kk": 1}}, "did you mean 'k'"),
    ({"settings": {"k": 1.5}}, "whole number"),
    ({"settings": {"k": "4"}}, "whole number"),
    ({"settings": {"k": True}}, "whole number"),
    ({"settings": {"k": [4]}}, "whole number"),
    ({"settings": {"k": 65}}, "at most 64"),
    ({"settings": {"seeds": 10**9}}, "between"),
    ({"settings": {"beams": 17}}, "at most 16"),
    ({"settings": {"lambda": float("nan")}}, "between 0 and 1"),
    ({"settings": {"schedule": "every:0"}}, "schedule"),
    ({"method": "plain", "settings": {"k": 4}}, "method 'plain' has no setting 'k'"),
    ({"beams": 0}, "between"),
]


@pytest.mark.parametrize(("given", "told"), REFUSED)
def test_what_cannot_be_used_as_given_is_refused(tiny: TranslationModel, given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        system_of(tiny, **{"memories": MINE, **given})


def test_filters_are_conditions_that_must_all_hold(tiny: TranslationModel) -> None:
    system: System = system_of(tiny, MINE, ["project=a b", " origin = x* "])
    assert system.filters == ("project=a b", "origin=x*")
