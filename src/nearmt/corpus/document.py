"""Documents as streams of parts: fixed text, and units to translate.

The concatenated raw texts of all parts are the document: parts that are not filled in are written back byte for
byte. A part that is filled in renders itself with its translations.
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

    #: As written in the document.
    markup: str
    kind: TagKind = TagKind.SINGLE
    #: Shared by an opening tag and its closing tag.
    key: str = ""
    #: Opening and closing tag form one XML element, so they must be properly nested.
    element: bool = False
    #: Represents a line break or similar, which plain text replaces by a blank.
    blank: bool = False


#: Text and inline markup, in order.
Segment = tuple[str | Tag, ...]


def plain_text(segment: Segment) -> str:
    """Return the text of a segment without its markup."""
    return "".join(part if isinstance(part, str) else " " * part.blank for part in segment)


def text_with_markup(segment: Segment) -> str:
    """Return a segment as its document shows it, but without escapes."""
    return "".join(part if isinstance(part, str) else part.markup for part in segment)


def text_digest(text: str) -> str:
    """Hash a text, ignoring white space, to detect later changes."""
    return digest(clean(text)).hex()


@dataclass(frozen=True)
class Unit:
    """A text to translate."""

    source: Segment
    #: Its present translation; empty if there is none.
    target: str = ""
    #: Line number, for messages.
    line: int = 0
    #: Whether `%s` and similar are placeholders; None if the document does not say.
    printf: bool | None = None
    #: The present translation with its markup, in formats that have inline markup.
    tagged_target: Segment | None = None
    #: What the document says about its place: texts like msgctxt, by which equal sources are told apart, and its name.
    context: str = ""
    key: str = ""
    #: The cleaned sources of the units before and after it.
    previous: str = ""
    following: str = ""

    @property
    def target_segment(self) -> Segment:
        return (self.target,) if self.tagged_target is None else self.tagged_target


@dataclass(frozen=True)
class Match:
    """A stored pair with a similar source; a similarity of 1.0 means equal text."""

    source: str
    target: str
    similarity: float
    pair_id: str = ""
    origin: str = ""

    @property
    def percent(self) -> str:
        """The similarity, rounded down, so that only equal text gives 100%."""
        return f"{int(self.similarity * 100 + 1e-6)}%"


#: Prefixes of the notes of unconfirmed translations; readers of memories leave such units out.
MACHINE_NOTE = "nearmt: machine translation"
REVIEW_NOTE = "nearmt: to review"
UNCONFIRMED_NOTES = (MACHINE_NOTE, REVIEW_NOTE)
#: Begins the notes of a check, which are apart from those of a translation: these say whether it is confirmed.
CHECK_NOTE = "nearmt check"


class FillingOrigin(Enum):
    MEMORY = "memory"  # the stored translation of an equal source
    REPAIRED = "repaired"  # the stored translation of a similar source, with what differs exchanged
    MACHINE = "machine"  # translated by the model
    COPY = "copy"  # copied, because it has nothing to translate
    CONFIRMED = "confirmed"  # accepted or written by a person


@dataclass(frozen=True)
class Filling:
    """A translation of a unit and its provenance."""

    target: Segment
    origin: FillingOrigin
    score: float | None = None
    #: The stored pair of an exact match, or the pairs whose tokens the translation uses.
    pair_ids: tuple[str, ...] = ()
    matches: tuple[Match, ...] = ()
    #: What a reviewer should look at, for the note.
    findings: tuple[str, ...] = ()
    #: An exact match whose context is the same, too.
    in_context: bool = False
    #: Why a translation from the memory needs a review; empty if it needs none.
    review: str = ""

    @property
    def is_unconfirmed(self) -> bool:
        """Whether it must not count as a translation in a memory until somebody has confirmed it."""
        by_memory = self.origin is FillingOrigin.MEMORY
        return self.origin in (FillingOrigin.MACHINE, FillingOrigin.REPAIRED) or (by_memory and bool(self.review))

    @property
    def is_confirmed(self) -> bool:
        """Whether it counts as a translation by a person."""
        by_memory = self.origin is FillingOrigin.MEMORY and not self.review
        return by_memory or self.origin is FillingOrigin.CONFIRMED

    @property
    def text(self) -> str:
        """The translation with its markup."""
        return text_with_markup(self.target)

    @property
    def note(self) -> str:
        """One line about the origin and the findings, for readers of the document."""
        return "; ".join([self._about_origin(), *self.findings])

    def _about_origin(self) -> str:
        if self.origin in (FillingOrigin.MEMORY, FillingOrigin.REPAIRED):
            kind = "context match" if self.in_context else "exact match"
            kind = "similar match" if self.origin is FillingOrigin.REPAIRED else kind
            prefix = REVIEW_NOTE if self.is_unconfirmed else "nearmt"
            reason = f" ({self.review})" if self.review else ""
            return f"{prefix}{reason}: {kind} from the memory, pair {', '.join(self.pair_ids)}"
        if self.origin is FillingOrigin.COPY:
            return "nearmt: copied from the source"
        if self.origin is FillingOrigin.CONFIRMED:
            return "nearmt: confirmed"
        score = "" if self.score is None else f", score {self.score:.3f}"
        pairs = f", memory pairs {', '.join(self.pair_ids)}" if self.pair_ids else ""
        return f"{MACHINE_NOTE}{score}{pairs}"


#: The filling of each unit of a part; None keeps the present translation.
Fillings = Sequence[Filling | None]
#: What a check says about each unit of a part.
Remarks = Sequence[Sequence[str]]


def check_notes(remarks: Remarks) -> list[str]:
    """One line for each unit with remarks."""
    return [" ".join(f"{CHECK_NOTE}: {'; '.join(found)}".splitlines()) for found in remarks if found]


@dataclass(frozen=True)
class Part:
    """A part of a document."""

    raw: str
    units: tuple[Unit, ...] = ()
    #: Renders the text with fillings; a part without units may have additions, too.
    render: Callable[[Fillings], str] | None = None
    #: Renders the text with the notes of a check in place of those of an earlier one; None without notes.
    annotate: Callable[[Remarks], str] | None = None

    def filled(self, fillings: Fillings) -> str:
        if self.render is None or (self.units and all(filling is None for filling in fillings)):
            return self.raw
        return self.render(fillings)

    def annotated(self, remarks: Remarks) -> str:
        """The text with the remarks of a check in the notes of its units, and otherwise unchanged."""
        return self.raw if self.annotate is None else self.annotate(remarks)


@dataclass(frozen=True)
class Document:
    """An open document, whose parts can be iterated once."""

    encoding: Encoding
    parts: Iterator[Part]
    #: Whether units are paragraphs that may contain several sentences; a line of plain text is one unit.
    paragraphs: bool
