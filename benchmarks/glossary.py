"""Measure how many terms of a glossary a translation uses, with and without the glossary.

    python benchmarks/glossary.py --out benchmarks/results/bench-glossary.json

The glossary and the sentences with its terms are those of the experiment contrast (benchmarks/contrast). Its other
sentences must not change, unless they happen to have a term.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nearmt.corpus.glossary import Term
from nearmt.corpus.phrases import FixedTerms
from nearmt.datastore.disk.files import write_json
from nearmt.models import ModelConfig, load_model
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.research.experiments.contrast_items import default_folder, read_items
from nearmt.translator import Translator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=Path, default=default_folder(), help="folder of the items")
    parser.add_argument("--limit", type=int, help="sentences of each kind")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--model", default=ModelConfig.model)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    items = read_items(given.items)
    terms = [Term(*group.term) for group in items.groups if group.term is not None]
    fixed = FixedTerms(terms)
    asks, others = items.asks(terms=True)[: given.limit], items.asks(terms=False)[: given.limit]
    without = [ask.source for ask in others if not list(fixed.find(ask.source))]
    config = ModelConfig(given.model, precision=given.precision, device=given.device)
    translator = Translator(load_model(config))
    rows: list[dict[str, Any]] = []
    plain = [found.text for found in translator.translate(without)]
    for name, used in (("without the glossary", None), ("with the glossary", fixed)):
        found = [each.text for each in translator.translate([ask.source for ask in asks], terms=used)]
        same = [each.text for each in translator.translate(without, terms=used)]
        rows.append(
            {
                "system": name,
                "terms": len(terms),
                "sentences": len(asks),
                "right": sum(ask.is_right(text) for ask, text in zip(asks, found, strict=True)),
                "without_terms": len(without),
                "changed": sum(one != other for one, other in zip(plain, same, strict=True)),
                "signature": translator.signature(),
            }
        )
    report = make_report("glossary", config, f"{len(terms):,} terms of benchmarks/contrast", rows)
    if given.out:
        write_json(given.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
