"""Catalogues of gettext: `.po` as memory and as document, compiled `.mo` as memory.

PO files are taken apart here, entry by entry, so that a broken one costs no other, and so that an
edited entry keeps every line that was not edited. (polib reads files as a whole, and lets a missing
quote pass with the last letter.)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nearmt.contracts import Pair
from nearmt.corpus.document import Document, Filling, FillingOrigin, Fillings, Part, Segment, Unit
from nearmt.corpus.encoding import Encoding, decoded, sniff_po
from nearmt.corpus.lines import open_bytes, reading
from nearmt.corpus.report import Report, Request
from nearmt.errors import MissingPackageError

if TYPE_CHECKING:
    from polib import MOEntry, MOFile

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[[0-9]{1,3}\])?)\s*")
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_ESCAPE = re.compile(r'\\([abfnrtv\\"])|((?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]+))+)')
_UNDECODABLE = re.compile("[\ud800-\udfff]")
_FUZZY = re.compile(r"(?:^|[,\s])\s*fuzzy(?=[,\s]|$)")
# Three digits are no language's number of plural forms.
_PLURAL_COUNT = re.compile(r"nplurals\s*=\s*([1-9]\d?)\b")

_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
# Not \a: gettext reads the bare character as well, and polib reads nothing else.
_ESCAPES = str.maketrans({character: "\\" + letter for letter, character in _ESCAPED.items() if letter != "a"})

_OUR_NOTE = "# nearmt:"


def read_po(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Pairs of a catalogue: msgid is the source, msgstr the target; of plurals the first and the last form."""
    language = ""
    for block, entry in _entries(path, sniff_po(path), report):
        if entry and entry.is_header:
            language = entry.header.get("language", "")
            if _is_of_another_language(path, language, request, report):
                return
            continue
        report.units += block.has_message
        if block.is_obsolete:
            report.skipped["obsolete"] += 1
        elif entry and entry.is_fuzzy and not request.unconfirmed:
            report.skipped["fuzzy"] += 1
        elif entry:
            yield from _pairs(entry.message, path, language, report)


def read_mo(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Pairs of a compiled catalogue, as `read_po` gives them; comments and occurrences are not compiled."""
    with reading(path), open_bytes(path) as file:
        data = file.read()
    try:
        catalogue = _mo_catalogue(data)
        header = _header_fields("\n".join(f"{name}: {value}" for name, value in catalogue.metadata.items()))
        charset = _mo_charset(header)
        unread = _mo_unread(catalogue, data)
    except (OSError, ValueError, LookupError, struct.error) as error:
        report.problem(path, None, f"is no compiled catalogue, or a damaged one ({error})")
        return
    language = header.get("language", "")
    if _is_of_another_language(path, language, request, report):
        return
    if unread:
        report.units += unread
        report.skipped["system-dependent"] += unread
    for entry in catalogue:
        report.units += 1
        try:
            message = _mo_message(entry, charset)
        except UnicodeError:
            report.problem(path, None, f"an entry is not {charset}, as the header says")
        else:
            yield from _pairs(message, path, language, report)


def po_document(path: Path, request: Request, report: Report) -> Document:
    """A catalogue to be filled in."""
    encoding = sniff_po(path)
    return Document(encoding=encoding, parts=_parts(_entries(path, encoding, report)), paragraphs=True)


class _Message(NamedTuple):
    source: str
    plural: str | None
    #: Translations; several only if there is a plural.
    forms: Sequence[str]
    metadata: Mapping[str, str]

    @property
    def sides(self) -> list[tuple[str, str]]:
        if self.plural is None:
            return [(self.source, self.forms[0])]
        # A language with one form says it of any number: it translates the plural.
        singular = [(self.source, self.forms[0])] if len(self.forms) > 1 else []
        return [*singular, (self.plural, self.forms[-1])]


def _pairs(message: _Message, path: Path, language: str, report: Report) -> Iterator[Pair]:
    sides = [(source, target) for source, target in message.sides if target]
    if not sides:
        report.skipped["untranslated"] += 1
    for source, target in sides:
        if language:
            report.languages[language] += 1
        yield Pair(source, target, origin=path.name, metadata=message.metadata)


def _is_of_another_language(path: Path, language: str, request: Request, report: Report) -> bool:
    wanted = request.target_lang
    if not language or not wanted or _base(language) == _base(wanted):
        return False
    report.problem(path, None, f"is a catalogue of '{language}', not of '{wanted}'")
    return True


def _base(language: str) -> str:
    """`pt` of `pt_BR`, `sr` of `sr@latin`."""
    return re.split("[-_@]", language)[0].lower()


def _mo_catalogue(data: bytes) -> MOFile:
    """The catalogue with every byte as one character: it says only inside how it is encoded."""
    try:
        import polib
    except ImportError as error:
        raise MissingPackageError("reading MO files needs the package polib: pip install polib") from error
    # The types of polib know only paths, but bytes serve as well.
    catalogue: MOFile = polib.mofile(data, encoding="latin-1")  # type: ignore[call-overload]
    order = _mo_order(catalogue)
    count, *tables = struct.unpack_from(order + "3I", data, 8)
    for table in tables:
        for length, start in struct.iter_unpack(order + "2I", data[table : table + 8 * count]):
            if start + length > len(data):
                raise ValueError("it ends too early")
    return catalogue


def _mo_order(catalogue: MOFile) -> str:
    return "<" if catalogue.magic_number == catalogue.MAGIC else ">"


def _mo_unread(catalogue: MOFile, data: bytes) -> int:
    """Messages with the likes of `%<PRIu64>`: they are compiled in pieces, and polib passes over them."""
    is_minor_revision = catalogue.version & 0xFFFF
    return int(struct.unpack_from(_mo_order(catalogue) + "I", data, 36)[0]) if is_minor_revision else 0


def _mo_charset(header: Mapping[str, str]) -> str:
    declared = re.search(r"charset=([\w.:-]+)", header.get("content-type", ""))
    charset = "utf-8" if declared is None or declared[1] == "CHARSET" else declared[1]
    "".encode(charset)
    return charset


def _mo_message(entry: MOEntry, charset: str) -> _Message:
    def text(characters: str) -> str:
        return characters.encode("latin-1").decode(charset)

    plural = text(entry.msgid_plural) if entry.msgid_plural else None
    forms = [entry.msgstr] if plural is None else [form for _, form in sorted(entry.msgstr_plural.items())]
    metadata = {"context": text(entry.msgctxt)} if entry.msgctxt else {}
    return _Message(text(entry.msgid), plural, [text(form) for form in forms], metadata)


class _Line(NamedTuple):
    #: With its end.
    text: str
    #: Empty for a blank line; the mark of a comment; the keyword; `"` for a string alone; `?` for anything else.
    kind: str
    #: What stands behind mark or keyword.
    rest: str = ""
    is_obsolete: bool = False

    @property
    def is_message(self) -> bool:
        return bool(self.kind) and not self.is_comment

    @property
    def is_comment(self) -> bool:
        return self.kind.startswith("#")


def _line(text: str) -> _Line:
    rest = text.strip()
    is_obsolete = rest.startswith("#~") and not rest.startswith("#~|")
    if rest.startswith("#") and not is_obsolete:
        mark = rest[:2] if rest[1:2] in (".", ":", ",", "=", "|") else "#"
        return _Line(text, mark, rest[len(mark) :])
    if is_obsolete:
        rest = rest[2:].lstrip()
    elif not rest:
        return _Line(text, "")
    if keyword := _KEYWORD.match(rest):
        return _Line(text, keyword[1], rest[keyword.end() :], is_obsolete)
    if rest.startswith('"'):
        return _Line(text, '"', rest, is_obsolete)
    return _Line(text, "#" if is_obsolete else "?")


def _lines(chunks: Iterable[str]) -> Iterator[_Line]:
    """Only LF ends a line: other separators of Unicode occur inside strings."""
    begun: list[str] = []
    for chunk in chunks:
        *ended, rest = chunk.split("\n")
        for text in ended:
            yield _line("".join([*begun, text, "\n"]))
            begun.clear()
        if rest:
            begun.append(rest)
    if begun:
        yield _line("".join(begun))


@dataclass(frozen=True)
class _Block:
    """An entry with the comments before it, or lines between entries."""

    #: The number of its first line.
    line: int
    lines: list[_Line]

    @property
    def raw(self) -> str:
        return "".join(line.text for line in self.lines)

    @property
    def has_message(self) -> bool:
        return self.lines[-1].is_message

    @property
    def is_obsolete(self) -> bool:
        return self.lines[-1].is_obsolete


def _blocks(lines: Iterable[_Line]) -> Iterator[_Block]:
    number = 1
    for group in _groups(lines):
        if group:
            yield _Block(number, group)
            number += len(group)


def _groups(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    """Lines of one entry each, with the comments before it; lines that belong to none."""
    group: list[_Line] = []
    keyword = ""
    # Blank lines and comments since: only what follows them shows whose they are.
    waiting: list[_Line] = []
    for line in lines:
        if not line.is_message:
            waiting.append(line)
            continue
        if not group or line.is_obsolete != group[-1].is_obsolete or not _continues(keyword, waiting, line.kind):
            yield group
            blank = next(at for at, other in enumerate([*waiting, line]) if other.kind)
            yield waiting[:blank]
            group, waiting, keyword = waiting[blank:], [], ""
        group += [*waiting, line]
        waiting.clear()
        keyword = line.kind if line.kind not in ('"', "?") else keyword
    yield group
    yield waiting


def _continues(keyword: str, waiting: Sequence[_Line], kind: str) -> bool:
    """Whether a line belongs to the entry whose last keyword is given, behind the lines that wait.

    Lines with nothing between them stay together even where they make no sense, so that what is broken
    is broken as a whole.
    """
    if kind == '"' or (keyword and kind in _followers(keyword)):
        return True
    return not waiting and not (kind in _followers("") and keyword.startswith("msgstr"))


@dataclass(frozen=True)
class _Entry:
    """An entry that gettext understands."""

    block: _Block
    #: Of its msgid.
    line: int
    #: By keyword, in order.
    texts: Mapping[str, str]
    is_header: bool

    @property
    def header(self) -> dict[str, str]:
        return _header_fields(self.texts["msgstr"])

    @property
    def is_fuzzy(self) -> bool:
        return any(_FUZZY.search(flags) for flags in self._comments("#,"))

    @property
    def printf(self) -> bool | None:
        flags = re.split(r"[,\s]+", " ".join(self._comments("#,") + self._comments("#=")))
        formats = [flag for flag in flags if flag.endswith("-format")]
        return any(not flag.startswith("no-") for flag in formats) if formats else None

    @cached_property
    def message(self) -> _Message:
        metadata = {
            "context": self.texts.get("msgctxt", ""),
            "comment": "\n".join(rest.removeprefix(" ") for rest in self._comments("#.")),
            "occurrences": " ".join(" ".join(self._comments("#:")).split()),
        }
        forms = [text for keyword, text in self.texts.items() if keyword.startswith("msgstr")]
        present = {name: text for name, text in metadata.items() if text}
        return _Message(self.texts["msgid"], self.texts.get("msgid_plural"), forms, present)

    def _comments(self, mark: str) -> list[str]:
        return [line.rest for line in self.block.lines if line.kind == mark and line.rest]


def _header_fields(text: str) -> dict[str, str]:
    fields = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, _, value in fields}


class _BrokenEntry(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _entries(path: Path, encoding: Encoding, report: Report) -> Iterator[tuple[_Block, _Entry | None]]:
    """All of a catalogue; no entry where there is none, or an obsolete one, or a broken one."""
    has_header = False
    for block in _blocks(_lines(decoded(path, encoding))):
        entry = None
        if block.has_message and not block.is_obsolete:
            try:
                entry = _parsed(block, encoding, has_header)
            except _BrokenEntry as error:
                report.problem(path, error.line, str(error))
        yield block, entry
        has_header = has_header or (entry is not None and entry.is_header)


def _parsed(block: _Block, encoding: Encoding, has_header: bool) -> _Entry:
    strings: dict[str, list[str]] = {}
    keyword, msgid_line = "", block.line
    for number, line in enumerate(block.lines, block.line):
        if _UNDECODABLE.search(line.text):
            raise _BrokenEntry(number, f"not {encoding.name}; convert the file, e.g. with iconv")
        if keyword and line.is_comment:
            raise _BrokenEntry(number, "a comment inside an entry")
        if not line.is_message:
            continue
        if line.kind == "?":
            raise _BrokenEntry(number, "neither a comment nor a string nor a keyword of gettext")
        if line.kind != '"' or not keyword:
            if line.kind not in _followers(keyword):
                raise _BrokenEntry(number, f"{_named(line.kind)} is out of place here")
            keyword = line.kind
            msgid_line = number if keyword == "msgid" else msgid_line
        strings.setdefault(keyword, []).append(_string(line.rest, number, encoding))
    if not keyword.startswith("msgstr"):
        raise _BrokenEntry(msgid_line, "an entry without msgstr")
    texts = {keyword: "".join(pieces) for keyword, pieces in strings.items()}
    is_header = not has_header and not texts["msgid"] and "msgctxt" not in texts and "msgstr" in texts
    return _Entry(block, msgid_line, texts, is_header)


def _named(kind: str) -> str:
    return "a string" if kind == '"' else f"'{kind}'"


def _followers(keyword: str) -> tuple[str, ...]:
    if keyword.startswith("msgstr["):
        return (f"msgstr[{int(keyword[7:-1]) + 1}]",)
    return {
        "": ("msgctxt", "msgid"),
        "msgctxt": ("msgid",),
        "msgid": ("msgid_plural", "msgstr"),
        "msgid_plural": ("msgstr[0]",),
        "msgstr": (),
    }[keyword]


def _string(quoted: str, number: int, encoding: Encoding) -> str:
    match = _QUOTED.fullmatch(quoted)
    if not match:
        raise _BrokenEntry(number, "a quotation mark is missing, or is one too many")
    try:
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1]) or _from_bytes(escape[2], encoding), match[1])
    except UnicodeError as error:
        raise _BrokenEntry(number, f"escaped bytes that are not {encoding.name}") from error


def _from_bytes(escapes: str, encoding: Encoding) -> str:
    r"""`\303\244` is one letter in UTF-8, so neighbours are decoded together."""
    codes = [int(code[1:], 16) if code.startswith("x") else int(code, 8) for code in escapes.split("\\")[1:]]
    return bytes(code & 0xFF for code in codes).decode(encoding.name)


def _parts(entries: Iterable[tuple[_Block, _Entry | None]]) -> Iterator[Part]:
    plural_count = None
    for block, entry in entries:
        if entry and entry.is_header:
            match = _PLURAL_COUNT.search(entry.header.get("plural-forms", ""))
            plural_count = int(match[1]) if match else None
        if entry is None or not entry.texts["msgid"]:
            yield Part(block.raw)
        else:
            count = plural_count or max(2, len(entry.message.forms))
            yield Part(block.raw, tuple(_units(entry, count)), partial(_rendered, entry, count))


def _units(entry: _Entry, plural_count: int) -> Iterator[Unit]:
    _, plural, forms, _ = entry.message
    yield Unit((entry.texts["msgid"],), forms[0], entry.line, entry.printf)
    if plural is not None:
        others = forms[:1] if plural_count == 1 else forms[1:]
        yield Unit((plural,), others[-1] if others else "", entry.line, entry.printf)


def _rendered(entry: _Entry, plural_count: int, fillings: Fillings) -> str:
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
        sections[keyword] = [_line(string + end) for string in strings]
    rendered = "".join(line.text for lines in sections.values() for line in lines)
    return rendered if entry.block.lines[-1].text.endswith("\n") else rendered.removesuffix(end)


def _sections(lines: Sequence[_Line], end: str) -> dict[str, list[_Line]]:
    """Lines by keyword, each with its end; comments come first, under no keyword."""
    sections: dict[str, list[_Line]] = {"": []}
    keyword = ""
    for line in lines:
        keyword = line.kind if line.is_message and line.kind != '"' else keyword
        ended = line if line.text.endswith("\n") else line._replace(text=line.text + end)
        sections.setdefault(keyword, []).append(ended)
    return sections


def _replaced(entry: _Entry, plural_count: int, fillings: Fillings) -> dict[str, str | None]:
    """New texts by keyword; None for a form that the language does not have."""
    texts = [_text(filling.target) if filling else None for filling in fillings]
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


def _text(segment: Segment) -> str:
    return "".join(part if isinstance(part, str) else part.markup for part in segment)


def _quoted(keyword: str, text: str) -> list[str]:
    """A text of several lines begins below its keyword."""
    pieces = [piece for piece in re.split(r"(?<=\n)", text) if piece]
    strings = ['"' + piece.translate(_ESCAPES) + '"' for piece in pieces]
    return [f"{keyword} {strings[0]}"] if len(strings) == 1 else [f'{keyword} ""', *strings]


def _will_be_fuzzy(entry: _Entry, used: Fillings) -> bool:
    """What a machine wrote is fuzzy; what was fuzzy and is kept, in part, stays so."""
    if any(filling and filling.origin is FillingOrigin.MACHINE for filling in used):
        return True
    return entry.is_fuzzy and None in used


def _with_flag(entry: _Entry, comments: list[_Line], is_fuzzy: bool, end: str) -> list[_Line]:
    if is_fuzzy == entry.is_fuzzy:
        return comments
    if not is_fuzzy:
        # The text that was translated before is there only to explain why the entry was fuzzy.
        return [line for comment in comments if comment.kind != "#|" for line in _confirmed(comment, end)]
    kinds = [line.kind for line in comments]
    if "#," in kinds:
        at = kinds.index("#,")
        flags = comments[at].rest.strip()
        return [*comments[:at], _line(f"#, {flags}, fuzzy{end}" if flags else f"#, fuzzy{end}"), *comments[at + 1 :]]
    at = kinds.index("#|") if "#|" in kinds else len(kinds)
    return [*comments[:at], _line(f"#, fuzzy{end}"), *comments[at:]]


def _confirmed(comment: _Line, end: str) -> list[_Line]:
    """The comment without `fuzzy`; none if it said only that."""
    if comment.kind != "#," or not _FUZZY.search(comment.rest):
        return [comment]
    flags = _FUZZY.sub("", comment.rest).strip(" \t,")
    return [_line(f"#, {flags}{end}")] if flags else []


def _with_notes(comments: list[_Line], used: Fillings, end: str) -> list[_Line]:
    """Notes stand above the other comments that touch the entry, instead of earlier notes."""
    kept = [line for line in comments if not line.text.lstrip().startswith(_OUR_NOTE)]
    top = max((at + 1 for at, line in enumerate(kept) if not line.kind), default=0)
    # The two halves of a plural may have the same to say.
    notes = dict.fromkeys(note for filling in used if filling for note in _notes(filling))
    return [*kept[:top], *(_line(f"# {note}{end}") for note in notes), *kept[top:]]


def _notes(filling: Filling) -> Iterator[str]:
    yield " ".join(filling.note.splitlines())
    for match in filling.matches:
        # Rounded down: only the same text is a match of 100%.
        percent = int(match.similarity * 100 + 1e-6)
        yield " ".join(f"nearmt: {percent}% match: {match.source} -> {match.target}".splitlines())
