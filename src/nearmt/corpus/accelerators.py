"""Accelerator markers of user interfaces: `&Datei`, `_Datei`, `Datei (&D)`.

A marker stands before the letter that is underlined and reached by Alt. It is removed before translation, since it
splits words, and set on a letter of the translation: the same letter if the translation has it, else its first letter.
Languages without an alphabet keep the letter of the source in brackets, at the end.

Whether a text has a marker is a guess: it has exactly one, before a letter, at the beginning of a word or inside one.
`R&D`, `AT&T`, `Drag&Drop`, `&amp;`, `A & B`, `snake_case` and markers in protected spans do not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearmt.corpus.scripts import script_of_letter
from nearmt.corpus.spans import find_spans

#: Windows, Qt and KDE; GTK.
MARKERS = "&_"
_WITHOUT_ALPHABET = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
_LETTER = r"[^\W_]"
# `Datei (&D)...`; the punctuation at the end belongs to the text.
_SUFFIX = re.compile(rf"(\s?)[(（]([&_])({_LETTER})[)）](?=[\s.…:：?!]*\Z)")
_TAIL = re.compile(r"[\s.…:：?!]*\Z")


@dataclass(frozen=True)
class Accelerator:
    """The marker of a text and its letter."""

    marker: str
    letter: str
    #: Whether the marker was doubled where it stands for itself.
    doubled: bool = False


def remove_accelerator(text: str, markers: str = MARKERS) -> tuple[str, Accelerator | None]:
    """Return a text without its accelerator marker, and the accelerator; None if the text has none."""
    taken = _protected(text)
    found = _SUFFIX.search(text)
    if found and text[: found.start()].strip() and found[2] in markers and len(_places(text, found[2], taken)) == 1:
        return _single(text[: found.start()] + text[found.end() :], _accelerator(text, found[2], found[3]))
    for marker in markers:
        places = _places(text, marker, taken)
        if len(places) == 1 and _is_accelerator(text, marker, places[0]):
            place = places[0]
            return _single(text[:place] + text[place + 1 :], _accelerator(text, marker, text[place + 1]))
    return text, None


def set_accelerator(text: str, accelerator: Accelerator) -> str:
    """Set a marker on a letter of a translation."""
    marker, wanted = accelerator.marker, accelerator.letter.casefold()
    taken = _protected(text)
    free = [place for place, character in enumerate(text) if character.isalnum() and place not in taken]
    usable = [place for place in free if script_of_letter(text[place]) not in _WITHOUT_ALPHABET]
    same = [place for place in usable if text[place].casefold() == wanted]
    first = [place for place in same if place == 0 or not text[place - 1].isalnum()]
    is_without_alphabet = any(script_of_letter(text[place]) in _WITHOUT_ALPHABET for place in free)
    if is_without_alphabet and not first:
        return _with_suffix(_doubled(text, accelerator, taken), accelerator)
    letters = [place for place in usable if text[place].isalpha()] or usable
    chosen = (first or same or letters)[:1]
    if not chosen:
        return _doubled(text, accelerator, taken)
    before, after = text[: chosen[0]], text[chosen[0] :]
    shifted = {place - len(before) for place in taken}
    return _doubled(before, accelerator, taken) + marker + _doubled(after, accelerator, shifted)


def _protected(text: str) -> set[int]:
    """The places that belong to protected spans."""
    return {place for span in find_spans(text) for place in range(span.start, span.end)}


def _places(text: str, marker: str, taken: set[int]) -> list[int]:
    """The places of single markers that precede a letter."""
    found = re.finditer(rf"(?<!{marker})(?:{marker}{marker})*({marker})(?={_LETTER})", text)
    return [match.start(1) for match in found if match.start(1) not in taken]


def _is_accelerator(text: str, marker: str, place: int) -> bool:
    """Whether a marker precedes a word, or splits one as in `Be&arbeiten`."""
    before, after = text[:place][-1:], text[place + 1]
    if marker == "_" and re.match(r"\w*_", text[place + 1 :]):
        return False  # _private_name
    if not before.isalnum():
        return before != "_"
    word = re.search(r"\w*\Z", text[:place])[0]  # type: ignore[index]  # matches anything
    # `R&D`, `AT&T`, `Drag&Drop`: two words. A name such as `user_name` begins in lower case.
    return after.islower() and not word.isupper() and (marker != "_" or (word.istitle() and word.isalpha()))


def _accelerator(text: str, marker: str, letter: str) -> Accelerator:
    return Accelerator(marker, letter, doubled=marker * 2 in text)


def _single(text: str, accelerator: Accelerator) -> tuple[str, Accelerator]:
    marker = accelerator.marker
    return (text.replace(marker * 2, marker) if accelerator.doubled else text), accelerator


def _doubled(text: str, accelerator: Accelerator, taken: set[int]) -> str:
    """Double markers that stand for themselves, if the source does."""
    if not accelerator.doubled:
        return text
    marker = accelerator.marker
    return "".join(
        marker * 2 if character == marker and place not in taken else character for place, character in enumerate(text)
    )


def _with_suffix(text: str, accelerator: Accelerator) -> str:
    tail = _TAIL.search(text)
    assert tail is not None
    return f"{text[: tail.start()]}({accelerator.marker}{accelerator.letter.upper()}){tail[0]}"
