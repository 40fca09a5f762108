"""Languages: the codes and names that people, files and models use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

Item = TypeVar("Item")

# ISO 639-1 code, the code that NLLB uses, and the English name that T5 was prompted with.
_TABLE = """
af afr_Latn Afrikaans|ar arb_Arab Arabic|az azj_Latn Azerbaijani|be bel_Cyrl Belarusian|bg bul_Cyrl Bulgarian
bn ben_Beng Bengali|bs bos_Latn Bosnian|ca cat_Latn Catalan|cs ces_Latn Czech|cy cym_Latn Welsh|da dan_Latn Danish
de deu_Latn German|el ell_Grek Greek|en eng_Latn English|eo epo_Latn Esperanto|es spa_Latn Spanish
et est_Latn Estonian|eu eus_Latn Basque|fa pes_Arab Persian|fi fin_Latn Finnish|fr fra_Latn French|ga gle_Latn Irish
gl glg_Latn Galician|gu guj_Gujr Gujarati|he heb_Hebr Hebrew|hi hin_Deva Hindi|hr hrv_Latn Croatian
hu hun_Latn Hungarian|hy hye_Armn Armenian|id ind_Latn Indonesian|is isl_Latn Icelandic|it ita_Latn Italian
ja jpn_Jpan Japanese|ka kat_Geor Georgian|kk kaz_Cyrl Kazakh|km khm_Khmr Khmer|ko kor_Hang Korean
lb ltz_Latn Luxembourgish|lt lit_Latn Lithuanian|lv lvs_Latn Latvian|mk mkd_Cyrl Macedonian|ml mal_Mlym Malayalam
mn khk_Cyrl Mongolian|mr mar_Deva Marathi|ms zsm_Latn Malay|mt mlt_Latn Maltese|my mya_Mymr Burmese
ne npi_Deva Nepali|nl nld_Latn Dutch|no nob_Latn Norwegian|pl pol_Latn Polish|ps pbt_Arab Pashto
pt por_Latn Portuguese|ro ron_Latn Romanian|ru rus_Cyrl Russian|si sin_Sinh Sinhala|sk slk_Latn Slovak
sl slv_Latn Slovenian|sq als_Latn Albanian|sr srp_Cyrl Serbian|sv swe_Latn Swedish|sw swh_Latn Swahili
ta tam_Taml Tamil|te tel_Telu Telugu|th tha_Thai Thai|tr tur_Latn Turkish|uk ukr_Cyrl Ukrainian|ur urd_Arab Urdu
uz uzn_Latn Uzbek|vi vie_Latn Vietnamese|zh zho_Hans Chinese|zu zul_Latn Zulu
"""
_ROWS = [row.split() for row in re.split(r"[|\n]", _TABLE) if row.strip()]
NLLB_CODE = {row[0]: row[1] for row in _ROWS}
ENGLISH_NAME = {row[0]: row[2] for row in _ROWS}
#: What some languages call themselves.
_OWN_NAMES = (
    "cs Čeština|da Dansk|de Deutsch|el Ελληνικά|es Español|fi Suomi|fr Français|hu Magyar|it Italiano|ja 日本語|"
    "ko 한국어|nl Nederlands|no Norsk|pl Polski|pt Português|ro Română|ru Русский|sv Svenska|tr Türkçe|"
    "uk Українська|zh 中文"
)
#: Codes by names in lower case: English ones, and languages' own.
CODE_OF_NAME = {
    **{name.lower(): code for code, name in ENGLISH_NAME.items()},
    **{name.lower(): code for code, name in (row.split() for row in _OWN_NAMES.split("|"))},
}
_TWO_LETTERS = {code[:3]: short for short, code in NLLB_CODE.items()}


@lru_cache(maxsize=1024)
def base_language(code: str) -> str:
    """`de` for `de`, `de-AT`, `de_DE`, `DE`, `de@informal` and `deu_Latn`."""
    base = re.split(r"[-_@]", code.strip())[0].lower()
    return _TWO_LETTERS.get(base, base)


def same_language(one: str | None, other: str | None) -> bool:
    """Whether two codes name one language, whatever their regions; a missing code fits all."""
    return not one or not other or base_language(one) == base_language(other)


def best_fit(items: Iterable[tuple[str, Item]], wanted: str) -> Item | None:
    """The first item with just this code, else the first with its language."""
    items = list(items)
    code = wanted.replace("_", "-").lower()
    for found, item in items:
        if found.replace("_", "-").lower() == code:
            return item
    return next((item for found, item in items if found and base_language(found) == base_language(wanted)), None)
