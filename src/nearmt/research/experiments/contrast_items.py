"""The items of the experiment contrast: pairs to store, and sentences to ask that differ from them in a word or two.

A file has groups, each with pairs to store and sentences to ask. In a contrast group, an ask differs from the one
stored pair in one or two words. In a terminology group, all stored pairs translate a term in the same unusual way.
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nearmt
from nearmt.contracts import Pair
from nearmt.errors import InputError, did_you_mean
from nearmt.research.experiments.config import HALVES
from nearmt.research.experiments.contrast_scoring import Ask, position_of

TERMINOLOGY = "terminology"
#: Variants of a stored pair.
VARIANTS = 10
_CONTRAST_KEYS = ("id", "stored", "variants", "ask")
_TERM_KEYS = ("id", "term", "stored", "ask")
_ASK_KEYS = ("kind", "source", "accepted", "accepted2", "forbidden", "words")
_TERM_ASK_KEYS = ("source", "accepted")


@dataclass(frozen=True)
class Group:
    """Pairs that are stored together, and the sentences that are asked about them."""

    id: str
    stored: tuple[Pair, ...]
    variants: tuple[Pair, ...]
    asks: tuple[Ask, ...]
    #: The term and its translation; None in contrast groups.
    term: tuple[str, str] | None = None

    @property
    def half(self) -> str:
        return HALVES[hashlib.sha256(self.id.encode()).digest()[0] % 2]


@dataclass(frozen=True)
class Items:
    """The groups of a half."""

    groups: tuple[Group, ...]

    def asks(self, terms: bool, limit: int | None = None) -> list[Ask]:
        """Return the asks of the terminology groups or of the others, or the first `limit`."""
        return [ask for group in self.groups if (group.term is not None) == terms for ask in group.asks][:limit]

    def pairs(self, terms: bool, variants: bool = False) -> list[Pair]:
        """Return the pairs to store, on request with their variants."""
        found = [group for group in self.groups if (group.term is not None) == terms]
        return [pair for group in found for pair in (*group.stored, *(group.variants if variants else ()))]

    def digest(self) -> str:
        return hashlib.sha256(repr(self.groups).encode()).hexdigest()[:16]


def default_folder() -> Path:
    """The items in a clone of the repository."""
    return Path(nearmt.__file__).parents[2] / "benchmarks" / "contrast"


def read_items(folder: Path, half: str = "all") -> Items:
    """Read the groups of all TOML files of a folder that belong to a half."""
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise InputError(f"{folder}: has no items (*.toml); --items takes the folder benchmarks/contrast of a clone")
    groups = [group for path in paths for group in read_file(path)]
    known: set[str] = set()
    for group in groups:
        if group.id in known:
            raise InputError(f"{folder}: two groups are called '{group.id}'")
        known.add(group.id)
    chosen = tuple(group for group in groups if half in ("all", group.half))
    if not chosen:
        raise InputError(f"{folder}: has no groups in the half '{half}'; choose another --half")
    return Items(chosen)


def read_file(path: Path) -> tuple[Group, ...]:
    try:
        return _parsed(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error


@functools.lru_cache(maxsize=16)
def _parsed(path: Path, text: str) -> tuple[Group, ...]:
    """Parse a file. Signatures are computed for every row, so recent files are kept."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    _check_keys(found, ("group",), str(path))
    groups = _tables(found, "group", str(path))
    return tuple(_group(group, path, f"{path}: group {number}") for number, group in enumerate(groups, 1))


def _group(found: dict[str, Any], path: Path, where: str) -> Group:
    identity = _text(found, "id", where)
    where = f"{path}: group '{identity}'"
    if "term" in found:
        return _term_group(found, identity, where)
    _check_keys(found, _CONTRAST_KEYS, where)
    stored = _pair(found.get("stored"), f"contrast:{identity}:0", f"{where}: stored")
    variants = _pairs(found, "variants", f"contrast:{identity}", where)
    if len(variants) != VARIANTS:
        raise InputError(f"{where}: has {len(variants)} variants; it needs {VARIANTS}")
    asks = [
        _ask(ask, f"{identity}/{number}", path.stem, stored, f"{where}: ask {number}")
        for number, ask in enumerate(_tables(found, "ask", where), 1)
    ]
    return Group(identity, (stored,), variants, tuple(asks))


def _term_group(found: dict[str, Any], identity: str, where: str) -> Group:
    _check_keys(found, _TERM_KEYS, where)
    term = _pair(found["term"], "", f"{where}: term")
    stored = _pairs(found, "stored", f"terminology:{identity}", where)
    asks = []
    for number, ask in enumerate(_tables(found, "ask", where), 1):
        here = f"{where}: ask {number}"
        _check_keys(ask, _TERM_ASK_KEYS, here)
        text, accepted = _text(ask, "source", here), _texts(ask, "accepted", here, least=1)
        stored_as = f"{term.source} = {term.target}"
        asks.append(Ask(f"{identity}/{number}", TERMINOLOGY, text, stored_as, accepted))
    return Group(identity, stored, (), tuple(asks), (term.source, term.target))


def _ask(found: dict[str, Any], identity: str, length: str, stored: Pair, where: str) -> Ask:
    _check_keys(found, _ASK_KEYS, where)
    words = found.get("words", 1)
    if words not in (1, 2) or isinstance(words, bool):
        raise InputError(f"{where}: words = {words!r}: must be 1 or 2")
    if (words == 2) != ("accepted2" in found):
        raise InputError(f"{where}: accepted2 goes with words = 2, and only with it")
    source = _text(found, "source", where)
    return Ask(
        identity,
        _text(found, "kind", where),
        source,
        stored.target,
        _texts(found, "accepted", where, least=1),
        _texts(found, "accepted2", where, least=1) if words == 2 else (),
        _texts(found, "forbidden", where),
        length=length,
        words=words,
        position=position_of(stored.source, source) if words == 1 else None,
    )


def _check_keys(found: dict[str, Any], known: Collection[str], where: str) -> None:
    for name in found:
        if name not in known:
            raise InputError(f"{where}: unknown key '{name}'{did_you_mean(name, known)}; it has {', '.join(known)}")


def _tables(found: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    tables = found.get(name)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{where}: has no [[{'group' if name == 'group' else f'group.{name}'}]]")
    return tables


def _text(found: dict[str, Any], name: str, where: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: {name} must be a text that is not empty")
    return value


def _texts(found: dict[str, Any], name: str, where: str, least: int = 0) -> tuple[str, ...]:
    values = found.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() for value in values):
        raise InputError(f"{where}: {name} must be a list of texts")
    if len(values) < least:
        raise InputError(f"{where}: {name} is empty")
    return tuple(values)


def _pairs(found: dict[str, Any], name: str, identity: str, where: str) -> tuple[Pair, ...]:
    values = found.get(name)
    if not isinstance(values, list) or not values:
        raise InputError(f"{where}: {name} must be a list of pairs")
    return tuple(_pair(value, f"{identity}:{n}", f"{where}: {name}, pair {n}") for n, value in enumerate(values, 1))


def _pair(value: Any, identity: str, where: str) -> Pair:
    if not _is_pair(value):
        raise InputError(f"{where}: must be two texts, source and target")
    return Pair(value[0], value[1], id=identity)


def _is_pair(value: Any) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return len(value) == 2 and all(isinstance(side, str) and side.strip() for side in value)
