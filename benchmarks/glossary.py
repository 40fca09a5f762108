"""Measure how many terms of a glossary a translation uses, with and without the glossary.

    python benchmarks/glossary.py --out benchmarks/results/bench-glossary.json
    python benchmarks/glossary.py --catalogues CATALOGUES --out OUT/bench-glossary-catalogues.json

The glossary and the sentences with its terms are those of the experiment contrast (benchmarks/contrast), or, with
`--catalogues`, strings of other projects (benchmarks/german_catalogues.py): German nouns that are strings themselves
are terms, and longer strings whose English original has the noun's translation are their sentences; the other strings
are a memory. A term is right in any form; `same form` counts those that are in the form of the original. Sentences
without a term must not change.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from german_catalogues import String, read_strings

from nearmt.contracts import Pair
from nearmt.corpus.glossary import Term
from nearmt.corpus.phrases import FixedTerms, Phrase
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.documents.glossary import Glossary
from nearmt.models import ModelConfig, load_model
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.research.experiments.contrast_items import default_folder, read_items
from nearmt.translator import Translator

_NOUN = re.compile(r"[A-ZÄÖÜ][a-zäöüß]{3,}")
_TRANSLATION = re.compile(r"[A-Za-z][a-z]{2,}(?: [a-z]{3,})?")
_SENTENCES, _WORDS, _MEMORY = 3, 4, 5000


@dataclass(frozen=True)
class Sentence:
    """A text with a term, and whether a translation has that term in any form, and in that of the original."""

    source: str
    is_right: Callable[[str], bool]
    has_form: Callable[[str], bool] | None = None


@dataclass(frozen=True)
class Data:
    name: str
    terms: list[Term]
    sentences: list[Sentence]
    #: Texts without a term.
    others: list[str]
    memory: list[Pair]


def of_contrast(folder: Path, limit: int | None) -> Data:
    items = read_items(folder)
    terms = [Term(*group.term) for group in items.groups if group.term is not None]
    asks, others = items.asks(terms=True)[:limit], [ask.source for ask in items.asks(terms=False)[:limit]]
    sentences = [Sentence(ask.source, ask.is_right) for ask in asks]
    return Data(f"{len(terms)} terms of benchmarks/contrast", terms, sentences, _without(terms, others), [])


def of_catalogues(folder: Path, limit: int) -> Data:
    """Nouns of catalogues as terms, each with a few sentences; all other strings are the memory."""
    strings = [string for string in read_strings(folder) if not string.plural_source]
    nouns = {
        s.source: s.reference for s in strings if _NOUN.fullmatch(s.source) and _TRANSLATION.fullmatch(s.reference)
    }
    terms = {noun: Term(noun, target[:1].lower() + target[1:]) for noun, target in nouns.items()}
    longer = [string for string in strings if len(string.source.split()) >= _WORDS and "\n" not in string.source]
    Random(0).shuffle(longer)
    with_terms = _with_terms(FixedTerms(terms.values(), "de"), longer)
    found = {noun: sentences[:_SENTENCES] for noun, sentences in with_terms.items() if len(sentences) >= _SENTENCES}
    chosen = Random(1).sample(sorted(found), min(limit, len(found)))
    taken = {string.source for noun in chosen for string in found[noun]}
    sentences = [_sentence(terms[noun], string) for noun in chosen for string in found[noun]]
    glossary = [terms[noun] for noun in chosen]
    others = _without(glossary, [string.source for string in longer])[: len(sentences)]
    left = {*taken, *others}
    memory = [Pair(s.source, s.reference) for s in longer if s.source not in left][:_MEMORY]
    return Data(f"{len(glossary)} terms of catalogues", glossary, sentences, others, memory)


def _with_terms(fixed: FixedTerms, strings: Iterable[String]) -> dict[str, list[String]]:
    """Strings by their only term, if their original has its translation once."""
    found: dict[str, list[String]] = defaultdict(list)
    for string in strings:
        places = list(fixed.find(string.source))
        names = fixed.sources(string.source)
        if len(places) == 1 and len(Phrase(places[0][2][0]).pattern.findall(string.reference)) == 1:
            found[names[0]].append(string)
    return found


def _sentence(term: Term, string: String) -> Sentence:
    phrase = Phrase(term.target).pattern
    form = phrase.search(string.reference)
    assert form is not None
    same = re.compile(rf"(?<!\w){re.escape(form[0])}(?!\w)", re.IGNORECASE)
    return Sentence(string.source, lambda text: bool(phrase.search(text)), lambda text: bool(same.search(text)))


def _without(terms: Sequence[Term], texts: Sequence[str]) -> list[str]:
    fixed = FixedTerms(terms, "de")
    return [text for text in texts if not fixed.sources(text)]


def measured(data: Data, translator: Translator, name: str) -> list[dict[str, Any]]:
    """A row without and one with the glossary."""
    rows: list[dict[str, Any]] = []
    store = translator.datastore
    glossary = Glossary(data.terms, None if store is None else store.snapshot(), "de")
    plain = [found.text for found in translator.translate(data.others)]
    for system, used in ((f"without the glossary{name}", None), (f"with the glossary{name}", glossary)):
        found = [each.text for each in translator.translate([each.source for each in data.sentences], terms=used)]
        same = [each.text for each in translator.translate(data.others, terms=used)]
        pairs = list(zip(data.sentences, found, strict=True))
        forms = [sentence.has_form(text) for sentence, text in pairs if sentence.has_form is not None]
        rows.append(
            {
                "system": system,
                "terms": len(data.terms),
                "sentences": len(data.sentences),
                "right": sum(sentence.is_right(text) for sentence, text in pairs),
                **({"same_form": sum(forms)} if forms else {}),
                "without_terms": len(data.others),
                "changed": sum(one != other for one, other in zip(plain, same, strict=True)),
                "signature": translator.signature(),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=Path, default=default_folder(), help="folder of the items")
    parser.add_argument("--catalogues", type=Path, help="folder of german_catalogues.py")
    parser.add_argument("--limit", type=int, help="sentences of each kind; with catalogues, terms (default: 120)")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--model", default=ModelConfig.model)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    is_own = given.catalogues is None
    data = of_contrast(given.items, given.limit) if is_own else of_catalogues(given.catalogues, given.limit or 120)
    config = ModelConfig(given.model, precision=given.precision, device=given.device)
    translator = Translator(load_model(config))
    rows = measured(data, translator, "")
    if data.memory:
        with tempfile.TemporaryDirectory() as folder:
            store = Datastore.build(Path(folder) / "memory", data.memory, translator.model)
            rows += measured(data, translator.with_datastore(store), f", memory of {len(data.memory):,} strings")
    report = make_report("glossary", config, data.name, rows)
    if given.out:
        write_json(given.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
