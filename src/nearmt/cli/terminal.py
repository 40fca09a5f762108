"""Untrusted text on a terminal: control characters become visible escapes.

A memory, a document, a manifest or a file name may hold sequences that move the cursor, set the window's title or
type input for the user. Everything that the command line shows goes through `neutral`: lines by `nearmt.cli.console`,
tables and colours by `nearmt.cli.safe_console`, and translations by `TerminalText`.
"""

from __future__ import annotations

import json
import unicodedata
from functools import lru_cache
from io import TextIOBase
from typing import TextIO

#: Categories: controls, lone surrogates, and separators that some terminals treat as line ends.
_UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})
#: Format characters that occur in ordinary words, unlike bidirectional overrides, tags and others.
_JOINERS = frozenset("\u00ad\u200c\u200d")


def neutral(text: str, keep: str = "") -> str:
    """The text with each control character as its JSON escape, such as `\\u001b`; those in `keep` stay.

    An escape of JSON, so that what was JSON before still is, with the same content.
    """
    if text.isprintable():
        return text
    return "".join(character if character in keep else _visible(character) for character in text)


@lru_cache(maxsize=4096)
def _visible(character: str) -> str:
    category = unicodedata.category(character)
    unsafe = category in _UNSAFE or (category == "Cf" and character not in _JOINERS)
    return json.dumps(character)[1:-1] if unsafe else character


class TerminalText(TextIOBase):
    """A terminal to which untrusted text is written."""

    def __init__(self, terminal: TextIO) -> None:
        #: For writers that neutralise text themselves and add colours.
        self.terminal = terminal

    def write(self, text: str) -> int:
        return self.terminal.write(neutral(text, keep="\n\t"))

    def flush(self) -> None:
        self.terminal.flush()

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True
