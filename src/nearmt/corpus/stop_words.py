"""Which of two languages texts are in, by their frequent words, letters and scripts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from nearmt.corpus.scripts import script_of_letter, scripts_of_language
from nearmt.languages import base_language

# Words that are frequent in texts of any kind, and in those of programs.
_WORD_ROWS = """
cs a aby ale ani bude bylo byl jako je jeho jejich již jsou k která které který lze na není nebo od po pro proti při
se si tento této tuto v však ve z za že | da af at den der det du en er et for fra har hvis ikke kan kun med må når og
om på skal som til vil være din dit dine denne dette eller | de aber alle als am an auf aus bei beim bis bitte da das
dass dein dem den der des die diese dieser dieses durch ein eine einem einen einer eines es für hat in ist ihr ihre im
ins kann kein keine können mehr mit muss nach nicht noch nur oder ohne sich sie sind um und unter vom von vor war
werden wenn wie wird wurde wurden zu zum zur über | en a about all an and any are as at be been but by can cannot
could do does for from has have how if in into is it its must no not of on one only or please should some than that
the their there these they this those to was were when which who will with without would you your | es al como con
cuando de del desde el ella en entre es esta este esto estos está están ha hay la las lo los más no o para pero por
puede que se si sin sobre su sus también todos tu un una uno y ya | fi ei ehdi ja jos joka jotka kun kuin käyttäjä
mutta myös niin nyt olla on ovat oli se sekä sen tai tämä tämän tässä voi vain että ole | fr au aux avec ce ces cette
dans de des du elle en est et être il ils je la le les leur lors mais ne nous ou par pas peut plus pour que qui sans
ses si son sont sur tous un une vers votre vos vous été à | hu a az be csak de egy ez ezt és fel hogy ha ki kell le
meg már mint nem nincs van vagy volt lehet | it al alla anche che come con da dal dalla dei del della delle di dopo e
essere gli ha i il in la le lo ma nel nella non o per però più prima puoi quando quello questa questo se si sono su
tra tutti un una è | nl aan al alleen als bij dat de deze die dit door een en er geen haar heeft het hun in is je kan
maar met moet na naar niet nog of om onder ook op over te tot u uit uw van voor was wel wordt worden zijn | no av at
den der det du en er et for fra har hvis ikke kan kun med må når og om på skal som til vil være din ditt dine denne
dette eller | pl aby ale być dla do i jak jest jeśli już lub ma na nie o od oraz po przez przy są się tak ten tej ta
to tylko w we z za że | pt ao as com como da das de depois do dos e ela ele em entre esta este está foi mais mas na
nas no nos não o os ou para pela pelo pode por qual quando que se sem ser seu sua são também um uma você à é | ro a al
ale acest această ai au care ce cu când dacă de din este fi fără fost în la mai nu o pe pentru prin sau se sunt să un
unei unui și | sv alla att av den det din ditt dina du en eller ett från för har inte kan med måste när och om på som
ska till under utan var vara vid vill är denna detta | tr ama bir bu da daha de değil gibi her için ile ise kadar
olarak olan olduğu sonra tüm var ve veya ya yok
"""
# Letters beyond a to z.
_LETTER_ROWS = """
cs áčďéěíňóřšťúůýž|da æøå|de äöüß|es áéíñóúü|fi äö|fr àâçéèêëîïôùûüœæ|hu áéíóöőúüű|it àèéìòù|nl ëï|no æøå|pl ąćęłńóśźż
pt àáâãçéêíóôõú|ro ăâîșşțţ|sv äåö|tr çğıöşü
"""
_WORDS = {code: frozenset(words) for code, *words in map(str.split, _WORD_ROWS.split("|"))}
_LETTERS = {code: frozenset(letters) for code, letters in map(str.split, re.split(r"[|\n]", _LETTER_ROWS.strip()))}
_WORD = re.compile(r"[^\W\d_]+")
# Longer texts tell no more.
_READ = 2000


class Hits(NamedTuple):
    """Words that speak for each of two languages."""

    first: int
    second: int


def hits(texts: Iterable[str], first: str, second: str) -> Hits:
    """Count the words of texts that only one of two languages has."""
    first, second = base_language(first), base_language(second)
    counts = Counter(_mark(word, first, second) for text in texts for word in _WORD.findall(text[:_READ].lower()))
    return Hits(counts[1], counts[-1])


def is_stop_word(word: str, language: str) -> bool:
    """Whether a word is a frequent one, mostly without a meaning of its own; False for languages without a list."""
    return word.lower() in _WORDS.get(base_language(language), ())


@cache
def _signs(code: str, other: str) -> tuple[frozenset[str], frozenset[str]]:
    """Words and letters that a language has and the other one lacks."""
    if code not in _WORDS or other not in _WORDS:
        # Letters of a language whose alphabet is unknown would count for the other one.
        return frozenset(), frozenset()
    letters = _LETTERS.get(code, frozenset()) - _LETTERS.get(other, frozenset())
    return _WORDS[code] - _WORDS[other], letters


@lru_cache(maxsize=1 << 14)
def _mark(word: str, first: str, second: str) -> int:
    """1 for a word of the first language, -1 for one of the second, 0 for one that may be of both."""
    found = 0
    for sign, code, other in ((1, first, second), (-1, second, first)):
        words, letters = _signs(code, other)
        if word in words or not letters.isdisjoint(word):
            found += sign
    if found:
        return found
    scripts, others = scripts_of_language(first), scripts_of_language(second)
    if scripts and others and scripts.isdisjoint(others):
        script = script_of_letter(word[0])
        return (script in scripts) - (script in others)
    return 0


def likely_languages(text: str, languages: Iterable[str]) -> list[tuple[str, float]]:
    """Some languages, the likeliest of a text first, with confidences that add up to 1 (0 for a text without letters).

    A word counts for the languages that have it among their frequent words; another one for those that have all its
    letters, or are written in its script, while others are not.
    """
    codes = list(dict.fromkeys(map(base_language, languages)))
    words = [word.lower() for word in _WORD.findall(text[:_READ])]
    if not words or not codes:
        return [(code, 0.0) for code in codes]
    weights = {code: sum(_weight_of(word, code, codes) for word in words) for code in codes}
    # One more word for all, since few words tell little.
    total = sum(weights.values()) + 1
    likely = [(code, round((weight + 1 / len(codes)) / total, 4)) for code, weight in weights.items()]
    return sorted(likely, key=lambda item: -item[1])


def _weight_of(word: str, code: str, codes: Sequence[str]) -> float:
    """How much a word speaks for a language: most if no other one has it."""
    fitting = [other for other in codes if _may_have(word, other)]
    if code not in fitting:
        return 0.0
    frequent = [other for other in fitting if word in _WORDS.get(other, ())]
    if frequent:
        return 1 / len(frequent) if code in frequent else 0.0
    # Rarer words say something by their letters only.
    letters = {letter for letter in word if not letter.isascii()}
    special = [other for other in fitting if letters and letters <= _LETTERS.get(other, frozenset())]
    counting = special or (fitting if len(fitting) < len(codes) else [])
    return 1 / len(counting) if code in counting else 0.0


@lru_cache(maxsize=1 << 14)
def _may_have(word: str, code: str) -> bool:
    """Whether a language is written in the script of a word, as far as that is known."""
    script, scripts = script_of_letter(word[0]), scripts_of_language(code)
    return not script or not scripts or script in scripts
