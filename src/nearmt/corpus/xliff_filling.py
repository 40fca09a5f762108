"""Filling of units of XLIFF 1.2 and 2.x."""

from __future__ import annotations

from nearmt.corpus.document import Filling, FillingOrigin, Fillings, Match, Remarks, check_notes
from nearmt.corpus.markup import (
    escaped,
    quoted,
    reopened,
    space_before,
    spliced,
    with_attributes,
    without,
    without_indent,
    written,
)
from nearmt.corpus.xliff_model import SUB_STATE, Entry
from nearmt.corpus.xml_nodes import Fragment, Node

Edit = tuple[int, int, str]

# State of a target by its origin. Only what a person confirmed and exact matches that need no review are marked as
# translated, which counts as confirmed.
_STATE_1: dict[FillingOrigin, dict[str, str]] = {
    FillingOrigin.MACHINE: {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"},
    FillingOrigin.MEMORY: {"state": "translated", "state-qualifier": "exact-match"},
    FillingOrigin.REPAIRED: {"state": "needs-review-translation", "state-qualifier": "fuzzy-match"},
    FillingOrigin.COPY: {"state": "needs-review-translation", "state-qualifier": "x-copied"},
    FillingOrigin.CONFIRMED: {"state": "translated", "state-qualifier": "x-confirmed"},
}
_STATE_2: dict[FillingOrigin, dict[str, str]] = {
    FillingOrigin.MACHINE: {"state": "initial", "subState": f"{SUB_STATE}:machine-translated"},
    FillingOrigin.MEMORY: {"state": "translated", "subState": f"{SUB_STATE}:exact-match"},
    FillingOrigin.REPAIRED: {"state": "initial", "subState": f"{SUB_STATE}:fuzzy-match"},
    FillingOrigin.COPY: {"state": "initial", "subState": f"{SUB_STATE}:copied"},
    FillingOrigin.CONFIRMED: {"state": "translated", "subState": f"{SUB_STATE}:confirmed"},
}
#: What says whose note it is, `from` or `category`: a translation's, a check's.
_FILLED, _CHECKED = "nearmt", "nearmt-check"
_REVIEW_1, _REVIEW_2 = "needs-review-translation", "initial"


def fill_unit_1(unit: Fragment, entries: list[Entry], fillings: Fillings, encoding: str) -> str:
    """Fill in a unit of XLIFF 1.2: a target after the source, with its state, a note and alternatives."""
    assert unit.node is not None
    given = [filling for filling in fillings if filling is not None]
    source = unit.node.element("seg-source") or unit.node.element("source")
    assert source is not None
    target = unit.node.element("target")
    # Several segments share one target, which has the least confirmed state of them.
    origins = {filling.origin for filling in given}
    confirmed = len(given) == len(fillings) and all(filling.is_confirmed for filling in given)
    several = FillingOrigin.CONFIRMED if confirmed else FillingOrigin.MACHINE
    origin = origins.pop() if len(origins) == 1 and len(given) == len(fillings) else several
    review = {"state": _REVIEW_1} if any(filling.is_unconfirmed for filling in given) else {}
    prefix = unit.node.prefix
    tag = unit.slice(target.start, target.inner) if target is not None else f"<{prefix}target>"
    start, end = reopened(with_attributes(tag, _STATE_1[origin] | review, encoding))
    content = _content_1(unit, entries, fillings, encoding)
    indent = space_before(unit, source)
    extra = _notes_1([filling.note for filling in given], _FILLED, prefix, indent, encoding)
    extra += "".join(indent + _alternative(match, prefix, encoding) for f in given for match in f.matches)
    edits = [without(unit, node) for node in _own_1(unit.node)]
    if not confirmed and unit.node.attributes.get("approved") == "yes":
        approval = with_attributes(unit.slice(0, unit.node.inner), {"approved": "no"}, encoding)
        edits.append((0, unit.node.inner, approval))
    if target is None:
        edits.append((source.end, source.end, f"{indent}{start}{content}{end}{extra}"))
    else:
        edits.append((target.start, target.end, f"{start}{content}{end}{extra}"))
    return spliced(unit, edits)


def note_unit_1(unit: Fragment, remarks: Remarks, encoding: str) -> str:
    """Put notes of a check into a unit of XLIFF 1.2, after the target, in place of those of an earlier one."""
    assert unit.node is not None
    source = unit.node.element("seg-source") or unit.node.element("source")
    assert source is not None
    offset = (unit.node.element("target") or source).end
    old = [node for node in unit.node.elements("note") if node.attributes.get("from") == _CHECKED]
    notes = _notes_1(check_notes(remarks), _CHECKED, unit.node.prefix, space_before(unit, source), encoding)
    return spliced(unit, [*(without_indent(unit, node) for node in old), (offset, offset, notes)])


def _notes_1(notes: list[str], author: str, prefix: str, indent: str, encoding: str) -> str:
    return "".join(f'{indent}<{prefix}note from="{author}">{escaped(note, encoding)}</{prefix}note>' for note in notes)


def _content_1(unit: Fragment, entries: list[Entry], fillings: Fillings, encoding: str) -> str:
    """Return the target's content: the translation, or the structure of `seg-source` with translations."""
    assert unit.node is not None
    segmented = unit.node.element("seg-source")
    if segmented is None or entries[0].source.name == "source":
        assert fillings[0] is not None
        return written(fillings[0].target, encoding)
    parts, offset = [], segmented.inner
    for entry, filling in zip(entries, fillings, strict=True):
        start, end = reopened(unit.slice(entry.source.start, entry.source.inner))
        parts += [unit.slice(offset, entry.source.start), start]
        if filling is not None:
            parts.append(written(filling.target, encoding))
        elif entry.target is not None and entry.is_translated:  # untranslated targets must not look translated
            parts.append(unit.slice(entry.target.inner, entry.target.inner_end))
        parts.append(end)
        offset = entry.source.end
    return "".join([*parts, unit.slice(offset, segmented.inner_end)])


def _alternative(match: Match, prefix: str, encoding: str) -> str:
    origin = quoted(f"nearmt {match.origin}", encoding)
    source, target = escaped(match.source, encoding), escaped(match.target, encoding)
    return (
        f'<{prefix}alt-trans match-quality="{match.percent}" origin={origin}>'
        f"<{prefix}source>{source}</{prefix}source><{prefix}target>{target}</{prefix}target></{prefix}alt-trans>"
    )


def _own_1(unit: Node) -> list[Node]:
    """Return notes and alternatives of an earlier run of nearmt."""
    notes = [node for node in unit.elements("note") if node.attributes.get("from") in (_FILLED, _CHECKED)]
    others = [node for node in unit.elements("alt-trans") if node.attributes.get("origin", "").startswith("nearmt")]
    return notes + others


def fill_unit_2(unit: Fragment, entries: list[Entry], fillings: Fillings, encoding: str) -> str:
    """Fill in a unit of XLIFF 2: a target in each segment, the segment's state, and notes of the unit."""
    assert unit.node is not None
    edits: list[Edit] = []
    notes: list[str] = []
    for entry, filling in zip(entries, fillings, strict=True):
        if filling is not None:
            edits += _segment_2(unit, entry, filling, encoding)
            notes.append(filling.note)
            notes += [f"nearmt: {m.percent} match: {m.source} -> {m.target}" for m in filling.matches]
    return spliced(unit, [*edits, *_notes_2(unit, notes, _FILLED, (_FILLED, _CHECKED), encoding)])


def note_unit_2(unit: Fragment, remarks: Remarks, encoding: str) -> str:
    """Put notes of a check into a unit of XLIFF 2, in place of those of an earlier one."""
    return spliced(unit, _notes_2(unit, check_notes(remarks), _CHECKED, (_CHECKED,), encoding))


def _segment_2(unit: Fragment, entry: Entry, filling: Filling, encoding: str) -> list[Edit]:
    segment = entry.segment
    assert segment is not None
    state = _STATE_2[filling.origin] | ({"state": _REVIEW_2} if filling.is_unconfirmed else {})
    tag = with_attributes(unit.slice(segment.start, segment.inner), state, encoding)
    text = written(filling.target, encoding)
    edits = [(segment.start, segment.inner, tag)]
    if entry.target is None:
        indent = space_before(unit, entry.source)
        prefix = segment.prefix
        return [*edits, (entry.source.end, entry.source.end, f"{indent}<{prefix}target>{text}</{prefix}target>")]
    start, end = reopened(unit.slice(entry.target.start, entry.target.inner))
    return [*edits, (entry.target.start, entry.target.end, f"{start}{text}{end}")]


def _notes_2(unit: Fragment, notes: list[str], category: str, replaced: tuple[str, ...], encoding: str) -> list[Edit]:
    """Put notes before the original data and the segments, in place of those of the `replaced` categories."""
    assert unit.node is not None
    prefix = unit.node.prefix
    written_notes = "".join(
        f'<{prefix}note category="{category}">{escaped(note, encoding)}</{prefix}note>' for note in notes
    )
    whole = f"<{prefix}notes>{written_notes}</{prefix}notes>"
    present = unit.node.element("notes")
    if present is not None and present.inner != present.end:
        old = [node for node in present.elements("note") if node.attributes.get("category") in replaced]
        if old and not notes and len(old) == sum(isinstance(child, Node) for child in present.children):
            return [without_indent(unit, present)]  # without notes it would be invalid
        offset = present.inner_end
        while unit.raw[offset - 1 : offset].isspace():
            offset -= 1
        return [*((node.start, node.end, "") for node in old), (offset, offset, written_notes)]
    if not notes:
        return []
    if present is not None:
        return [(present.start, present.end, whole)]
    first = unit.node.elements("originalData", "segment", "ignorable")[0]
    return [(first.start, first.start, whole + space_before(unit, first))]
