"""Language names: what users type, and what each model family calls it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nearmt.errors import ModelError, did_you_mean
from nearmt.languages import base_language

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

#: The shapes of language tags in the vocabularies of multilingual models, and the language in them.
_TAG_SHAPES = [
    re.compile(r"^([a-z]{2,3}_[A-Z]{2})$"),  # mBART: de_DE
    re.compile(r"^([a-z]{3}_[A-Z][a-z]{3})$"),  # NLLB: deu_Latn
    re.compile(r"^__([a-z]{2,3})__$"),  # M2M100: __de__
    re.compile(r"^>>([A-Za-z_]+)<<$"),  # Marian: >>deu<<
]

UNDETERMINED = "und"


def language_tags(tokens: Iterable[str]) -> dict[str, str]:
    """Vocabulary token by language code, for every token that looks like a language tag."""
    tags = {}
    for token in tokens:
        for shape in _TAG_SHAPES:
            if match := shape.match(token):
                tags[match.group(1)] = token
    return tags


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
    """The name by which T5 is asked for a language."""
    base = base_language(language)
    if base not in ENGLISH_NAME:
        raise ModelError(f"{model} does not know the language '{language}'; give a two-letter code such as de")
    return ENGLISH_NAME[base]
