"""JSON lines: objects with "source", "target" and metadata of a pair."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from nearmt.contracts import Pair
from nearmt.corpus.context import context_of
from nearmt.corpus.document import Document, Filling, FillingOrigin, Fillings, Part, Remarks, Unit, text_digest
from nearmt.corpus.encoding import Encoding, is_text
from nearmt.corpus.json_text import JsonError, JsonObject, spliced
from nearmt.corpus.lines import bounded_lines, numbered_lines, split_end
from nearmt.corpus.report import Report, Request
from nearmt.corpus.unpacking import open_bytes, reading
from nearmt.errors import InputError

# Fields of a pair; other scalar fields are metadata.
_FIELDS = ("source", "target", "id", "origin")
_UNCONFIRMED = (FillingOrigin.MACHINE.value, FillingOrigin.REPAIRED.value)
# The field with facts about nearmt's own translations.
_OWN = "nearmt"
#: Among them, what a check found.
_CHECK = "check"
_BOM = "\ufeff"


class _BadLineError(Exception):
    """A line is not a pair; the message gives the reason."""


def read_jsonl(path: Path, request: Request, report: Report) -> Iterator[Pair]:
    """Read the pairs of a file, without untranslated and unrevised machine-translated ones."""
    for number, line in numbered_lines(path, partial(report.problem, path), request.limits):
        entry = _entry(line, path, number, report)
        if entry is None:
            continue
        if not (entry.get("target") or "").strip():
            report.skipped["untranslated"] += 1
        elif _by_machine(entry) and not request.unconfirmed:
            report.skipped["machine-translated"] += 1
        else:
            yield _pair(entry, path)


def jsonl_document(path: Path, request: Request, report: Report) -> Document:
    """Open a document whose lines with a source are units; facts about translations go under the key "nearmt"."""
    encoding = Encoding()
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def _parts(path: Path, encoding: Encoding, request: Request, report: Report) -> Iterator[Part]:
    # Lines are decoded here because unreadable ones are written back unchanged.
    refused = 0
    with reading(path), open_bytes(path, request.limits) as file:
        for number, line, is_whole in bounded_lines(file, request.limits.unit_bytes):
            raw = line.decode(encoding.name, encoding.errors)
            if is_whole:
                yield _part(raw, path, number, report)
                continue
            if number != refused:
                report.problem(path, number, f"a line of {request.limits.too_large}")
            refused = number
            yield Part(raw)


def _part(raw: str, path: Path, number: int, report: Report) -> Part:
    bom = _BOM if number == 1 and raw.startswith(_BOM) else ""
    end = split_end(raw)[1]
    entry = _entry(raw.removeprefix(bom), path, number, report, must_end=not end)
    if entry is None or not entry["source"].strip():
        return Part(raw)
    context = context_of(_metadata(entry))
    unit = Unit((entry["source"],), entry.get("target") or "", number, context=context, key=_text(entry.get("id")))
    annotate = partial(_annotated, entry, bom, raw.removeprefix(bom))
    return Part(raw, (unit,), partial(_rendered, entry, bom, end), annotate)


def _rendered(entry: dict[str, Any], start: str, end: str, fillings: Fillings) -> str:
    (filling,) = fillings
    assert filling is not None
    filled = entry | {"target": filling.text, _OWN: _facts(filling)}
    return start + json.dumps(filled, ensure_ascii=False) + end


def _annotated(entry: dict[str, Any], start: str, line: str, remarks: Remarks) -> str:
    """Put the remarks of a check among the facts, in place of those of an earlier one."""
    (found,) = remarks
    present = entry.get(_OWN)
    facts = dict(present) if isinstance(present, dict) else {}
    facts.pop(_CHECK, None)
    if found:
        facts[_CHECK] = list(found)
    elif not isinstance(present, dict) or facts == present:
        return start + line
    try:
        return start + spliced(line, 0, len(line), [_edit(JsonObject.whole(line), facts)])
    except JsonError:  # NaN and the like, which RFC 8259 lacks
        return start + json.dumps(entry | {_OWN: facts}, ensure_ascii=False) + split_end(line)[1]


def _edit(whole: JsonObject, facts: dict[str, Any]) -> tuple[int, int, str]:
    """Make the edit that replaces, adds or removes the member with the facts; the source is another member."""
    new = json.dumps(facts, ensure_ascii=False)
    members = sorted(whole.members.values())
    present = whole.members.get(_OWN)
    if present is None:
        return members[-1].end, members[-1].end, f', "{_OWN}": {new}'
    if facts:
        return present.value, present.end, new
    number = members.index(present)
    return (members[number - 1].end, present.end, "") if number else (present.start, members[1].start, "")


def _facts(filling: Filling) -> dict[str, Any]:
    matches = [
        {"source": match.source, "target": match.target, "similarity": match.similarity, "id": match.pair_id}
        for match in filling.matches
    ]
    # To detect later changes of a translation to review.
    digest = {"digest": text_digest(filling.text)} if filling.is_unconfirmed else {}
    review = {"review": filling.review} if filling.review else {}
    return {
        "origin": filling.origin.value,
        **digest,
        **review,
        "score": filling.score,
        "pairs": list(filling.pair_ids),
        "matches": matches,
        **({"findings": list(filling.findings)} if filling.findings else {}),
    }


def _entry(line: str, path: Path, number: int, report: Report, must_end: bool = False) -> dict[str, Any] | None:
    """Parse the object of a line; None for a blank line, and for a bad one, which is reported.

    With `must_end`, a last line that is not JSON and has no line end is an error: the file was cut off.
    """
    if not line.strip():
        return None
    try:
        entry = _object(line)
        report.units += 1
        _check(entry)
    except _BadLineError as bad:
        if must_end and isinstance(bad.__cause__, json.JSONDecodeError):
            raise InputError(f"{path}, line {number}: the file ends in the middle; get a complete one") from bad
        report.problem(path, number, str(bad))
        return None
    return entry


def _object(line: str) -> dict[str, Any]:
    if not is_text(line):
        raise _BadLineError("not UTF-8; convert the file, e.g. with iconv")
    try:
        value = json.loads(line)
        again = json.dumps(value, ensure_ascii=False) if "\\u" in line else ""
    except json.JSONDecodeError as error:
        raise _BadLineError(f"not JSON ({error.msg}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # excessive numbers or nesting
        raise _BadLineError("not JSON that can be read") from error
    if not is_text(again):
        raise _BadLineError("has an escape of half a character, like \\ud800")
    if not isinstance(value, dict):
        raise _BadLineError('not a JSON object; expected {"source": ..., "target": ...}')
    return value


def _check(entry: dict[str, Any]) -> None:
    if "source" not in entry:
        raise _BadLineError('no "source"')
    if not isinstance(entry["source"], str):
        raise _BadLineError('"source" is not a string')
    if not isinstance(entry.get("target"), str | None):
        raise _BadLineError('"target" is not a string')


def _by_machine(entry: dict[str, Any]) -> bool:
    """Whether nearmt filled the entry in and its text has not changed since."""
    facts = entry.get(_OWN)
    if not isinstance(facts, dict) or not (facts.get("review") or facts.get("origin") in _UNCONFIRMED):
        return False
    return facts.get("digest") in (None, text_digest(entry.get("target") or ""))


def _pair(entry: dict[str, Any], path: Path) -> Pair:
    return Pair(
        source=entry["source"],
        target=entry["target"],
        id=_text(entry.get("id")),
        origin=path.name if entry.get("origin") is None else _text(entry["origin"]),
        metadata=_metadata(entry),
    )


def _metadata(entry: dict[str, Any]) -> dict[str, str]:
    own = entry.get("metadata")
    scalars = {name: value for name, value in entry.items() if not isinstance(value, list | dict)}
    values = {name: value for name, value in scalars.items() if name not in _FIELDS}
    if isinstance(own, dict):
        values |= own
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    """Return a string unchanged, other values as JSON, and "" for null."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
