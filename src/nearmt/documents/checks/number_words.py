"""Words for numbers, months and powers of ten."""

from __future__ import annotations

import re
from functools import cache, lru_cache

#: Words for 0 to 12; alternatives have a slash between them.
_CARDINALS = {
    "de": "null ein/eins/eine/einen/einem/einer/eines zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "en": "zero one two three four five six seven eight nine ten eleven twelve",
    "es": "cero un/uno/una dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "fr": "zéro un/une deux trois quatre cinq six sept huit neuf dix onze douze",
    "it": "zero un/uno/una due tre quattro cinque sei sette otto nove dieci undici dodici",
    "nl": "nul een/één twee drie vier vijf zes zeven acht negen tien elf twaalf",
    "pt": "zero um/uma dois/duas três quatro cinco seis sete oito nove dez onze doze",
    "sv": "noll en/ett två tre fyra fem sex sju åtta nio tio elva tolv",
    "da": "nul en/et to tre fire fem seks syv otte ni ti elleve tolv",
}
# Beginnings of further words that stand for a number: ordinals, tens, "twice", "both".
_FURTHER = {
    "de": "1:erst,einmal,einfach,einzig,einzeln 2:zweit,beid,doppel,paar,zwei 3:dritt,drei 4:viert,vier 5:fünf"
    " 6:sechs 7:siebt,sieben 8:acht 9:neun 10:zehn 13:dreizehn 14:vierzehn 15:fünfzehn 16:sechzehn 17:siebzehn"
    " 18:achtzehn 19:neunzehn 20:zwanzig 30:dreißig 40:vierzig 50:fünfzig 60:sechzig 70:siebzig 80:achtzig"
    " 90:neunzig 100:hundert,einhundert 1000:tausend,eintausend 0.5:halb,hälfte 0.25:viertel",
    "en": "1:first,once,single,an,a 2:second,twice,both,double,couple,pair,two,dual,either,bi"
    " 3:third,triple,thrice,three 4:fourth,four,quarter 5:fifth,five 6:sixth,six 7:seven 8:eighth,eight"
    " 9:ninth,nine 10:tenth,ten 11:eleven 12:twelfth,dozen 13:thirteen 14:fourteen 15:fifteen 16:sixteen"
    " 17:seventeen 18:eighteen 19:nineteen 20:twent 30:thirt 40:fort 50:fift,half 60:sixt 70:sevent 80:eight"
    " 90:ninet 100:hundred 1000:thousand 0.5:half 0.25:quarter",
    "es": "1:primer 2:segund,ambos,ambas,doble 3:tercer 4:cuart 5:quint 10:décim 15:quince 20:veint 30:treinta"
    " 40:cuarenta 50:cincuenta 60:sesenta 70:setenta 80:ochenta 90:noventa 100:cien 1000:mil 0.5:medi,mitad",
    "fr": "1:premi 2:second,double,deux 3:trois,tiers 4:quatr 5:cinq 10:dix 15:quinze 20:vingt 30:trente"
    " 40:quarante 50:cinquant 60:soixant 100:cent 1000:mil 0.5:demi,moitié",
    "it": "1:prim 2:second,entramb,doppi 3:terz 4:quart 5:quint 10:decim 15:quindici 20:vent 30:trent 40:quarant"
    " 50:cinquant 60:sessant 70:settant 80:ottant 90:novant 100:cent 1000:mill,mila 0.5:mezz,metà",
    "nl": "1:eerst,eenmaal 2:twee,beid,dubbel,paar 3:derd,drie 4:vier 5:vijf 10:tien 15:vijftien 20:twintig"
    " 30:dertig 40:veertig 50:vijftig 60:zestig 70:zeventig 80:tachtig 90:negentig 100:honderd 1000:duizend"
    " 0.5:half,helft",
    "pt": "1:primeir 2:segund,ambos,ambas,dobro,duplo 3:terceir 4:quart 5:quint 10:décim 15:quinze 20:vinte"
    " 30:trinta 40:quarenta 50:cinquenta 60:sessenta 70:setenta 80:oitenta 90:noventa 100:cem,cent 1000:mil"
    " 0.5:mei,metade",
}
_MONTHS = {
    "de": "januar/jänner/jan februar/feb märz/mär april/apr mai juni/jun juli/jul august/aug september/sep/sept"
    " oktober/okt november/nov dezember/dez",
    "en": "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sep/sept"
    " october/oct november/nov december/dec",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
}
#: Beginnings of words for powers of ten. A German billion is a thousand English ones.
_POWERS = {
    "de": "2:hundert 3:tausend,tsd 6:million,mio 9:milliarde,mrd 12:billion",
    "en": "2:hundred 3:thousand 6:million 9:billion,bn 12:trillion",
    "es": "3:mil 6:millon,millón 12:billon,billón",
    "fr": "3:mille 6:million 9:milliard 12:billion",
    "it": "3:mila,mille 6:milion 9:miliard",
    "nl": "3:duizend 6:miljoen,mln 9:miljard,mld 12:biljoen",
    "pt": "3:mil 6:milhã,milhõ 9:bilhã,bilhõ,bilião",
}
_SHORTEST_BEGINNING = 4
_ROMAN = re.compile(r"X{0,3}(?:IX|IV|V?I{0,3})")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}


@cache
def cardinals(language: str) -> dict[str, str]:
    """Value by word, for 0 to 12."""
    return _by_word(_CARDINALS.get(language, ""), first=0)


@cache
def months(language: str) -> dict[str, str]:
    return _by_word(_MONTHS.get(language, ""), first=1)


@cache
def _beginnings(language: str) -> tuple[tuple[str, str], ...]:
    rows = _FURTHER.get(language, "").split()
    found = [
        (beginning, value) for value, _, words in (row.partition(":") for row in rows) for beginning in words.split(",")
    ]
    return tuple(sorted(found, key=lambda item: -len(item[0])))


@cache
def _powers(language: str) -> tuple[tuple[str, int], ...]:
    rows = _POWERS.get(language, "").split()
    return tuple(
        (word, int(power)) for power, _, words in (row.partition(":") for row in rows) for word in words.split(",")
    )


def power_of_ten(word: str, language: str) -> int:
    """The exponent that a word such as *million* stands for; 0 for other words."""
    folded = word.casefold()
    return next((power for beginning, power in _powers(language) if folded.startswith(beginning)), 0)


@lru_cache(maxsize=1 << 14)
def values_of_word(word: str, language: str) -> frozenset[str]:
    """All numbers that a word may stand for, generously: it is looked up for a number of the other language."""
    folded = word.casefold()
    found = {table[folded] for table in (cardinals(language), months(language)) if folded in table}
    found |= {value for beginning, value in _beginnings(language) if _begins(folded, beginning)}
    if word.isupper() and (len(word) > 1 or word in "VX") and _ROMAN.fullmatch(word):
        found.add(str(_roman(word)))
    return frozenset(found)


def _begins(word: str, beginning: str) -> bool:
    """Short beginnings are whole words: *a*, but not *at*."""
    return word == beginning if len(beginning) < _SHORTEST_BEGINNING else word.startswith(beginning)


def _roman(word: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in word]
    following = [*values[1:], 0]
    return sum(-value if value < after else value for value, after in zip(values, following, strict=True))


def _by_word(row: str, first: int) -> dict[str, str]:
    return {word: str(value) for value, words in enumerate(row.split(), first) for word in words.split("/")}
