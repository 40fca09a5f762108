"""Translated units of documents as they are kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nearmt.corpus import Filling, FillingOrigin, Segment, Tag, TagKind, Unit
from nearmt.corpus.document import text_with_markup
from nearmt.documents import FilledUnit
from nearmt.documents.checks import CheckedUnit, Severity, findings_of, text_checks
from nearmt.languages import base_language
from nearmt.serve.values import DocumentUnit

#: The origin of a unit that a person has written.
EDITED = "edited"
_NAMES = {FillingOrigin.COPY.value: "copied"}


@dataclass(frozen=True)
class UnitRecord:
    """The present translation of a unit."""

    number: int
    target: Segment
    #: That of a `Filling`, or `edited`.
    origin: str
    confirmed: bool = False
    score: float | None = None
    pairs: tuple[str, ...] = ()
    in_context: bool = False
    review: str = ""
    #: For the note in the document, and for a person.
    findings: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, number: int, filled: FilledUnit) -> UnitRecord:
        found = filled.filling
        return cls(
            number=number,
            target=found.target,
            origin=found.origin.value,
            score=found.score,
            pairs=found.pair_ids,
            in_context=found.in_context,
            review=found.review,
            findings=found.findings,
            warnings=filled.warnings,
        )

    @classmethod
    def edited(
        cls,
        number: int,
        unit: Unit,
        target: str,
        confirmed: bool,
        before: UnitRecord | None,
        languages: tuple[str, str],
    ) -> UnitRecord:
        """A unit as a person has written or confirmed it; tags of the source are tags again."""
        segment = segment_of(target, unit.source)
        same = before is not None and before.target == segment
        origin = before.origin if same and before is not None else EDITED
        source_lang, target_lang = map(base_language, languages)
        checked = CheckedUnit(unit.source, segment, source_lang, target_lang, unit.printf)
        found = findings_of(checked, text_checks())
        warnings = tuple(str(finding) for finding in found if finding.severity >= Severity.WARNING)
        return cls(number, segment, origin, confirmed, findings=warnings, warnings=warnings)

    def filling(self) -> Filling:
        """What is written into the document."""
        if self.confirmed:
            return Filling(self.target, FillingOrigin.CONFIRMED)
        origin = FillingOrigin.MACHINE if self.origin == EDITED else FillingOrigin(self.origin)
        return Filling(
            self.target,
            origin,
            score=self.score,
            pair_ids=self.pairs,
            findings=self.findings,
            in_context=self.in_context,
            review=self.review,
        )

    def shown(self, unit: Unit) -> DocumentUnit:
        return DocumentUnit(
            number=self.number,
            source=text_with_markup(unit.source),
            target=text_with_markup(self.target),
            origin=_NAMES.get(self.origin, self.origin),
            confirmed=self.confirmed,
            warnings=self.warnings,
            score=self.score,
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "target": [_part_to_json(part) for part in self.target]}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> UnitRecord:
        lists = {name: tuple(raw[name]) for name in ("pairs", "findings", "warnings")}
        return cls(**{**raw, **lists, "target": tuple(map(_part_from_json, raw["target"]))})


def untranslated(number: int, unit: Unit, waits: bool) -> DocumentUnit:
    """A unit that is not filled in: it waits for its turn, or the document keeps it as it is."""
    return DocumentUnit(
        number=number,
        source=text_with_markup(unit.source),
        target=text_with_markup(unit.target_segment),
        origin="" if waits else "kept",
    )


def segment_of(text: str, source: Segment) -> Segment:
    """A translation as a person writes it, in which the tags of the source are tags, each at most once."""
    left = [part for part in source if isinstance(part, Tag) and part.markup]
    parts: list[str | Tag] = []
    at = 0
    while found := [(text.find(tag.markup, at), -len(tag.markup), number) for number, tag in enumerate(left)]:
        start, _, number = min((each for each in found if each[0] >= 0), default=(-1, 0, 0))
        if start < 0:
            break
        tag = left.pop(number)
        parts += [text[at:start], tag]
        at = start + len(tag.markup)
    return tuple(part for part in (*parts, text[at:]) if part != "")


def _part_to_json(part: str | Tag) -> Any:
    return part if isinstance(part, str) else {**asdict(part), "kind": part.kind.value}


def _part_from_json(raw: Any) -> str | Tag:
    return raw if isinstance(raw, str) else Tag(**{**raw, "kind": TagKind(raw["kind"])})
