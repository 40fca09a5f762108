"""Cleaning rules: what is taken out of texts, and which pairs a memory is better off without."""

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

# Every run of white space becomes one blank; no-break spaces stay what they are, they carry meaning.
_SPACE = re.compile(r"[\t\n\x0b\x0c\r \x85\u2028\u2029]+")
# C0 and C1 controls, byte-order mark and the specials that no font shows.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufff9-\ufffb]")
# An abbreviation may be written out on the other side: `z. B.` is `for example`.
_RATIO_FROM = 30


@dataclass(frozen=True)
class CleaningConfig(Config):
    """Which pairs and characters a memory is relieved of."""

    whitespace: bool = option(True, "turn every run of white space into one blank, with none at the ends")
    control_characters: bool = option(True, "remove control characters")
    drop_identical: bool = option(False, "leave out pairs whose two sides are the same")
    drop_wrong_script: bool = option(False, "leave out pairs with a side mostly in a script foreign to its language")
    max_length: int | None = option(None, "leave out pairs with more characters than this on a side", low=1)
    max_ratio: float | None = option(
        None,
        "leave out pairs whose longer side has more than this many times the characters of the shorter; "
        f"pairs with fewer than {_RATIO_FROM} characters on both sides are exempt",
        low=1,
    )
    drop_duplicates: bool = option(False, "leave out pairs that were there before, with the same source and target")


Rewrite = Callable[[str], str]
#: Whether a rule leaves out a pair.
Verdict = Callable[[Pair], bool]
#: Makes a verdict from the rule's setting, the source language and the target language.
MakeVerdict = Callable[[Any, str | None, str | None], Verdict]


def clean(text: str) -> str:
    """The text without control characters, with single blanks and none at the ends."""
    return _single_blanks(_without_controls(text))


def digest(*texts: str) -> bytes:
    """Eight bytes that stand for some texts in a set that may grow to millions."""
    content = "".join(f"{len(text)}:{text}" for text in texts)
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def rewritten(pair: Pair, rewrite: Rewrite) -> Pair:
    """The pair with both sides rewritten; the very same object if that changes nothing."""
    source, target = rewrite(pair.source), rewrite(pair.target)
    if source == pair.source and target == pair.target:
        return pair
    return replace(pair, source=source, target=target)


def has_empty_side(pair: Pair) -> bool:
    return not (pair.source.strip() and pair.target.strip())


def _without_controls(text: str) -> str:
    return _CONTROL.sub("", text)


def _single_blanks(text: str) -> str:
    return _SPACE.sub(" ", text).strip(" ")


def _identical(_on: bool, _source_lang: str | None, _target_lang: str | None) -> Verdict:
    return lambda pair: pair.source == pair.target


def _wrong_script(_on: bool, source_lang: str | None, target_lang: str | None) -> Verdict:
    return lambda pair: is_in_wrong_script(pair.source, source_lang) or is_in_wrong_script(pair.target, target_lang)


def _too_long(most: int, _source_lang: str | None, _target_lang: str | None) -> Verdict:
    return lambda pair: max(len(pair.source), len(pair.target)) > most


def _unequal(most: float, _source_lang: str | None, _target_lang: str | None) -> Verdict:
    def verdict(pair: Pair) -> bool:
        shorter, longer = sorted((len(pair.source), len(pair.target)))
        return longer >= _RATIO_FROM and longer > most * shorter

    return verdict


def _repeated(_on: bool, _source_lang: str | None, _target_lang: str | None) -> Verdict:
    seen: set[bytes] = set()

    def verdict(pair: Pair) -> bool:
        before = len(seen)
        seen.add(digest(pair.source, pair.target))
        return len(seen) == before

    return verdict


#: Rules that rewrite texts, by the name of their setting, in the order in which they are applied.
REWRITES: dict[str, Rewrite] = {"control-characters": _without_controls, "whitespace": _single_blanks}
#: Rules that leave out pairs, applied in this order to rewritten pairs; only survivors are remembered as seen.
DROPS: dict[str, MakeVerdict] = {
    "drop-identical": _identical,
    "drop-wrong-script": _wrong_script,
    "max-length": _too_long,
    "max-ratio": _unequal,
    "drop-duplicates": _repeated,
}


class Cleaner:
    """Applies the rules that are on, and counts in a report what they do.

    A pair that is left out counts for the first rule that wants it so; `changed` counts pairs that are
    given out. Pairs with an empty side are always left out.
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
        self._report.changed.update(changed)
        return pair
