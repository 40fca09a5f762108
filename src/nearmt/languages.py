"""Language codes as files write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def base_language(code: str) -> str:
    """`de` for `de`, `de-AT`, `de_DE`, `DE` and `de@informal`."""
    return re.split(r"[-_@]", code.strip())[0].lower()


def same_language(one: str | None, other: str | None) -> bool:
    """Whether two codes name one language, whatever their regions; a missing code fits all."""
    return not one or not other or base_language(one) == base_language(other)


def best_fit(items: Iterable[tuple[str, Item]], wanted: str) -> Item | None:
    """The first item with just this code, else the first with its language."""
    items = list(items)
    code = wanted.replace("_", "-").lower()
    for found, item in items:
        if found.replace("_", "-").lower() == code:
            return item
    return next((item for found, item in items if found and base_language(found) == base_language(wanted)), None)
