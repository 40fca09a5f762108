"""Filling of units: exact matches, sentences, placeholders, tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nearmt.config.filling import FillConfig
from nearmt.contracts import Progress, Translation
from nearmt.corpus import Filling, FillingOrigin, Match, Segment, Tag, Unit, plain_text
from nearmt.documents.issues import Issue, find_issue
from nearmt.documents.placeholders import as_tags, as_text, lost, spaced, without_placeholders
from nearmt.documents.repair import Repairer
from nearmt.documents.sentences import sentence_spans, stripped_span
from nearmt.documents.tags import project
from nearmt.documents.terms import TermLookup
from nearmt.models.alignment import Link, Span, align
from nearmt.translator import Translator, joined

#: Similar pairs of which the first that can be repaired is used.
_REPAIRS_TRIED = 5
#: Maximum number of pairs named as the origin of a translation.
_PAIRS_NAMED = 3


@dataclass(frozen=True)
class FilledUnit:
    """A unit's filling, its translation, and warnings about it."""

    filling: Filling
    translation: Translation
    warnings: tuple[str, ...] = ()
    issue: Issue | None = None


@dataclass(frozen=True)
class _Result:
    """A translated segment."""

    target: Segment
    translation: Translation
    warnings: tuple[str, ...] = ()


class Filler:
    """Fills units with a translator's model and datastore."""

    def __init__(self, translator: Translator, config: FillConfig, *, paragraphs: bool, explain: bool = False) -> None:
        self.translator, self.config = translator, config
        self._explain = explain
        self._split = paragraphs if config.split_sentences is None else config.split_sentences

    def fill(self, units: Sequence[Unit], progress: Progress | None = None) -> list[FilledUnit]:
        """Fill every unit, in order."""
        filled: dict[int, FilledUnit] = {}
        for number, unit in enumerate(units):
            ready = _copied(unit) or self._from_memory(unit) or self._repaired(unit)
            if ready is not None:
                filled[number] = ready
        left = [number for number in range(len(units)) if number not in filled]
        for number, result in zip(left, self._translated([units[n] for n in left], progress), strict=True):
            filled[number] = result
        return [self._with_matches(units[number], filled[number]) for number in range(len(units))]

    def _from_memory(self, unit: Unit) -> FilledUnit | None:
        store = self.translator.datastore
        text = plain_text(unit.source)
        match = store.snapshot().exact_match(unit) if store is not None and self.config.exact else None
        if match is None:
            return None
        pair, target = match.pair, self._stored(unit, match.pair.target)
        filling = Filling(
            target, FillingOrigin.MEMORY, pair_ids=(pair.id,), in_context=match.in_context, review=match.review
        )
        warnings = _warnings(lost(unit.source, target, unit.printf))
        return FilledUnit(filling, Translation(source=text, text=pair.target, score=0.0), warnings)

    def _repaired(self, unit: Unit) -> FilledUnit | None:
        """Fill a unit from a similar pair, of which all that differs can be exchanged."""
        store = self.translator.datastore
        if store is None or not self.config.fuzzy:
            return None
        text, memory = plain_text(unit.source), store.snapshot()
        repairer = Repairer(TermLookup(self.translator.model, memory), self.translator.model.language_pair)
        for match in memory.matches(text, _REPAIRS_TRIED, self.config.fuzzy):
            repair = repairer.repaired(text, match, unit.printf)
            target = None if repair is None else self._stored(unit, repair.text)
            if repair is None or target is None or lost(unit.source, target, unit.printf):
                continue
            review = f"{match.percent} match, {', '.join(repair.exchanged)}"
            filling = Filling(target, FillingOrigin.REPAIRED, pair_ids=(match.pair_id,), review=review)
            return FilledUnit(filling, Translation(source=text, text=repair.text, score=0.0))
        return None

    def _stored(self, unit: Unit, target: str) -> Segment:
        """A stored translation with the white space and the tags of a unit."""
        text = plain_text(unit.source)
        start, end = stripped_span(text, 0, len(text))
        whole = text[:start] + target + text[end:]
        return self._tagged([unit.source], [whole], [[((start, end), (start, start + len(target)))]])[0]

    def _translated(self, units: Sequence[Unit], progress: Progress | None) -> list[FilledUnit]:
        """Translate units; if placeholders are lost, translate again with placeholders as tags."""
        results = self._segments([(unit.source, unit.printf) for unit in units], progress)
        again = [n for n, unit in enumerate(units) if lost(unit.source, results[n].target, unit.printf)]
        protected = self._segments([(as_tags(units[n].source, units[n].printf), units[n].printf) for n in again])
        warnings: dict[int, tuple[str, ...]] = {}
        for number, result in zip(again, protected, strict=True):
            unit, target = units[number], as_text(result.target)
            missing = lost(unit.source, target, unit.printf)
            warnings[number] = _warnings(missing) or ("placeholders were put back by alignment: check their positions",)
            if not missing:
                results[number] = replace(result, target=target)
        return [
            self._machine(unit, result, warnings.get(number, ()))
            for number, (unit, result) in enumerate(zip(units, results, strict=True))
        ]

    def _machine(self, unit: Unit, result: _Result, warnings: tuple[str, ...]) -> FilledUnit:
        translation = replace(
            result.translation, source=plain_text(unit.source).strip(), text=plain_text(result.target).strip()
        )
        filling = Filling(
            result.target, FillingOrigin.MACHINE, score=translation.score, pair_ids=_main_pairs(translation)
        )
        issue = find_issue(self.translator.model, translation.source, translation.text)
        return FilledUnit(filling, translation, result.warnings + warnings, issue)

    def _segments(
        self, requests: Sequence[tuple[Segment, bool | None]], progress: Progress | None = None
    ) -> list[_Result]:
        """Translate segments by sentences and project their tags; the flag says whether `%s` is a placeholder."""
        segments = [segment for segment, _ in requests]
        texts = [plain_text(segment) for segment in segments]
        spans = [self._spans(text) for text in texts]
        sentences = [text[start:end] for text, cuts in zip(texts, spans, strict=True) for start, end in cuts]
        found = iter(self.translator.translate(sentences, explain=self._explain, progress=progress))
        wholes, translations, span_pairs, warnings = [], [], [], []
        for text, cuts, (_, printf) in zip(texts, spans, requests, strict=True):
            parts = [_spaced(next(found), printf) for _ in cuts]
            whole, target_spans = _assembled(text, cuts, parts)
            wholes.append(whole)
            span_pairs.append(list(zip(cuts, target_spans, strict=True)))
            translations.append(joined(text, parts))
            warnings.append(self._length_warnings(parts))
        targets = self._tagged(segments, wholes, span_pairs)
        return [_Result(*result) for result in zip(targets, translations, warnings, strict=True)]

    def _length_warnings(self, parts: Sequence[Translation]) -> tuple[str, ...]:
        warnings = []
        if cuts := max((part.source_parts for part in parts), default=1) - 1:
            positions = self.translator.model.seq2seq.positions
            warnings.append(f"longer than the model's {positions} tokens; translated in {cuts + 1} segments")
        if any(part.truncated for part in parts):
            warnings.append("the translation reached its length limit and was cut (see the setting max-new-tokens)")
        return tuple(warnings)

    def _spans(self, text: str) -> list[Span]:
        if self._split:
            return sentence_spans(text, self.translator.model.language_pair[0])
        start, end = stripped_span(text, 0, len(text))
        return [(start, end)] if start < end else []

    def _tagged(
        self,
        segments: Sequence[Segment],
        targets: Sequence[str],
        span_pairs: Sequence[Sequence[tuple[Span, Span]]],
    ) -> list[Segment]:
        """Put the tags of segments into their targets, by aligning the given pairs of source and target spans."""
        with_tags = [n for n, segment in enumerate(segments) if any(isinstance(part, Tag) for part in segment)]
        sides: list[tuple[str, str]] = []
        for number in with_tags:
            text = plain_text(segments[number])
            sides += [(text[a:b], targets[number][c:d]) for (a, b), (c, d) in span_pairs[number]]
        found = iter(align(self.translator.model, [side[0] for side in sides], [side[1] for side in sides]))
        tagged: list[Segment] = [(target,) for target in targets]
        for number in with_tags:
            links = [_moved(link, a, c) for (a, _), (c, _) in span_pairs[number] for link in next(found)]
            tagged[number] = project(segments[number], targets[number], links)
        return tagged

    def _with_matches(self, unit: Unit, filled: FilledUnit) -> FilledUnit:
        store = self.translator.datastore
        if store is None or not self.config.matches:
            return filled
        found: list[Match] = store.snapshot().matches(
            plain_text(unit.source), self.config.max_matches, self.config.min_match
        )
        return replace(filled, filling=replace(filled.filling, matches=tuple(found)))


def _copied(unit: Unit) -> FilledUnit | None:
    """Copy a unit that has no letters outside of placeholders."""
    text = plain_text(unit.source)
    if any(character.isalpha() for character in without_placeholders(text, unit.printf)):
        return None
    return FilledUnit(Filling(unit.source, FillingOrigin.COPY), Translation(source=text, text=text, score=0.0))


def _assembled(text: str, cuts: list[Span], parts: list[Translation]) -> tuple[str, list[Span]]:
    """Join translations with the white space between their sources; also return the span of each."""
    texts, offset, length, spans = [], 0, 0, []
    for (start, end), part in zip(cuts, parts, strict=True):
        space = text[offset:start]
        length += len(space)
        spans.append((length, length + len(part.text)))
        length += len(part.text)
        texts += [space, part.text]
        offset = end
    return "".join([*texts, text[offset:]]), spans


def _spaced(part: Translation, printf: bool | None) -> Translation:
    return replace(part, text=spaced(part.source, part.text, printf))


def _moved(link: Link, source: int, target: int) -> Link:
    (a, b), (c, d) = link.source, link.target
    return Link((a + source, b + source), (c + target, d + target))


def _main_pairs(translation: Translation) -> tuple[str, ...]:
    """Return the pairs with the largest shares in an explained translation."""
    shares: Counter[str] = Counter()
    for token in translation.provenance or ():
        for witness in token.witnesses:
            shares[witness.pair_id] += witness.share  # type: ignore[assignment]  # a Counter adds up floats too
    return tuple(pair_id for pair_id, _ in shares.most_common(_PAIRS_NAMED))


def _warnings(missing: list[str]) -> tuple[str, ...]:
    return (f"placeholders differ from the source: {' '.join(missing)}",) if missing else ()
