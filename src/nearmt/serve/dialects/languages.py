"""Languages of requests: which directions there are, and what is answered to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearmt.languages import ENGLISH_NAME, base_language
from nearmt.serve.errors import RequestError
from nearmt.serve.models import Direction


class UnsupportedLanguage(RequestError):
    """No model has this language or this direction."""


@dataclass(frozen=True)
class Refusals:
    """What a dialect says about languages that are not supported."""

    source: str = "source language '{}' is not supported"
    target: str = "target language '{}' is not supported"
    direction: str = "translation from '{}' to '{}' is not supported"


def language_name(code: str) -> str:
    return ENGLISH_NAME.get(base_language(code), code)


def all_languages(directions: Sequence[Direction]) -> list[str]:
    """Languages of either side, each once."""
    return list(dict.fromkeys(language for direction in directions for language in direction))


def targets_by_source(directions: Sequence[Direction]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for source, target in directions:
        found.setdefault(source, []).append(target)
    return found


def is_supported(directions: Sequence[Direction], source: str | None, target: str) -> bool:
    """Whether there is a model of a direction; without a source, one into the target."""
    wanted = None if source is None else base_language(source)
    return any(wanted in (None, known) and base_language(target) == other for known, other in directions)


def check_direction(directions: Sequence[Direction], source: str | None, target: str, refusals: Refusals) -> None:
    """Refuse a direction that no model has, in the words of the dialect."""
    if is_supported(directions, source, target):
        return
    if not is_supported(directions, None, target):
        raise UnsupportedLanguage(refusals.target.format(target))
    if source is None or not any(base_language(source) == known for known, _ in directions):
        raise UnsupportedLanguage(refusals.source.format(source))
    raise UnsupportedLanguage(refusals.direction.format(source, target))


def is_probe(source: str | None, target: str, texts: Sequence[str]) -> bool:
    """Whether this is the request by which Weblate tries a service: its settings cannot be saved if that fails."""
    return (
        list(texts) == ["test"]
        and source is not None
        and (base_language(source), base_language(target)) == ("en", "de")
    )
