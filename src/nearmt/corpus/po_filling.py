"""Filling of PO entries: only changed lines are rewritten."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nearmt.corpus.document import CHECK_NOTE, Filling, Fillings, Remarks, check_notes
from nearmt.corpus.po_entries import ESCAPES, FUZZY, Entry, Line, as_line

_CHECK_NOTE = f"# {CHECK_NOTE}:"
_OUR_NOTES = ("# nearmt:", _CHECK_NOTE)


def rendered(entry: Entry, plural_count: int, fillings: Fillings) -> str:
    """Render an entry with its translations replaced and all other lines unchanged."""
    # A language with one form needs only the translation of the plural.
    used = fillings[1:] if "msgid_plural" in entry.texts and plural_count == 1 else fillings
    if all(filling is None for filling in used):
        return entry.block.raw
    end = _line_end(entry)
    sections = _sections(entry.block.lines, end)
    comments = _with_flag(entry, sections[""], _will_be_fuzzy(entry, used), end)
    notes = [note for filling in used if filling for note in _notes(filling)]
    sections[""] = _with_notes(comments, notes, _OUR_NOTES, end)
    for keyword, text in _replaced(entry, plural_count, fillings).items():
        strings = [] if text is None else _quoted(keyword, text)
        sections[keyword] = [as_line(string + end) for string in strings]
    return _joined(entry, sections, end)


def annotated(entry: Entry, remarks: Remarks) -> str:
    """Render an entry with the notes of a check, in place of those of an earlier one, and all other lines unchanged."""
    end = _line_end(entry)
    sections = _sections(entry.block.lines, end)
    sections[""] = _with_notes(sections[""], check_notes(remarks), (_CHECK_NOTE,), end)
    return _joined(entry, sections, end)


def _line_end(entry: Entry) -> str:
    return "\r\n" if entry.block.lines[0].text.endswith("\r\n") else "\n"


def _joined(entry: Entry, sections: dict[str, list[Line]], end: str) -> str:
    rendered = "".join(line.text for lines in sections.values() for line in lines)
    return rendered if entry.block.lines[-1].text.endswith("\n") else rendered.removesuffix(end)


def _sections(lines: Sequence[Line], end: str) -> dict[str, list[Line]]:
    """Group lines by keyword; comments come first, under an empty keyword."""
    sections: dict[str, list[Line]] = {"": []}
    keyword = ""
    for line in lines:
        keyword = line.kind if line.is_message and line.kind != '"' else keyword
        ended = line if line.text.endswith("\n") else line._replace(text=line.text + end)
        sections.setdefault(keyword, []).append(ended)
    return sections


def _replaced(entry: Entry, plural_count: int, fillings: Fillings) -> dict[str, str | None]:
    """Return new texts by keyword; None for a form that the language does not have."""
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
    """Quote a text; one of several lines begins below its keyword."""
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    strings = ['"' + line.translate(ESCAPES) + '"' for line in lines]
    return [f"{keyword} {strings[0]}"] if len(strings) == 1 else [f'{keyword} ""', *strings]


def _will_be_fuzzy(entry: Entry, used: Fillings) -> bool:
    """Whether an entry is fuzzy after filling: it has a translation to review, or keeps a fuzzy one in part."""
    if any(filling and filling.is_unconfirmed for filling in used):
        return True
    return entry.is_fuzzy and None in used


def _with_flag(entry: Entry, comments: list[Line], is_fuzzy: bool, end: str) -> list[Line]:
    if is_fuzzy == entry.is_fuzzy:
        return comments
    if not is_fuzzy:
        # The previous msgid is useful only while the entry is fuzzy.
        return [line for comment in comments if comment.kind != "#|" for line in _confirmed(comment, end)]
    kinds = [line.kind for line in comments]
    if "#," in kinds:
        index = kinds.index("#,")
        flags = comments[index].rest.strip()
        line = as_line(f"#, {flags}, fuzzy{end}" if flags else f"#, fuzzy{end}")
        return [*comments[:index], line, *comments[index + 1 :]]
    index = kinds.index("#|") if "#|" in kinds else len(kinds)
    return [*comments[:index], as_line(f"#, fuzzy{end}"), *comments[index:]]


def _confirmed(comment: Line, end: str) -> list[Line]:
    """Remove `fuzzy` from a comment; drop the comment if it has no other flag."""
    if comment.kind != "#," or not FUZZY.search(comment.rest):
        return [comment]
    flags = FUZZY.sub("", comment.rest).strip(" \t,")
    return [as_line(f"#, {flags}{end}")] if flags else []


def _with_notes(comments: list[Line], notes: Sequence[str], replaced: tuple[str, ...], end: str) -> list[Line]:
    """Put notes above the other comments of the entry, in place of earlier notes, which begin with `replaced`."""
    kept = [line for line in comments if not line.text.lstrip().startswith(replaced)]
    top = max((index + 1 for index, line in enumerate(kept) if not line.kind), default=0)
    # Singular and plural may have the same note.
    return [*kept[:top], *(as_line(f"# {note}{end}") for note in dict.fromkeys(notes)), *kept[top:]]


def _notes(filling: Filling) -> Iterator[str]:
    yield " ".join(filling.note.splitlines())
    for match in filling.matches:
        yield " ".join(f"nearmt: {match.percent} match: {match.source} -> {match.target}".splitlines())
