"""Documents as streams of parts: text that stays as it is, and units to translate.

The raw texts of all parts, put together, are the document: what is not filled in is written back
byte for byte. A part that is filled renders itself, with the translations in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from nearmt.corpus.cleaning import clean, digest
from nearmt.corpus.encoding import Encoding


class TagKind(Enum):
    OPEN = "open"
    CLOSE = "close"
    SINGLE = "single"


@dataclass(frozen=True)
class Tag:
    """Inline markup within a segment."""

    #: As it stands in the document.
    markup: str
    kind: TagKind = TagKind.SINGLE
    #: What an opening tag has in common with the closing tag that belongs to it.
    key: str = ""
    #: Opening and closing tag are one XML element, so they must nest with others of their kind.
    element: bool = False
    #: Stands for a line break or the like: plain text has a blank in its place.
    blank: bool = False


#: Text and inline markup, in order.
Segment = tuple[str | Tag, ...]


def plain_text(segment: Segment) -> str:
    """The words of a segment, without its markup."""
    return "".join(part if isinstance(part, str) else " " * part.blank for part in segment)


def text_digest(text: str) -> str:
    """A short hash of the words, whatever the white space: tells whether somebody has changed them since."""
    return digest(clean(text)).hex()


@dataclass(frozen=True)
class Unit:
    """Something to translate."""

    source: Segment
    #: What stands there as its translation; empty if there is none.
    target: str = ""
    #: Where it begins, for messages.
    line: int = 0
    #: Whether `%s` and the like are placeholders here; None when the document does not say.
    printf: bool | None = None


@dataclass(frozen=True)
class Match:
    """A stored pair that resembles a source, and how much: 1.0 is the same text."""

    source: str
    target: str
    similarity: float
    pair_id: str = ""
    origin: str = ""

    @property
    def percent(self) -> str:
        """Rounded down: only the same text is a match of 100%."""
        return f"{int(self.similarity * 100 + 1e-6)}%"


#: How the note of a machine translation begins: readers of memories leave such units out.
MACHINE_NOTE = "nearmt: machine translation"


class FillingOrigin(Enum):
    MEMORY = "memory"  # the stored translation of the very same source
    MACHINE = "machine"  # translated
    COPY = "copy"  # nothing in it to translate


@dataclass(frozen=True)
class Filling:
    """A translation for a unit, and what is known about it."""

    target: Segment
    origin: FillingOrigin
    score: float | None = None
    #: The stored pair of an exact match, or the pairs that spoke for the words of the translation.
    pair_ids: tuple[str, ...] = ()
    matches: tuple[Match, ...] = ()

    @property
    def text(self) -> str:
        """The translation with its markup."""
        return "".join(part if isinstance(part, str) else part.markup for part in self.target)

    @property
    def note(self) -> str:
        """One line for the people who see the document next."""
        if self.origin is FillingOrigin.MEMORY:
            return f"nearmt: exact match from the memory, pair {', '.join(self.pair_ids)}"
        if self.origin is FillingOrigin.COPY:
            return "nearmt: copied from the source"
        score = "" if self.score is None else f", score {self.score:.3f}"
        spoken = f", memory pairs {', '.join(self.pair_ids)}" if self.pair_ids else ""
        return f"{MACHINE_NOTE}{score}{spoken}"


#: For each unit of a part its filling, or None to keep what is there.
Fillings = Sequence[Filling | None]


@dataclass(frozen=True)
class Part:
    """A stretch of a document."""

    raw: str
    units: tuple[Unit, ...] = ()
    #: The text with the fillings in place; a part without units may have something to add as well.
    render: Callable[[Fillings], str] | None = None

    def filled(self, fillings: Fillings) -> str:
        if self.render is None or (self.units and all(filling is None for filling in fillings)):
            return self.raw
        return self.render(fillings)


@dataclass(frozen=True)
class Document:
    """An opened document: its parts can be walked through once."""

    encoding: Encoding
    parts: Iterator[Part]
    #: Paragraphs may hold several sentences; a line of a plain file is one unit, whatever it holds.
    paragraphs: bool
