"""How large what is read may be: a file from elsewhere must not fill the memory."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config import Config, option


@dataclass(frozen=True)
class LimitsConfig(Config):
    """Limits of input files.

    4 MiB are about a thousand pages. Honest text is compressed by 3 to 50 times, deflate reaches 1,030 times and
    LZMA 7,000 times.
    """

    max_unit: int = option(4, "most MiB of a line or a unit of a file", low=1, high=1024)
    max_unpacked: int = option(
        200, "how many times its packed size a .gz or .xz file may have, beyond its first 64 MiB", low=1, high=10_000
    )

    @property
    def unit_bytes(self) -> int:
        return self.max_unit << 20

    @property
    def too_large(self) -> str:
        """Why a line or a unit is not read, and what to do."""
        return f"more than {self.max_unit} MiB (see the setting max-unit)"


#: What holds where nothing else is asked for.
USUAL_LIMITS = LimitsConfig()
