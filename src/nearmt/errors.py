"""Everything that can go wrong and that a person can mend.

NearmtError                 exit code 1
├── ConfigError             exit code 2: a setting out of range, an unknown key, a bad combination
├── InputError              a file that is missing, unreadable, not UTF-8 or not in its format
├── OutputError             a path that cannot be written, a full disk
├── ModelError              a model that cannot be loaded or does not know a language
├── DatastoreError          a datastore that is missing, unfinished or of another model
│   └── DamagedError        what was acknowledged cannot be read any more
└── MissingPackageError     an optional package that the request needs

Each carries one line that says what is wrong, where, and what to do. The command line prints that
line and nothing else; only programming errors show a traceback.
"""

from __future__ import annotations

import difflib
import errno
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
    """Something that was read is not what it should be."""


class OutputError(NearmtError):
    """Something could not be written."""


class ModelError(NearmtError):
    """A model could not be loaded or used as asked."""


class DatastoreError(NearmtError):
    """A datastore cannot be used."""


class DamagedError(DatastoreError):
    """What a datastore acknowledged cannot be read any more."""


class MissingPackageError(NearmtError):
    """An optional package is not installed."""


class NearmtWarning(UserWarning):
    """Something that went on all right and that somebody may want to know."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest known word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn an operating-system error while writing `path` into one line."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output has left: nothing is wrong
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OutputError(f"{path}: the disk is full; free some space and run the command again") from error
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error
