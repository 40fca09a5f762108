"""Cleaning rules: characters to remove from texts, and pairs to leave out of a memory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nearmt.config import Config, option
from nearmt.contracts import Pair
from nearmt.corpus.report import Report
from nearmt.corpus.scripts import is_in_wrong_script

# Runs of white space become one blank; no-break spaces are kept, because they carry meaning.
_SPACE = re.compile(r"[\t\n\x0b\x0c\r \x85\u2028\u2029]+")
# C0 and C1 controls, byte-order mark and interlinear annotation characters.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufff9-\ufffb]")
# Shorter pairs are exempt from the ratio: an abbreviation may be written out on the other side.
_RATIO_FROM = 30


@dataclass(frozen=True)
class CleaningConfig(Config):
    """The cleaning rules that are on."""

    whitespace: bool = option(True, "collapse runs of white space into one blank, and strip the ends")
    control_characters: bool = option(True, "remove control characters")
    drop_identical: bool = option(False, "leave out pairs whose two sides are equal")
    drop_wrong_script: bool = option(False, "leave out pairs with a side mostly in a script of another language")
    max_length: int | None = option(None, "leave out pairs with more characters than this on a side", low=1)
    max_ratio: float | None = option(
        None,
        "leave out pairs whose sides differ in length by more than this factor; "
        f"pairs with fewer than {_RATIO_FROM} characters on both sides are exempt",
        low=1,
    )
    drop_duplicates: bool = option(False, "leave out pairs whose source and target occurred before")


Rewrite = Callable[[str], str]
#: Decides whether to leave out a pair.
Predicate = Callable[[Pair], bool]
#: Makes a predicate from the rule's setting, the source language and the target language.
MakePredicate = Callable[[Any, str | None, str | None], Predicate]


def clean(text: str) -> str:
    """Remove control characters, collapse white space and strip the ends."""
    return _single_blanks(_without_controls(text))


def comparable(text: str) -> str:
    """Normalise a text for comparison: letter case and white space are ignored."""
    return " ".join(text.casefold().split())


def digest(*texts: str) -> bytes:
    """Hash texts to eight bytes, for sets with millions of elements."""
    content = "".join(f"{len(text)}:{text}" for text in texts)
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def rewritten(pair: Pair, rewrite: Rewrite) -> Pair:
    """Rewrite both sides of a pair; return the same object if nothing changes."""
    source, target = rewrite(pair.source), rewrite(pair.target)
    if source == pair.source and target == pair.target:
        return pair
    return replace(pair, source=source, target=target)


def has_empty_side(pair: Pair) -> bool:
    return not (pair.source.strip() and pair.target.strip())


# Nothing that the rules change is printable but blanks, so most texts need no regular expression.


def _without_controls(text: str) -> str:
    return text if text.isprintable() else _CONTROL.sub("", text)


def _single_blanks(text: str) -> str:
    if not text.isprintable() or "  " in text:
        text = _SPACE.sub(" ", text)
    return text.strip(" ")


def _identical(_on: bool, _source_lang: str | None, _target_lang: str | None) -> Predicate:
    return lambda pair: pair.source == pair.target


def _wrong_script(_on: bool, source_lang: str | None, target_lang: str | None) -> Predicate:
    return lambda pair: is_in_wrong_script(pair.source, source_lang) or is_in_wrong_script(pair.target, target_lang)


def _too_long(most: int, _source_lang: str | None, _target_lang: str | None) -> Predicate:
    return lambda pair: max(len(pair.source), len(pair.target)) > most


def _unequal(most: float, _source_lang: str | None, _target_lang: str | None) -> Predicate:
    def is_unequal(pair: Pair) -> bool:
        shorter, longer = sorted((len(pair.source), len(pair.target)))
        return longer >= _RATIO_FROM and longer > most * shorter

    return is_unequal


def _repeated(_on: bool, _source_lang: str | None, _target_lang: str | None) -> Predicate:
    seen: set[bytes] = set()

    def is_repeated(pair: Pair) -> bool:
        before = len(seen)
        seen.add(digest(pair.source, pair.target))
        return len(seen) == before

    return is_repeated


#: Rules that rewrite texts, by name of their setting, in the order of application.
REWRITES: dict[str, Rewrite] = {"control-characters": _without_controls, "whitespace": _single_blanks}
#: Rules that leave out pairs, applied in this order to rewritten pairs; duplicates are checked last.
DROPS: dict[str, MakePredicate] = {
    "drop-identical": _identical,
    "drop-wrong-script": _wrong_script,
    "max-length": _too_long,
    "max-ratio": _unequal,
    "drop-duplicates": _repeated,
}


class Cleaner:
    """Applies the rules that are on and counts their effects in a report.

    A dropped pair counts for the first rule that applies; `changed` counts pairs that are kept. Pairs with an empty
    side are always left out.
    """

    def __init__(
        self, config: CleaningConfig, source_lang: str | None, target_lang: str | None, report: Report
    ) -> None:
        settings = {name: value for name, value in config.public_values().items() if value not in (None, False)}
        self._rewrites = [(name, rewrite) for name, rewrite in REWRITES.items() if name in settings]
        self._drops = [
            (name, make(settings[name], source_lang, target_lang)) for name, make in DROPS.items() if name in settings
        ]
        self._report = report

    def __call__(self, pair: Pair) -> Pair | None:
        changed = []
        for name, rewrite in self._rewrites:
            result = rewritten(pair, rewrite)
            if result is not pair:
                changed.append(name)
                pair = result
        if has_empty_side(pair):
            self._report.skipped["empty"] += 1
            return None
        for name, leaves_out in self._drops:
            if leaves_out(pair):
                self._report.dropped[name] += 1
                return None
        if changed:
            self._report.changed.update(changed)
        return pair
