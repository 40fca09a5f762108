"""The scripts of languages and of texts.

A script is named by the first word of its letters' Unicode names: LATIN, CYRILLIC, CJK.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache

from nearmt.languages import NLLB_CODE, base_language

# ISO 15924 codes and their scripts.
_SCRIPT_ROWS = """
Latn LATIN|Cyrl CYRILLIC|Grek GREEK|Arab ARABIC|Hebr HEBREW|Armn ARMENIAN|Geor GEORGIAN|Ethi ETHIOPIC|Thaa THAANA
Deva DEVANAGARI|Beng BENGALI|Gujr GUJARATI|Guru GURMUKHI|Orya ORIYA|Taml TAMIL|Telu TELUGU|Knda KANNADA
Mlym MALAYALAM|Sinh SINHALA|Thai THAI|Laoo LAO|Khmr KHMER|Mymr MYANMAR|Tibt TIBETAN|Mong MONGOLIAN|Cans CANADIAN
Hans CJK BOPOMOFO|Hant CJK BOPOMOFO|Hani CJK|Jpan CJK HIRAGANA KATAKANA|Kore HANGUL CJK|Hang HANGUL
"""
# Languages with further scripts than the one of their usual code.
_FURTHER_ROWS = """
az Cyrl|bs Cyrl|kk Latn|mn Mong|sr Latn|uz Cyrl
"""
# Shorter texts are often names, units and abbreviations, which keep their script.
_FEWEST_LETTERS = 4


def _rows(table: str) -> list[list[str]]:
    return [row.split() for row in re.split(r"[|\n]", table) if row.strip()]


_BY_CODE = {code: frozenset(scripts) for code, *scripts in _rows(_SCRIPT_ROWS)}
_KNOWN = frozenset[str]().union(*_BY_CODE.values())
_BY_LANGUAGE = {language: _BY_CODE[code.split("_")[1]] for language, code in NLLB_CODE.items()}
for _language, _code in _rows(_FURTHER_ROWS):
    _BY_LANGUAGE[_language] |= _BY_CODE[_code]


@cache
def scripts_of_language(code: str | None) -> frozenset[str]:
    """Return the scripts of a language; empty if unknown. `sr-Latn` and `sr@latin` name theirs."""
    code = code or ""
    for detail in re.split(r"[-_@.]", code.strip())[1:]:
        if detail.upper() in _KNOWN:
            return frozenset([detail.upper()])
        if len(detail) == 4 and detail.isalpha():
            return _BY_CODE.get(detail.title(), frozenset())
    return _BY_LANGUAGE.get(base_language(code), frozenset())


@cache
def script_of_letter(character: str) -> str:
    """Return the script of a letter; "" for other characters and letters of no particular script."""
    name = unicodedata.name(character, "") if character.isalpha() else ""
    word = re.split(r"[ -]", name.removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH "))[0]
    return word if word in _KNOWN else ""


def letters_by_script(text: str) -> Counter[str]:
    """Count the letters of a text by script."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if script := script_of_letter(character):
            counts[script] += count
    return counts


def is_in_wrong_script(text: str, language: str | None) -> bool:
    """Whether a text has at least four letters, and more than half of them in scripts of other languages."""
    scripts = scripts_of_language(language)
    # Most texts have no foreign letters, so counting is skipped.
    if not scripts or {*scripts, ""}.issuperset(map(script_of_letter, set(text))):
        return False
    counts = letters_by_script(text)
    letters = counts.total()
    foreign = sum(count for script, count in counts.items() if script not in scripts)
    return letters >= _FEWEST_LETTERS and 2 * foreign > letters
