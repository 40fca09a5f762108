"""Sources, targets and states in XLIFF 1.2 and 2.x."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.corpus.xml_nodes import Node

#: States of confirmed translations.
_CONFIRMED_1 = {"final", "signed-off", "translated"}
_UNTRANSLATED_1 = {"new", "needs-translation"}
_CONFIRMED_2 = {"translated", "reviewed", "final"}
# Types of contexts that do not tell units apart.
_NO_CONTEXT = ("sourcefile", "linenumber", "x-po-")
#: `subState` of a segment that nearmt filled in.
SUB_STATE = "nearmt"


@dataclass(frozen=True)
class Entry:
    """A source and its target within a unit."""

    source: Node
    target: Node | None
    state: str
    confirmed: bool
    #: Identifies it among the unit's entries.
    key: str = ""
    #: XLIFF 2: the element of source and target.
    segment: Node | None = None

    @property
    def is_translated(self) -> bool:
        """Whether the state allows it: tools copy the source into untranslated targets and mark them as new."""
        return self.state not in _UNTRANSLATED_1


def entries_1(unit: Node) -> list[Entry]:
    """Return the entries of a unit of XLIFF 1.2: one, or one for each segment that `seg-source` marks."""
    source, target = unit.element("source"), unit.element("target")
    if source is None:
        return []
    state = target.attributes.get("state", "") if target is not None else ""
    approved = unit.attributes.get("approved")
    # A target without a state counts as confirmed unless it is disapproved.
    confirmed = approved == "yes" or state in _CONFIRMED_1 or (state == "" and approved != "no")
    marked = _by_mid(unit.element("seg-source"))
    targets = dict(_by_mid(target))
    # The target was translated as a whole, not by segments.
    whole = target is not None and not targets and target.text().strip() != ""
    if not marked or whole:
        return [Entry(source, target, state, confirmed)]
    return [Entry(node, targets.get(mid), state, confirmed, mid) for mid, node in marked]


def _by_mid(node: Node | None) -> list[tuple[str, Node]]:
    """Return segments with their `mid`, or their number if they have none."""
    return [(found.attributes.get("mid") or str(number), found) for number, found in enumerate(segments_of(node), 1)]


def segments_of(node: Node | None) -> list[Node]:
    """Find the `mrk` elements that mark segments, at any depth."""
    if node is None:
        return []
    found = []
    for child in node.children:
        if isinstance(child, Node):
            is_segment = child.name == "mrk" and child.attributes.get("mtype") == "seg"
            found += [child] if is_segment else segments_of(child)
    return found


def entries_2(unit: Node) -> list[Entry]:
    """Return the entries of a unit of XLIFF 2: one for each segment, with its state."""
    entries = []
    for number, segment in enumerate(unit.elements("segment"), 1):
        source, target = segment.element("source"), segment.element("target")
        if source is None:
            continue
        state = segment.attributes.get("state", "")
        confirmed = state in _CONFIRMED_2 or state == ""
        # A segment without an id is identified by its number, with `#`, which ids cannot contain.
        key = segment.attributes.get("id") or (f"#{number}" if number > 1 else "")
        entries.append(Entry(source, target, state, confirmed, key, segment))
    return entries


def name_of(unit: Node) -> str:
    """Return the name of a unit in its program: `resname`, in XLIFF 2 `name`."""
    return unit.attributes.get("resname" if unit.name == "trans-unit" else "name", "")


def context_of_unit(unit: Node) -> str:
    """Return the texts of a unit's contexts, without places in files and comments, which change."""
    texts = [
        context.text().strip()
        for group in unit.elements("context-group")
        for context in group.elements("context")
        if not context.attributes.get("context-type", "").startswith(_NO_CONTEXT)
    ]
    return "\n".join(filter(None, texts))
