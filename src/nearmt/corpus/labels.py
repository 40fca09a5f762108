"""The languages of files, where the files do not say, or say it wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearmt.config import Config, option
from nearmt.errors import ConfigError

_PAIR = re.compile(r"([A-Za-z][\w@-]*):([A-Za-z][\w@-]*)")


@dataclass(frozen=True)
class LabelsConfig(Config):
    """Languages of files."""

    file_languages: str | None = option(
        None, "languages of source and target in the PO, MO and XLIFF files, such as en:de, whatever the files say"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file_languages is not None and not _PAIR.fullmatch(self.file_languages):
            raise ConfigError(
                f"file-languages = {self.file_languages!r}: give source and target of the files, such as en:de"
            )

    @property
    def pair(self) -> tuple[str, str] | None:
        """Source and target language; None if they are not given."""
        found = _PAIR.fullmatch(self.file_languages or "")
        return (found[1], found[2]) if found else None


#: Files are believed.
NO_LABELS = LabelsConfig()
