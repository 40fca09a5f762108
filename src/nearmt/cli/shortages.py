"""Errors caused by a shortage of memory or open files, as one line with advice."""

from __future__ import annotations

import errno
from collections.abc import Iterator

_GPU = "the GPU has too little memory; give a smaller --batch-size, or --device cpu"
_MEMORY = "not enough memory; a smaller --batch-size, fewer --beams or --precision int8 need less"
_FILES = "too many open files; raise the limit (`ulimit -n 4096`), or join segments with `nearmt compact`"
#: Phrases in the errors of libraries without an exception class for it.
_WORDS = ("defaultcpuallocator", "not enough memory", "cannot allocate memory", "can't allocate memory", "bad_alloc")


def exhausted(error: BaseException) -> str | None:
    """The line for an error that a shortage caused; None for others."""
    for cause in _causes(error):
        code = cause.errno if isinstance(cause, OSError) else None
        text = str(cause).lower()
        if type(cause).__name__ == "OutOfMemoryError":  # torch's; importing it for this would cost seconds
            return _GPU
        if isinstance(cause, MemoryError) or code == errno.ENOMEM or any(word in text for word in _WORDS):
            return _MEMORY
        if code in (errno.EMFILE, errno.ENFILE) or "too many open files" in text:
            return _FILES
    return None


def hint(error: BaseException) -> str:
    """The same as a suffix of another error message; empty if no shortage caused the error."""
    found = exhausted(error)
    return f": {found}" if found else ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
