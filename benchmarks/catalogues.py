"""Measure what memories of short strings do to other strings: quality, loops, unknown words.

    python benchmarks/catalogues.py --data it/train.1.tsv.xz --sizes 50,500 --seeds 3 --lines 1000

From shuffled pairs a test set is taken, and memories of several sizes from those that share no side with it. A loop is
a part of a translation that is repeated at least five times where neither the source nor the model's own translation
repeats one. A word is unknown if it is in none of the target sides, nor in the source.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import sacrebleu

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.models.alignment import WORD
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import PLAIN, markdown
from nearmt.translator import Translator

#: Name, method and settings of the systems that use the memory.
SYSTEMS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("knn", "knn", {}),
    ("chunk", "chunk", {}),
    ("chunk, agreement=0", "chunk", {"agreement": 0}),
)
_LOOP = re.compile(r"(\S{1,12}?|\S+ (?:\S+ ){0,3})\1{4,}")


@dataclass(frozen=True)
class Strings:
    """The lines to translate, and pairs to make memories of."""

    test: list[Pair]
    others: list[Pair]
    #: Words of all target sides.
    known: frozenset[str]


def words_in(text: str) -> list[str]:
    return [word for word in WORD.findall(text.lower()) if word.isalpha()]


def divided(pairs: Sequence[Pair], lines: int, seed: int) -> Strings:
    """Take a test set; what shares a side with it is left out of memories."""
    shuffled = list(pairs)
    Random(seed).shuffle(shuffled)
    test: dict[str, Pair] = {}
    for pair in shuffled:
        if len(test) < lines and pair.source.strip().lower() not in test:
            test[pair.source.strip().lower()] = pair
    targets = {pair.target.strip().lower() for pair in test.values()}
    others = [p for p in shuffled if p.source.strip().lower() not in test and p.target.strip().lower() not in targets]
    return Strings(list(test.values()), others, frozenset(word for pair in pairs for word in words_in(pair.target)))


def loops(text: str, source: str, alone: str) -> bool:
    """Whether a translation repeats a part that neither the source nor the model's own translation repeats."""
    return bool(_LOOP.search(text)) and not _LOOP.search(source) and not _LOOP.search(alone)


def unknown_words(text: str, source: str, known: frozenset[str]) -> list[str]:
    there = set(words_in(source))
    return [word for word in words_in(text) if word not in known and word not in there]


def judged(strings: Strings, texts: list[str], alone: list[str]) -> dict[str, Any]:
    references = [pair.target for pair in strings.test]
    sources = [pair.source for pair in strings.test]
    looping = [text for text, source, own in zip(texts, sources, alone, strict=True) if loops(text, source, own)]
    unknown = [unknown_words(text, source, strings.known) for text, source in zip(texts, sources, strict=True)]
    return {
        "bleu": round(sacrebleu.corpus_bleu(texts, [references]).score, 2),
        "chrf": round(sacrebleu.corpus_chrf(texts, [references]).score, 2),
        "changed": sum(text != own for text, own in zip(texts, alone, strict=True)),
        "loops": len(looping),
        "unknown_words": sum(map(len, unknown)),
        # A few to look at.
        "looping": [text[:80] for text in looping[:5]],
        "unknown": [words[0] for words in unknown if words][:20],
    }


def cells(model: TranslationModel, strings: Strings, sizes: list[int], batch: int) -> Iterator[dict[str, Any]]:
    sources = [pair.source for pair in strings.test]
    plain = Translator(model, batch_size=batch)
    alone = [found.text for found in plain.translate(sources)]
    yield {"system": PLAIN, "pairs": 0, **judged(strings, alone, alone), "signature": plain.signature()}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            store = Datastore.build(Path(folder) / "store", strings.others[: size or None], model)
            pairs = len(strings.others[: size or None])
            for name, method, settings in SYSTEMS:
                translator = Translator(model, store, method, settings, batch_size=batch)
                texts = [found.text for found in translator.translate(sources)]
                found = judged(strings, texts, alone)
                yield {"system": name, "pairs": pairs, **found, "signature": translator.signature()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="pairs of short strings")
    parser.add_argument("--sizes", default="50,100,200,500", help="pairs in a memory; 0 for all that are left")
    parser.add_argument("--lines", type=int, default=1000, help="lines to translate")
    parser.add_argument("--seeds", type=int, default=1, help="number of divisions into test set and memories")
    parser.add_argument("--pairs", type=int, default=20_000, help="number of pairs that are read")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--model", default=ModelConfig.model)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    config = ModelConfig(given.model, precision=given.precision, device=given.device)
    model = load_model(config)
    pairs = list(read_pairs(given.data, limit=given.pairs))
    sizes = [int(size) for size in given.sizes.split(",")]
    rows = []
    for seed in range(given.seeds):
        strings = divided(pairs, given.lines, seed)
        for row in cells(model, strings, sizes, given.batch_size):
            rows.append({"seed": seed, "lines": len(strings.test), **row})
            print({key: row[key] for key in ("system", "pairs", "bleu", "chrf", "loops", "unknown_words")}, flush=True)
    data = f"{len(pairs):,} pairs of {'/'.join(given.data.absolute().parts[-2:])}"
    report = make_report("catalogues", config, data, rows)
    if given.out:
        write_json(given.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
