"""Support: words that only neighbours brought into a translation, and whether the neighbours' sources support them.

A word of the output is *brought* if the model alone does not write it in its translation of the sentence and a stored
pair voted for it. The pair *supports* it if the pair's source has the word that it translates here. The reference
tells how many of both are right.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearmt.contracts import Pair, Progress, TokenProvenance, Translation
from nearmt.models import TranslationModel
from nearmt.models.alignment import WORD, align, subword_spans
from nearmt.models.words import form_codes, stem_code
from nearmt.research.evaluation import score
from nearmt.research.experiments.contrast_scoring import percent
from nearmt.translator import Translator


@dataclass
class Counts:
    """Words of the outputs."""

    words: int = 0
    #: Brought by a pair whose source has the word that they translate, and those of them in the reference.
    supported: int = 0
    supported_right: int = 0
    #: Brought by a pair whose source lacks it, and those of them in the reference.
    unsupported: int = 0
    unsupported_right: int = 0

    def add(self, supported: bool, right: bool) -> None:
        if supported:
            self.supported += 1
            self.supported_right += right
        else:
            self.unsupported += 1
            self.unsupported_right += right

    def evaluation(self) -> dict[str, Any]:
        """The counts, and what the report shows of them, in percent."""
        return {
            **dataclasses.asdict(self),
            "unsupported_share": percent(self.unsupported, self.words),
            "unsupported_precision": percent(self.unsupported_right, self.unsupported),
            "supported_share": percent(self.supported, self.words),
            "supported_precision": percent(self.supported_right, self.supported),
        }


@dataclass(frozen=True)
class Brought:
    """A word of an output that neighbours alone brought."""

    word: str
    #: The word of the sentence that it is aligned with.
    source_word: str
    #: The pair with the largest share of the votes for it.
    pair_id: str


def count_support(
    translator: Translator, pairs: list[Pair], progress: Progress | None
) -> tuple[dict[str, Any], list[str]]:
    """Translate with and without the datastore, and count the words that it brought."""
    sources = [pair.source for pair in pairs]
    plain = Translator(translator.model, beam=translator.beam, batch_size=translator.batch_size)
    alone = plain.translate(sources)
    found = alone if translator.datastore is None else translator.translate(sources, explain=True, progress=progress)
    brought = [list(_brought(translator.model, *each)) for each in zip(sources, found, alone, strict=True)]
    codes = _source_codes(translator, {each.pair_id for words in brought for each in words})
    counts = Counts(words=sum(len(WORD.findall(translation.text)) for translation in found))
    for pair, words in zip(pairs, brought, strict=True):
        left = words_in(pair.target)
        for each in words:
            right = left[each.word] > 0
            left[each.word] -= right
            counts.add(supports(each.source_word, codes[each.pair_id]), right)
    texts = [translation.text for translation in found]
    scores = dataclasses.asdict(score(texts, [pair.target for pair in pairs]))
    evaluation = {"sentences": len(pairs), "signature": translator.signature(), **scores, **counts.evaluation()}
    return evaluation, texts


def words_in(text: str) -> Counter[str]:
    return Counter(word.lower() for word in WORD.findall(text))


def supports(word: str, code_X: frozenset[int]) -> bool:
    """Whether a source whose words have these codes has a form of the word."""
    return stem_code(word) in code_X


def _brought(model: TranslationModel, source: str, translation: Translation, alone: Translation) -> Iterator[Brought]:
    """Words of a translation that are not in the model's own, with the pair that voted for them most."""
    known = words_in(alone.text)
    votes = word_votes(translation.text, translation.provenance or ())
    (links,) = align(model, [source], [translation.text])
    source_words = {link.target: source[slice(*link.source)].lower() for link in links}
    for match in WORD.finditer(translation.text):
        word = match.group().lower()
        if known[word]:
            known[word] -= 1
        elif word.isalnum() and votes.get(match.span()) and match.span() in source_words:
            shares = votes[match.span()]
            yield Brought(word, source_words[match.span()], max(shares, key=shares.__getitem__))


def word_votes(text: str, provenance: Sequence[TokenProvenance]) -> dict[tuple[int, int], Mapping[str, float]]:
    """The votes of pairs for each word of a text (its span): the sum over the word's subwords."""
    spans = subword_spans(text, [token.token for token in provenance])
    found: dict[tuple[int, int], Mapping[str, float]] = {}
    for match in WORD.finditer(text):
        shares: Counter[str] = Counter()
        for token, (start, end) in zip(provenance, spans, strict=True):
            if start < match.end() and end > match.start():
                for witness in token.witnesses:
                    shares[witness.pair_id] += witness.share  # type: ignore[assignment]  # a Counter adds up floats
        found[match.span()] = shares
    return found


def _source_codes(translator: Translator, pair_ids: set[str]) -> dict[str, frozenset[int]]:
    """The codes of all forms of the words of the sources of some pairs."""
    store = translator.datastore
    found = {} if store is None else {pair.id: pair.source for pair in store.snapshot().pairs() if pair.id in pair_ids}
    return {
        pair_id: frozenset().union(*(form_codes(word.lower()) for word in WORD.findall(source)))
        for pair_id, source in found.items()
    }
