"""The languages of a document, as far as the file names them."""

from __future__ import annotations

import re
from itertools import chain, islice
from pathlib import Path

from nearmt.corpus.encoding import decoded, sniff_po, sniff_xml
from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.po_entries import entries_of
from nearmt.corpus.report import Report, Request
from nearmt.corpus.unpacking import inner_suffix
from nearmt.corpus.xml import UnitScanner
from nearmt.corpus.xml_nodes import Node
from nearmt.languages import NLLB_CODE, base_language

#: Source and target language; empty if unknown.
Direction = tuple[str, str]

_UNKNOWN = ("", "")
#: The language of msgid, unless the header names another.
_PO_SOURCE = "en"
#: Entries, or fragments of XML, among which the languages are looked for.
_BEGINNING = 100
_XLIFF_LANGUAGES = {"file": ("source-language", "target-language"), "xliff": ("srcLang", "trgLang")}


def named_direction(path: Path, format: str, limits: LimitsConfig = DEFAULT_LIMITS) -> Direction:
    """Read the languages at the beginning of a document; standard input and formats without languages name none."""
    if not path.is_file():
        return _UNKNOWN
    if format == "po":
        return _of_po(path, limits)
    if format == "xliff":
        return _of_xliff(path, limits)
    return _of_tmx(path, limits) if format == "tmx" else _UNKNOWN


def language_of_name(path: Path) -> str:
    """The language in the name of a plain text: `de` of `manual.de` and of `manual.de.gz`; empty if there is none."""
    code = base_language(inner_suffix(path).removeprefix("."))
    return code if code in NLLB_CODE else ""


def language_of_path(path: Path) -> str:
    """The language that the name or a folder of a document in one language ends in: `app_de.arb`, `de/app.ftl`."""
    name, *folders = (part.removesuffix(".lproj") for part in reversed(path.parts))
    suffix = inner_suffix(path)
    for part in (name[: name.rfind(suffix)] if suffix else name, *folders):
        ends = part, re.split(r"[._]", part)[-1], part.removeprefix("values-"), re.split(r"[._-]", part)[-1]
        if found := next((code for code in map(base_language, ends) if code in NLLB_CODE), ""):
            return found
    return ""


def _of_po(path: Path, limits: LimitsConfig) -> Direction:
    for _, entry in islice(entries_of(path, sniff_po(path), Request(limits=limits), Report()), _BEGINNING):
        if entry and entry.is_header:
            target = base_language(entry.header.get("language", ""))
            source = base_language(entry.header.get("x-source-language", _PO_SOURCE))
            # A catalogue of English says that its msgids are not English, but not what they are.
            return ("" if source == target else source), target
    return _UNKNOWN


def _of_xliff(path: Path, limits: LimitsConfig) -> Direction:
    for node in _beginning(path, limits, "trans-unit", "unit", watched=frozenset(_XLIFF_LANGUAGES)):
        source, target = _XLIFF_LANGUAGES.get(node.name, ("", ""))
        if node.attributes.get(source):
            return base_language(node.attributes[source]), base_language(node.attributes.get(target, ""))
    return _UNKNOWN


def _of_tmx(path: Path, limits: LimitsConfig) -> Direction:
    named = ""
    for node in _beginning(path, limits, "tu", watched=frozenset({"header"})):
        named = base_language(node.attributes.get("srclang", named)).replace("*all*", "")
        codes = [tuv.attributes.get("xml:lang") or tuv.attributes.get("lang", "") for tuv in node.elements("tuv")]
        languages = list(dict.fromkeys(base_language(code) for code in codes if code))
        if languages:
            source = named or languages[0]
            return source, next((language for language in languages if language != source), "")
    return _UNKNOWN


def _beginning(path: Path, limits: LimitsConfig, *units: str, watched: frozenset[str]) -> list[Node]:
    """The first units and watched elements of an XML file."""
    scanner = UnitScanner(path, Report(), frozenset(units), watched, limits, False)
    fragments = islice(scanner.scan(decoded(path, sniff_xml(path), limits)), _BEGINNING)
    around = ((*fragment.around, fragment.node) for fragment in fragments if fragment.node is not None)
    return list(chain.from_iterable(around))
