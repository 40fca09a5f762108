"""Where XLIFF 1.2 and 2.x keep their sources, targets and states."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.corpus.xml_nodes import Node

#: States behind which somebody stands.
_CONFIRMED_1 = {"final", "signed-off", "translated"}
_UNTRANSLATED_1 = {"new", "needs-translation"}
_CONFIRMED_2 = {"translated", "reviewed", "final"}
#: `subState` of a segment that nearmt filled in.
SUB_STATE = "nearmt"


@dataclass(frozen=True)
class Entry:
    """A source and the place of its target within a unit."""

    source: Node
    target: Node | None
    state: str
    confirmed: bool
    #: What tells it from the unit's other entries.
    key: str = ""
    #: XLIFF 2: the element that holds both.
    holder: Node | None = None

    @property
    def is_translated(self) -> bool:
        """Tools put the source into targets that nobody has translated yet, and say so in the state."""
        return self.state not in _UNTRANSLATED_1


def entries_1(unit: Node) -> list[Entry]:
    """XLIFF 1.2: one source and one target, or as many as `seg-source` marks."""
    source, target = unit.element("source"), unit.element("target")
    if source is None:
        return []
    state = target.attributes.get("state", "") if target is not None else ""
    approved = unit.attributes.get("approved")
    # Without a state, whoever wrote the target and did not disapprove of it meant it.
    confirmed = approved == "yes" or state in _CONFIRMED_1 or (state == "" and approved != "no")
    marked = _by_mid(unit.element("seg-source"))
    targets = dict(_by_mid(target))
    # Whoever translated the whole did not go by segments.
    whole = target is not None and not targets and target.text().strip() != ""
    if not marked or whole:
        return [Entry(source, target, state, confirmed)]
    return [Entry(node, targets.get(mid), state, confirmed, mid) for mid, node in marked]


def _by_mid(node: Node | None) -> list[tuple[str, Node]]:
    """Segments with what tells them apart: their `mid`, or their number where there is none."""
    return [(found.attributes.get("mid") or str(number), found) for number, found in enumerate(segments_of(node), 1)]


def segments_of(node: Node | None) -> list[Node]:
    """The `mrk` elements that mark segments, at any depth."""
    if node is None:
        return []
    found = []
    for child in node.children:
        if isinstance(child, Node):
            is_segment = child.name == "mrk" and child.attributes.get("mtype") == "seg"
            found += [child] if is_segment else segments_of(child)
    return found


def entries_2(unit: Node) -> list[Entry]:
    """XLIFF 2: a unit has segments, each with a state of its own."""
    entries = []
    for number, segment in enumerate(unit.elements("segment"), 1):
        source, target = segment.element("source"), segment.element("target")
        if source is None:
            continue
        state = segment.attributes.get("state", "")
        confirmed = state in _CONFIRMED_2 or state == ""
        # Segments need no ids: then their number tells them apart, which is no id that a segment may have.
        key = segment.attributes.get("id") or (f"#{number}" if number > 1 else "")
        entries.append(Entry(source, target, state, confirmed, key, segment))
    return entries
