"""TMX: translation memories, read as pairs of any two of their languages and filled in as documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.document import MACHINE_NOTE, Document, FillingOrigin, Fillings, Part, Unit, plain_text, text_digest
from nearmt.corpus.encoding import Encoding, decoded, sniff_xml
from nearmt.corpus.markup import carried, escaped, quoted, reopened, segment_of, space_before, spliced, without, written
from nearmt.corpus.report import Report, Request
from nearmt.corpus.xml import UnitScanner
from nearmt.corpus.xml_nodes import Node, Stretch
from nearmt.languages import base_language, best_fit, same_language

_KEPT_ATTRIBUTES = ("creationdate", "creationid", "changedate", "changeid")
_OWN = "x-nearmt"
_DIGEST = "x-nearmt-digest"
_ORIGIN = "x-origin"


@dataclass
class _Header:
    """What the header says of the units behind it."""

    source_lang: str | None = None
    #: Written by `nearmt export`: identities of pairs are kept as they are.
    own: bool = False


def read_tmx(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Pairs of the two languages asked for; if none are, of the memory's own and the first other one."""
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
    """Units that lack the target language can be filled in."""
    encoding = sniff_xml(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def _scan(
    path: Path, encoding: Encoding, request: Request, report: Report, must_end: bool = False
) -> Iterator[Stretch]:
    scanner = UnitScanner(path, report, frozenset({"tu"}), frozenset({"header"}), request.limits, must_end)
    return scanner.scan(decoded(path, encoding, request.limits))


def _units(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[tuple[Stretch, _Header]]:
    header = _Header()
    for stretch in _scan(path, encoding, request, report):
        if stretch.node is not None and stretch.is_unit:
            yield stretch, header
        elif stretch.node is not None:
            header = _header_of(stretch.node)


def _header_of(node: Node) -> _Header:
    return _Header(_named(node, None), node.attributes.get("creationtool") == "nearmt")


def _source_lang(unit: Stretch, header: _Header) -> str | None:
    """The language that a unit was translated from, as it says itself or as the header says."""
    assert unit.node is not None
    return _named(unit.node, header.source_lang)


def _named(node: Node, otherwise: str | None) -> str | None:
    language = node.attributes.get("srclang") or otherwise
    return None if language == "*all*" else language


def _variants(unit: Stretch) -> list[tuple[str, Node]]:
    """The unit's texts by language code."""
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


def _by_machine(unit: Stretch, variant: Node) -> bool:
    """Filled in by nearmt and not touched by anybody since."""
    notes = {prop.attributes.get("type"): prop.text() for prop in variant.elements("prop")}
    if not notes.get(_OWN, "").startswith(MACHINE_NOTE):
        return False
    return notes.get(_DIGEST) in (None, text_digest(_text(unit, variant)))


def _text(unit: Stretch, variant: Node) -> str:
    return plain_text(segment_of(unit, _segment_node(variant)))


def _segment_node(variant: Node) -> Node:
    node = variant.element("seg")
    assert node is not None
    return node


def _pair(unit: Stretch, source: Node, target: Node, path: Path, request: Request, header: _Header) -> Pair:
    assert unit.node is not None
    metadata: dict[str, str] = {}
    props = [*unit.node.elements("prop"), *target.elements("prop")]
    tuid, origin = unit.node.attributes.get("tuid", ""), path.name
    if header.own:
        # What follows the origin is what the pair knew itself, a `tuid` of an earlier file included.
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


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    header = _Header()
    code = base_language(request.target_lang or "")
    for stretch in _scan(path, encoding, request, report, must_end=True):
        if stretch.node is None or not stretch.is_unit:
            header = header if stretch.node is None else _header_of(stretch.node)
            yield Part(stretch.text)
        else:
            # New texts are named as the file names its others: en-GB rather than en.
            code = best_fit([(language, language) for language, _ in _variants(stretch)], code) or code
            yield _part(stretch, request, header, encoding, code)


def _part(unit: Stretch, request: Request, header: _Header, encoding: Encoding, code: str) -> Part:
    """A unit whose source can be translated; a target that is missing is put behind the source."""
    assert unit.node is not None
    source, target = _choose(_variants(unit), request, _source_lang(unit, header))
    if source is None or (target is None and not request.target_lang):
        return Part(unit.text)
    there = _text(unit, target) if target is not None else ""
    prefix = unit.node.prefix
    found = Unit(segment_of(unit, _segment_node(source)), there, source.line)

    def render(fillings: Fillings) -> str:
        (filling,) = fillings
        assert filling is not None
        text = written(filling.target, encoding.name)
        notes = [(_OWN, filling.note)]
        if filling.origin is FillingOrigin.MACHINE:
            notes.append((_DIGEST, text_digest(carried(plain_text(filling.target)))))
        notes += [(f"{_OWN}-match", f"{m.percent}: {m.source} -> {m.target}") for m in filling.matches]
        props = [
            f"<{prefix}prop type={quoted(kind, encoding.name)}>{escaped(note, encoding.name)}</{prefix}prop>"
            for kind, note in notes
        ]
        if target is None:
            language = quoted(code, encoding.name)
            seg = f"<{prefix}seg>{text}</{prefix}seg>"
            new = f"{space_before(unit, source)}<{prefix}tuv xml:lang={language}>{''.join(props)}{seg}</{prefix}tuv>"
            return spliced(unit, [(source.end, source.end, new)])
        old_seg = _segment_node(target)
        tag, end_tag = reopened(unit.slice(old_seg.start, old_seg.inner))
        old = [prop for prop in target.elements("prop") if prop.attributes.get("type", "").startswith(_OWN)]
        edits = [without(unit, prop) for prop in old]
        new = "".join(prop + space_before(unit, old_seg) for prop in props) + f"{tag}{text}{end_tag}"
        return spliced(unit, [*edits, (old_seg.start, old_seg.end, new)])

    return Part(unit.text, (found,), render)
