"""Parts of a whole that processes share without talking to each other: `--shard I/N`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from nearmt.errors import ConfigError

_WRITTEN = re.compile(r"(\d{1,6})/(\d{1,6})", re.ASCII)


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1 on) of `count`."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """I/N, such as 1/4."""
        found = _WRITTEN.fullmatch(text)
        shard = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.count:
            raise ConfigError(f"shard = {text!r}: must be I/N with I from 1 to N, such as 1/4")
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"
