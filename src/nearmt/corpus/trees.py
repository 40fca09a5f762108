"""Documents in folders, and where their translations go in another folder.

Files below a folder keep their path relative to it, named files keep their name. Links below a folder are not followed:
they may lead out of it, or to a file that is translated anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from nearmt.corpus.formats import has_document_suffix
from nearmt.errors import ConfigError, InputError, OutputError, did_you_mean

#: Suffixes of files that are next to an output until it is complete.
UNFINISHED = (".resume", ".partial")


@dataclass(frozen=True)
class TreeFile:
    """A file to translate."""

    path: Path
    #: Its path within the output folder.
    name: PurePath


@dataclass
class Tree:
    """The files below some paths."""

    files: list[TreeFile] = field(default_factory=list)
    #: Files that are not translated, and why.
    left_alone: list[tuple[Path, str]] = field(default_factory=list)
    #: Folders that could not be read.
    failures: list[tuple[Path, InputError]] = field(default_factory=list)


def find_documents(paths: Sequence[Path]) -> Tree:
    """Find the documents below folders, in the order of their names, and the named files.

    A missing path and a folder without documents are errors; a folder inside that cannot be read is a failure.
    """
    tree = Tree()
    found: dict[tuple[Path, PurePath], None] = {}
    for path in paths:
        if path.is_dir():
            others, failures = len(tree.left_alone), len(tree.failures)
            below: dict[tuple[Path, PurePath], None]
            below = dict.fromkeys((file, file.relative_to(path)) for file in _documents_below(path, tree))
            if not below and len(tree.failures) == failures:
                raise InputError(f"{path}: the folder has no documents{_told(len(tree.left_alone) - others)}")
            found |= below
        elif path.is_file():
            found[path, PurePath(path.name)] = None
        else:
            raise _missing(path)
    tree.files = [TreeFile(path, name) for path, name in found]
    return tree


def check_outputs(tree: Tree, paths: Sequence[Path], output: Path, record: str) -> None:
    """Refuse an output folder among the inputs, and files that would be written over others.

    `record` is the name of the file in the output folder that lists what is finished. Of a file that is named twice,
    one is left in the tree.
    """
    for path in paths:
        if path.is_dir() and _real(output).is_relative_to(_real(path)):
            raise ConfigError(f"{output}: is in the input folder {path}; name another --output")
    inputs = {_identity(file.path): file.path for file in tree.files}
    taken: dict[PurePath, Path] = {}
    for file in tree.files:
        target = output / file.name
        if read := inputs.get(_identity(target)):
            raise ConfigError(f"{target}: is the input file {read}; name another --output")
        other = taken.setdefault(file.name, file.path)
        if not _is_same(other, file.path):
            raise ConfigError(_clash(other, file.path, target))
    tree.files = [file for file in tree.files if taken[file.name] is file.path]
    _check_apart(tree.files, {**taken, PurePath(record): output / record}, output)


def check_inside(target: Path, output: Path) -> None:
    """Refuse a file that a link would put outside of the output folder, and one that is not an ordinary file."""
    if not _real(target.parent).is_relative_to(_real(output)):
        raise OutputError(f"{target}: a symbolic link leads out of {output}; replace it by a folder")
    if target.exists() and not target.is_file():
        raise OutputError(f"{target}: is not an ordinary file; remove it, or name another --output")


def _check_apart(files: Sequence[TreeFile], taken: Mapping[PurePath, Path], output: Path) -> None:
    """Refuse a file where another needs a folder, or has its unfinished content."""
    for file in files:
        unfinished = [file.name.with_name(file.name.name + suffix) for suffix in UNFINISHED]
        for name in (*file.name.parents, *unfinished):
            if name in taken:
                raise ConfigError(_clash(taken[name], file.path, output / name))
        if taken[file.name] is not file.path:
            raise ConfigError(_clash(taken[file.name], file.path, output / file.name))


def _clash(one: Path, other: Path, target: Path) -> str:
    return f"{one} and {other}: would both be written to {target}; name the folder that holds both, or translate one"


def _documents_below(folder: Path, tree: Tree) -> Iterator[Path]:
    """The documents of a folder and its subfolders; fills in what is left alone and what cannot be read."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            tree.failures.append((here, InputError(f"{here}: cannot be read ({error.strerror or error})")))
            continue
        folders = []
        for entry in inside:
            path = here / entry.name
            if reason := _reason_to_leave(entry):
                tree.left_alone.append((path, reason))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                yield path
        waiting += reversed(folders)


def _reason_to_leave(entry: os.DirEntry[str]) -> str:
    """Why an entry of a folder is not translated; nothing if it is."""
    if entry.is_symlink():
        return "a symbolic link"
    if entry.name.startswith("."):
        return "hidden"
    if entry.is_dir(follow_symlinks=False):
        return ""
    if not entry.is_file(follow_symlinks=False):
        return "not an ordinary file"
    return "" if has_document_suffix(Path(entry.name)) else "not a format that is filled in"


def _told(others: int) -> str:
    return f" (but {others:,} others; a file that is named is read as text, or as --format says)" if others else ""


def _missing(path: Path) -> InputError:
    if path.exists():
        return InputError(f"{path}: is not an ordinary file; translate it alone")
    siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    return InputError(f"{path}: no such file{did_you_mean(path.name, siblings)}")


def _real(path: Path) -> Path:
    """The path without links; unlike `Path.resolve`, also of links that form a circle."""
    return Path(os.path.realpath(path))


def _is_same(one: Path, other: Path) -> bool:
    return one is other or _identity(one) == _identity(other)


def _identity(path: Path) -> tuple[int, int]:
    """Device and number of a file; of one that has gone, none that another has."""
    try:
        found = path.stat()
    except OSError:
        return -1, hash(path)
    return found.st_dev, found.st_ino
