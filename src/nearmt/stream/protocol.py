"""The protocol of a session for programs: JSON lines in, JSON lines out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO

from nearmt.corpus import numbered_lines
from nearmt.errors import InputError, NearmtError, did_you_mean
from nearmt.stream.session import Session

Fields = dict[str, Any]
Operation = Callable[[Session, Fields], Fields]


def serve(session: Session, path: Path, out: TextIO) -> None:
    """Answer each line of a file or of standard input before reading the next."""

    def write(fields: Fields) -> None:
        out.write(json.dumps(fields, ensure_ascii=False) + "\n")
        out.flush()

    def refuse(number: int, reason: str) -> None:
        write({"error": reason, "line": number})

    for number, line in numbered_lines(path, on_bad_line=refuse):
        if line.strip():
            found = answer(session, line)
            write({**found, "line": number} if "error" in found else found)


def answer(session: Session, line: str) -> Fields:
    """Execute a request and return the response; errors become a response with an `error` of one line."""
    about: Fields = {}
    try:
        request = _parsed(line)
        operation, fields = _operation(request)
        about = {"op": request.pop("op")}
        for name in request:
            if name not in fields:
                raise InputError(f'unknown field "{name}"{did_you_mean(name, fields)}')
        return {**about, **operation(session, request)}
    except NearmtError as error:
        return {**about, "error": " ".join(str(error).split())}


def _parsed(line: str) -> Fields:
    try:
        request = json.loads(line, parse_constant=_refuse_constant)
        # Lone surrogates and deeply nested values cannot be written in a response.
        json.dumps(request, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON ({error.msg}, column {error.colno})") from error
    except UnicodeEncodeError as error:
        raise InputError("has an escape of half a character, like \\ud800") from error
    except (ValueError, RecursionError) as error:  # huge numbers, deep nesting
        raise InputError("not JSON that can be read") from error
    if not isinstance(request, dict):
        raise InputError('not a JSON object; expected {"op": "translate", "source": ...}')
    return request


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"not JSON ({name} is no number)")


def _operation(request: Fields) -> tuple[Operation, tuple[str, ...]]:
    name = request.get("op")
    if not isinstance(name, str) or name not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        hint = did_you_mean(name, OPERATIONS) if isinstance(name, str) else ""
        raise InputError(f'"op" must be one of {known}{hint}')
    return OPERATIONS[name]


def _translate(session: Session, request: Fields) -> Fields:
    name, explain = request.get("id"), request.get("explain", False)
    if name is not None and (isinstance(name, bool) or not isinstance(name, str | int)):
        raise InputError('"id" is not a string or a whole number')
    if not isinstance(explain, bool):
        raise InputError('"explain" is not true or false')
    filled = session.suggest(_string(request, "source"), explain=explain)
    found = filled.translation
    fields = {
        "target": found.text,
        "origin": filled.filling.origin.value,
        "score": found.score,
        "tokens": found.tokens,
        "searches": found.searches,
        **({"missed": found.missed} if found.missed else {}),
        "truncated": found.truncated,
        "source_parts": found.source_parts,
        "pieces": found.source_parts,  # the old name
    }
    extras = {
        "matches": [dataclasses.asdict(match) for match in filled.filling.matches],
        "warnings": list(filled.warnings),
        "provenance": [dataclasses.asdict(token) for token in found.provenance or ()],
    }
    echoed = {} if name is None else {"id": name}
    return {**echoed, **fields, **{key: value for key, value in extras.items() if value}}


def _confirm(session: Session, request: Fields) -> Fields:
    pair = session.confirm(
        _string(request, "source"), _string(request, "target"), _optional(request, "id"), _metadata(request)
    )
    return {"ok": True, "id": pair.id, "pending": session.datastore.pending}


def _delete(session: Session, request: Fields) -> Fields:
    ids = request.get("ids", [])
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise InputError('"ids" is not a list of strings')
    one = _optional(request, "id")
    if one is None and not ids:
        raise InputError('no "id" and no "ids"')
    return {"ok": True, "deleted": session.delete([*ids, *([] if one is None else [one])])}


def _undo(session: Session, request: Fields) -> Fields:
    pair = session.undo()
    if pair is None:
        raise InputError("nothing to undo")
    return {"ok": True, "id": pair.id}


def _flush(session: Session, request: Fields) -> Fields:
    return {"ok": True, "learnt": session.flush()}


def _statistics(session: Session, request: Fields) -> Fields:
    return dict(session.statistics.summary())


#: The operations of a request and the fields that each may have.
OPERATIONS: dict[str, tuple[Operation, tuple[str, ...]]] = {
    "translate": (_translate, ("source", "id", "explain")),
    "confirm": (_confirm, ("source", "target", "id", "metadata")),
    "delete": (_delete, ("id", "ids")),
    "undo": (_undo, ()),
    "flush": (_flush, ()),
    "statistics": (_statistics, ()),
}


def _string(request: Fields, name: str) -> str:
    if name not in request:
        raise InputError(f'no "{name}"')
    if not isinstance(request[name], str):
        raise InputError(f'"{name}" is not a string')
    return str(request[name])


def _optional(request: Fields, name: str) -> str | None:
    if request.get(name) is None:
        return None
    if not _string(request, name):
        raise InputError(f'"{name}" is empty')
    return _string(request, name)


def _metadata(request: Fields) -> dict[str, str] | None:
    """Metadata as strings; numbers and booleans are converted to JSON."""
    metadata = request.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict) or any(isinstance(v, list | dict) or v is None for v in metadata.values()):
        raise InputError('"metadata" is not an object of strings')
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
