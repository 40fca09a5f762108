"""Entries of glossaries as tables, which is how other services send and show them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from nearmt.corpus.glossary import Term
from nearmt.serve.errors import RequestError
from nearmt.serve.glossaries import terms_of_tsv


def csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table that are not empty, with their numbers."""
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text), strict=True), 1):
            if any(map(str.strip, row)):
                yield number, [column.strip() for column in row]
    except csv.Error as error:
        raise RequestError(f"entries: not CSV ({error})") from error


def terms_of(text: str, format: str) -> list[Term]:
    """The terms of a table with a source and a target, each source once; CSV may have further columns."""
    if format == "tsv":
        terms = terms_of_tsv(text)
    elif format == "csv":
        terms = [_term(row, number) for number, row in csv_rows(text)]
    else:
        raise RequestError(f"entries format '{format[:64]}' is not supported; expected tsv or csv")
    seen: set[str] = set()
    for term in terms:
        if term.source in seen:
            raise RequestError(f"entry {term.line}: duplicates the source term '{term.source[:64]}'")
        seen.add(term.source)
    return terms


def _term(row: Sequence[str], number: int) -> Term:
    if len(row) < 2:
        raise RequestError(f"entry {number}: expected a source and a target")
    return Term(row[0], row[1], line=number)


def merged(old: Iterable[Term], new: Iterable[Term]) -> list[Term]:
    """Terms with those of equal source replaced."""
    return list(({term.source: term for term in old} | {term.source: term for term in new}).values())


def tsv(terms: Sequence[Term]) -> str:
    return "\n".join(f"{term.source}\t{term.target}" for term in terms)
