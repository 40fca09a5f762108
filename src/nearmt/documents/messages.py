"""Units that are ICU messages: their branches are filled in as units of their own, and the message is rebuilt.

In a branch, the number of a plural is written as a number that the branch is for (1, 13), which models copy and which
gives the words around it their form; afterwards it becomes `#` again. Where the translation does not have it exactly
once, the branch is translated again without it, and `#` is put in by word alignment, like a tag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nearmt.corpus import Filling, FillingOrigin, Segment, Tag, Unit, plain_text
from nearmt.corpus.icu import Argument, Branch, Message, parse_message
from nearmt.corpus.spans import find_spans
from nearmt.documents.checks import Finding, Severity, ordered
from nearmt.documents.filled import FilledUnit
from nearmt.marking import joined

#: Stands for an inline tag in the text of a message; private to this module.
_FIRST_TAG, _LAST_TAG = 0xF0000, 0xFFFFD
_TAGS = re.compile(f"([{chr(_FIRST_TAG)}-{chr(_LAST_TAG)}])")
_OWN = "argument "
_ALIGNED = Finding(
    "placeholders", Severity.WARNING, "numbers or arguments were put back by alignment: check their positions"
)


@dataclass(frozen=True)
class _BranchUnit:
    """A branch with numbers in place of number signs: as written in the text, and as written in the message."""

    unit: Unit
    numbers: dict[str, str]


@dataclass(frozen=True)
class MessageUnit:
    """A unit that is a message."""

    unit: Unit
    message: Message
    tags: tuple[Tag, ...]

    @classmethod
    def of(cls, unit: Unit, languages: tuple[str, str]) -> MessageUnit | None:
        """Parse a unit; None if it has no branches. Raises MessageError if it has some and cannot be parsed."""
        tags = tuple(dict.fromkeys(part for part in unit.source if isinstance(part, Tag)))
        if len(tags) > _LAST_TAG - _FIRST_TAG or any(
            _TAGS.search(part) for part in unit.source if isinstance(part, str)
        ):
            return None
        text = "".join(part if isinstance(part, str) else chr(_FIRST_TAG + tags.index(part)) for part in unit.source)
        message = parse_message(text, *languages)
        return None if message is None else cls(unit, message, tags)

    def branch_units(self) -> list[_BranchUnit]:
        return [self._branch_unit(branch, as_tags=False) for branch in self.message.branches]

    def protected_unit(self, number: int) -> Unit:
        """A branch with number signs as tags."""
        return self._branch_unit(self.message.branches[number], as_tags=True).unit

    def _branch_unit(self, branch: Branch, as_tags: bool) -> _BranchUnit:
        parts: list[str | Tag] = []
        numbers: dict[str, str] = {}
        for index, piece in enumerate(branch.pieces):
            number = None if isinstance(piece, str) or as_tags else _number_for(piece, branch, numbers)
            if isinstance(piece, str):
                parts += self._with_tags(piece)
            elif number is not None:
                numbers[number] = piece.raw
                parts.append(number)
            elif piece.examples or not _is_span(piece.raw):
                parts.append(Tag(piece.raw, key=f"{_OWN}{index}"))
            else:
                parts.append(piece.raw)
        return _BranchUnit(replace(self.unit, source=_merged(parts), target=""), numbers)

    def rebuilt(self, targets: Sequence[Segment]) -> Segment:
        """The message with these translations of its branches."""
        texts = []
        for target in targets:
            marks = (part if isinstance(part, str) else self._mark(part) for part in target)
            texts.append("".join(marks))
        return _merged(self._with_tags(self.message.rebuild(texts)))

    def _mark(self, tag: Tag) -> str:
        return tag.markup if tag.key.startswith(_OWN) else chr(_FIRST_TAG + self.tags.index(tag))

    def _with_tags(self, text: str) -> list[str | Tag]:
        parts = _TAGS.split(text)
        return [self.tags[ord(part) - _FIRST_TAG] if number % 2 else part for number, part in enumerate(parts)]


def fill_messages(messages: Sequence[MessageUnit], fill: Callable[[list[Unit]], list[FilledUnit]]) -> list[FilledUnit]:
    """Fill in messages; `fill` fills in units that are none."""
    branches = [message.branch_units() for message in messages]
    every = [(number, index) for number, found in enumerate(branches) for index in range(len(found))]
    filled = dict(zip(every, fill([branches[number][index].unit for number, index in every]), strict=True))
    again: list[tuple[int, int]] = []
    for number, index in every:
        target = _restored(filled[number, index].filling.target, branches[number][index].numbers)
        if target is None:
            again.append((number, index))
        else:
            filled[number, index] = _with_target(filled[number, index], target)
    repeated = fill([messages[number].protected_unit(index) for number, index in again])
    for (number, index), each in zip(again, repeated, strict=True):
        filled[number, index] = each
    for (number, index), each in filled.items():
        if any(isinstance(part, Tag) and part.key.startswith(_OWN) for part in each.filling.target):
            filled[number, index] = replace(each, findings=(*each.findings, _ALIGNED))
    parts = ([filled[number, index] for index in range(len(found))] for number, found in enumerate(branches))
    return [_combined(message, part) for message, part in zip(messages, parts, strict=True)]


def _combined(message: MessageUnit, parts: Sequence[FilledUnit]) -> FilledUnit:
    target = message.rebuilt([part.filling.target for part in parts])
    is_copy = all(part.filling.origin is FillingOrigin.COPY for part in parts)
    origin = FillingOrigin.COPY if is_copy else FillingOrigin.MACHINE
    source = plain_text(message.unit.source).strip()
    translation = replace(
        joined(source, [part.translation for part in parts]), source=source, text=plain_text(target).strip()
    )
    pair_ids = tuple(dict.fromkeys(pair_id for part in parts for pair_id in part.filling.pair_ids))
    filling = Filling(target, origin, score=None if is_copy else translation.score, pair_ids=pair_ids)
    return FilledUnit(filling, translation, ordered(_findings(message, parts)))


def _findings(message: MessageUnit, parts: Sequence[FilledUnit]) -> list[Finding]:
    """Each finding once, with the branches that it is about."""
    branches: dict[Finding, list[str]] = {}
    for branch, part in zip(message.message.branches, parts, strict=True):
        for finding in part.findings:
            branches.setdefault(finding, []).append(" ".join(keyword for _, _, keyword in branch.path))
    found = []
    for finding, names in branches.items():
        where = f"branch{'es' * (len(names) > 1)} {', '.join(names)}"
        found.append(replace(finding, detail=f"{finding.detail} ({where})" if finding.detail else where))
    return found


def _is_span(raw: str) -> bool:
    """Whether an argument in a text is found as a protected span."""
    return [(span.start, span.end) for span in find_spans(raw)] == [(0, len(raw))]


def _number_for(piece: Argument, branch: Branch, taken: dict[str, str]) -> str | None:
    """A number that the branch does not have yet."""
    texts = [str(number) for number in piece.examples if number >= 0]
    return next((text for text in texts if text not in taken and text not in branch.text), None)


def _restored(target: Segment, numbers: dict[str, str]) -> Segment | None:
    """A translation with its numbers as in the message; None unless it has each exactly once."""
    for number, raw in numbers.items():
        pattern = re.compile(rf"(?<!\d)(?<!\d[.,]){number}(?!\d|[.,]\d)")
        found = sum(len(pattern.findall(part)) for part in target if isinstance(part, str))
        if found != 1:
            return None
        target = tuple(pattern.sub(lambda _: raw, part) if isinstance(part, str) else part for part in target)  # noqa: B023
    return target


def _with_target(filled: FilledUnit, target: Segment) -> FilledUnit:
    return replace(filled, filling=replace(filled.filling, target=target))


def _merged(parts: Sequence[str | Tag]) -> Segment:
    merged: list[str | Tag] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)
