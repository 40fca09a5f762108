"""Putting translations into entries of PO files: only what changes is written anew."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nearmt.corpus.document import Filling, FillingOrigin, Fillings
from nearmt.corpus.po_entries import ESCAPES, FUZZY, Entry, Line, as_line

_OUR_NOTE = "# nearmt:"


def rendered(entry: Entry, plural_count: int, fillings: Fillings) -> str:
    """The entry with its translations replaced, and every other line as it was."""
    # With one form for all numbers, only the translation of the plural has a place.
    used = fillings[1:] if "msgid_plural" in entry.texts and plural_count == 1 else fillings
    if all(filling is None for filling in used):
        return entry.block.raw
    end = "\r\n" if entry.block.lines[0].text.endswith("\r\n") else "\n"
    sections = _sections(entry.block.lines, end)
    sections[""] = _with_notes(_with_flag(entry, sections[""], _will_be_fuzzy(entry, used), end), used, end)
    for keyword, text in _replaced(entry, plural_count, fillings).items():
        strings = [] if text is None else _quoted(keyword, text)
        sections[keyword] = [as_line(string + end) for string in strings]
    rendered = "".join(line.text for lines in sections.values() for line in lines)
    return rendered if entry.block.lines[-1].text.endswith("\n") else rendered.removesuffix(end)


def _sections(lines: Sequence[Line], end: str) -> dict[str, list[Line]]:
    """Lines by keyword, each with its end; comments come first, under no keyword."""
    sections: dict[str, list[Line]] = {"": []}
    keyword = ""
    for line in lines:
        keyword = line.kind if line.is_message and line.kind != '"' else keyword
        ended = line if line.text.endswith("\n") else line._replace(text=line.text + end)
        sections.setdefault(keyword, []).append(ended)
    return sections


def _replaced(entry: Entry, plural_count: int, fillings: Fillings) -> dict[str, str | None]:
    """New texts by keyword; None for a form that the language does not have."""
    texts = [filling.text if filling else None for filling in fillings]
    if "msgid_plural" not in entry.texts:
        return {"msgstr": texts[0]}
    singular, plural = texts
    replaced: dict[str, str | None] = {}
    if singular is not None and plural_count > 1:
        replaced["msgstr[0]"] = singular
    if plural is not None:
        for form in range(min(1, plural_count - 1), max(plural_count, len(entry.message.forms))):
            replaced[f"msgstr[{form}]"] = plural if form < plural_count else None
    return replaced


def _quoted(keyword: str, text: str) -> list[str]:
    """A text of several lines begins below its keyword."""
    pieces = [piece for piece in re.split(r"(?<=\n)", text) if piece]
    strings = ['"' + piece.translate(ESCAPES) + '"' for piece in pieces]
    return [f"{keyword} {strings[0]}"] if len(strings) == 1 else [f'{keyword} ""', *strings]


def _will_be_fuzzy(entry: Entry, used: Fillings) -> bool:
    """What a machine wrote is fuzzy; what was fuzzy and is kept, in part, stays so."""
    if any(filling and filling.origin is FillingOrigin.MACHINE for filling in used):
        return True
    return entry.is_fuzzy and None in used


def _with_flag(entry: Entry, comments: list[Line], is_fuzzy: bool, end: str) -> list[Line]:
    if is_fuzzy == entry.is_fuzzy:
        return comments
    if not is_fuzzy:
        # The text that was translated before is there only to explain why the entry was fuzzy.
        return [line for comment in comments if comment.kind != "#|" for line in _confirmed(comment, end)]
    kinds = [line.kind for line in comments]
    if "#," in kinds:
        at = kinds.index("#,")
        flags = comments[at].rest.strip()
        return [*comments[:at], as_line(f"#, {flags}, fuzzy{end}" if flags else f"#, fuzzy{end}"), *comments[at + 1 :]]
    at = kinds.index("#|") if "#|" in kinds else len(kinds)
    return [*comments[:at], as_line(f"#, fuzzy{end}"), *comments[at:]]


def _confirmed(comment: Line, end: str) -> list[Line]:
    """The comment without `fuzzy`; none if it said only that."""
    if comment.kind != "#," or not FUZZY.search(comment.rest):
        return [comment]
    flags = FUZZY.sub("", comment.rest).strip(" \t,")
    return [as_line(f"#, {flags}{end}")] if flags else []


def _with_notes(comments: list[Line], used: Fillings, end: str) -> list[Line]:
    """Notes stand above the other comments that touch the entry, instead of earlier notes."""
    kept = [line for line in comments if not line.text.lstrip().startswith(_OUR_NOTE)]
    top = max((at + 1 for at, line in enumerate(kept) if not line.kind), default=0)
    # The two halves of a plural may have the same to say.
    notes = dict.fromkeys(note for filling in used if filling for note in _notes(filling))
    return [*kept[:top], *(as_line(f"# {note}{end}") for note in notes), *kept[top:]]


def _notes(filling: Filling) -> Iterator[str]:
    yield " ".join(filling.note.splitlines())
    for match in filling.matches:
        yield " ".join(f"nearmt: {match.percent} match: {match.source} -> {match.target}".splitlines())
