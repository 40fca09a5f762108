"""XLIFF 1.2 and 2.x documents, read as pairs by their state, and filled in as documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.document import Document, Part, Unit, plain_text
from nearmt.corpus.encoding import Encoding, decoded, sniff_xml
from nearmt.corpus.markup import segment_of, with_attributes
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xliff_filling import fill_unit_1, fill_unit_2, note_unit_1, note_unit_2
from nearmt.corpus.xliff_model import Entry, context_of_unit, entries_1, entries_2, name_of
from nearmt.corpus.xml import UnitScanner
from nearmt.corpus.xml_nodes import Fragment, Node
from nearmt.errors import InputError

_LANGUAGE_ATTRIBUTES = {"file": ("source-language", "target-language"), "xliff": ("srcLang", "trgLang")}


@dataclass(frozen=True)
class _Languages:
    source: str | None = None
    target: str | None = None

    @classmethod
    def around(cls, nodes: tuple[Node, ...]) -> _Languages:
        """Return the languages that the elements around a unit name; the innermost wins."""
        found = cls()
        for node in nodes:
            source, target = _LANGUAGE_ATTRIBUTES.get(node.name, ("", ""))
            found = cls(node.attributes.get(source, found.source), node.attributes.get(target, found.target))
        return found


def read_xliff(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read confirmed pairs, by their state. The sides of a file of the opposite direction are swapped."""
    for fragment in _scan(path, sniff_xml(path), request, report):
        if fragment.node is None or not fragment.is_unit:
            continue
        report.units += 1
        languages = _Languages.around(fragment.around)
        reverse = request.is_reversed(languages.source, languages.target)
        if reverse is None:
            report.skipped["other languages"] += 1
            continue
        for language in filter(None, (languages.source, languages.target)):
            report.count_language(language)
        for entry in _entries(fragment.node):
            if reason := _unusable(entry, request):
                report.skipped[reason] += 1
            else:
                yield _pair(fragment, entry, path, request, reverse)


def xliff_document(path: Path, request: Request, report: Report) -> Document:
    """Open a document whose units without a target can be filled in."""
    encoding = sniff_xml(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def _scan(
    path: Path, encoding: Encoding, request: Request, report: Report, must_end: bool = False
) -> Iterator[Fragment]:
    units, watched = frozenset({"trans-unit", "unit"}), frozenset(_LANGUAGE_ATTRIBUTES)
    scanner = UnitScanner(path, report, units, watched, request.limits, must_end)
    return scanner.scan(decoded(path, encoding, request.limits))


def _entries(unit: Node) -> list[Entry]:
    return entries_1(unit) if unit.name == "trans-unit" else entries_2(unit)


def _unusable(entry: Entry, request: Request) -> str | None:
    if entry.target is None or not entry.target.text().strip():
        return "untranslated"
    return None if entry.confirmed or request.unconfirmed else "not confirmed"


def _pair(unit: Fragment, entry: Entry, path: Path, request: Request, reverse: bool) -> Pair:
    assert unit.node is not None and entry.target is not None
    source, target = (plain_text(segment_of(unit, node)) for node in (entry.source, entry.target))
    if reverse:
        source, target = target, source
    inside = next((node.attributes for node in reversed(unit.around) if node.name == "file"), {})
    file = inside.get("original") or inside.get("id", "")
    unit_id = unit.node.attributes.get("id", "")
    metadata = {"file": file, "state": entry.state, "note": " ".join(_notes(unit.node))}
    metadata |= {"context": context_of_unit(unit.node), "resname": name_of(unit.node)}
    return Pair(
        source=source,
        target=target,
        id=request.identity(path, file, unit_id, entry.key) if unit_id else "",
        origin=path.name,
        metadata={name: value for name, value in metadata.items() if value},
    )


def _notes(unit: Node) -> list[str]:
    parents = [unit, *unit.elements("notes")]
    return [note.text() for parent in parents for note in parent.elements("note")]


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    for fragment in _scan(path, encoding, request, report, must_end=True):
        if fragment.node is None:
            yield Part(fragment.text)
        elif not fragment.is_unit:
            yield _head(fragment, path, request, encoding)
        else:
            yield _part(fragment, encoding)


def _head(fragment: Fragment, path: Path, request: Request, encoding: Encoding) -> Part:
    """Check the start tag that names the languages, which must be the model's; add a missing target language."""
    assert fragment.node is not None
    names = _LANGUAGE_ATTRIBUTES[fragment.node.name]
    languages = _Languages.around((fragment.node,))
    if request.is_reversed(languages.source, languages.target) is not False:
        source, target = request.labels.pair or (languages.source, languages.target)
        raise InputError(
            f"{path}, line {fragment.node.line}: is {source or '?'} to {target or '?'}, "
            f"the model translates {request.source_lang} to {request.target_lang} "
            "(if the file is mislabelled, give the setting file-languages)"
        )
    if not languages.source or languages.target or not request.target_lang:
        return Part(fragment.text)
    added = {names[1]: request.target_lang}
    return Part(fragment.text, render=lambda _: with_attributes(fragment.text, added, encoding.name))


def _translatable(unit: Fragment) -> bool:
    """Whether a unit may be translated, by its attribute or that of the innermost element around it that has one."""
    assert unit.node is not None
    values = (node.attributes.get("translate") for node in (unit.node, *reversed(unit.around)))
    return next((value for value in values if value), "yes") != "no"


def _unit(unit: Fragment, entry: Entry) -> Unit:
    target = segment_of(unit, entry.target, protects=True) if entry.target and entry.is_translated else ()
    assert unit.node is not None
    return Unit(
        segment_of(unit, entry.source, protects=True),
        plain_text(target),
        entry.source.line,
        tagged_target=target,
        context=context_of_unit(unit.node),
        key=name_of(unit.node),
    )


def _part(unit: Fragment, encoding: Encoding) -> Part:
    assert unit.node is not None
    entries = _entries(unit.node)
    if not entries or not _translatable(unit):
        return Part(unit.text)
    units = tuple(_unit(unit, entry) for entry in entries)
    is_first = unit.node.name == "trans-unit"
    fill, note = (fill_unit_1, note_unit_1) if is_first else (fill_unit_2, note_unit_2)
    return Part(
        unit.text,
        units,
        lambda fillings: fill(unit, entries, fillings, encoding.name),
        lambda remarks: note(unit, remarks, encoding.name),
    )
