"""Measure base model, kNN-MT and chunk-based kNN-MT on the same sentences."""

from itertools import islice

from nearmt import Datastore, Translator, evaluate, read_pairs
from nearmt.demo import HELD_OUT, MEMORY

base = Translator("de-en")
memory = Datastore.build("manual-memory", read_pairs(MEMORY), base.model, overwrite=True)
test = list(islice(read_pairs(HELD_OUT), 12))

for name, translator in [
    ("base", base),
    ("knn", base.with_datastore(memory, "knn")),
    ("chunk", base.with_datastore(memory, "chunk", {"schedule": "geometric:2:16"})),
]:
    result, _ = evaluate(translator, test)
    print(f"{name:6} BLEU {result.bleu:5.1f}  chrF {result.chrf:5.1f}  searches {result.searches_per_sentence:.1f}")
