"""Loss of quality in lower precisions: BLEU with paired bootstrap, and the likelihood of the references.

    python benchmarks/precision.py law/test.tsv medical/test.tsv --out benchmarks/results/bench-precision.json

The model alone translates each file in fp32 and in the other precisions. p is the probability of a difference in BLEU
at least this large if both are equally good; likelihood is the mean log-probability of the references' tokens.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore.disk.files import write_json
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.research.bench.quality import bleu
from nearmt.research.bench.report import make_report
from nearmt.research.bench.tables import markdown
from nearmt.research.evaluation.significance import compare
from nearmt.translator import Translator

#: Pairs whose references are scored together.
BATCH = 16


@dataclass
class Outcome:
    """Translations of a file and the likelihood of its references, in one precision."""

    texts: list[str]
    log_likelihood: float
    signature: str


def measure(model: TranslationModel, pairs: list[Pair]) -> Outcome:
    translator = Translator(model, method="plain")
    texts = [found.text for found in translator.translate([pair.source for pair in pairs])]
    return Outcome(texts, log_likelihood(model, pairs), translator.signature())


def log_likelihood(model: TranslationModel, pairs: list[Pair]) -> float:
    """Mean log-probability of the target tokens of all pairs that fit the model."""
    codec, longest = model.codec, model.seq2seq.positions - len(model.seq2seq.prompt)
    encoded = [(codec.source_ids(pair.source), codec.target_ids(pair.target)) for pair in pairs]
    fitting = sorted(((s, t) for s, t in encoded if max(len(s), len(t)) <= longest), key=lambda pair: len(pair[1]))
    total, count = 0.0, 0
    for start in range(0, len(fitting), BATCH):
        sources, targets = zip(*fitting[start : start + BATCH], strict=True)
        scores = model.seq2seq.score(sources, targets)
        total += sum(float(score_T.sum()) for score_T in scores)
        count += sum(len(score_T) for score_T in scores)
    return total / count


def cells(path: Path, pairs: list[Pair], found: dict[str, Outcome]) -> list[dict[str, Any]]:
    """Make a row for each precision but fp32."""
    references, base = [pair.target for pair in pairs], found["fp32"]
    rows = []
    for precision, each in found.items():
        if precision == "fp32":
            continue
        comparison = compare(base.texts, each.texts, references)
        rows.append(
            {
                "data": "/".join(path.absolute().parts[-2:]),
                "lines": len(pairs),
                "precision": precision,
                "fp32_bleu": bleu(base.texts, references),
                "bleu": bleu(each.texts, references),
                "p_value": comparison.p_value,
                "fp32_log_likelihood": base.log_likelihood,
                "log_likelihood": each.log_likelihood,
                "same_texts": sum(one == two for one, two in zip(base.texts, each.texts, strict=True)),
                "signature": f"{each.signature}|{comparison.signature}",
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--precisions", default="int8", help="precisions to compare with fp32")
    parser.add_argument("--limit", type=int, help="lines of each file")
    parser.add_argument("--model", default=ModelConfig.model)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    names = ["fp32", *given.precisions.split(",")]
    models = {name: load_model(ModelConfig(given.model, precision=name, device=given.device)) for name in names}
    rows = []
    for path in given.files:
        pairs = list(read_pairs(path, limit=given.limit))
        rows += cells(path, pairs, {name: measure(model, pairs) for name, model in models.items()})
    config, lines = ModelConfig(given.model, device=given.device), sum(row["lines"] for row in rows)
    report = make_report("precision", config, f"{lines:,} lines", rows)
    if given.out:
        write_json(given.out, report)
    print(markdown(report))


if __name__ == "__main__":
    main()
