"""Test whether a translation depends on the other sentences of its batch.

    python benchmarks/same_answer.py --data law/test.tsv --memory law/train.tsv --precisions int8,fp32 --limit 64

The same lines are translated in batches of other sizes, in another order, among fewer lines and, on a CPU, with
another number of threads. Texts and scores are compared with those of batches of 8, bit by bit.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch

from nearmt.contracts import Translation
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.translator import Translator

METHODS = ("plain", "knn", "chunk")
BATCH = 8


class Runs:
    """Translates the same lines with one system in different ways."""

    def __init__(self, model: TranslationModel, store: Datastore, method: str, texts: list[str]) -> None:
        self._model, self._store, self._method, self._texts = model, store, method, texts

    def translator(self, batch: int = BATCH) -> Translator:
        return Translator(self._model, None if self._method == "plain" else self._store, self._method, {}, None, batch)

    def ways(self) -> Iterator[tuple[str, list[Translation]]]:
        """Yield the name of each way and the translations of all or the first lines."""
        texts = self._texts
        yield "again", self.translator().translate(texts)
        for batch in (1, 3, 64):
            yield f"batch {batch}", self.translator(batch).translate(texts)
        order = list(range(len(texts)))
        Random(1).shuffle(order)
        shuffled = self.translator().translate([texts[index] for index in order])
        yield "another order", [found for _, found in sorted(zip(order, shuffled, strict=True), key=lambda x: x[0])]
        yield "fewer others", self.translator().translate(texts[: len(texts) // 3])
        if self._model.seq2seq.device.type == "cpu":
            threads = torch.get_num_threads()
            torch.set_num_threads(1 if threads > 1 else 2)
            yield f"{torch.get_num_threads()} threads", self.translator().translate(texts)
            torch.set_num_threads(threads)


def cells(precision: str, method: str, runs: Runs, texts: list[str]) -> Iterator[dict[str, Any]]:
    base = runs.translator()
    expected = base.translate(texts)
    for way, found in runs.ways():
        pairs = list(zip(expected, found, strict=False))
        same = [(one, two) for one, two in pairs if one.text == two.text]
        yield {
            "precision": precision,
            "method": method,
            "way": way,
            "lines": len(pairs),
            "other_texts": len(pairs) - len(same),
            "other_scores": sum(one.score != two.score for one, two in pairs),
            "largest": max((abs(one.score - two.score) for one, two in same), default=0.0),
            "signature": base.signature(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--memory", type=Path, required=True, help="pairs to build the datastore from")
    parser.add_argument("--precisions", default="int8,fp32")
    parser.add_argument("--limit", type=int, default=64, help="lines")
    parser.add_argument("--pairs", type=int, default=1500, help="number of pairs in the datastore")
    parser.add_argument("--model", default=ModelConfig.model)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    texts = [pair.source for pair in read_pairs(given.data, limit=given.limit)]
    rows: list[dict[str, Any]] = []
    for precision in given.precisions.split(","):
        model = load_model(ModelConfig(given.model, precision=precision, device=given.device))
        with tempfile.TemporaryDirectory() as folder:
            store = Datastore.build(Path(folder) / "store", read_pairs(given.memory, limit=given.pairs), model)
            for method in METHODS:
                rows += cells(precision, method, Runs(model, store, method, texts), texts)
    data = f"{len(texts):,} lines of {'/'.join(given.data.absolute().parts[-2:])}"
    report = make_report("same-answer", ModelConfig(given.model, device=given.device), data, rows)
    if given.out:
        write_json(given.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
