"""The encoding of a text file, detected from its beginning and kept for writing it back."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.unpacking import open_bytes, reading
from nearmt.errors import InputError

_BOMS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]
_XML_DECLARATION = re.compile(rb"""^<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")
# Only in the first entry, which has an empty msgid: messages may mention charsets, too.
_PO_CHARSET = re.compile(
    rb"""^msgid[ \t]+""[ \t]*\r?\n(?:(?!msgid)[^\n]*\n)*?[^\n]*"Content-Type:[^"\n]*?charset=([\w.:-]+)""",
    re.IGNORECASE | re.MULTILINE,
)
_CHUNK = 1 << 18
_PROBE = rb"\x41 <a>"


class Container(Protocol):
    """A binary file around the text of a document, such as a workbook."""

    def pack(self, text: IO[bytes], out: IO[bytes]) -> None:
        """Write the file with this text in it."""


@dataclass(frozen=True)
class Encoding:
    """How the text of a document becomes a file: a codec, a byte-order mark, and the container if it is in one."""

    name: str = "utf-8"
    bom: bytes = b""
    container: Container | None = None

    @property
    def errors(self) -> str:
        """Undecodable bytes survive reading and writing, so that only their unit is refused, not the file."""
        return "strict" if self.name.startswith(("utf-16", "utf-32")) else "surrogateescape"


def sniff(path: Path, pattern: re.Pattern[bytes] | None = None) -> Encoding:
    """Detect the encoding by byte-order mark, then by the file's declaration (`pattern`); else UTF-8."""
    with reading(path), open_bytes(path) as file:
        head = file.read(_CHUNK)
    for bom, name in _BOMS:
        if head.startswith(bom):
            return Encoding(name, bom)
    for name in ("utf-16-le", "utf-16-be"):
        if head.startswith("<?".encode(name)):
            return Encoding(name)
    declared = pattern.search(head) if pattern else None
    return Encoding(_known(declared.group(1).decode(), path)) if declared else Encoding()


def sniff_xml(path: Path) -> Encoding:
    return sniff(path, _XML_DECLARATION)


def sniff_po(path: Path) -> Encoding:
    return sniff(path, _PO_CHARSET)


def decoded(path: Path, encoding: Encoding, limits: LimitsConfig = DEFAULT_LIMITS) -> Iterator[str]:
    """Yield the text of a file in chunks, with its line ends unchanged and without its byte-order mark."""
    decoder = codecs.getincrementaldecoder(encoding.name)(encoding.errors)
    line = 1
    try:
        with reading(path), open_bytes(path, limits) as file:
            file.read(len(encoding.bom))
            while chunk := file.read(_CHUNK):
                text = decoder.decode(chunk)
                line += text.count("\n")
                yield text
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line += error.object[: error.start].count(b"\n")
        raise InputError(f"{path}, line {line}: not {encoding.name}; convert the file, e.g. with iconv") from error


def is_text(text: str) -> bool:
    """Whether a text can be encoded, that is, has no lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _known(name: str, path: Path) -> str:
    """Look up the codec that a file names. gettext templates have CHARSET as a dummy."""
    if name == "CHARSET":
        return "utf-8"
    try:
        codec = codecs.lookup(name).name
        # A declaration that was found in the bytes cannot be UTF-16, whatever it says.
        if codec.startswith(("utf-8", "utf-16", "utf-32")):
            return "utf-8"
        # It must be a text codec that round-trips.
        if codec != "idna" and _PROBE.decode(codec).encode(codec) == _PROBE:
            return codec
    except (LookupError, UnicodeError):
        pass
    raise InputError(f"{path}: declares the encoding '{name}', which cannot be read; convert it to UTF-8")
