"""Glossaries: terms and how they are translated, from TSV, CSV and TBX (version 2, and 3 in both styles)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from nearmt.corpus.cleaning import clean
from nearmt.corpus.encoding import decoded, sniff_xml
from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.lines import numbered_lines
from nearmt.corpus.report import Report
from nearmt.corpus.unpacking import inner_suffix
from nearmt.corpus.xml import UnitScanner
from nearmt.corpus.xml_nodes import Node
from nearmt.errors import InputError
from nearmt.languages import same_language

SUFFIXES = (".tsv", ".tab", ".csv", ".tbx")
#: Longer terms are sentences, which belong into a memory.
_LONGEST = 300
_HEADINGS = ("source", "target", "term", "translation", "source term", "target term")


class TermStatus(Enum):
    """What a glossary says about a translation of a term."""

    USE = "use"
    FORBIDDEN = "forbidden"
    #: The term stays as it is.
    KEEP = "do-not-translate"


@dataclass(frozen=True)
class Term:
    """A term, and a translation of it. A forbidden translation without a source is forbidden everywhere."""

    source: str
    target: str
    status: TermStatus = TermStatus.USE
    #: For messages.
    line: int = 0


def read_glossary(
    path: str | Path,
    source_lang: str | None = None,
    target_lang: str | None = None,
    *,
    strict: bool = False,
    report: Report | None = None,
    limits: LimitsConfig = DEFAULT_LIMITS,
) -> list[Term]:
    """Read all terms of a file, each once, in order; the format follows the suffix.

    TSV and CSV have the columns source, target and, optionally, `forbidden` or `do-not-translate`. TBX needs both
    languages. Entries that cannot be read are listed in the report, or are errors if `strict`.
    """
    path = Path(path)
    suffix = inner_suffix(path)
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: unknown format '{suffix}'; give a glossary as {', '.join(SUFFIXES)}")
    report = report or Report()
    report.strict = report.strict or strict
    if suffix == ".tbx":
        if not source_lang or not target_lang:
            raise InputError(f"{path}: has terms of several languages; give --source-lang and --target-lang")
        found = _read_tbx(path, source_lang, target_lang, report, limits)
    else:
        found = _read_table(path, suffix, report, limits)
    terms = list(dict.fromkeys(found))
    if not terms:
        reason = f": {report.problems[0]}" if report.problems else ""
        raise InputError(f"{path}: has no terms that can be used{reason}")
    return terms


def read_kept(path: str | Path, limits: LimitsConfig = DEFAULT_LIMITS) -> list[Term]:
    """Read a list of terms that stay as they are: a text with one term a line; lines with `#` are skipped."""
    path = Path(path)
    report = Report(strict=True)
    terms = []
    for number, line in numbered_lines(path, lambda line, reason: report.problem(path, line, reason), limits):
        text = clean(line)
        if len(text) > _LONGEST:
            report.problem(path, number, f"a term of more than {_LONGEST} characters")
        if text and not text.startswith("#"):
            terms.append(Term(text, text, TermStatus.KEEP, number))
    if not terms:
        raise InputError(f"{path}: has no terms")
    return terms


def _read_table(path: Path, suffix: str, report: Report, limits: LimitsConfig) -> Iterator[Term]:
    delimiter = ""
    is_first = True
    for number, line in numbered_lines(path, lambda line, reason: report.problem(path, line, reason), limits):
        if not line.strip() or line.startswith("#"):
            continue
        delimiter = delimiter or ("\t" if suffix != ".csv" else _delimiter(line))
        columns = [clean(column) for column in _columns(line, delimiter)]
        if is_first and columns[0].casefold() in _HEADINGS:
            is_first = False
            continue
        is_first = False
        term = _of_columns(columns, number)
        if isinstance(term, str):
            report.problem(path, number, term)
        else:
            yield term


def _delimiter(line: str) -> str:
    """Semicolons, as spreadsheets write where the comma is a decimal sign, or commas."""
    return max(",;\t", key=line.count)


def _columns(line: str, delimiter: str) -> list[str]:
    if delimiter == "\t" or '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter), [""])
    except csv.Error:  # a field of more than 128 KiB
        return [line]


def _of_columns(columns: list[str], number: int) -> Term | str:
    """The term of a row, or what is wrong with it."""
    source, target, status = [*columns, "", ""][:3]
    kind = _status(status)
    if kind is None:
        return f"third column '{status[:50]}'; expected forbidden, do-not-translate or nothing"
    if len(source) > _LONGEST or len(target) > _LONGEST:
        return f"a term of more than {_LONGEST} characters"
    if kind is TermStatus.KEEP:
        return Term(source, source, kind, number) if source else "no source term"
    if not target:
        return "no target term; expected source, target"
    if not source and kind is TermStatus.USE:
        return "no source term"
    return Term(source, target, kind, number)


def _status(text: str) -> TermStatus | None:
    name = "-".join(text.casefold().replace("_", " ").split())
    return TermStatus.USE if not name else next((kind for kind in TermStatus if kind.value == name), None)


def _read_tbx(path: Path, source_lang: str, target_lang: str, report: Report, limits: LimitsConfig) -> Iterator[Term]:
    """Concepts with terms in both languages; every source term may be translated by every target term."""
    units = frozenset({"termEntry", "conceptEntry"})
    scanner = UnitScanner(path, report, units, frozenset(), limits, must_end=True)
    for fragment in scanner.scan(decoded(path, sniff_xml(path), limits)):
        if fragment.node is None or not fragment.is_unit:
            continue
        sources = _terms(fragment.node, source_lang)
        targets = _terms(fragment.node, target_lang)
        for source, is_bad in sources:
            if is_bad:
                continue  # a word that authors should avoid may still stand in texts, but names nothing to use
            for target, forbidden in targets:
                status = TermStatus.FORBIDDEN if forbidden else TermStatus.USE
                term = _of_columns(
                    [source, target, "" if status is TermStatus.USE else status.value], fragment.node.line
                )
                if isinstance(term, str):
                    report.problem(path, fragment.node.line, term)
                else:
                    yield term


def _terms(entry: Node, language: str) -> list[tuple[str, bool]]:
    """The terms of a language, and whether each is deprecated or superseded."""
    found = []
    for section in _inside(entry, "langSet", "langSec"):
        code = section.attributes.get("xml:lang") or section.attributes.get("lang", "")
        if code and same_language(code, language):
            for group in _inside(section, "tig", "ntig", "termSec"):
                names = [clean(node.text()) for node in _inside(group, "term")]
                found += [(name, _is_deprecated(group)) for name in names[:1] if name]
    return found


def _is_deprecated(group: Node) -> bool:
    """By the administrative status, as a `termNote` or as an element of its own."""
    notes = [note for note in _inside(group, "termNote") if note.attributes.get("type") == "administrativeStatus"]
    values = {node.text().strip().casefold() for node in (*notes, *_inside(group, "administrativeStatus"))}
    return any(value.startswith(("deprecated", "superseded", "obsolete")) for value in values)


def _inside(node: Node, *names: str) -> Iterable[Node]:
    """All elements of these names at any depth, whatever their namespace."""
    for child in node.children:
        if isinstance(child, Node):
            if child.name in names:
                yield child
            else:
                yield from _inside(child, *names)
