"""How many protected spans of a source are in its translation, as often as in the source, by kind.

    python benchmarks/spans.py catalogues/ --source-lang de --target-lang en --out OUT/spans.json
    python benchmarks/spans.py catalogues/ --source-lang de --target-lang en --ways --limit 300 --out OUT/span-ways.json
    python benchmarks/spans.py memory.tsv --source-lang de --target-lang en --cost --limit 320 --out OUT/span-cost.json

Catalogues (PO, MO, XLIFF, or any other memory) give the units: distinct sources with spans and words. They are filled
in as `nearmt translate` does, with the model alone or with a datastore. Sound units keep all spans, their tags nest if
the source's do, and directives without a name or a number keep their order, which gives them their values.

`--ways` replaces the spans of each source by codes before the model alone translates it, in several ways: how many
codes come back exactly once, in how many units all of them, and BLEU against references with the same codes, which
count as one word each, whatever they look like; `around` leaves them out. Codes that are words get blanks around them.

`--cost` translates units without spans, in turns as usual and without looking for spans: the ratio of CPU seconds.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from nearmt.config.filling import FillConfig
from nearmt.contracts import Pair
from nearmt.corpus import Unit, read_pairs
from nearmt.corpus.marks import MarkedText, Terms, marked
from nearmt.corpus.spans import Span, SpanKind, find_spans
from nearmt.datastore.disk.files import write_json
from nearmt.documents import FilledUnit, Filler
from nearmt.documents.placeholders import placeholders_like
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.research.bench.quality import bleu
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.translator import Translator

#: Stands for a span in hypotheses and references of all ways.
_COMMON = " SPAN{} "
#: Names that are one subword of the embedded model, and the same in German and in English.
_NAMES = "Jonckheer Kartha Henrique Dmitry Corbyn Salomon Ryan Meteor Darmstadt Jordan".split()
#: Writes the code of the span with this number, from 1, and this text.
Code = Callable[[int, str], str]
WAYS: dict[str, Code] = {
    "span itself": lambda number, text: text,
    "{1}": lambda number, text: f"{{{number}}}",
    "<x1>": lambda number, text: f"<x{number}>",
    "[X1X]": lambda number, text: f"[X{number}X]",
    "[1]": lambda number, text: f"[{number}]",
    "<1>": lambda number, text: f"<{number}>",
    "¤1": lambda number, text: f"¤{number}",
    "+++": lambda number, text: "+++",
    "name of one subword": lambda number, text: _NAMES[(number - 1) % len(_NAMES)],
    "Xylo1": lambda number, text: f"Xylo{number}",
    "X1": lambda number, text: f"X{number}",
    "7401": lambda number, text: str(7400 + 13 * number),
}


def units_of(given: argparse.Namespace) -> list[Pair]:
    """The pairs whose source has spans and letters outside of them, each source once; with a limit, evenly spread.

    With `--cost` those whose source has no spans.
    """
    found: dict[str, Pair] = {}
    languages = {"source_lang": given.source_lang, "target_lang": given.target_lang}
    for pair in read_pairs(*given.files, **languages, strict=False):
        if given.cost:
            if not marked(pair.source).spans:
                found.setdefault(pair.source, pair)
        elif spans := find_spans(pair.source):
            outside = "".join(text for text, span in pieces(pair.source, spans) if span is None)
            if any(character.isalpha() for character in outside):
                found.setdefault(pair.source, pair)
    pairs = list(found.values())
    step = max(1.0, len(pairs) / given.limit) if given.limit else 1.0
    return [pairs[int(number * step)] for number in range(int(len(pairs) / step))]


def pieces(text: str, spans: list[Span]) -> Iterator[tuple[str, Span | None]]:
    offset = 0
    for span in spans:
        yield text[offset : span.start], None
        yield text[span.start : span.end], span
        offset = span.end
    yield text[offset:], None


def cells_by_kind(pairs: list[Pair], filled: list[FilledUnit]) -> list[dict[str, Any]]:
    """Count the spans of each kind: all, those in the translation as often, those of units with a put-back warning."""
    spans: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    put_back: Counter[str] = Counter()
    sound = 0
    for pair, each in zip(pairs, filled, strict=True):
        wanted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for span in find_spans(pair.source):
            if span.once:
                wanted[span.kind.value][" ".join(pair.source[span.start : span.end].split())] += 1
        got = placeholders_like(pair.source, each.filling.text)
        good = {kind: sum(n for text, n in texts.items() if got[text] == n) for kind, texts in wanted.items()}
        total = {kind: texts.total() for kind, texts in wanted.items()}
        spans.update(total)
        kept.update(good)
        if any("put back by alignment" in warning for warning in each.warnings):
            put_back.update(total)
        (before, nested), (after, nests) = shape(pair.source), shape(each.filling.text)
        sound += good == total and before == after and nests >= nested
    rows = [
        {"kind": kind, "spans": number, "kept": kept[kind], "put_back": put_back[kind]}
        for kind, number in spans.most_common()
    ]
    totals = {"spans": spans.total(), "kept": kept.total(), "put_back": put_back.total()}
    return [*rows, {"kind": "all", **totals, "units": len(pairs), "sound": sound}]


def shape(text: str) -> tuple[list[str], bool]:
    """The directives without names or numbers, in order, and whether tags nest."""
    directives: list[str] = []
    opened: list[str] = []
    nests = True
    for span in find_spans(text):
        found = text[span.start : span.end]
        if span.kind is SpanKind.PRINTF and re.match(r"%[^(<\[%]*[a-zA-Z@]$", found) and "$" not in found:
            directives.append(found)
        elif span.kind is SpanKind.TAG and (name := re.match(r"<(/?)([\w:.-]+)[^>]*?(/?)>", found)) and not name[3]:
            if not name[1]:
                opened.append(name[2])
            elif name[2] in opened:
                nests &= opened.pop() == name[2]
            else:
                nests = False
    return directives, nests


def measure_filling(model: TranslationModel, pairs: list[Pair], given: argparse.Namespace) -> dict[str, Any]:
    translator = Translator(model, given.datastore, given.method)
    units = [Unit((pair.source,)) for pair in pairs]
    filled = Filler(translator, FillConfig(), paragraphs=True).fill(units)
    for pair, each in zip(pairs, filled, strict=True):
        if given.show and each.warnings:
            print(f"{pair.source}\n  {each.filling.text}\n  {each.warnings}")
    return {
        "signature": translator.signature(),
        "bleu": bleu([each.filling.text for each in filled], [pair.target for pair in pairs]),
        "warnings": dict(Counter(warning.partition(":")[0] for each in filled for warning in each.warnings)),
        "cells": cells_by_kind(pairs, filled),
    }


def coded(text: str, code: Code, numbers: dict[tuple[str, int], int] | None = None) -> tuple[str, list[str]]:
    """A text with codes for its spans, and the codes; of a reference, spans have the `numbers` of their source's."""
    written = ""
    codes: list[str] = []
    seen: Counter[str] = Counter()
    follows_code = False
    for part, span in pieces(text, find_spans(text)):
        number = 0
        if span is not None:
            number = len(codes) + 1 if numbers is None else numbers.get((part, seen[part]), 0)
            seen[part] += 1
        found = code(number, part) if number else part
        if number:
            codes.append(found)
        # A code that is a word would be one word with its neighbours.
        touches = written[-1:].isalnum() and found[:1].isalnum() and found != part
        touches |= follows_code and written[-1:].isalnum() and found[:1].isalnum()
        written += " " * touches + found
        follows_code = (number > 0 and found != part) if found else follows_code
    return written, codes


def numbers_of(text: str) -> dict[tuple[str, int], int]:
    """The number of each span by its text and how often that text came before."""
    seen: Counter[str] = Counter()
    numbers: dict[tuple[str, int], int] = {}
    for part, span in pieces(text, find_spans(text)):
        if span is not None:
            numbers[part, seen[part]] = len(numbers) + 1
            seen[part] += 1
    return numbers


def normalised(text: str, codes: list[str], form: str) -> str:
    """A text with the same word for a code whatever the way."""
    different = sorted(set(codes), key=len, reverse=True)
    names = {code: form.format(codes.index(code) + 1) for code in different}
    return " ".join(re.sub("|".join(map(_pattern, different)), lambda found: names[found[0]], text).split())


def _pattern(code: str) -> str:
    before, after = r"(?<!\w)" * code[0].isalnum(), r"(?!\w)" * code[-1].isalnum()
    return before + re.escape(code) + after


def cell_of_way(way: str, translator: Translator, pairs: list[Pair]) -> dict[str, Any]:
    """Translate with one way of writing spans."""
    code = WAYS[way]
    sources = [coded(pair.source, code) for pair in pairs]
    outputs = [found.text for found in translator.translate([text for text, _ in sources])]
    spans = kept = whole = 0
    sides: dict[str, tuple[list[str], list[str]]] = {_COMMON: ([], []), " ": ([], [])}
    for pair, (_, codes), output in zip(pairs, sources, outputs, strict=True):
        wanted = Counter(codes)
        good = sum(n for text, n in wanted.items() if len(re.findall(_pattern(text), output)) == n)
        spans, kept, whole = spans + len(codes), kept + good, whole + (good == len(codes))
        reference, _ = coded(pair.target, code, numbers_of(pair.source))
        for form, (hypotheses, references) in sides.items():
            hypotheses.append(normalised(output, codes, form))
            references.append(normalised(reference, codes, form))
    scores = {name: bleu(*sides[form]) for name, form in (("bleu", _COMMON), ("around", " "))}
    return {"way": way, "spans": spans, "kept": kept, "units": len(pairs), "sound": whole, **scores}


class WithoutMarks(Translator):
    """Translates as if no text had spans."""

    def _marked(self, unit: str, printf: bool | None, terms: Terms | None) -> MarkedText:
        return MarkedText(unit)


def measure_cost(model: TranslationModel, pairs: list[Pair], given: argparse.Namespace) -> dict[str, Any]:
    """CPU seconds of translating units without spans as usual and without looking for spans, in turns."""
    texts = [pair.source for pair in pairs]
    usual = Translator(model, given.datastore, given.method)
    seconds: dict[Translator, list[float]] = {usual: [], WithoutMarks(model, given.datastore, given.method): []}
    outputs = []
    for repeat in range(given.repeats + 1):
        turn = list(seconds)[:: 1 if repeat % 2 else -1]
        for translator in turn:
            start = process_time()
            outputs.append([found.text for found in translator.translate(texts)])
            if repeat:  # the first round warms up
                seconds[translator].append(process_time() - start)
    with_marks, without = seconds.values()
    ratios = [a / b for a, b in zip(with_marks, without, strict=True)]
    start = process_time()
    for text in texts:
        marked(text)
    finding = (process_time() - start) / median(with_marks)
    cell = {
        "units": len(texts),
        "seconds": median(with_marks),
        "without_marks": median(without),
        "ratio": median(ratios),
        "ratios": [round(ratio, 4) for ratio in sorted(ratios)],
        "finding": finding,
        "other_texts": sum(text != first for output in outputs for text, first in zip(output, outputs[0], strict=True)),
    }
    return {"signature": usual.signature(), "cells": [cell]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="catalogues or folders of them")
    parser.add_argument("--source-lang", required=True)
    parser.add_argument("--target-lang", required=True)
    parser.add_argument("--method", help="plain, knn or chunk (default: chunk with a datastore, else plain)")
    parser.add_argument("--datastore")
    parser.add_argument("--ways", action="store_true", help="compare ways of writing spans")
    parser.add_argument("--cost", action="store_true", help="measure what looking for spans costs units without any")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of --cost after a first one that warms up")
    parser.add_argument("--limit", type=int, help="most units")
    parser.add_argument("--show", action="store_true", help="print units with warnings")
    parser.add_argument("--model", default=ModelConfig.model)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    config = ModelConfig(given.model, device=given.device)
    model, pairs = load_model(config), units_of(given)
    if given.ways:
        translator = Translator(model, method="plain")
        more: dict[str, Any] = {"signature": translator.signature()}
        more["cells"] = [cell_of_way(way, translator, pairs) for way in WAYS]
    elif given.cost:
        more = measure_cost(model, pairs, given)
    else:
        more = measure_filling(model, pairs, given)
    data = f"{len(pairs):,} units {'without' if given.cost else 'with'} spans"
    name = "span-ways" if given.ways else "span-cost" if given.cost else "spans"
    report = make_report(name, config, data, more.pop("cells"), **more)
    if given.out:
        write_json(given.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
