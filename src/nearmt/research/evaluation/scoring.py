"""Translate a test set and score it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass

from nearmt.contracts import Pair, Progress, Translation
from nearmt.errors import InputError
from nearmt.research.evaluation.memory import PeakMemory
from nearmt.research.evaluation.metrics import Scores, score
from nearmt.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Evaluation(Scores):
    """Scores of one system on one test set, and what they cost."""

    #: Tokens of the best hypotheses (end of sentence included) per second of translation: encoder,
    #: search and detokenisation included, loading not, as the paper counts.
    tokens_per_second: float
    searches_per_sentence: float
    #: Decoding steps between two searches, on average; None without searches.
    average_interval: float | None
    sentences: int
    tokens: int
    seconds: float
    truncated: int
    #: Most main memory of this process during the run; None where the system does not tell.
    peak_memory_mib: float | None
    #: Most memory of tensors on the GPU during the run; None on the CPU.
    peak_device_memory_mib: float | None
    signature: str


def evaluate(
    translator: Translator, pairs: Iterable[Pair], progress: Progress | None = None, *, ter: bool = False
) -> tuple[Evaluation, list[Translation]]:
    """BLEU and chrF against the targets of the pairs, TER on request, and the translations."""
    pairs = list(pairs)
    if not pairs:
        raise InputError("the test set has no pairs: nothing to evaluate")
    # What is loaded at the first use is loaded now, so that the first system of several is not the slowest.
    translator.translate(pairs[0].source)
    memory = PeakMemory(translator.model.seq2seq.device)
    start = time.perf_counter()
    translations = translator.translate([pair.source for pair in pairs], progress=progress)
    seconds = time.perf_counter() - start
    peak, device_peak = memory.resident_mib(), memory.device_mib()
    scores = score([t.text for t in translations], [pair.target for pair in pairs], ter=ter)
    tokens, searches = sum(t.tokens for t in translations), sum(t.searches for t in translations)
    result = Evaluation(
        **dataclasses.asdict(scores),
        tokens_per_second=round(tokens / seconds, 1),
        searches_per_sentence=round(searches / len(pairs), 2),
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
