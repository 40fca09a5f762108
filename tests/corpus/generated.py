"""TMX and XLIFF documents of all kinds, and translations to put into them.

Every strategy of a document draws its text together with what a reader should find in it.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from hypothesis import strategies as st

from nearmt.corpus.document import Filling, FillingOrigin, Match, Segment, Tag

#: Letters of several scripts, white space, and characters with a meaning in XML.
CHARACTERS = "aZ09 äß中עربא😀\u00a0\u2028\u200f'\"&<>]-%;\t\n"
#: In addition, characters that XML cannot contain, or only escaped.
WILD = CHARACTERS + "\r\x00\x0b\x1f\x7f\x85\ud800\udcff\ufffe\uffff"
LANGUAGES = ("de", "en", "de-AT", "en-US", "fr", "DE_ch", "de-DE")

_COUNTS = st.sampled_from([1, 2, 2, 3, 0])
_SPACES = st.sampled_from([" ", "  ", "\n\t", "\t"])
_BETWEEN = st.sampled_from(
    ["", "", "\n", "\n    ", "<!-- a comment -->", "\n<!-- <tu><unit> & </tu> -->\n", "<?pi a > b?>", "<?pi <tu> ?>\n"]
)
#: Encodings: codec, byte-order mark, and name for the declaration.
ENCODINGS = [
    ("utf-8", b"", "UTF-8"),
    ("utf-8", codecs.BOM_UTF8, "utf-8"),
    ("utf-16-le", codecs.BOM_UTF16_LE, "UTF-16"),
    ("utf-16-be", codecs.BOM_UTF16_BE, "UTF-16"),
    ("utf-16-le", b"", "UTF-16LE"),
    ("utf-16-be", b"", "UTF-16BE"),
    ("utf-32-le", codecs.BOM_UTF32_LE, "UTF-32"),
    ("iso-8859-1", b"", "ISO-8859-1"),
    ("cp1252", b"", "windows-1252"),
    ("ascii", b"", "us-ascii"),
]


@dataclass(frozen=True)
class Content:
    """The content of an element and its text."""

    xml: str
    text: str


@dataclass(frozen=True)
class Entry:
    """A source, its target, if any, and their state."""

    source: str
    target: str | None
    state: str = ""
    translate: bool = True


@dataclass(frozen=True)
class Made:
    """A document as a string, and its expected content."""

    text: str
    #: TMX: language and text of every variant, by unit.
    units: tuple[tuple[tuple[str, str], ...], ...] = ()
    #: XLIFF: the translatable entries, in order.
    entries: tuple[Entry, ...] = ()


def chunks(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def as_bytes(text: str, codec: str, bom: bytes) -> bytes:
    """Replace characters outside a codec by character references."""
    return bom + text.encode(codec, "xmlcharrefreplace")


def carried(text: str) -> str:
    """Remove the characters that XML cannot contain."""
    return "".join(
        c for c in text if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"
    )


def markup(segment: Segment) -> list[str]:
    """Return the parts of a segment without the keys of its tags."""
    return [part if isinstance(part, str) else part.markup for part in segment]


Outline = tuple[str, dict[str, str], str, tuple["Outline", ...], str]


def outline(element: Element, exact: frozenset[str] = frozenset(), *, within: bool = False) -> Outline:
    """Convert an element to a comparable value; white space counts only in elements of the given names."""
    tail = (element.tail or "") if within else (element.tail or "").strip()
    within = within or element.tag.rpartition("}")[2] in exact
    text = (element.text or "") if within else (element.text or "").strip()
    inner = tuple(outline(child, exact, within=within) for child in element)
    return element.tag, dict(element.attrib), text, inner, tail


# Elements


def texts(characters: str = CHARACTERS, max_size: int = 12) -> st.SearchStrategy[str]:
    return st.text(st.sampled_from(characters), max_size=max_size)


@st.composite
def escaped_texts(draw: st.DrawFn) -> Content:
    """Write text in one of several ways: escaped, as references, as CDATA, or with comments inside."""
    text = draw(texts())
    forms: list[Callable[[str], str]] = [
        escape,
        lambda text: "".join(f"&#{ord(character)};" for character in text),
        lambda text: "".join(f"&#x{ord(character):X};" for character in text),
        lambda text: "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>",
        lambda text: "<!-- & <seg> -->" + escape(text) + "<?pi?>",
    ]
    return Content(draw(st.sampled_from(forms))(text), text)


def attribute_value(draw: st.DrawFn, value: str) -> str:
    quote = draw(st.sampled_from("\"'"))
    return quote + escape(value, {quote: f"&#{ord(quote)};"}).replace("&gt;", ">") + quote


def element(draw: st.DrawFn, name: str, attributes: dict[str, str], content: str = "") -> str:
    """Write an element with any quotes and white space; an empty one with or without an end tag."""
    start = "<" + name
    for key, value in attributes.items():
        space = draw(st.sampled_from(["", "", " ", "\n"]))
        start += f"{draw(_SPACES)}{key}{space}={space}{attribute_value(draw, value)}"
    start += draw(st.sampled_from(["", "", " ", "\n"]))
    if not content and draw(st.booleans()):
        return start + "/>"
    return f"{start}>{content}</{name}{draw(st.sampled_from(['', ' ']))}>"


def between(draw: st.DrawFn, parts: Iterable[str]) -> str:
    """Join strings with white space, comments and processing instructions."""
    return draw(_BETWEEN) + "".join(part + draw(_BETWEEN) for part in parts)


def code(draw: st.DrawFn, name: str, attributes: dict[str, str], inside: str = "", text: str = "") -> Content:
    return Content(element(draw, name, attributes, inside), text)


Inline = Callable[[st.DrawFn, Iterator[int], st.SearchStrategy[Content]], Content]


def _tmx_inline(draw: st.DrawFn, numbers: Iterator[int], inner: st.SearchStrategy[Content]) -> Content:
    kind = draw(st.sampled_from(["hi", "pair", "ph", "sub", "it", "ut", "break", "unknown"]))
    number = str(next(numbers))
    held = draw(inner)
    if kind == "hi":
        return code(draw, "hi", {"type": "a > b"}, held.xml, held.text)
    if kind == "pair":
        opening = code(draw, "bpt", {"i": number, "x": number}, "&lt;b&gt;")
        return Content(opening.xml + held.xml + element(draw, "ept", {"i": number}, "&lt;/b&gt;"), held.text)
    if kind == "sub":
        return code(draw, "ph", {"x": number}, f"title={element(draw, 'sub', {}, held.xml)}")
    if kind == "break":
        return code(draw, "ph", {"type": "lb"}, "&lt;br/&gt;", " ")
    if kind == "it":
        return code(draw, "it", {"pos": "begin"}, "&lt;i&gt;")
    return code(draw, "x-new" if kind == "unknown" else kind, {}, "{1}")


def _xliff_1_inline(draw: st.DrawFn, numbers: Iterator[int], inner: st.SearchStrategy[Content]) -> Content:
    kind = draw(st.sampled_from(["g", "mrk", "x", "pair", "bx", "ph", "it", "break", "unknown"]))
    number = str(next(numbers))
    held = draw(inner)
    if kind == "g":
        return code(draw, "g", {"id": number, "ctype": "bold"}, held.xml, held.text)
    if kind == "mrk":
        return code(draw, "mrk", {"mtype": "term"}, held.xml, held.text)
    if kind in {"pair", "bx"}:
        names, inside = (("bpt", "ept"), "{b}") if kind == "pair" else (("bx", "ex"), "")
        opening = element(draw, names[0], {"id": f"{number}a", "rid": number}, inside)
        return Content(opening + held.xml + element(draw, names[1], {"id": f"{number}b", "rid": number}), held.text)
    if kind == "ph":
        return code(draw, "ph", {"id": number}, f"alt={element(draw, 'sub', {}, held.xml)}")
    if kind == "break":
        return code(draw, "x", {"id": number, "ctype": "lb"}, "", " ")
    return code(draw, {"unknown": "x-new"}.get(kind, kind), {"id": number}, "" if kind == "x" else "{1}")


def _xliff_2_inline(draw: st.DrawFn, numbers: Iterator[int], inner: st.SearchStrategy[Content]) -> Content:
    kind = draw(st.sampled_from(["pc", "mrk", "ph", "sc", "sm", "cp", "break"]))
    number = str(next(numbers))
    held = draw(inner)
    if kind == "pc":
        return code(draw, "pc", {"id": number, "dataRefStart": "d1"}, held.xml, held.text)
    if kind == "mrk":
        return code(draw, "mrk", {"id": number, "translate": "yes"}, held.xml, held.text)
    if kind in {"sc", "sm"}:
        closing = element(draw, {"sc": "ec", "sm": "em"}[kind], {"startRef": number})
        return Content(element(draw, kind, {"id": number}) + held.xml + closing, held.text)
    if kind == "cp":
        return code(draw, "cp", {"hex": "001A"})
    if kind == "break":
        return code(draw, "ph", {"id": number, "type": "fmt", "subType": "xlf:lb"}, "", " ")
    return code(draw, "ph", {"id": number, "equiv": "a > b"})


def _contents(inline: Inline) -> st.SearchStrategy[Content]:
    """Text and inline elements, nested in one another."""

    @st.composite
    def nested(draw: st.DrawFn, inner: st.SearchStrategy[Content]) -> Content:
        numbers = count(draw(st.integers(1, 10**6)))
        parts = []
        for is_text in draw(st.lists(st.booleans(), max_size=3)):
            parts.append(draw(escaped_texts()) if is_text else inline(draw, numbers, inner))
        return Content("".join(part.xml for part in parts), "".join(part.text for part in parts))

    return st.recursive(escaped_texts(), nested, max_leaves=4)


TMX_CONTENTS = _contents(_tmx_inline)
XLIFF_1_CONTENTS = _contents(_xliff_1_inline)
XLIFF_2_CONTENTS = _contents(_xliff_2_inline)


# Documents


def document(draw: st.DrawFn, root: str, doctype: str, declared: str) -> str:
    """Wrap the root element with a declaration, comments and white space."""
    declaration = draw(
        st.sampled_from(
            [f'<?xml version="1.0" encoding="{declared}"?>', f"<?xml version='1.0' encoding='{declared}' ?>\n"]
        )
    )
    head = draw(st.sampled_from(["", "\n", f'\n<!DOCTYPE {doctype} SYSTEM "nowhere/{doctype}.dtd">\n']))
    tail = draw(st.sampled_from(["", "\n", "\n<!-- the end -->\n"]))
    text = declaration + head + draw(_BETWEEN) + root + tail
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@st.composite
def tmx_documents(draw: st.DrawFn, declared: str = "UTF-8") -> Made:
    units: list[str] = []
    found = []
    for _ in range(draw(_COUNTS)):
        parts = [
            element(draw, name, {"type": "x-kind"}, draw(escaped_texts()).xml)
            for name in draw(st.lists(st.sampled_from(["prop", "note"]), max_size=2))
        ]
        variants = []
        for language in draw(st.lists(st.sampled_from([*LANGUAGES, "de", "en"]), min_size=1, max_size=4)):
            content = draw(TMX_CONTENTS)
            seg = element(draw, "seg", {}, content.xml)
            key = draw(st.sampled_from(["xml:lang", "xml:lang", "lang"]))
            parts.append(element(draw, "tuv", {key: language, "creationid": "A > B"}, between(draw, [seg])))
            variants.append((language, content.text))
        units.append(element(draw, "tu", {"tuid": str(len(units))}, between(draw, parts) if parts else ""))
        found.append(tuple(variants))
    header = element(draw, "header", {"srclang": draw(st.sampled_from([*LANGUAGES, "*all*"])), "note": "1 > 0"})
    body = element(draw, "body", {}, between(draw, units) if units else "")
    root = element(draw, "tmx", {"version": "1.4"}, between(draw, [header, body]))
    return Made(document(draw, root, "tmx", declared), units=tuple(found))


@st.composite
def xliff_1_documents(draw: st.DrawFn, declared: str = "UTF-8", prefix: str = "") -> Made:
    files, entries = [], []
    for number in range(draw(_COUNTS)):
        units = []
        for name in range(draw(_COUNTS)):
            unit, found = _trans_unit(draw, f"{number}.{name}")
            if draw(st.booleans()):
                unit = element(draw, "group", {"id": f"g{name}"}, between(draw, [unit]))
            units.append(unit)
            entries += found
        languages = {"source-language": "de-DE"} | draw(st.sampled_from([{}, {"target-language": "en-US"}]))
        body = element(draw, "body", {}, between(draw, units))
        files.append(element(draw, "file", {"original": f"{number} > 0.html", **languages}, between(draw, [body])))
    namespace = f"xmlns{':' * bool(prefix)}{prefix}"
    attributes = {"version": "1.2", namespace: "urn:oasis:names:tc:xliff:document:1.2"}
    root = element(draw, "xliff", attributes, between(draw, files))
    return Made(_prefixed(document(draw, root, "xliff", declared), prefix), entries=tuple(entries))


def _trans_unit(draw: st.DrawFn, name: str) -> tuple[str, list[Entry]]:
    attributes = {"id": name} | draw(
        st.sampled_from([{}, {"approved": "yes"}, {"approved": "no"}, {"translate": "no"}])
    )
    translate = "translate" not in attributes
    state = draw(st.sampled_from(["", "new", "needs-review-translation", "translated", "final", "signed-off"]))
    has_target = draw(st.booleans())
    target_attributes = {"xml:lang": "en-US"} | ({"state": state} if state else {})
    if draw(st.booleans()):
        marked = [(str(mid), draw(XLIFF_1_CONTENTS), draw(XLIFF_1_CONTENTS)) for mid in range(1, 3)]
        sources = [element(draw, "mrk", {"mtype": "seg", "mid": mid}, content.xml) for mid, content, _ in marked]
        targets = [element(draw, "mrk", {"mtype": "seg", "mid": mid}, content.xml) for mid, _, content in marked]
        parts = [
            element(draw, "source", {}, "".join(content.xml for _, content, _ in marked)),
            element(draw, "seg-source", {}, element(draw, "g", {"id": "all"}, " ".join(sources))),
        ]
        target = " ".join(targets)
        found = [Entry(c.text, t.text if has_target else None, state, translate) for _, c, t in marked]
    else:
        source, wanted = draw(XLIFF_1_CONTENTS), draw(XLIFF_1_CONTENTS)
        parts, target = [element(draw, "source", {}, source.xml)], wanted.xml
        found = [Entry(source.text, wanted.text if has_target else None, state, translate)]
    if has_target:
        parts.append(element(draw, "target", target_attributes, target))
    if draw(st.booleans()):
        parts.append(element(draw, "note", {"from": "a > b"}, draw(escaped_texts()).xml))
    if draw(st.booleans()):
        inner = [element(draw, "source", {}, "Alt."), element(draw, "target", {"state": "final"}, "Old.")]
        parts.append(element(draw, "alt-trans", {"origin": "somebody"}, between(draw, inner)))
    return element(draw, "trans-unit", attributes, between(draw, parts)), found


@st.composite
def xliff_2_documents(draw: st.DrawFn, declared: str = "UTF-8", prefix: str = "") -> Made:
    files, entries = [], []
    for number in range(draw(_COUNTS)):
        units = []
        for name in range(draw(_COUNTS)):
            unit, found = _unit_2(draw, f"u{number}.{name}")
            if draw(st.booleans()):
                unit = element(draw, "group", {"id": f"g{name}"}, between(draw, [unit]))
            units.append(unit)
            entries += found
        files.append(element(draw, "file", {"id": f"f{number}", "original": "a > b"}, between(draw, units)))
    namespace = f"xmlns{':' * bool(prefix)}{prefix}"
    attributes = {"version": "2.0", namespace: "urn:oasis:names:tc:xliff:document:2.0", "xmlns:my": "urn:my"}
    attributes |= {"srcLang": "de"} | draw(st.sampled_from([{}, {"trgLang": "en-GB"}]))
    root = element(draw, "xliff", attributes, between(draw, files))
    return Made(_prefixed(document(draw, root, "xliff", declared), prefix), entries=tuple(entries))


def _unit_2(draw: st.DrawFn, name: str) -> tuple[str, list[Entry]]:
    translate = draw(st.booleans())
    parts, found = [], []
    if draw(st.booleans()):
        parts.append(element(draw, "my:notes", {}, element(draw, "my:note", {"category": "nearmt"}, "mine")))
    if draw(st.booleans()):
        notes = [element(draw, "note", {"id": "n1"}, draw(escaped_texts()).xml)] * draw(st.integers(0, 1))
        parts.append(element(draw, "notes", {}, between(draw, notes) if notes else ""))
    if draw(st.booleans()):
        parts.append(element(draw, "originalData", {}, element(draw, "data", {"id": "d1"}, "&lt;b&gt;")))
    for number in range(draw(st.integers(1, 3))):
        source, target = draw(XLIFF_2_CONTENTS), draw(st.one_of(st.none(), XLIFF_2_CONTENTS))
        inner = [element(draw, "source", {"xml:space": "preserve"}, source.xml)]
        if target is not None:
            inner.append(element(draw, "target", {"order": "1"}, target.xml))
        if number and draw(st.booleans()):
            parts.append(element(draw, "ignorable", {}, between(draw, inner)))
            continue
        state = draw(st.sampled_from(["", "initial", "translated", "reviewed", "final"]))
        attributes = {"id": f"s{number}", "canResegment": "no"}
        attributes |= {"state": state, "subState": "my:x"} if state else {}
        parts.append(element(draw, "segment", attributes, between(draw, inner)))
        found.append(Entry(source.text, target.text if target else None, state, translate))
    unit = {"id": name} | ({} if translate else {"translate": "no"})
    return element(draw, "unit", unit, between(draw, parts)), found


_XLIFF_NAMES = (
    "xliff file body header group trans-unit source seg-source target note alt-trans notes originalData data unit "
    "segment ignorable g x bx ex bpt ept ph it sub mrk pc sc ec sm em cp"
).split()


def _prefixed(text: str, prefix: str) -> str:
    """Give all elements of XLIFF a namespace prefix."""
    if prefix:
        for name in _XLIFF_NAMES:
            for end in " \t\r\n/>":
                text = text.replace(f"<{name}{end}", f"<{prefix}:{name}{end}")
                text = text.replace(f"</{name}{end}", f"</{prefix}:{name}{end}")
    return text


# Translations


@st.composite
def matches(draw: st.DrawFn) -> Match:
    source, target, pair_id, origin = (draw(texts(WILD)) for _ in range(4))
    return Match(source, target, draw(st.floats(0, 1)), pair_id, origin)


@st.composite
def fillings(draw: st.DrawFn, source: Segment, origins: Iterable[FillingOrigin] = FillingOrigin) -> Filling:
    """Generate a translation with the tags of its source."""
    target: list[str | Tag] = [draw(texts(WILD))]
    for part in source:
        if isinstance(part, Tag):
            target += [part, draw(texts(WILD))]
    return Filling(
        tuple(target),
        draw(st.sampled_from(list(origins))),
        draw(st.one_of(st.none(), st.floats(-9, 0))),
        tuple(draw(st.lists(texts(WILD), max_size=2))),
        tuple(draw(st.lists(matches(), max_size=2))),
        review=draw(st.sampled_from(["", "the reason"])),
    )
