"""String catalogues of Xcode: JSON with the texts of all languages, of which that of the target is filled in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nearmt.corpus.document import Document, Part, Unit
from nearmt.corpus.encoding import Encoding, is_text, sniff
from nearmt.corpus.json_text import JsonObject, check_json, string_of
from nearmt.corpus.report import Report, Request
from nearmt.corpus.whole import whole_text
from nearmt.corpus.xcstrings_filling import Layout, Place, fill_leaves, fill_place
from nearmt.errors import InputError
from nearmt.languages import best_fit, same_language

#: The path of a text within a localization: ("variations", "plural", "one").
_Path = tuple[str, ...]
_LEAF = "stringUnit"


@dataclass(frozen=True)
class _Languages:
    source: str
    #: As the catalogue spells it; None if it is not known.
    target: str | None


def xcstrings_document(path: Path, request: Request, report: Report) -> Document:
    """Open a catalogue whose texts without a translation into the target language are filled in."""
    encoding = sniff(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    text = whole_text(path, encoding, request.limits)
    check_json(path, text)
    root = JsonObject.whole(text)
    strings = root.member("strings")
    if strings is None or not strings.is_object or root.string("sourceLanguage") is None:
        raise InputError(f'{path}: is no string catalogue: it has no "sourceLanguage" and no object "strings"')
    languages = _languages(path, root, strings, request)
    layout, offset = Layout.of(root), 0
    counted, line = 0, 1
    for key, member in strings.members.items():
        if member.start < offset:  # a repeated key keeps its first place in the dictionary
            continue
        line, counted = line + text.count("\n", counted, member.start), member.start
        entry = JsonObject(text, member.value, member.end)
        if member.end - member.start > request.limits.unit_bytes:
            report.problem(path, line, f"an entry of {request.limits.too_large}")
            continue
        try:
            part = _part(text, offset, key, entry, line, languages, layout)
        except _BadEntryError as error:
            report.problem(path, line, str(error))
            continue
        if part is not None:
            yield part
            offset = entry.end
    yield Part(text[offset:])


class _BadEntryError(Exception):
    """An entry that cannot be filled in; the message gives the reason."""


def _languages(path: Path, root: JsonObject, strings: JsonObject, request: Request) -> _Languages:
    """Return the codes of the catalogue: the target as other entries spell it, en-GB rather than en."""
    source = root.string("sourceLanguage") or ""
    if not same_language(source, request.source_lang):
        raise InputError(f"{path}: is written in '{source}', the model translates from '{request.source_lang}'")
    if not request.target_lang:
        return _Languages(source, None)
    used: dict[str, None] = {}
    for key in strings.members:
        localizations = _at(strings, key, "localizations")
        used |= dict.fromkeys(localizations.members if localizations else ())
    codes = [(code, code) for code in used if code != source]
    return _Languages(source, best_fit(codes, request.target_lang) or request.target_lang)


def _at(value: JsonObject | None, *keys: str) -> JsonObject | None:
    for key in keys:
        value = None if value is None else value.member(key)
    return value


def _part(
    text: str, offset: int, key: str, entry: JsonObject, line: int, languages: _Languages, layout: Layout
) -> Part | None:
    """Make the part that ends with an entry; None if it has nothing to translate."""
    localizations = _at(entry, "localizations")
    if not entry.is_object or (localizations is not None and not localizations.is_object):
        raise _BadEntryError("not an entry of a string catalogue")
    is_left_out = (untranslated := entry.member("shouldTranslate")) is not None and untranslated.raw == "false"
    if is_left_out or entry.string("extractionState") == "stale" or languages.target is None:
        return None
    source = _at(localizations, languages.source)
    sources = _sources(key, source)
    target = _at(localizations, languages.target)
    leaves = {} if target is None else dict(_leaves(target))
    raw = text[offset : entry.end]
    if leaves:
        found = [(leaf, found) for path, leaf in leaves.items() if (found := _source_of(path, sources)) is not None]
        units = tuple(Unit((source_text,), _present(leaf), line) for leaf, source_text in found)
        render = partial(fill_leaves, text, offset, entry.end, [leaf for leaf, _ in found], layout)
    else:
        units = tuple(Unit((source_text,), line=line) for source_text in sources.values())
        place = Place(entry, localizations, target, languages.target)
        render = partial(fill_place, text, offset, place, source, list(sources), layout)
    return Part(raw, units, render) if units else None


def _sources(key: str, source: JsonObject | None) -> dict[_Path, str]:
    """Return the texts of an entry by path; the key is the text if there is no other."""
    leaves = {} if source is None else dict(_leaves(source))
    texts = {path: leaf.string("value") for path, leaf in leaves.items()} or {(): key}
    if any(text is None or not is_text(text) for text in texts.values()):
        raise _BadEntryError("a string with half a character, like \\ud800, or with bytes that are not UTF-8")
    return {path: text for path, text in texts.items() if text is not None}


def _source_of(path: _Path, sources: dict[_Path, str]) -> str | None:
    """Return the source text of a path; a plural category that the source does not have is like `other`."""
    return next((sources[p] for p in (path, (*path[:-1], "other"), ()) if p in sources), None)


def _leaves(value: JsonObject, path: _Path = ()) -> Iterator[tuple[_Path, JsonObject]]:
    """Yield the string units inside a localization, by path."""
    for key in value.members:
        inner = value.member(key)
        if inner is None or not inner.is_object:
            continue
        if key == _LEAF:
            if (text := inner.member("value")) is not None and text.raw.startswith('"'):
                yield path, inner
        else:
            yield from _leaves(inner, (*path, key))


def _present(leaf: JsonObject) -> str:
    """Return the translation of a string unit; one in the state `new` counts as missing."""
    value = leaf.member("value")
    is_new = leaf.string("state") == "new"
    return "" if is_new or value is None else string_of(value.raw) or "?"
