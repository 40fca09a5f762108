"""What the elements and attributes of HTML mean for translation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from nearmt.corpus.html_tokens import Attribute, attributes, tokens

#: Elements within a text; all others begin and end one.
INLINE = frozenset(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark math nobr q rb rp rt rtc ruby s "
    "samp small span strike strong sub sup svg time tt u var wbr".split()
)
#: Elements whose content is not translated.
KEPT = frozenset("pre code samp kbd var svg math script style xmp iframe noembed noframes plaintext".split())
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
#: Elements whose white space is shown.
PRESERVING = frozenset({"textarea"})

_TEXT_ATTRIBUTES = frozenset(
    "title alt placeholder aria-label aria-description aria-placeholder aria-roledescription aria-valuetext".split()
)
#: Attributes that are text in some elements only.
_OF_ELEMENTS = {
    ("abbr", "th"),
    ("label", "optgroup"),
    ("label", "option"),
    ("label", "track"),
    ("summary", "table"),
}
_META_NAMES = frozenset(
    "description keywords abstract summary title dc.title dc.description dcterms.title dcterms.description "
    "apple-mobile-web-app-title og:title og:description og:image:alt twitter:title twitter:description "
    "twitter:image:alt".split()
)
_BUTTONS = frozenset({"submit", "button", "reset"})
#: Elements that end an open one because its end tag may be left out, and those that such a search does not leave.
_ENDED_BY = {
    "li": ({"li"}, {"ul", "ol", "menu"}),
    "dt": ({"dt", "dd"}, {"dl"}),
    "dd": ({"dt", "dd"}, {"dl"}),
    "td": ({"td", "th"}, {"table"}),
    "th": ({"td", "th"}, {"table"}),
    "tr": ({"tr"}, {"table"}),
    "thead": ({"thead", "tbody", "tfoot"}, {"table"}),
    "tbody": ({"thead", "tbody", "tfoot"}, {"table"}),
    "tfoot": ({"thead", "tbody", "tfoot"}, {"table"}),
    "option": ({"option"}, {"select", "datalist"}),
    "optgroup": ({"optgroup", "option"}, {"select"}),
}
#: Elements that a search for an open paragraph does not leave.
_AROUND_PARAGRAPHS = {"button", "caption", "html", "object", "table", "td", "template", "th"}
#: How far such a search goes, so that its time is bounded.
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class _Open:
    name: str
    translates: bool


class OpenElements:
    """The elements around a point of a document, and whether text there is translated."""

    def __init__(self) -> None:
        self._stack: list[_Open] = []
        self._counts: Counter[str] = Counter()

    @property
    def translates(self) -> bool:
        return self._stack[-1].translates if self._stack else True

    @property
    def in_foreign(self) -> bool:
        """Whether this is inside a drawing or a formula, whose elements are not those of HTML."""
        return bool(self._counts["svg"] or self._counts["math"])

    def start(self, name: str, found: Mapping[str, Attribute], is_empty: bool) -> bool:
        """Enter an element, and return whether it is translated."""
        if not self.in_foreign:
            self._end_others(name)
        translates = _translates(name, found, self.translates)
        if not is_empty and name not in VOID:
            self._stack.append(_Open(name, translates))
            self._counts[name] += 1
        return translates

    def end(self, name: str) -> None:
        """Leave an element, and the unclosed ones inside it."""
        while self._counts[name]:
            element = self._stack.pop()
            self._counts[element.name] -= 1
            if element.name == name:
                return

    def _end_others(self, name: str) -> None:
        """Leave the elements that the start tag of this one ends."""
        ended, around = _ENDED_BY.get(name, ({"p"}, _AROUND_PARAGRAPHS))
        if name in INLINE or not any(self._counts[other] for other in ended):
            return
        for element in self._stack[: -_DEEPEST - 1 : -1]:
            if element.name in around:
                return
            if element.name in ended:
                self.end(element.name)
                return


def _translates(name: str, found: Mapping[str, Attribute], around: bool) -> bool:
    """Whether an element is translated: by its attribute, by its name, or as the element around it."""
    if "translate" in found:
        return found["translate"].value.strip().lower() != "no"
    if name in KEPT or ("class" in found and "notranslate" in found["class"].value.split()):
        return False
    return around


def text_attributes(name: str, found: Mapping[str, Attribute]) -> list[Attribute]:
    """Return the attributes of an element that are text."""
    if name == "meta":
        keys = [found[key].value.strip().lower() for key in ("name", "property", "itemprop") if key in found]
        return [found["content"]] if "content" in found and _META_NAMES & set(keys) else []
    names = set() if name in {"link", "style"} else found.keys() & _TEXT_ATTRIBUTES
    names |= {key for key, element in _OF_ELEMENTS if element == name and key in found}
    if name == "input" and "type" in found and found["type"].value.strip().lower() in _BUTTONS:
        names |= found.keys() & {"value"}
    return [found[key] for key in sorted(names)]


def is_kept(start_tag: str) -> bool:
    """Whether the content of an element in a text is not translated, by its start tag."""
    token = next(tokens(start_tag))
    return not _translates(token.name, attributes(start_tag, token), True)
