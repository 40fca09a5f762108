"""Compare translations of nearmt's decoder with those of `transformers.generate`, in fp32, sentence by sentence.

    python benchmarks/equivalence.py TSV [TSV ...] --limit 125 --out benchmarks/results/equivalence.json

If two translations differ, both are scored by forced decoding. Their mean scores per token must be within 1e-4 of each
other; for greedy search, the scores of the first tokens that differ. Exits with 1 if any other sentence differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from nearmt.corpus import clean, read_pairs
from nearmt.datastore.disk.files import write_json
from nearmt.decoding import BeamConfig, beam_search
from nearmt.methods import make_method
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.models.embedded import load_embedded
from nearmt.research.bench import generate
from nearmt.research.machine import describe_commit, describe_machine

BATCH = 8
#: Batches of one call of `beam_search`.
BATCHES = 8
#: Scores per token that differ by at most this are tied.
TIE = 1e-4


def sources_of(paths: list[Path], limit: int, model: TranslationModel) -> list[list[int]]:
    """Tokenise the first lines of each file that fit the model, longest first."""
    texts = [clean(pair.source) for path in paths for pair in read_pairs(path, limit=limit)]
    found = [model.codec.source_ids(text) for text in texts if text]
    return sorted((ids for ids in found if len(ids) < model.seq2seq.positions), key=len, reverse=True)


def batches_of(sources: list[list[int]], size: int) -> list[list[list[int]]]:
    return [sources[start : start + size] for start in range(0, len(sources), size)]


def difference(model: TranslationModel, source: list[int], mine: list[int], theirs: list[int], greedy: bool) -> float:
    """Return the difference in score: mean over all tokens, or of the first tokens that differ if `greedy`."""
    first, second = (model.seq2seq.score([source], [target])[0] for target in (mine, theirs))
    if greedy:
        step = next(step for step, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b)
        return float(first[step] - second[step])
    return float(first.mean() - second.mean())


def compare(model: TranslationModel, weights: Any, sources: list[list[int]], beams: int) -> dict[str, Any]:
    """Count equal and tied translations, and list the differences in score of all others."""
    beam, seq2seq, method = BeamConfig(beams=beams), model.seq2seq, make_method("plain", None, {})
    decode = generate.decoder(weights, seq2seq, beam)
    equal, tied, others = 0, 0, []
    for run in batches_of(sources, BATCH * BATCHES):
        # One length limit for all sentences, as in `generate`.
        limit = beam.limit(seq2seq, len(run[0]))
        ours = beam_search(seq2seq, method, run, [len(run[0])] * len(run), beam, slots=BATCH)[0]
        peer = decode([(batch, limit) for batch in batches_of(run, BATCH)])
        for source, mine, theirs in zip(run, ours, peer, strict=True):
            if mine.tokens == theirs:
                equal += 1
                continue
            apart = difference(model, source, mine.tokens, theirs, greedy=beams == 1)
            if abs(apart) <= TIE:
                tied += 1
            else:
                others.append(apart)
    return {"beams": beams, "sentences": len(sources), "equal": equal, "tied": tied, "others": others}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=125, help="lines of each file")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    config = ModelConfig(device="cpu", precision="fp32")
    model, weights = load_model(config), load_embedded(config.model).eval()
    sources = sources_of(given.files, given.limit, model)
    found = [compare(model, weights, sources, beams) for beams in (1, 5)]
    for row in found:
        print(", ".join(f"{name} {value}" for name, value in row.items()))
    if given.out:
        result = {"machine": describe_machine(config), "commit": describe_commit(), "results": found}
        write_json(given.out, result)
    sys.exit(any(row["others"] for row in found))


if __name__ == "__main__":
    main()
