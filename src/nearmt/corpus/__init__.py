"""Translation memories as streams of pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import clean
from nearmt.corpus.lines import inner_suffix, numbered_lines
from nearmt.corpus.moses import read_aligned
from nearmt.corpus.tsv import read_tsv
from nearmt.errors import InputError, did_you_mean

READERS: dict[str, Callable[[Path], Iterator[Pair]]] = {".tsv": read_tsv, ".tab": read_tsv}

# Suffixes of two letters that name a format.
_NO_LANGUAGE = ("po", "mo")

__all__ = ["clean", "numbered_lines", "read_pairs"]


def read_pairs(
    *paths: str | Path, source_lang: str | None = None, target_lang: str | None = None, limit: int | None = None
) -> Iterator[Pair]:
    """Cleaned pairs of all files, in order; pairs with an empty side are left out.

    The format follows the suffix (`.xz` and `.gz` are unpacked). Two files whose suffixes are the two
    languages (`a.de a.en`) are aligned plain text.
    """
    if limit == 0:
        return
    count = 0
    for raw in _raw_pairs([Path(path) for path in paths], source_lang, target_lang):
        pair = replace(raw, source=clean(raw.source), target=clean(raw.target))
        if pair.source and pair.target:
            count += 1
            yield pair
        if count == limit:
            return


def _raw_pairs(paths: list[Path], source_lang: str | None, target_lang: str | None) -> Iterator[Pair]:
    for path in paths:
        if not path.exists():
            hint = did_you_mean(path.name, _siblings(path))
            raise InputError(f"{path}: no such file{hint}")
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name the files in it")
    if _are_aligned(paths, source_lang, target_lang):
        yield from read_aligned(*paths)
        return
    for path in paths:
        suffix = inner_suffix(path)
        if suffix not in READERS:
            raise InputError(
                f"{path}: unknown format '{suffix}'; give .tsv files (also .tsv.xz, .tsv.gz), "
                "or two aligned files that end in the two languages, like a.de a.en"
            )
        yield from READERS[suffix](path)


def _are_aligned(paths: list[Path], source_lang: str | None, target_lang: str | None) -> bool:
    """Two plain files, named after the languages where these are known."""
    if len(paths) != 2 or any(inner_suffix(path) in READERS for path in paths):
        return False
    suffixes = [inner_suffix(path).removeprefix(".") for path in paths]
    languages = [source_lang, target_lang]
    return all(
        suffix == language if language else re.fullmatch(r"[a-z]{2}([-_]\w+)?", suffix) and suffix not in _NO_LANGUAGE
        for language, suffix in zip(languages, suffixes, strict=True)
    )


def _siblings(path: Path) -> Iterable[str]:
    return [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
