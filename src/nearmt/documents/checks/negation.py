"""Negation that only one side has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity

#: Words that negate a clause, for each language: regular expressions in which an asterisk stands for any letters.
_NEGATIONS = {
    "de": "nicht nichts nie niemals niemand* nirgend* kein* weder",
    "en": "not never none nothing nobody nowhere neither nor cannot no *n['’]t",
    "es": "no nunca nadie nada ningun[oa]? ningún jamás tampoco ni",
    "fr": "ne n['’]* pas jamais rien personne aucun* ni nul(le)? non",
    "it": "non nessun* niente mai nulla né",
    "nl": "niet niets nooit niemand nergens geen noch",
    "pt": "não nunca ninguém nada nenhum* jamais tampouco nem",
    "sv": "inte aldrig ingen inget inga ej icke",
    "da": "ikke aldrig ingen intet ej",
    "no": "ikke aldri ingen intet ei",
    "pl": "nie nigdy nikt nic żad(en|n*) nigdzie",
}
_LATIN_PREFIXES = (
    "im(poss|pos[ií]b|mob|pruden|perfect|parfait|puiss|pot)* in(val[ií]d|corr|compl|suf|activ|attiv|défin|defin|depend"
    "|dépend|[uú]til|vis|capa|just|adegu|adecu|adéqu|compat|access|acces|consist|determ|déterm|évit|evit|habil|esper)*"
    " ir(reg|rég|rel|resp)* il(leg|lég|leg|lim|lic)* (evit|évit|imped|empêch|falt|manc|manqu|prohib|interdi|vieta)*"
)
#: Words that may stand for a negation of the other language, as well.
_RELATED = {
    "de": "un(?!d$|ter|s|i|ge?n$)*[a-zäöüß]{3} ohne kaum *(los|frei|leer)(e[mnrs]?)? fehl* miss?* außer(halb)? (an)?statt"
    " sonst selten nein nimmer überflüssig* verzweif* trotz* de(plat|zent)* ander(s|nfalls|enfalls) (ver)?(hinder|meid|biet|bot|weiger|hüt|miss|gess|säum|gebens)* ableh*"
    " abgelehn* bevor mangel* aus(schl|geschl|bleib|geblieb)* in(aktiv|valid|kompat|korrekt|stabil|dis|toler)* ir(re|ra)*"
    " de(aktiv|install)* (ab|aus)(schalt|geschaltet)* höchstens scheiter* gescheitert lediglich erst verzicht* entfäll*"
    " wenig* unter(lass|bleib|sag|bind)* entbehr* ent(halt|fern)* leugn* weg* frei* nur gegen zu bloß",
    "en": "un(?!til$|der|it|iv|io|iq|ifo)*[a-z]{3} im(poss|poli|perf|mob|mor|pract|proper|balan)* in(corr|val|activ|compl"
    "|suf|depend|defin|abil|cap|accur|approp|effect|adeq|consist|vis|evit|compat|access|elig|signif|just|tang|toler|hib"
    "|nocen|different|human|exp|frequen|stab|toxic)* ir(re|ra)* il(leg|lic|log)* non* dis* mis* without hardly barely"
    " scarcely rarely seldom fail* lack* except* unless prevent* avoid* refus* den(y|ied|ies|ial) instead otherwise"
    " rather few little only but absen* *less free(ly)? stop* ban(ned)? forb(id|ad)* prohib* reject* exclu* far against"
    " too any(thing|one|body|more|where)? ever contrary declin* abstain* anti* neglect* nay beyond wrong reluctan* empty"
    " void ignor* overlook* omit* skip* refrain* doubt* cease* restrict* limit* zero out(side)? remov* uninstall* lost"
    " before until averse lest despite superfluous struggl* deactiv* disab*",
    "es": f"{_LATIN_PREFIXES} sin excepto salvo apenas sino menos des[a-z]* deneg* rechaz*",
    "fr": f"{_LATIN_PREFIXES} sans sauf dés[a-z]* mé(conn|cont)* moins hors refus* échou* échec*",
    "it": f"{_LATIN_PREFIXES} senza tranne eccetto meno dis[a-z]* s(conosc|fortun)* rifiut* fallit*",
    "nl": "on(?!s$|der|ze)*[a-z]{3} zonder niet* nauwelijks behalve voorkom* vermijd* ontbre* tenzij *loos",
    "pt": f"{_LATIN_PREFIXES} sem exceto salvo apenas menos des[a-z]* recus* falh*",
    "sv": "o[a-zåäö]{4}* utan knappast *lös(a|t)?",
    "da": "u[a-zæøå]{4}* uden næppe *løs(e|t)?",
    "no": "u[a-zæøå]{4}* uten neppe *løs(e|t)?",
    "pl": "bez nie* brak*",
}
#: What looks like a negation and is none: *not only*, *No. 5*.
_NO_NEGATIONS = {
    "de": re.compile(r"\bnicht (?:nur|allein|zuletzt|zu vergessen|umsonst)\b|\bob .{1,80} oder nicht\b", re.IGNORECASE),
    "en": re.compile(
        r"\bnot (?:only|just|least|to mention|merely)\b|\bwhether or not\b|\bor not\b|\bwhy not\b|\bno wonder\b|\bno doubt\b"
        r"|\bno(?=\.?\s?\d)|\bNos?\.",
        re.IGNORECASE,
    ),
    "es": re.compile(r"\bno (?:sólo|solo|solamente)\b", re.IGNORECASE),
    "fr": re.compile(r"\bnon seulement\b|\bpas seulement\b|\bn[o°](?=\.?\s?\d)", re.IGNORECASE),
    "it": re.compile(r"\bnon solo\b|\bnon soltanto\b", re.IGNORECASE),
    "nl": re.compile(r"\bniet alleen\b", re.IGNORECASE),
    "pt": re.compile(r"\bnão só\b|\bnão apenas\b", re.IGNORECASE),
}
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]*)?")


@dataclass(frozen=True)
class _Words:
    negation: re.Pattern[str]
    related: re.Pattern[str]


class NegationCheck:
    """A negated source whose translation has no negation nor a word that may stand for one; and the reverse."""

    name = "negation"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        source, target = _words(unit.source_lang), _words(unit.target_lang)
        if source is None or target is None:
            return
        texts = _without_others(unit.source_prose, unit.source_lang), _without_others(unit.target_prose, unit.target_lang)
        said, answered = _found(source.negation, texts[0]), _found(target.negation, texts[1])
        if said and not answered and not _found(target.related, unit.target_prose):
            yield Finding(self.name, Severity.WARNING, "the source is negated, the translation is not", said)
        elif answered and not said and not _found(source.related, unit.source_prose):
            yield Finding(self.name, Severity.WARNING, "the translation is negated, the source is not", answered)


@cache
def _words(language: str) -> _Words | None:
    if language not in _NEGATIONS:
        return None
    return _Words(_pattern(_NEGATIONS[language]), _pattern(_RELATED[language]))


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile("|".join(words.replace("*", r"[\w'’]*").split()), re.IGNORECASE)


def _without_others(text: str, language: str) -> str:
    """Leave out phrases that negate nothing."""
    return _NO_NEGATIONS[language].sub(" ", text) if language in _NO_NEGATIONS else text


def _found(pattern: re.Pattern[str], text: str) -> str:
    """The first word that fits, or nothing."""
    return next((word for word in _TOKEN.findall(text) if pattern.fullmatch(word)), "")
