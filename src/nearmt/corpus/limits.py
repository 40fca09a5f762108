"""Limits on the size of input, so that untrusted files cannot exhaust memory."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config import Config, option


@dataclass(frozen=True)
class LimitsConfig(Config):
    """Limits on the size of input.

    4 MiB are about a thousand pages. Ordinary text is compressed 3 to 50 times; deflate reaches 1,030 times and LZMA
    7,000 times.
    """

    max_unit: int = option(4, "maximum size in MiB of a line or a unit of a file", low=1, high=1024)
    max_unpacked: int = option(
        200, "maximum compression ratio of a .gz, .xz or .xlsx file, beyond its first 64 MiB", low=1, high=10_000
    )

    @property
    def unit_bytes(self) -> int:
        return self.max_unit << 20

    @property
    def too_large(self) -> str:
        """The end of an error message about a line or a unit."""
        return f"more than {self.max_unit} MiB (see the setting max-unit)"


#: The limits where none are given.
DEFAULT_LIMITS = LimitsConfig()
