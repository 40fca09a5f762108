"""How a document is filled in."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config.base import Config, option


@dataclass(frozen=True)
class FillConfig(Config):
    """Filling in a document."""

    exact: bool = option(True, "a unit whose source is in the memory word for word gets the stored translation")
    fuzzy: float = option(
        0.0,
        "a unit that resembles a stored source at least this much gets the stored translation, if only numbers, "
        "placeholders and a term differ and can be exchanged (0: never)",
        low=0,
        high=1,
    )
    matches: bool = option(False, "show the stored pairs whose sources resemble each unit, with percentages")
    min_match: float = option(0.5, "least similarity of a match that is shown", low=0, high=1)
    max_matches: int = option(3, "most matches shown for a unit", low=1, high=100)
    glossary: str | None = option(None, "a file of terms (TSV, CSV, TBX): their translations are used in all units")
    keep: str | None = option(None, "a text file with terms that are not translated, one a line")
    checks: bool = option(True, "check every filled-in unit against its source, and say in its note what was found")
    split_sentences: bool | None = option(
        None, "translate sentence by sentence (default: in documents, not in text and TSV)"
    )
