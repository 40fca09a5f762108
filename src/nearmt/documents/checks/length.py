"""The length of the translation relative to what is usual for the languages."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity

# Characters in which languages say the same, relative to English.
_ROWS = """
af 1.07|ar .85|bg 1.05|ca 1.08|cs .98|da 1.02|de 1.13|el 1.13|es 1.10|et 1.0|fi 1.03|fr 1.14|he .80|hi 1.0|hr 1.0
hu 1.08|id 1.08|it 1.10|ja .45|ko .52|lt 1.02|lv 1.03|nl 1.10|no 1.0|nb 1.0|pl 1.05|pt 1.06|ro 1.10|ru 1.04|sk 1.0
sl 1.0|sr 1.0|sv 1.0|tr 1.02|uk 1.02|vi 1.05|zh .32
"""
_VERBOSITY = {code: float(value) for code, value in (row.split() for row in _ROWS.replace("\n", "|").split("|") if row)}
#: Variance of the target's length for each character of the source (Gale and Church 1993: 6.8).
_VARIANCE = 6.8
#: Deviations from the usual length, in standard deviations.
_UNUSUAL, _EXTREME = 5.0, 9.0
#: The factor between lengths that is unusual for texts of so many characters.
_TIMES, _CERTAIN = 3, 50
#: Shorter texts are names, abbreviations and words of one language for three of the other.
_SHORTEST = 15


def usual_length(unit: CheckedUnit) -> float:
    """The length that a translation of this source usually has, in characters."""
    ratio = _VERBOSITY.get(unit.target_lang, 1.0) / _VERBOSITY.get(unit.source_lang, 1.0)
    return len(unit.source_text.strip()) * ratio


def deviation(unit: CheckedUnit) -> float:
    """How far a translation is from its usual length, in standard deviations.

    The length of the target is about c times that of the source, with a variance that is proportional to the source's
    length (Gale and Church): delta = (target - c source) / sqrt(variance source).
    """
    source, target = len(unit.source_text.strip()), len(unit.target_text.strip())
    return (target - usual_length(unit)) / sqrt(_VARIANCE * max(1, source + target) / 2)


class LengthCheck:
    """Far longer or shorter than usual."""

    name = "length"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        source, target = len(unit.source_text.strip()), len(unit.target_text.strip())
        if max(source, target) < _SHORTEST or not source:
            return
        usual, deviates = usual_length(unit), deviation(unit)
        # A text can be much longer by its deviation, but not much shorter: it has no fewer than no characters.
        is_far = max(target, usual) > _TIMES * min(target, usual) and max(target, usual) >= _CERTAIN
        if abs(deviates) < _UNUSUAL and not is_far:
            return
        severity = Severity.ERROR if abs(deviates) >= _EXTREME else Severity.WARNING
        message = "far longer than usual" if deviates > 0 else "far shorter than usual"
        yield Finding(self.name, severity, message, f"{source} and {target} characters")
