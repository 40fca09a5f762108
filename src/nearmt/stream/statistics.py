"""Time spent in a session, and how much of the translations users edited."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.errors import MissingPackageError


@dataclass
class SessionStatistics:
    """Counts and seconds of a session."""

    #: Units translated, confirmed or not.
    translated: int = 0
    #: Pairs confirmed and not undone, including pairs that were not translated in this session.
    confirmed: int = 0
    #: Translations that were confirmed unchanged, and with edits.
    unchanged: int = 0
    edited: int = 0
    #: Sum of `edit_effort` over both.
    effort: float = 0.0
    #: Seconds.
    translating: float = 0.0
    learning: float = 0.0

    def count(self, effort: float | None, times: int = 1) -> None:
        """Count a confirmed pair (or, with -1, an undone one); `effort` is None if it was not translated before."""
        self.confirmed += times
        if effort is not None:
            self.unchanged += times * (effort == 0.0)
            self.edited += times * (effort > 0.0)
            self.effort += times * effort

    @property
    def mean_effort(self) -> float:
        """Mean share of characters that users changed in confirmed translations."""
        return max(0.0, self.effort) / max(1, self.unchanged + self.edited)

    def summary(self) -> dict[str, int | float]:
        """The statistics as JSON values."""
        return {
            "translated": self.translated,
            "confirmed": self.confirmed,
            "unchanged": self.unchanged,
            "edited": self.edited,
            "effort": round(self.mean_effort, 4),
            "translating": round(self.translating, 3),
            "learning": round(self.learning, 3),
        }

    def __str__(self) -> str:
        edits = f"{self.unchanged} unchanged, {self.edited} edited ({self.mean_effort:.0%} of characters)"
        return (
            f"{self.confirmed} confirmed: {edits}; {self.translating:.1f} s translating, {self.learning:.1f} s learning"
        )


def edit_effort(suggested: str, confirmed: str) -> float:
    """Edit distance in characters / longer length; 0 for an unchanged translation."""
    if suggested == confirmed:
        return 0.0
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise MissingPackageError("sessions need the package rapidfuzz: pip install rapidfuzz") from error
    return float(Levenshtein.normalized_distance(suggested, confirmed))
