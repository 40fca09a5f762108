"""Files that exist once for each language: `de/app.ftl` and `en/app.ftl`, `app.de.ftl` and `app.en.ftl`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from nearmt.corpus.report import Request
from nearmt.languages import same_language

#: Stands for the language in a path.
_ANY = "*"


def language_pairs(paths: Iterable[Path], request: Request) -> list[tuple[Path, Path]]:
    """The source and the target of files whose paths differ by the two languages alone, in order."""
    sides: list[dict[tuple[str, ...], Path]] = [{}, {}]
    for path in paths:
        for side, language in zip(sides, (request.source_lang, request.target_lang), strict=True):
            for key in _keys(path, language or ""):
                side.setdefault(key, path)
    pairs = {source: sides[1][key] for key, source in sides[0].items() if key in sides[1]}
    return [(source, target) for source, target in pairs.items() if source != target]


def _keys(path: Path, language: str) -> Iterator[tuple[str, ...]]:
    """The path with a mark in place of each folder, and each part of the name, that is a language."""
    *folders, name = path.parts
    for place, folder in enumerate(folders):
        if language and same_language(folder.replace("_", "-"), language):
            yield (*folders[:place], _ANY, *folders[place + 1 :], name)
    parts = name.split(".")
    for place, part in enumerate(parts[:-1]):
        if language and same_language(part.replace("_", "-"), language):
            yield (*folders, ".".join([*parts[:place], _ANY, *parts[place + 1 :]]))
