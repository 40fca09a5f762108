"""Functions of numbers and arrays as machine code, by numba: for what is many small steps to torch on a CPU.

While they run other threads can run Python. Where numba cannot be used, torch does the same in its own steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be added up in any order, several numbers at a time; infinite and missing numbers stay what they are.
_FREEDOM = {"reassoc", "contract"}


@cache
def has_compiler() -> bool:
    """Whether functions can be compiled here."""
    try:
        import numba
    except Exception:  # not installed, or not made for this Python or numpy
        return False
    return not numba.config.DISABLE_JIT


def compiled(function: Function) -> Function:
    """The same function as machine code, made when it is first called and kept on disk where that is possible."""
    import numba

    try:
        made: Function = numba.njit(nogil=True, fastmath=_FREEDOM, cache=True)(function)
    except RuntimeError:  # no folder to keep it in
        made = numba.njit(nogil=True, fastmath=_FREEDOM)(function)
    return made
