"""Language tags: the tokens of model families for the languages that users name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nearmt.errors import ModelError, did_you_mean
from nearmt.languages import ENGLISH_NAME, NLLB_CODE, base_language

#: Language tags in the vocabularies of multilingual models: de_DE (mBART), deu_Latn (NLLB), __de__ (M2M100), >>deu<<
#: (Marian). One group is the language.
_TAG = re.compile(r"^(?:([a-z]{2,3}_[A-Z]{2})|([a-z]{3}_[A-Z][a-z]{3})|__([a-z]{2,3})__|>>([A-Za-z_]+)<<)$")

UNDETERMINED = "und"


def language_tags(tokens: Iterable[str]) -> dict[str, str]:
    """Vocabulary token by language code, for every token that matches the pattern of a tag."""
    found = ((_TAG.match(token), token) for token in tokens)
    return {match[match.lastindex]: token for match, token in found if match and match.lastindex}


def check_direction(model: str, asked: tuple[str | None, str | None], known: tuple[str | None, str | None]) -> None:
    """Refuse a direction that a model does not have; a language that is not asked for, or not known, fits."""
    for wanted, language in zip(asked, known, strict=True):
        if wanted and language and base_language(wanted) != base_language(language):
            raise ModelError(
                f"{model} translates {known[0]} to {known[1]}, not {asked[0] or known[0]} to {asked[1] or known[1]}"
            )


def find_tag(language: str, tags: dict[str, str], model: str) -> str:
    """The model's tag for a language that users name by any usual code."""
    base = base_language(language)
    nllb = NLLB_CODE.get(base, "")
    wanted = [language, language.replace("-", "_"), base, nllb, nllb[:3]]
    for code in wanted:
        if code in tags:
            return tags[code]
    for code, tag in tags.items():
        if base_language(code) in (base, nllb[:3]):
            return tag
    known = sorted(tags)
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    raise ModelError(f"{model} does not know the language '{language}'{did_you_mean(language, known)} (it has {shown})")


def english_name(language: str, model: str) -> str:
    """The name of a language in T5's prompts."""
    base = base_language(language)
    if base not in ENGLISH_NAME:
        raise ModelError(f"{model} does not know the language '{language}'; give a two-letter code such as de")
    return ENGLISH_NAME[base]
