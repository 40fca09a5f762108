"""Spans of a text that are no prose: placeholders, addresses. The checks know them from here only."""

from __future__ import annotations

import re
from collections import Counter

from nearmt.documents.placeholders import placeholders, without_placeholders

__all__ = ["addresses", "placeholders", "prose"]

# Punctuation at the end belongs to the sentence.
_ADDRESS = re.compile(
    r"\b(?:(?:https?|ftps?|file|git|ssh|irc)://|www\.)[^\s<>\"'“”«»{}|\\^`\[\]]*[^\s<>\"'“”«»{}|\\^`\[\].,;:!?()…]"
    r"|\b[\w.%+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"
)


def addresses(text: str) -> Counter[str]:
    """Count the URLs and e-mail addresses of a text."""
    return Counter(_ADDRESS.findall(text)) if "@" in text or "://" in text or "www." in text else Counter()


def prose(text: str, printf: bool | None = None) -> str:
    """Replace everything that is no prose by blanks."""
    if "@" in text or "://" in text or "www." in text:
        text = _ADDRESS.sub(" ", text)
    return without_placeholders(text, printf)
