"""Scripts: which ones a language is written in, and which ones a text is written in.

A script goes by the first word of its letters' Unicode names: LATIN, CYRILLIC, CJK.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache

# ISO 15924 code, and the scripts that it stands for.
_SCRIPT_ROWS = """
Latn LATIN|Cyrl CYRILLIC|Grek GREEK|Arab ARABIC|Hebr HEBREW|Armn ARMENIAN|Geor GEORGIAN|Ethi ETHIOPIC|Thaa THAANA
Deva DEVANAGARI|Beng BENGALI|Gujr GUJARATI|Guru GURMUKHI|Orya ORIYA|Taml TAMIL|Telu TELUGU|Knda KANNADA
Mlym MALAYALAM|Sinh SINHALA|Thai THAI|Laoo LAO|Khmr KHMER|Mymr MYANMAR|Tibt TIBETAN|Mong MONGOLIAN|Cans CANADIAN
Hans CJK BOPOMOFO|Hant CJK BOPOMOFO|Hani CJK|Jpan CJK HIRAGANA KATAKANA|Kore HANGUL CJK|Hang HANGUL
"""
# Languages by script; one that is written in several stands in several rows.
_LANGUAGE_ROWS = """
Latn aa af ak an ay az bi bm br bs ca ch co cr cs cy da de ee en eo es et eu ff fi fj fo fr fy ga gd gl gn gv ha ho hr
Latn ht hu hz ia id ie ig ik io is it iu jv kg ki kj kk kl kr ku kw la lb lg li ln lt lu lv mg mh mi ms mt na nb nd ng
Latn nl nn no nr nv ny oc oj om pl pt qu rm rn ro rw sc se sg sh sk sl sm sn so sq sr ss st su sv sw tk tl tn to tr ts
Latn tt tw ty uz ve vi vo wa wo xh yo za zu
Latn afr als azj bos cat ces cym dan deu eng epo est eus fin fra gle glg hrv hun ind isl ita kaz lav lit ltz lvs mlt
Latn msa nld nob nor pol por ron slk slv spa sqi srp swa swe swh tur uzn vie zsm zul
Cyrl ab av az ba be bg bs ce cu cv kk kv ky mk mn os ru sh sr tg tk tt uk uz azj bel bos bul kaz khk mkd rus srp ukr uzn
Arab ar fa ks ku pa ps sd ug ur ara arb ckb fas pbt pes pus urd
Deva bh hi ks mr ne pi sa sd hin mar npi
Beng as bn ben|Gujr gu guj|Guru pa|Orya or|Taml ta tam|Telu te tel|Knda kn kan|Mlym ml mal|Sinh si sin
Grek el ell|Hebr he iw ji yi heb|Armn hy hye|Geor ka kat|Ethi am ti|Thaa dv|Cans cr iu oj|Mong mn khk
Thai th tha|Laoo lo|Khmr km khm|Mymr my mya|Tibt bo dz|Hans zh zho cmn yue|Jpan ja jpn|Kore ko kor
"""
# Fewer letters than this are names, units and abbreviations, which cross scripts.
_FEWEST_LETTERS = 4


def _rows(table: str) -> list[list[str]]:
    return [row.split() for row in re.split(r"[|\n]", table) if row.strip()]


_BY_CODE = {code: frozenset(scripts) for code, *scripts in _rows(_SCRIPT_ROWS)}
_KNOWN = frozenset[str]().union(*_BY_CODE.values())
_BY_LANGUAGE: dict[str, frozenset[str]] = {}
for _code, *_languages in _rows(_LANGUAGE_ROWS):
    for _language in _languages:
        _BY_LANGUAGE[_language] = _BY_LANGUAGE.get(_language, frozenset()) | _BY_CODE[_code]


@cache
def scripts_of_language(code: str | None) -> frozenset[str]:
    """The scripts of a language, empty when nothing is known; `sr-Latn` and `sr@latin` name theirs."""
    language, *details = re.split(r"[-_@.]", (code or "").strip())
    for detail in details:
        if detail.upper() in _KNOWN:
            return frozenset([detail.upper()])
        if len(detail) == 4 and detail.isalpha():
            return _BY_CODE.get(detail.title(), frozenset())
    return _BY_LANGUAGE.get(language.lower(), frozenset())


@cache
def script_of_letter(character: str) -> str:
    """The script of a letter; nothing for other characters and for letters that belong to no script in particular."""
    name = unicodedata.name(character, "") if character.isalpha() else ""
    word = re.split(r"[ -]", name.removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH "))[0]
    return word if word in _KNOWN else ""


def letters_by_script(text: str) -> Counter[str]:
    """How many letters of each script a text has."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if script := script_of_letter(character):
            counts[script] += count
    return counts


def is_in_wrong_script(text: str, language: str | None) -> bool:
    """Whether more than half of the letters, and of at least four, are foreign to the language."""
    scripts = scripts_of_language(language)
    # Most texts have no foreign letter at all, and need no counting.
    if not scripts or {*scripts, ""}.issuperset(map(script_of_letter, set(text))):
        return False
    counts = letters_by_script(text)
    letters = counts.total()
    foreign = sum(count for script, count in counts.items() if script not in scripts)
    return letters >= _FEWEST_LETTERS and 2 * foreign > letters
