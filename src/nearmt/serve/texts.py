"""Texts of requests as units, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmt.corpus import Filling, Part, Report, Request, Unit
from nearmt.corpus.context import with_neighbours
from nearmt.corpus.document import Fillings
from nearmt.corpus.encoding import is_text
from nearmt.corpus.html import html_parts
from nearmt.corpus.lines import split_end
from nearmt.corpus.xml_text import xml_parts
from nearmt.errors import InputError
from nearmt.serve.values import TranslationRequest

#: Lines and passages of the texts of a request.
_MOST_UNITS = 10_000
_LINE = re.compile("[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class TextParts:
    """The parts of a text: their units are translated, all else stays."""

    parts: tuple[Part, ...]

    @property
    def units(self) -> list[Unit]:
        return [unit for part in self.parts for unit in part.units]

    def filled(self, fillings: Sequence[Filling]) -> str:
        """The text with the fillings of its units."""
        left = iter(fillings)
        return "".join(part.filled([next(left) for _ in part.units]) for part in self.parts)


def check_texts(texts: Sequence[str], most_texts: int, most_characters: int) -> None:
    """Refuse what is too much, and what cannot be written."""
    if len(texts) > most_texts:
        raise InputError(f"{len(texts):,} texts: a request may have {most_texts:,}; send several")
    if (characters := sum(map(len, texts))) > most_characters:
        raise InputError(f"{characters:,} characters: a request may have {most_characters:,}; send a document")
    for number, text in enumerate(texts, 1):
        check_text(text, f"text {number}")


def check_text(text: str, name: str) -> str:
    """The same text; what is in no text is refused."""
    if not is_text(text):
        raise InputError(f"{name}: has half a character (a lone surrogate)")
    if "\0" in text:
        raise InputError(f"{name}: has a NUL character")
    return text


def texts_as_parts(
    request: TranslationRequest, languages: tuple[str, str], is_known: Callable[[str], bool]
) -> list[TextParts]:
    """The parts of all texts; the units of neighbouring texts know each other.

    A text of several lines is one unit if `is_known` says that the memory has it as a whole.
    """
    found = [list(_parts(text, number, request, languages, is_known)) for number, text in enumerate(request.texts, 1)]
    if (units := sum(len(part.units) for parts in found for part in parts)) > _MOST_UNITS:
        raise InputError(f"{units:,} lines or passages: a request may have {_MOST_UNITS:,}; send a document")
    told = with_neighbours(part for parts in found for part in parts)
    return [TextParts(tuple(next(told) for _ in parts)) for parts in found]


def _parts(
    text: str, number: int, request: TranslationRequest, languages: tuple[str, str], is_known: Callable[[str], bool]
) -> Iterator[Part]:
    name, asked, report = Path(f"text {number}"), Request(*languages), Report(strict=True)
    if request.format == "html":
        yield from html_parts(text, name, asked, report)
    elif request.format == "xml":
        kept, splitting = request.ignore_tags, request.splitting_tags
        yield from xml_parts(text, name, asked, report, kept=kept, splitting=splitting)
    elif len(lines := _LINE.findall(text)) < 2 or is_known(text):
        yield _whole(text)
    else:
        yield from map(_line, lines)


def _whole(text: str) -> Part:
    return Part(text, (Unit((text,)),), lambda fillings: _only(fillings).text)


def _line(line: str) -> Part:
    text, end = split_end(line)
    return Part(line, (Unit((text,)),), lambda fillings: _only(fillings).text + end)


def _only(fillings: Fillings) -> Filling:
    (filling,) = fillings
    assert filling is not None
    return filling
