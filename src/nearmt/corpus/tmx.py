"""TMX memories, read as pairs of two of their languages, and filled in as documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.context import context_of
from nearmt.corpus.document import (
    UNCONFIRMED_NOTES,
    Document,
    Filling,
    Fillings,
    Part,
    Remarks,
    Unit,
    check_notes,
    plain_text,
    text_digest,
)
from nearmt.corpus.encoding import Encoding, decoded, sniff_xml
from nearmt.corpus.markup import (
    carried,
    escaped,
    quoted,
    reopened,
    segment_of,
    space_before,
    spliced,
    without,
    without_indent,
    written,
)
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xml import UnitScanner
from nearmt.corpus.xml_nodes import Fragment, Node
from nearmt.languages import base_language, best_fit, same_language

_KEPT_ATTRIBUTES = ("creationdate", "creationid", "changedate", "changeid")
_OWN = "x-nearmt"
_DIGEST = "x-nearmt-digest"
_CHECK = "x-nearmt-check"
_ORIGIN = "x-origin"


@dataclass
class _Header:
    """The header of a file."""

    source_lang: str | None = None
    #: Whether `nearmt export` wrote the file, so that ids of pairs are kept unchanged.
    own: bool = False


def read_tmx(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read pairs of the requested languages; by default of the source language and the first other one."""
    for unit, header in _units(path, sniff_xml(path), request, report):
        report.units += 1
        variants = _variants(unit)
        for language, _ in variants:
            report.count_language(language)
        source, target = _choose(variants, request, _source_lang(unit, header))
        if source is None or target is None:
            report.skipped["without both languages"] += 1
        elif (_by_machine(unit, source) or _by_machine(unit, target)) and not request.unconfirmed:
            report.skipped["machine-translated"] += 1
        else:
            yield _pair(unit, source, target, path, request, header)


def tmx_document(path: Path, request: Request, report: Report) -> Document:
    """Open a memory whose units without the target language can be filled in."""
    encoding = sniff_xml(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def _scan(
    path: Path, encoding: Encoding, request: Request, report: Report, must_end: bool = False
) -> Iterator[Fragment]:
    scanner = UnitScanner(path, report, frozenset({"tu"}), frozenset({"header"}), request.limits, must_end)
    return scanner.scan(decoded(path, encoding, request.limits))


def _units(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[tuple[Fragment, _Header]]:
    header = _Header()
    for fragment in _scan(path, encoding, request, report):
        if fragment.node is not None and fragment.is_unit:
            yield fragment, header
        elif fragment.node is not None:
            header = _header_of(fragment.node)


def _header_of(node: Node) -> _Header:
    return _Header(_named(node, None), node.attributes.get("creationtool") == "nearmt")


def _source_lang(unit: Fragment, header: _Header) -> str | None:
    """Return the source language of a unit, by its attribute or the header."""
    assert unit.node is not None
    return _named(unit.node, header.source_lang)


def _named(node: Node, otherwise: str | None) -> str | None:
    language = node.attributes.get("srclang") or otherwise
    return None if language == "*all*" else language


def _variants(unit: Fragment) -> list[tuple[str, Node]]:
    """Return the unit's variants with their language codes."""
    assert unit.node is not None
    found = []
    for node in unit.node.elements("tuv"):
        language = node.attributes.get("xml:lang") or node.attributes.get("lang", "")
        if node.element("seg") is not None:
            found.append((language, node))
    return found


def _choose(variants: list[tuple[str, Node]], request: Request, named: str | None) -> tuple[Node | None, Node | None]:
    source_lang = request.source_lang or named or (variants[0][0] if variants else "")
    source = best_fit(variants, source_lang)
    others = [(language, node) for language, node in variants if not same_language(language, source_lang)]
    if request.target_lang:
        return source, best_fit([v for v in variants if v[1] is not source], request.target_lang)
    return source, others[0][1] if others else None


def _by_machine(unit: Fragment, variant: Node) -> bool:
    """Whether nearmt filled the variant in and its text has not changed since."""
    notes = {prop.attributes.get("type"): prop.text() for prop in variant.elements("prop")}
    if not notes.get(_OWN, "").startswith(UNCONFIRMED_NOTES):
        return False
    return notes.get(_DIGEST) in (None, text_digest(_text(unit, variant)))


def _text(unit: Fragment, variant: Node) -> str:
    return plain_text(segment_of(unit, _segment_node(variant)))


def _segment_node(variant: Node) -> Node:
    node = variant.element("seg")
    assert node is not None
    return node


def _pair(unit: Fragment, source: Node, target: Node, path: Path, request: Request, header: _Header) -> Pair:
    assert unit.node is not None
    metadata: dict[str, str] = {}
    props = [*unit.node.elements("prop"), *target.elements("prop")]
    tuid, origin = _tuid(unit), path.name
    if header.own:
        # The properties after the origin are the pair's metadata, including the `tuid` of an earlier file.
        first = props.pop(0) if props and props[0].attributes.get("type") == _ORIGIN else None
        origin = "" if first is None else first.text()
    elif tuid:
        metadata["tuid"] = tuid
        tuid = request.identity(path, tuid)
    for node in (unit.node, target):
        metadata |= {name: node.attributes[name] for name in _KEPT_ATTRIBUTES if name in node.attributes}
    metadata |= {prop.attributes.get("type", "prop"): prop.text() for prop in props}
    return Pair(
        source=_text(unit, source),
        target=_text(unit, target),
        id=tuid,
        origin=origin,
        metadata=metadata,
    )


def _tuid(unit: Fragment) -> str:
    assert unit.node is not None
    return unit.node.attributes.get("tuid", "")


def _context(unit: Fragment) -> str:
    assert unit.node is not None
    return context_of({prop.attributes.get("type", ""): prop.text() for prop in unit.node.elements("prop")})


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    header = _Header()
    code = base_language(request.target_lang or "")
    for fragment in _scan(path, encoding, request, report, must_end=True):
        if fragment.node is None or not fragment.is_unit:
            header = header if fragment.node is None else _header_of(fragment.node)
            yield Part(fragment.text)
        else:
            # New variants use the language codes of the file: en-GB rather than en.
            code = best_fit([(language, language) for language, _ in _variants(fragment)], code) or code
            yield _part(fragment, request, header, encoding, code)


def _part(unit: Fragment, request: Request, header: _Header, encoding: Encoding, code: str) -> Part:
    """Make the part of a unit; a missing target is inserted after the source."""
    source, target = _choose(_variants(unit), request, _source_lang(unit, header))
    if source is None or (target is None and not request.target_lang):
        return Part(unit.text)
    present = segment_of(unit, _segment_node(target)) if target is not None else ()
    found = Unit(
        segment_of(unit, _segment_node(source)),
        plain_text(present),
        source.line,
        tagged_target=present,
        context=_context(unit),
        key=_tuid(unit),
    )

    def render(fillings: Fillings) -> str:
        (filling,) = fillings
        assert filling is not None
        text, props = written(filling.target, encoding.name), _props(unit, filling, encoding.name)
        if target is None:
            return _with_new_variant(unit, source, code, text, props, encoding.name)
        return _with_changed_variant(unit, target, text, props)

    def annotate(remarks: Remarks) -> str:
        return unit.text if target is None else _with_check(unit, target, check_notes(remarks), encoding.name)

    return Part(unit.text, (found,), render, annotate)


def _props(unit: Fragment, filling: Filling, encoding: str) -> list[str]:
    """Format the facts about a filling as properties."""
    assert unit.node is not None
    prefix, notes = unit.node.prefix, [(_OWN, filling.note)]
    if filling.is_unconfirmed:
        notes.append((_DIGEST, text_digest(carried(plain_text(filling.target)))))
    notes += [(f"{_OWN}-match", f"{m.percent}: {m.source} -> {m.target}") for m in filling.matches]
    return [_prop(prefix, kind, note, encoding) for kind, note in notes]


def _prop(prefix: str, kind: str, text: str, encoding: str) -> str:
    return f"<{prefix}prop type={quoted(kind, encoding)}>{escaped(text, encoding)}</{prefix}prop>"


def _with_check(unit: Fragment, target: Node, notes: list[str], encoding: str) -> str:
    """Put notes of a check before the text of a variant, in place of those of an earlier one."""
    seg = _segment_node(target)
    old = [prop for prop in target.elements("prop") if prop.attributes.get("type") == _CHECK]
    new = "".join(_prop(target.prefix, _CHECK, note, encoding) + space_before(unit, seg) for note in notes)
    return spliced(unit, [*(without_indent(unit, prop) for prop in old), (seg.start, seg.start, new)])


def _with_new_variant(unit: Fragment, source: Node, code: str, text: str, props: list[str], encoding: str) -> str:
    assert unit.node is not None
    prefix, language = unit.node.prefix, quoted(code, encoding)
    seg = f"<{prefix}seg>{text}</{prefix}seg>"
    new = f"{space_before(unit, source)}<{prefix}tuv xml:lang={language}>{''.join(props)}{seg}</{prefix}tuv>"
    return spliced(unit, [(source.end, source.end, new)])


def _with_changed_variant(unit: Fragment, target: Node, text: str, props: list[str]) -> str:
    """Replace the text of a variant, and the properties of an earlier filling."""
    old_seg = _segment_node(target)
    tag, end_tag = reopened(unit.slice(old_seg.start, old_seg.inner))
    old = [prop for prop in target.elements("prop") if prop.attributes.get("type", "").startswith(_OWN)]
    edits = [without(unit, prop) for prop in old]
    new = "".join(prop + space_before(unit, old_seg) for prop in props) + f"{tag}{text}{end_tag}"
    return spliced(unit, [*edits, (old_seg.start, old_seg.end, new)])
