"""Stored glossaries: terms by direction."""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nearmt.corpus import clean
from nearmt.corpus.encoding import is_text
from nearmt.corpus.glossary import Term, TermStatus
from nearmt.datastore.disk.files import write_json
from nearmt.errors import InputError, writing
from nearmt.languages import base_language
from nearmt.serve.errors import Forbidden, NotFound, TooMany
from nearmt.serve.keys import Principal
from nearmt.serve.models import Direction

#: Of a principal, of a glossary, of a term.
_MOST_GLOSSARIES, _MOST_TERMS, _LONGEST = 1000, 10_000, 300
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")


@dataclass(frozen=True)
class Glossary:
    """A named glossary with the terms of one direction or several."""

    id: str
    name: str
    owner: str
    #: ISO 8601, UTC.
    created: str
    #: By languages in base form, such as ("de", "en").
    terms: Mapping[Direction, tuple[Term, ...]]


class Glossaries:
    """Glossaries by id; each principal sees its own."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.folder, self._read_only = folder, read_only
        self._lock = threading.Lock()
        found = (_loaded(path) for path in sorted(folder.glob("*.json")))
        self._glossaries = {glossary.id: glossary for glossary in found if glossary is not None}

    def all(self, principal: Principal) -> list[Glossary]:
        """The glossaries of a principal, the oldest first."""
        own = [glossary for glossary in list(self._glossaries.values()) if glossary.owner == principal.name]
        return sorted(own, key=lambda glossary: glossary.created)

    def get(self, principal: Principal, id: str) -> Glossary:
        glossary = self._glossaries.get(id)
        if glossary is None or glossary.owner != principal.name:
            raise NotFound(f"no glossary '{id[:64]}'")
        return glossary

    def terms(self, principal: Principal, id: str, source_lang: str, target_lang: str) -> tuple[Term, ...]:
        """The terms of a direction; a glossary without this direction is refused."""
        glossary = self.get(principal, id)
        found = glossary.terms.get((base_language(source_lang), base_language(target_lang)))
        if found is None:
            known = ", ".join(f"{source} to {target}" for source, target in glossary.terms) or "nothing"
            raise InputError(f"glossary '{glossary.name}': is for {known}, not {source_lang} to {target_lang}")
        return found

    def create(self, principal: Principal, name: str, terms: Mapping[Direction, Sequence[Term]]) -> Glossary:
        """Store a glossary; it is on disk when this returns."""
        self._check_writable()
        if len(self.all(principal)) >= _MOST_GLOSSARIES:
            raise TooMany(f"you have {_MOST_GLOSSARIES:,} glossaries already; delete some", 3600)
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        glossary = Glossary(secrets.token_hex(16), _checked_name(name), principal.name, created, _checked(terms))
        self._save(glossary)
        return glossary

    def change(
        self,
        principal: Principal,
        id: str,
        name: str | None = None,
        terms: Mapping[Direction, Sequence[Term]] | None = None,
    ) -> Glossary:
        """Give a glossary another name, or directions other terms; a direction without terms is removed."""
        self._check_writable()
        with self._lock:
            glossary = self.get(principal, id)
            if name is not None:
                glossary = replace(glossary, name=_checked_name(name))
            if terms is not None:
                merged = {**glossary.terms, **_checked(terms, may_be_empty=True)}
                glossary = replace(glossary, terms={direction: found for direction, found in merged.items() if found})
            self._save(glossary)
        return glossary

    def delete(self, principal: Principal, id: str) -> None:
        self._check_writable()
        with self._lock:
            glossary = self.get(principal, id)
            self._path(glossary.id).unlink(missing_ok=True)
            self._glossaries.pop(glossary.id, None)

    def _save(self, glossary: Glossary) -> None:
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(self._path(glossary.id), _to_json(glossary))
        self._glossaries[glossary.id] = glossary

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.json"

    def _check_writable(self) -> None:
        if self._read_only:
            raise Forbidden("this server only reads: glossaries cannot be changed")


def terms_of_tsv(text: str) -> list[Term]:
    """Entries as lines of source, tab, target."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            source, tab, target = line.partition("\t")
            if not tab or "\t" in target:
                raise InputError(f"line {number}: give source, tab, target")
            found.append(Term(source, target, line=number))
    return found


def _checked_name(name: str) -> str:
    if not is_text(name) or not _NAME.fullmatch(name) or not name.strip():
        raise InputError("the name of a glossary has 1 to 200 characters without line breaks")
    return name


def _checked(
    terms: Mapping[Direction, Sequence[Term]], may_be_empty: bool = False
) -> dict[Direction, tuple[Term, ...]]:
    checked: dict[Direction, tuple[Term, ...]] = {}
    for (source_lang, target_lang), entries in terms.items():
        if not _CODE.fullmatch(source_lang) or not _CODE.fullmatch(target_lang):
            raise InputError(f"'{source_lang[:20]}' to '{target_lang[:20]}': no languages")
        if not entries and not may_be_empty:
            raise InputError("a glossary needs at least one entry")
        if len(entries) > _MOST_TERMS:
            raise InputError(f"{len(entries):,} entries: a glossary may have {_MOST_TERMS:,}")
        direction = base_language(source_lang), base_language(target_lang)
        checked[direction] = tuple(_checked_term(term, number) for number, term in enumerate(entries, 1))
    return checked


def _checked_term(term: Term, number: int) -> Term:
    if not is_text(term.source) or not is_text(term.target):
        raise InputError(f"entry {number}: has half a character (a lone surrogate)")
    source, target = clean(term.source), clean(term.target)
    if not source or not target:
        raise InputError(f"entry {number}: needs a source and a target that are not empty")
    if max(len(source), len(target)) > _LONGEST:
        raise InputError(f"entry {number}: a term has at most {_LONGEST} characters; sentences belong into a memory")
    return Term(source, target, term.status, number)


def _to_json(glossary: Glossary) -> dict[str, Any]:
    terms = [
        {"languages": direction, "entries": [[term.source, term.target, term.status.value] for term in entries]}
        for direction, entries in glossary.terms.items()
    ]
    return {
        "id": glossary.id,
        "name": glossary.name,
        "owner": glossary.owner,
        "created": glossary.created,
        "terms": terms,
    }


def _loaded(path: Path) -> Glossary | None:
    """A glossary from disk; None if it cannot be read."""
    try:
        raw = json.loads(path.read_bytes())
        terms = {
            (each["languages"][0], each["languages"][1]): tuple(
                Term(source, target, TermStatus(status), number)
                for number, (source, target, status) in enumerate(each["entries"], 1)
            )
            for each in raw["terms"]
        }
        return Glossary(raw["id"], raw["name"], raw["owner"], raw["created"], terms)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
