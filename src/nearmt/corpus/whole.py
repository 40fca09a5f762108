"""Reading of documents that are parsed as a whole, with a limit on their size."""

from __future__ import annotations

from pathlib import Path

from nearmt.corpus.encoding import Encoding, decoded
from nearmt.corpus.limits import LimitsConfig
from nearmt.corpus.unpacking import open_bytes, reading
from nearmt.errors import InputError

#: The maximum size of a file that is read into RAM, as a multiple of that of a unit.
UNITS_HELD = 16


def whole_text(path: Path, encoding: Encoding, limits: LimitsConfig) -> str:
    """Return the text of a file, with its line ends unchanged and without its byte-order mark."""
    most = UNITS_HELD * limits.unit_bytes
    chunks, size = [], 0
    for chunk in decoded(path, encoding, limits):
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise InputError(f"{path}: is a file of more than {most >> 20} MiB (see the setting max-unit)")
    return "".join(chunks)


def check_round_trip(path: Path, encoding: Encoding, text: str, limits: LimitsConfig) -> None:
    """Refuse a file that would change by being read and written, which is possible in some East Asian encodings."""
    with reading(path), open_bytes(path, limits) as file:
        raw = file.read()
    if encoding.bom + text.encode(encoding.name, encoding.errors) != raw:
        raise InputError(f"{path}: cannot be written back unchanged in {encoding.name}; convert the file to UTF-8")
