"""Errors that a user can do something about.

NearmtError                 exit code 1
├── ConfigError             exit code 2: a setting out of range, an unknown key, a bad combination
├── InputError              a file that is missing, unreadable, not UTF-8 or not in its format
├── OutputError             a path that cannot be written, a full disk
├── ModelError              a model that cannot be loaded or does not know a language
├── DatastoreError          a datastore that is missing, unfinished or of another model
│   ├── DamagedError        acknowledged changes cannot be read any more
│   └── IndexServerError    the server of an index does not answer, or has lost it
├── MissedError             exit code 3: all is translated, some of it without neighbours of the memory
└── MissingPackageError     an optional package that the request needs

Each has a message of one line: what is wrong, where, and what to do. The command line prints only that line; a
traceback is shown for programming errors only.
"""

from __future__ import annotations

import difflib
import errno
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class NearmtError(Exception):
    """Base of all errors that nearmt raises on purpose."""

    exit_code = 1


class ConfigError(NearmtError):
    """A setting that cannot be used as given."""

    exit_code = 2


class InputError(NearmtError):
    """An input is invalid."""


class OutputError(NearmtError):
    """An output could not be written."""


class ModelError(NearmtError):
    """A model could not be loaded or used as asked."""


class DatastoreError(NearmtError):
    """A datastore cannot be used."""


class DamagedError(DatastoreError):
    """Acknowledged changes of a datastore cannot be read any more."""


class IndexServerError(DatastoreError):
    """The server that keeps an index does not answer, or has lost it. The datastore itself is whole."""

    def __init__(self, message: str, *, lost: bool = False, loading: bool = False) -> None:
        """`lost`: the index is not there, and waiting does not help; `loading`: it will be there soon."""
        super().__init__(message)
        self.lost, self.loading = lost, loading

    def again(self) -> IndexServerError:
        """The same error, for another one who asked."""
        return IndexServerError(str(self), lost=self.lost, loading=self.loading)


class MissedError(NearmtError):
    """The output is complete, but the server of an index did not answer some of the searches for it."""

    exit_code = 3


class MissingPackageError(NearmtError):
    """An optional package is not installed."""


class NearmtWarning(UserWarning):
    """Something the user may want to know; the operation went on."""


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller's caller that a public name has changed; the old one works for one minor version."""
    warnings.warn(f"{old} is now {new}; the next minor version removes the old name", DeprecationWarning, stacklevel=3)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest known word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn an operating-system error while writing `path` into an `OutputError`."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the output has ended, which is not an error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OutputError(f"{path}: the disk is full; free some space and run the command again") from error
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error
