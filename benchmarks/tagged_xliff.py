"""XLIFF with inline tags in every arrangement, made of plain texts, and a count of what became of the tags."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

#: Tags at places between words, which are a < b < c < d: S is a single tag, ( and ) are a pair.
SHAPES = {
    "alone": "a S",
    "two alone": "a S b S",
    "adjacent singles": "a S a S",
    "paired": "a (1 b )1",
    "two pairs": "a (1 b )1 c (2 d )2",
    "adjacent pairs": "a (1 b )1 b (2 c )2",
    "nested": "a (1 b (2 c )2 d )1",
    "nested, same beginning": "a (1 a (2 b )2 c )1",
    "nested, same words": "a (1 a (2 b )2 b )1",
    "single in a pair": "a (1 b S c )1",
    "single beside a pair": "a S a (1 b )1 b S",
    "empty pair": "a (1 a )1",
}
_FEWEST_WORDS = 5
#: Names of elements around text, of single tags and of opening codes, by version.
_ELEMENTS = {"1.2": "g", "2.0": "pc"}
_SINGLE = {"1.2": ("x", "ph"), "2.0": ("ph",)}
_CODES = {"1.2": ("bpt", "bx"), "2.0": ("sc",)}


def write_xliff(path: Path, texts: Sequence[str], version: str, count: int) -> None:
    """Write a file with tags in texts of several words, the arrangements in turn."""
    random = Random(version)
    usable = [text for text in texts if len(text.split()) >= _FEWEST_WORDS and "\n" not in text]
    chosen = random.sample(usable, min(count, len(usable)))
    shapes = list(SHAPES)
    units = [_unit(number, text, shapes[number % len(shapes)], version, random) for number, text in enumerate(chosen)]
    if version == "1.2":
        head = (
            '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
            '<file original="check" datatype="plaintext" source-language="de" target-language="en"><body>'
        )
        foot = "</body></file></xliff>"
    else:
        head = '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="de" trgLang="en">\n'
        head, foot = head + '<file id="f">', "</file></xliff>"
    path.write_text("\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *units, foot, ""]), encoding="utf-8")


def _unit(number: int, text: str, shape: str, version: str, random: Random) -> str:
    source = f"<source>{_tagged(text.split(), shape, version, random)}</source>"
    if version == "1.2":
        return f'<trans-unit id="{number}" resname="{shape}">{source}</trans-unit>'
    return f'<unit id="{number}" name="{shape}"><segment>{source}</segment></unit>'


def _tagged(words: list[str], shape: str, version: str, random: Random) -> str:
    """Words with tags: opening tags before a word, closing tags behind one, single tags on their own or at a word."""
    places = dict(zip("abcd", sorted(random.sample(range(len(words)), 4)), strict=True))
    before: dict[int, str] = {}
    behind: dict[int, str] = {}
    styles: dict[str, tuple[str, str]] = {}
    commands = shape_commands(shape)
    for order, (place, command) in enumerate(commands, 1):
        at = places[place]
        if command == "S":
            name = random.choice(_SINGLE[version])
            has_code = version == "1.2" and name == "ph"
            tag = f'<{name} id="s{order}">code</{name}>' if has_code else f'<{name} id="s{order}"/>'
            before[at] = before.get(at, "") + tag + random.choice(["", " "])
        elif command[0] == "(":
            styles[command[1]] = _pair(order, version, random)
            before[at] = before.get(at, "") + styles[command[1]][0]
        elif at == places[_place_of(commands, command[1])]:  # an empty pair
            before[at] = before.get(at, "") + styles[command[1]][1]
        else:
            behind[at - 1] = behind.get(at - 1, "") + styles[command[1]][1]
    return " ".join(before.get(n, "") + escape(word) + behind.get(n, "") for n, word in enumerate(words))


def shape_commands(shape: str) -> list[tuple[str, str]]:
    parts = SHAPES[shape].split()
    return list(zip(parts[::2], parts[1::2], strict=True))


def _place_of(commands: list[tuple[str, str]], pair: str) -> str:
    return next(place for place, command in commands if command == f"({pair}")


def _pair(order: int, version: str, random: Random) -> tuple[str, str]:
    if random.random() < 0.5:
        return f'<{_ELEMENTS[version]} id="p{order}">', f"</{_ELEMENTS[version]}>"
    opening = random.choice(_CODES[version])
    if opening == "bpt":
        return f'<bpt id="p{order}">[</bpt>', f'<ept id="p{order}">]</ept>'
    if opening == "bx":
        return f'<bx id="p{order}" rid="{order}"/>', f'<ex id="e{order}" rid="{order}"/>'
    return f'<sc id="p{order}"/>', f'<ec startRef="p{order}"/>'


@dataclass(frozen=True)
class _Side:
    """The tags of a source or target: their number by name and identity, and their order of opening and closing."""

    tags: Counter[str]
    events: list[str]

    @classmethod
    def of(cls, element: ElementTree.Element | None) -> _Side:
        events = [] if element is None else list(_events(element))
        return cls(Counter(event for event in events if not event.startswith("/")), events)

    @property
    def nests(self) -> bool:
        """Whether what is opened last is closed first, and nothing is closed before it is opened."""
        opened: list[str] = []
        for event in self.events:
            kind, _, name = event.partition(" ")
            if kind in ("g", "pc", "bpt", "bx", "sc"):
                opened.append(_number(name))
            elif kind in ("/g", "/pc", "ept", "ex", "ec") and (not opened or opened.pop() != _number(name)):
                return False
        return not opened


def _number(name: str) -> str:
    return name.lstrip("pe")


def _events(element: ElementTree.Element) -> Iterator[str]:
    for child in element:
        name = child.tag.rpartition("}")[2]
        identity = child.get("id") or child.get("startRef")
        yield f"{name} {identity}"
        if name in ("g", "pc"):
            yield from _events(child)
            yield f"/{name} {identity}"


def check_xliff(source: Path, target: Path, version: str, *, show: bool) -> list[dict[str, Any]]:
    """What xmllint says, and for each arrangement the units whose tags are not there once, or do not nest."""
    done = subprocess.run(["xmllint", "--noout", str(target)], check=False, capture_output=True)
    units = [node for node in ElementTree.parse(target).iter() if node.tag.rpartition("}")[2] in ("trans-unit", "unit")]
    seen, tags, bad = Counter[str](), Counter[str](), Counter[str]()
    for unit in units:
        shape = unit.get("resname") or unit.get("name") or ""
        before, after = (_Side.of(_child(unit, name)) for name in ("source", "target"))
        seen[shape] += 1
        tags[shape] += before.tags.total()
        if before.tags != after.tags or (before.nests and not after.nests):
            bad[shape] += 1
            if show:
                print(f"{shape}: {ElementTree.tostring(unit, encoding='unicode')}")
    lint = {"check": f"XLIFF {version}: xmllint", "units": len(units), "ours": len(units) * (done.returncode != 0)}
    shapes = [
        {
            "check": f"XLIFF {version}: tags once, nested",
            "shape": shape,
            "units": seen[shape],
            "tags": tags[shape],
            "ours": bad[shape],
        }
        for shape in SHAPES
    ]
    return [lint, *shapes]


def _child(unit: ElementTree.Element, name: str) -> ElementTree.Element | None:
    return next((node for node in unit.iter() if node.tag.rpartition("}")[2] == name), None)
