"""Translate a test set and score it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from nearmt.contracts import Pair, Progress, Translation
from nearmt.errors import InputError
from nearmt.translator import Translator


@dataclass(frozen=True)
class Evaluation:
    """Scores of one system on one test set."""

    bleu: float
    chrf: float
    #: Tokens of the best hypotheses (end of sentence included) per second of translation: encoder,
    #: search and detokenisation included, loading not, as the paper counts.
    tokens_per_second: float
    searches_per_sentence: float
    #: Tokens between two searches, on average; None without searches.
    average_interval: float | None
    sentences: int
    tokens: int
    seconds: float
    truncated: int
    bleu_signature: str
    chrf_signature: str
    signature: str


def evaluate(
    translator: Translator, pairs: Iterable[Pair], progress: Progress | None = None
) -> tuple[Evaluation, list[Translation]]:
    """Scores against the targets of the pairs, and the translations."""
    from sacrebleu.metrics import BLEU, CHRF

    pairs = list(pairs)
    if not pairs:
        raise InputError("the test set has no pairs: nothing to evaluate")
    start = time.perf_counter()
    translations = translator.translate([pair.source for pair in pairs], progress=progress)
    seconds = time.perf_counter() - start
    outputs, references = [t.text for t in translations], [[pair.target for pair in pairs]]
    bleu, chrf = BLEU(), CHRF()
    bleu_score, chrf_score = bleu.corpus_score(outputs, references), chrf.corpus_score(outputs, references)
    tokens, searches = sum(t.tokens for t in translations), sum(t.searches for t in translations)
    result = Evaluation(
        bleu=round(bleu_score.score, 2),
        chrf=round(chrf_score.score, 2),
        tokens_per_second=round(tokens / seconds, 1),
        searches_per_sentence=round(searches / len(pairs), 2),
        average_interval=round(tokens / searches, 2) if searches else None,
        sentences=len(pairs),
        tokens=tokens,
        seconds=round(seconds, 2),
        truncated=sum(t.truncated for t in translations),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        signature=translator.signature(),
    )
    return result, translations
