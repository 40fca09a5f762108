"""The cleaning that is on by default: white space and control characters, nothing else."""

from __future__ import annotations

import re

# Every run of white space becomes one blank; no-break spaces stay what they are, they carry meaning.
_SPACE = re.compile(r"[\t\n\x0b\x0c\r \x85\u2028\u2029]+")
# C0 and C1 controls, byte-order mark and the specials that no font shows.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufff9-\ufffb]")


def clean(text: str) -> str:
    """The text without control characters, with single blanks and none at the ends."""
    return _SPACE.sub(" ", _CONTROL.sub("", text)).strip(" ")
