"""Translate a test set and score it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass

from nearmt.contracts import Pair, Progress, Translation
from nearmt.errors import InputError
from nearmt.research.evaluation.metrics import Scores, score
from nearmt.research.evaluation.peak_memory import PeakMemory
from nearmt.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Evaluation(Scores):
    """Scores and cost of one system on one test set."""

    #: Tokens of the best hypotheses (end of sentence included) per second of translation. As in the paper, encoding,
    #: search and detokenisation are included, loading is not.
    tokens_per_second: float
    searches_per_sentence: float
    #: Entries that the hypotheses of a sentence are compared with, in searches (as if these were exact) and in caches.
    compared_per_sentence: float
    #: Average number of decoding steps between two searches; None without searches.
    average_interval: float | None
    sentences: int
    tokens: int
    seconds: float
    truncated: int
    #: Peak RAM of this process during the run; None if the system does not report it.
    peak_memory_mib: float | None
    #: Peak GPU memory of tensors during the run; None on the CPU.
    peak_device_memory_mib: float | None
    signature: str


def evaluate(
    translator: Translator, pairs: Iterable[Pair], progress: Progress | None = None, *, ter: bool = False
) -> tuple[Evaluation, list[Translation]]:
    """Translate the pairs and score BLEU, chrF and, if `ter`, TER; also return the translations."""
    pairs = list(pairs)
    if not pairs:
        raise InputError("the test set has no pairs: nothing to evaluate")
    # Warm up, so that the first of several systems is not at a disadvantage.
    translator.translate(pairs[0].source)
    peak_memory = PeakMemory(translator.model.seq2seq.device)
    start = time.perf_counter()
    translations = translator.translate([pair.source for pair in pairs], progress=progress)
    seconds = time.perf_counter() - start
    peak, device_peak = peak_memory.resident_mib(), peak_memory.device_mib()
    scores = score([t.text for t in translations], [pair.target for pair in pairs], ter=ter)
    tokens, searches = sum(t.tokens for t in translations), sum(t.searches for t in translations)
    result = Evaluation(
        **dataclasses.asdict(scores),
        tokens_per_second=round(tokens / seconds, 1),
        searches_per_sentence=round(searches / len(pairs), 2),
        compared_per_sentence=round(sum(t.compared for t in translations) / len(pairs), 1),
        average_interval=round(sum(t.steps for t in translations) / searches, 2) if searches else None,
        sentences=len(pairs),
        tokens=tokens,
        seconds=round(seconds, 2),
        truncated=sum(t.truncated for t in translations),
        peak_memory_mib=peak,
        peak_device_memory_mib=device_peak,
        signature=translator.signature(),
    )
    return result, translations
