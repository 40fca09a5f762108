"""Words that negate, for each language."""

from __future__ import annotations

import re

#: Words that negate a clause, for each language: regular expressions in which an asterisk stands for any letters.
NEGATIONS = {
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
RELATED = {
    "de": "un(?!d$|ter|s|i|ge?n$)*[a-zäöüß]{3} ohne kaum *(los|frei|leer)(e[mnrs]?)? fehl* miss?* außer(halb)?"
    " (an)?statt sonst selten nein nimmer überflüssig* verzweif* trotz* de(plat|zent)* ander(s|nfalls|enfalls)"
    " (ver)?(hinder|meid|biet|bot|weiger|hüt|miss|gess|säum|gebens)* ableh* abgelehn* bevor mangel*"
    " aus(schl|geschl|bleib|geblieb)* in(aktiv|valid|kompat|korrekt|stabil|dis|toler)* ir(re|ra)*"
    " de(aktiv|install)* (ab|aus)(schalt|geschaltet)* höchstens scheiter* gescheitert lediglich erst verzicht*"
    " entfäll* wenig* unter(lass|bleib|sag|bind)* entbehr* ent(halt|fern)* leugn* weg* frei* nur gegen bloß",
    "en": "un(?!til$|der|it|iv|io|iq|ifo)*[a-z]{3} im(poss|poli|perf|mob|mor|pract|proper|balan)*"
    " in(appl|corr|val|activ|compl|suf|depend|defin|abil|cap|accur)*"
    " in(approp|effect|adeq|consist|vis|evit|compat|access|elig|signif|just|tang|toler)*"
    " in(nocen|different|human|exp|frequen|stab|toxic)*"
    " ir(re|ra)* il(leg|lic|log)* non* dis(?!c|tr|pl|pu|ea|pa)* mis* without hardly barely scarcely rarely"
    " seldom fail* lack* except* unless prevent* avoid* refus* den(y|ied|ies|ial) instead otherwise rather few"
    " little only absen* *less free(ly)? stop* ban(ned)? forb(id|ad)* prohib* reject* exclu* against contrary"
    " declin* abstain* anti* neglect* nay beyond wrong reluctan* empty void ignor* overlook* omit* skip*"
    " refrain* doubt* cease* restrict* zero remov* uninstall* lost before until averse lest despite"
    " superfluous struggl* deactiv* disab*",
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
NO_NEGATIONS = {
    "de": re.compile(r"\bnicht (?:nur|allein|zuletzt|zu vergessen|umsonst)\b|\bob .{1,80} oder nicht\b", re.IGNORECASE),
    "en": re.compile(
        r"\bnot (?:only|just|least|to mention|merely)\b|\bwhether or not\b|\bor not\b|\bwhy not\b"
        r"|\bno wonder\b|\bno doubt\b|\bno(?=\.?\s?\d)|\bNos?\.",
        re.IGNORECASE,
    ),
    "es": re.compile(r"\bno (?:sólo|solo|solamente)\b", re.IGNORECASE),
    "fr": re.compile(r"\bnon seulement\b|\bpas seulement\b|\bn[o°](?=\.?\s?\d)", re.IGNORECASE),
    "it": re.compile(r"\bnon solo\b|\bnon soltanto\b", re.IGNORECASE),
    "nl": re.compile(r"\bniet alleen\b", re.IGNORECASE),
    "pt": re.compile(r"\bnão só\b|\bnão apenas\b", re.IGNORECASE),
}
