"""Text of others on a terminal: control characters become visible escapes.

A memory, a document, a manifest or a file name may hold sequences that move the cursor, set the window's title or
answer for the user. Everything that the command line shows goes through `neutral`: lines by `nearmt.cli.console`,
tables and colours by `nearmt.cli.safe_console`, and what `translate` and others print by `TerminalText`.
"""

from __future__ import annotations

import json
import unicodedata
from functools import lru_cache
from io import TextIOBase
from typing import TextIO

#: Controls, lone surrogates, and separators that some terminals take for a line end.
_UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})
#: Of the format characters (bidirectional overrides, tags, ...) those that ordinary words are written with.
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
    """A terminal to which text of others is written."""

    def __init__(self, terminal: TextIO) -> None:
        #: For what neutralises text itself, and adds colours of its own.
        self.terminal = terminal

    def write(self, text: str) -> int:
        return self.terminal.write(neutral(text, keep="\n\t"))

    def flush(self) -> None:
        self.terminal.flush()

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True
