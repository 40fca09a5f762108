"""Elements of XML documents with their offsets, and fragments of text."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby


@dataclass(slots=True)
class Node:
    """An element of a unit; offsets are bytes of the unit's raw text."""

    name: str  # without namespace prefix
    prefix: str  # with its colon, or nothing
    attributes: dict[str, str]
    line: int
    start: int
    inner: int = 0  # end of the start tag
    inner_end: int = 0  # start of the end tag
    end: int = 0
    children: list[Node | str] = field(default_factory=list)

    def elements(self, *names: str) -> list[Node]:
        """Return child elements of these names with the same namespace prefix."""
        return [
            child
            for child in self.children
            if isinstance(child, Node) and child.name in names and child.prefix == self.prefix
        ]

    def element(self, name: str) -> Node | None:
        return next(iter(self.elements(name)), None)

    def text(self) -> str:
        """Return all text inside."""
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)


@dataclass(frozen=True)
class Fragment:
    """A part of the document's text; with a node if it is a unit, or the start tag of a watched element."""

    raw: bytes
    node: Node | None = None
    is_unit: bool = False
    #: The open elements around it, outermost first, up to a maximum depth.
    around: tuple[Node, ...] = ()

    def slice(self, start: int, end: int) -> str:
        return _decode(self.raw[start:end])

    @property
    def text(self) -> str:
        return _decode(self.raw)


def joined(children: list[Node | str]) -> list[Node | str]:
    """Join adjacent texts."""
    joined: list[Node | str] = []
    for kind, run in groupby(children, type):
        same = list(run)
        joined += ["".join(map(str, same))] if kind is str else same
    return joined


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
