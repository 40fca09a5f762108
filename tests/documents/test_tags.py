"""Projection of inline tags: each tag appears once, next to its words, and elements nest."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearmt.corpus.document import Segment, Tag, TagKind, plain_text
from nearmt.documents.tags import project
from nearmt.models.alignment import WORD, Link

_MARKUP = re.compile(r"<(/?)(\w+)(/?)>|\{(/?)(\w+)\}")


def segment_of(markup: str) -> Segment:
    """Parse `<b>` and `</b>` as an element, `{1}` and `{/1}` as codes, `<x/>` as a single tag, `<br/>` as a blank."""
    parts: list[str | Tag] = []
    done = 0
    for match in _MARKUP.finditer(markup):
        closes, name, single, code_closes, code = match.groups()
        kind = TagKind.SINGLE if single else TagKind.CLOSE if closes or code_closes else TagKind.OPEN
        parts += [markup[done : match.start()], Tag(match.group(), kind, name or code, bool(name), name == "br")]
        done = match.end()
    return tuple(part for part in [*parts, markup[done:]] if part != "")


def markup_of(segment: Segment) -> str:
    return "".join(part if isinstance(part, str) else part.markup for part in segment)


def words_of(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text)]


def links_of(source: str, target: str, said: str) -> list[Link]:
    """Parse links: for every target word its source word, or `-`; `der/2` is the second "der"."""
    links = []
    for word, answer in zip(words_of(target), said.split(), strict=True):
        if answer != "-":
            spelling, _, number = answer.partition("/") if answer != "/" else (answer, "", "")
            spans = [span for span in words_of(source) if source[slice(*span)] == spelling]
            links.append(Link(spans[int(number or 1) - 1], word))
    return links


EXAMPLES = {
    "a pair surrounds its words": (
        "Klicken Sie auf <b>OK</b>, um zu speichern.",
        "Click on OK to save.",
        "Klicken auf OK um speichern .",
        "Click on <b>OK</b> to save.",
    ),
    "a compound becomes two words": (
        "Das <b>Getriebeöl</b> wechseln",
        "Change the gear oil",
        "wechseln Das Getriebeöl Getriebeöl",
        "Change the <b>gear oil</b>",
    ),
    "words that are torn apart are surrounded with what is between": (
        "Sie müssen die Pumpe <b>ab schalten</b> !",
        "You must switch the pump off !",
        "Sie müssen schalten die Pumpe ab !",
        "You must <b>switch the pump off</b> !",
    ),
    "around everything": (
        "<b>Achtung, heiß</b>",
        "Caution: hot!",
        "Achtung , heiß -",
        "<b>Caution: hot!</b>",
    ),
    "around everything, twice, with tags at both ends": (
        "<x/><b>{1}<y/>Achtung heiß<z/>{/1}</b><w/>",
        "Hot! Caution!",
        "heiß - Achtung -",
        "<x/><b>{1}<y/>Hot! Caution!<z/>{/1}</b><w/>",
    ),
    "tags before all words and behind them stay there": (
        "<x/>Motor {1}{/1}prüfen.<y/><b></b>",
        "Check the motor.",
        "prüfen - Motor .",
        "<x/>Check the motor{1}{/1}.<y/><b></b>",
    ),
    "pairs change order": (
        "{1}Heute{/1} prüft <b>der Techniker</b> die Anlage",
        "The technician checks the system today",
        "der Techniker prüft die Anlage Heute",
        "<b>The technician</b> checks the system {1}today{/1}",
    ),
    "nested elements": (
        "Den <a>roten <b>Knopf</b></a> drücken",
        "Press the red button",
        "drücken Den roten Knopf",
        "Press the <a>red <b>button</b></a>",
    ),
    "an element within another that is turned round": (
        "<a>Knopf <b>drei</b></a> drücken",
        "Press three buttons",
        "drücken drei Knopf",
        "Press <a><b>three</b> buttons</a>",
    ),
    "siblings do not overlap: the first keeps its words": (
        "<a>schalten ein</a> <b>Motor aus</b> !",
        "switch motor on off !",
        "schalten Motor ein aus !",
        "<a>switch motor on</a> <b>off</b> !",
    ),
    "a sibling that is left without words": (
        "<a>schalten ein</a> <b>Motor</b> !",
        "switch motor on !",
        "schalten Motor ein !",
        "<a>switch motor on</a><b></b> !",
    ),
    "codes that do not cross in the source": (
        "{1}schalten ein{/1} {2}Motor aus{/2} !",
        "switch motor on off !",
        "schalten Motor ein aus !",
        "{1}switch motor on{/1} {2}off{/2} !",
    ),
    "codes that cross in the source": (
        "{1}schalten {2}ein{/1} Motor aus{/2} !",
        "switch motor on off !",
        "schalten Motor ein aus !",
        "{1}switch {2}motor on{/1} off{/2} !",
    ),
    "codes and elements that do not cross in the source": (
        "{1}es keine{/1} Lücke <g>gibt heute</g> !",
        "it gives no gap today !",
        "es gibt keine Lücke heute !",
        "{1}it gives no{/1} <g>gap today</g> !",
    ),
    "codes that cross elements": (
        "{1}Der <b>alte{/1} Motor</b> läuft",
        "The old motor runs",
        "Der alte Motor läuft",
        "{1}The <b>old{/1} motor</b> runs",
    ),
    "codes that cross elements that change order": (
        "<a>alte {1}Pumpen</a> und <b>Motoren{/1} prüfen</b> !",
        "check motors and old pumps !",
        "prüfen Motoren und alte Pumpen !",
        "<b>check {1}motors</b> and <a>old pumps</a>{/1} !",
    ),
    "an empty pair of codes stays together": (
        "<a>Motor{1}</a> <b>{/1}prüfen</b> !",
        "check motor !",
        "prüfen Motor !",
        "<b>check</b> <a>motor{1}{/1}</a> !",
    ),
    "elements that cross: the inner one is no pair": (
        "den <a>neuen <b>Motor</a> heute</b> prüfen",
        "check the new motor today",
        "prüfen den neuen Motor heute",
        "check the <a>new <b>motor</a> today</b>",
    ),
    "elements that cross, turned round": (
        "den <a>Motor <b>heute</a> noch</b> prüfen",
        "still check today the motor",
        "noch prüfen heute den Motor",
        "still</b> check <a><b>today the motor</a>",
    ),
    "an empty pair behind all words": (
        "Motor prüfen<b></b>{1}{/1}",
        "Check motor",
        "prüfen Motor",
        "Check motor<b></b>{1}{/1}",
    ),
    "words without a link: an empty pair behind the words before": (
        "Schalten Sie <b>bitte</b> den Motor ab",
        "Switch off the motor",
        "Schalten ab den Motor",
        "Switch<b></b> off the motor",
    ),
    "a single tag before a word": (
        "Siehe <x/>Abbildung oben",
        "See figure above",
        "Siehe Abbildung oben",
        "See <x/>figure above",
    ),
    "a single tag behind a word": (
        "Die Pumpe<x/> prüfen",
        "Check the pump",
        "prüfen Die Pumpe",
        "Check the pump<x/>",
    ),
    "a single tag behind a compound": (
        "Das Getriebeöl<x/> wechseln",
        "Change the gear oil now",
        "wechseln Das Getriebeöl Getriebeöl wechseln",
        "Change the gear oil<x/> now",
    ),
    "a single tag that stands alone gets its blanks": (
        "Drücken <x/> jetzt",
        "Press now",
        "Drücken jetzt",
        "Press <x/> now",
    ),
    "two of them share the blanks": (
        "Drücken <x/><y/> jetzt !",
        "Now press !",
        "jetzt Drücken !",
        "<x/><y/> Now press !",
    ),
    "blanks stay outside of a pair": (
        "Drücken <x/> <b>jetzt</b>",
        "Press now",
        "Drücken jetzt",
        "Press <x/> <b>now</b>",
    ),
    "no blank before a full stop": (
        "Jetzt Taste <x/> .",
        "Press key.",
        "Jetzt Taste .",
        "Press key <x/>.",
    ),
    "at the end, behind a full stop": (
        "Fertig. <x/>",
        "Done.",
        "Fertig .",
        "Done. <x/>",
    ),
    "a single tag whose word has no link goes to the word on its other side": (
        "den Motor <x/>bitte prüfen",
        "check the motor",
        "prüfen den Motor",
        "check the motor<x/>",
    ),
    "and else to the next one further away": (
        "den Motor doch <x/>bitte prüfen jetzt",
        "check it now",
        "prüfen - jetzt",
        "<x/>check it now",
    ),
    "tags at one offset keep their order": (
        "den <x/><y/>Motor<z/><w/> prüfen",
        "check the motor",
        "prüfen den Motor",
        "check the <x/><y/>motor<z/><w/>",
    ),
    "a single tag stays in its element": (
        "den <b>neuen <x/></b> Motor prüfen",
        "check the new motor",
        "prüfen den neuen Motor",
        "check the <b>new <x/></b> motor",
    ),
    "a single tag next to an element stays outside": (
        "den <x/><b>neuen</b><y/> Motor prüfen",
        "check the new motor",
        "prüfen den neuen Motor",
        "check the <x/><b>new</b><y/> motor",
    ),
    "half a pair is a single tag": (
        "den <b>neuen Motor{/1} prüfen",
        "check the new motor",
        "prüfen den neuen Motor",
        "check the <b>new motor{/1}",
    ),
    "a closing tag before its opening tag": (
        "den </b>neuen <b>Motor prüfen",
        "check the new motor",
        "prüfen den neuen Motor",
        "check the </b>new <b>motor",
    ),
    "a line break": (
        "Erste Zeile<br/>zweite Zeile",
        "First line second line",
        "Erste Zeile zweite Zeile/2",
        "First line<br/> second line",
    ),
    "a line break is blank enough": (
        "Drücken <x/><br/> jetzt",
        "Press now",
        "Drücken jetzt",
        "Press <x/><br/>now",
    ),
    "within a word that stays the same": (
        "Fläche in m<b>2</b> angeben",
        "State area in m2",
        "angeben Fläche in m2",
        "State area in m<b>2</b>",
    ),
    "within a word that does not": (
        "Den Not<b>aus</b> drücken",
        "Press emergency stop",
        "drücken Notaus Notaus",
        "Press <b>emergency stop</b>",
    ),
    "nothing is linked": (
        "den <b>Motor</b> <x/>prüfen",
        "check the motor",
        "- - -",
        "<b></b>check the motor<x/>",
    ),
    "nothing was translated": (
        "<b>Motor</b> <x/>prüfen",
        "",
        "",
        "<b></b><x/>",
    ),
    "the text is the same": (
        "Nord<b>werk </b> <x/> 300",
        "Nordwerk   300",
        "Nordwerk 300",
        "Nord<b>werk </b> <x/> 300",
    ),
}


@pytest.mark.parametrize(("source", "target", "said", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_projected_tags(source: str, target: str, said: str, expected: str) -> None:
    segment = segment_of(source)
    found = project(segment, target, links_of(plain_text(segment), target, said))
    assert markup_of(found) == expected


# Generated segments.

_TEXT = st.text(alphabet="ab2 .,(", max_size=6)
_ACTIONS = st.sampled_from(["text", "text", "single", "blank", "open", "close", "code", "half"])


@st.composite
def segments(draw: st.DrawFn, blanks: bool = True) -> Segment:
    """Generate nested elements, crossing codes, single tags and unpaired ones; all tags differ."""
    parts: list[str | Tag] = []
    open_elements: list[str] = []
    codes: Counter[str] = Counter()

    def add(kind: TagKind, key: str, element: bool, blank: bool = False) -> None:
        parts.append(Tag(f"<{len(parts)}>", kind, key, element, blank))

    for action in draw(st.lists(_ACTIONS, max_size=20)):
        if action == "text":
            parts.append(draw(_TEXT))
        elif action == "open":
            open_elements.append(f"e{len(parts)}")
            add(TagKind.OPEN, open_elements[-1], element=True)
        elif action == "close" and open_elements:
            add(TagKind.CLOSE, open_elements.pop(), element=True)
        elif action == "code":
            key = draw(st.sampled_from("pqr"))
            codes[key] += 1
            if codes[key] <= 2:
                add(TagKind.OPEN if codes[key] == 1 else TagKind.CLOSE, key, element=False)
        elif action == "half":
            add(draw(st.sampled_from([TagKind.OPEN, TagKind.CLOSE])), f"h{len(parts)}", draw(st.booleans()))
        elif action in ("single", "blank"):
            add(TagKind.SINGLE, "", element=False, blank=blanks and action == "blank")
    while open_elements:
        add(TagKind.CLOSE, open_elements.pop(), element=True)
    return tuple(parts)


def _spans(text: str) -> st.SearchStrategy[tuple[int, int]]:
    anywhere = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(lambda pair: (min(pair), max(pair)))
    return st.sampled_from(words_of(text)) | anywhere if words_of(text) else anywhere


@st.composite
def projections(draw: st.DrawFn) -> tuple[Segment, str, list[Link]]:
    segment, target = draw(segments()), draw(st.text(alphabet="AB2 .", max_size=30))
    link = st.builds(Link, _spans(plain_text(segment)), _spans(target))
    return segment, target, draw(st.lists(link, max_size=12))


def _pairs_of(segment: Segment) -> dict[str, tuple[Tag, Tag]]:
    tags = [part for part in segment if isinstance(part, Tag)]
    opening = {tag.key: tag for tag in tags if tag.kind is TagKind.OPEN}
    return {tag.key: (opening[tag.key], tag) for tag in tags if tag.kind is TagKind.CLOSE and tag.key in opening}


def _elements_around(segment: Segment, pairs: dict[str, tuple[Tag, Tag]]) -> dict[Tag, list[str]]:
    """Return the enclosing elements of each tag; fail if elements do not nest."""
    around: dict[Tag, list[str]] = {}
    inside: list[str] = []
    for tag in (part for part in segment if isinstance(part, Tag)):
        nests = tag.element and tag.key in pairs
        if nests and tag.kind is TagKind.CLOSE:
            assert inside.pop() == tag.key
        around[tag] = list(inside)
        if nests and tag.kind is TagKind.OPEN:
            inside.append(tag.key)
    assert inside == []
    return around


def _text_pattern(segment: Segment) -> str:
    """Return the text without blanks next to single tags."""
    pattern = ""
    for index, part in enumerate(segment):
        if isinstance(part, str):
            sides = [segment[n] if 0 <= n < len(segment) else None for n in (index - 1, index + 1)]
            single = [isinstance(side, Tag) and side.kind is TagKind.SINGLE for side in sides]
            letters = [re.escape(letter) for letter in part]
            for is_beside, letter in zip(single, (0, -1), strict=True):
                if is_beside and part[letter] == " ":
                    letters[letter] = " ?"
            pattern += "".join(letters)
    return pattern


def _nest(tags: list[Tag]) -> bool:
    """Whether what is opened last is closed first."""
    opened: list[str] = []
    for tag in tags:
        if tag.kind is TagKind.OPEN:
            opened.append(tag.key)
        elif not opened or opened.pop() != tag.key:
            return False
    return True


@given(projections())
@settings(max_examples=400)
def test_invariants(case: tuple[Segment, str, list[Link]]) -> None:
    segment, target, links = case
    found = project(segment, target, links)
    assert Counter(part for part in found if isinstance(part, Tag)) == Counter(
        part for part in segment if isinstance(part, Tag)
    )
    assert re.fullmatch(_text_pattern(found), target)
    pairs = _pairs_of(segment)
    before, after = _elements_around(segment, pairs), _elements_around(found, pairs)
    for tag in before:
        if tag.element and tag.key in pairs:
            assert after[tag] == before[tag]
        else:
            assert tag.key in pairs or set(after[tag]) >= set(before[tag])
    order = [part for part in found if isinstance(part, Tag)]
    assert all(order.index(opening) < order.index(closing) for opening, closing in pairs.values())
    sides = [[part for part in side if isinstance(part, Tag) and part.key in pairs] for side in (segment, found)]
    assert _nest(sides[1]) or not _nest(sides[0])
    assert project(segment, target, links) == found


# Unchanged order.


def _merged(segment: Segment) -> Segment:
    parts: list[str | Tag] = []
    for part in segment:
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part != "":
            parts.append(part)
    return tuple(parts)


def _identity(text: str) -> list[Link]:
    return [Link(span, span) for span in words_of(text)]


@given(segments(blanks=False))
def test_equal_text_keeps_its_tags(segment: Segment) -> None:
    text = plain_text(segment)
    assert project(segment, text, _identity(text)) == _merged(segment)


@st.composite
def tidy_segments(draw: st.DrawFn) -> Segment:
    """Generate tags adjacent to words, without empty pairs."""
    parts: list[str | Tag] = []
    open_elements: list[str] = []
    open_codes: list[str] = []

    def add(kind: TagKind, key: str, element: bool) -> None:
        parts.append(Tag(f"<{len(parts)}>", kind, key, element))

    for word in draw(st.lists(st.sampled_from(["motor", "pumpe", "a", ".", "("]), min_size=1, max_size=8)):
        parts.append(" " if parts else "")
        for action in draw(st.lists(st.sampled_from("secx"), max_size=3)):
            key = f"{action}{len(parts)}"
            add(TagKind.SINGLE if action in "sx" else TagKind.OPEN, key, element=action == "e")
            open_elements += [key] if action == "e" else []
            open_codes += [key] if action == "c" else []
        parts.append(word)
        for action in draw(st.lists(st.sampled_from("secx"), max_size=3)):
            if action == "e" and open_elements:
                add(TagKind.CLOSE, open_elements.pop(), element=True)
            elif action == "c" and open_codes:
                add(TagKind.CLOSE, open_codes.pop(draw(st.integers(0, len(open_codes) - 1))), element=False)
            elif action in "sx":
                add(TagKind.SINGLE, "", element=False)
    while open_elements:
        add(TagKind.CLOSE, open_elements.pop(), element=True)
    while open_codes:
        add(TagKind.CLOSE, open_codes.pop(), element=False)
    return tuple(parts)


def _shout(segment: Segment) -> Segment:
    return tuple(part.upper() if isinstance(part, str) else part for part in segment)


@given(tidy_segments())
@settings(max_examples=300)
def test_words_in_the_same_order_keep_their_tags(segment: Segment) -> None:
    """Word-by-word translation into capitals equals the segment in capitals."""
    text = plain_text(segment)
    assert project(segment, text.upper(), _identity(text)) == _merged(_shout(segment))


def test_many_tags_and_deep_nesting() -> None:
    depth, words = 3000, 20_000
    opening = [Tag(f"<{n}>", TagKind.OPEN, str(n), element=True) for n in range(depth)]
    closing = [Tag(f"</{n}>", TagKind.CLOSE, str(n), element=True) for n in range(depth)]
    inner = [part for n in range(words) for part in ("wort", Tag(f"<x{n}/>"), " ")]
    outer = [part for n in range(depth) for part in (opening[n], f"a{n} ")]
    ends = [part for n in reversed(range(depth)) for part in (f" z{n}", closing[n])]
    segment: Segment = ("vor ", *outer, *inner, "ende", *ends)
    text = plain_text(segment)
    assert project(segment, text.upper(), _identity(text)) == _merged(_shout(segment))


def test_tag_before_lost_punctuation_does_not_touch_a_word() -> None:
    """The comma after the tag has no counterpart."""
    single = Tag("<x/>")
    links = [Link((0, 5), (0, 5)), Link((8, 10), (6, 8))]
    assert project(("Klick ", single, ", um"), "click to", links) == ("click ", single, " to")
    assert project(("Klick ", single, ", um"), "click, to", [*links[:1], Link((6, 7), (5, 6))]) == (
        "click ",
        single,
        ", to",
    )
