"""Filling of units: exact matches, messages, sentences, placeholders, tags, checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nearmt.config.filling import FillConfig
from nearmt.contracts import Progress, Translation
from nearmt.corpus import Filling, FillingOrigin, Match, Segment, Tag, Unit, plain_text
from nearmt.corpus.glossary import Term
from nearmt.corpus.icu import MessageError
from nearmt.documents.accelerators import with_accelerator, without_accelerator
from nearmt.documents.checks import TEXT_CHECKS, CheckedUnit, Finding, Severity, findings_of, ordered, text_checks
from nearmt.documents.checks.terms import TermCheck
from nearmt.documents.confidence import doubts
from nearmt.documents.dropped import dropped_where_short
from nearmt.documents.filled import FilledUnit, copied, length_findings, main_pairs, search_findings
from nearmt.documents.glossary import Conflict, Glossary, terms_of
from nearmt.documents.messages import MessageUnit, fill_messages
from nearmt.documents.placeholders import as_tags, as_text, damage, lost
from nearmt.documents.repair import Repairer
from nearmt.documents.sentences import assembled, sentence_spans, stripped_span
from nearmt.documents.single_tags import InlineTags, with_single_tags
from nearmt.documents.tags import project
from nearmt.documents.terms import TermLookup
from nearmt.languages import base_language
from nearmt.marking import joined
from nearmt.models.alignment import Link, Span, align
from nearmt.translator import Translator

#: Similar pairs of which the first that can be repaired is used.
_REPAIRS_TRIED = 5
#: Largest share of characters that the model does not know in a text that it can translate.
_MOST_UNKNOWN = 0.5
_UNKNOWN = Finding("characters", Severity.WARNING, "mostly characters that the model does not know")
_OTHER_TERMS = "the glossary has another translation of {}"
_NO_MESSAGE = "not an ICU message, translated as plain text"
_PUT_BACK = Finding("placeholders", Severity.WARNING, "placeholders were put back by alignment: check their positions")


@dataclass(frozen=True)
class _Result:
    """A translated segment."""

    target: Segment
    translation: Translation
    findings: tuple[Finding, ...] = ()


class Filler:
    """Fills units with a translator's model and datastore."""

    def __init__(
        self,
        translator: Translator,
        config: FillConfig,
        *,
        paragraphs: bool,
        explain: bool = False,
        terms: Sequence[Term] = (),
        alternatives: int = 0,
    ) -> None:
        """`terms` are used in place of those of a glossary file; `alternatives` are those of single sentences."""
        self.translator, self.config = translator, config
        self._explain, self._alternatives = explain, alternatives
        # Lost placeholders and unreadable text are always named.
        off = () if config.checks else set(TEXT_CHECKS) - {"placeholders", "characters"}
        self._checks = text_checks(without=off)
        languages = translator.model.language_pair
        store = translator.datastore
        memory = None if store is None else store.snapshot()
        terms = [*terms, *terms_of(replace(config, glossary=None) if terms else config, languages)]
        self.glossary = Glossary(terms, memory, languages[0]) if terms else None
        if self.glossary is not None:
            self._checks.append(TermCheck(terms, languages[0]))
        #: Lines of plain text and tables have no accelerators.
        self._documents = paragraphs
        self._split = paragraphs if config.split_sentences is None else config.split_sentences

    def fill(self, units: Sequence[Unit], progress: Progress | None = None) -> list[FilledUnit]:
        """Fill every unit, in order."""
        filled: dict[int, FilledUnit] = {}
        messages: dict[int, MessageUnit] = {}
        malformed: dict[int, Finding] = {}
        for number, unit in enumerate(units):
            if self.glossary is not None:
                self.glossary.contradicted(plain_text(unit.source))
            ready = self._ready(unit)
            if ready is not None:
                filled[number] = ready
                continue
            try:
                message = MessageUnit.of(unit, self.translator.model.language_pair)
            except MessageError as error:
                malformed[number] = Finding("message", Severity.WARNING, _NO_MESSAGE, detail=str(error))
            else:
                if message is not None:
                    messages[number] = message
        left = [number for number in range(len(units)) if number not in filled and number not in messages]
        filled |= zip(left, self._translated([units[n] for n in left], progress), strict=True)
        filled |= zip(messages, fill_messages(list(messages.values()), self._flat), strict=True)
        for number, finding in malformed.items():
            filled[number] = replace(filled[number], findings=(finding, *filled[number].findings))
        flat = sorted(filled.keys() - messages.keys())  # branches of messages are checked one by one
        filled |= zip(flat, self._checked([units[n] for n in flat], [filled[n] for n in flat]), strict=True)
        return [self._with_matches(unit, filled[number]) for number, unit in enumerate(units)]

    @property
    def conflicts(self) -> list[Conflict]:
        """Terms of the units so far that the memory translates otherwise than the glossary."""
        return [] if self.glossary is None else self.glossary.conflicts

    def _ready(self, unit: Unit) -> FilledUnit | None:
        return copied(unit) or self._from_memory(unit) or self._repaired(unit)

    def _flat(self, units: Sequence[Unit]) -> list[FilledUnit]:
        """Fill units without branches."""
        filled = {number: ready for number, unit in enumerate(units) if (ready := self._ready(unit))}
        left = [number for number in range(len(units)) if number not in filled]
        filled |= zip(left, self._translated([units[n] for n in left]), strict=True)
        return self._checked(units, [filled[number] for number in range(len(units))])

    def _from_memory(self, unit: Unit) -> FilledUnit | None:
        store = self.translator.datastore
        text = plain_text(unit.source)
        match = store.snapshot().exact_match(unit) if store is not None and self.config.exact else None
        if match is None:
            return None
        pair, target = match.pair, self._stored(unit, match.pair.target)
        lacking = [] if self.glossary is None else self.glossary.lacks(text, pair.target)
        reasons = filter(None, [match.review, _OTHER_TERMS.format(", ".join(lacking)) if lacking else ""])
        filling = Filling(
            target, FillingOrigin.MEMORY, pair_ids=(pair.id,), in_context=match.in_context, review=", ".join(reasons)
        )
        return FilledUnit(filling, Translation(source=text, text=pair.target, score=0.0))

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

    def _checked(self, units: Sequence[Unit], filled: Sequence[FilledUnit]) -> list[FilledUnit]:
        """Add what the checks find, to units and to their notes."""
        source_lang, target_lang = map(base_language, self.translator.model.language_pair)
        checked = [
            CheckedUnit(unit.source, each.filling.target, source_lang, target_lang, unit.printf)
            for unit, each in zip(units, filled, strict=True)
        ]
        machine = [n for n, each in enumerate(filled) if each.filling.origin is FillingOrigin.MACHINE]
        dropped = dict.fromkeys(range(len(units)), tuple[Finding, ...]())
        if self.config.checks:
            found = dropped_where_short(self.translator.model, [checked[n] for n in machine])
            dropped |= zip(machine, found, strict=True)
        return [
            self._with_findings(each, unit, dropped[n])
            for n, (each, unit) in enumerate(zip(filled, checked, strict=True))
        ]

    def _with_findings(self, filled: FilledUnit, unit: CheckedUnit, dropped: tuple[Finding, ...]) -> FilledUnit:
        if filled.filling.origin is FillingOrigin.COPY:
            return filled
        own = filled.findings + doubts(filled.translation.unsure)
        findings = ordered((*own, *findings_of(unit, self._checks), *dropped))
        noted = tuple(str(finding) for finding in findings if finding.severity >= Severity.WARNING or finding in own)
        return replace(filled, filling=replace(filled.filling, findings=noted), findings=findings)

    def _translated(self, units: Sequence[Unit], progress: Progress | None = None) -> list[FilledUnit]:
        """Translate units; if placeholders or the texts of tags are lost, translate again with placeholders as tags.

        Accelerator markers of user interfaces (`&Datei`) are taken out, and set on a letter of the translation.
        """
        whole, units = units, [without_accelerator(unit) if self._documents else unit for unit in units]
        results = self._segments([(unit.source, unit.printf) for unit in units], progress)
        damages = [damage(unit.source, each.target, unit.printf) for unit, each in zip(units, results, strict=True)]
        again = [n for n, found in enumerate(damages) if any(found)]
        tagged = [(as_tags(units[n].source, units[n].printf), units[n].printf) for n in again]
        protected = self._segments(tagged, aligned=True)
        put_back: set[int] = set()
        for number, result in zip(again, protected, strict=True):
            unit, target = units[number], as_text(result.target)
            if damage(unit.source, target, unit.printf) < damages[number]:
                results[number] = replace(result, target=target)
                put_back.add(number)
        if self._documents:
            targets = [with_accelerator(unit, result.target) for unit, result in zip(whole, results, strict=True)]
            results = [replace(result, target=target) for result, target in zip(results, targets, strict=True)]
        return [
            self._machine(unit, result, (_PUT_BACK,) if number in put_back else ())
            for number, (unit, result) in enumerate(zip(whole, results, strict=True))
        ]

    def _machine(self, unit: Unit, result: _Result, findings: tuple[Finding, ...]) -> FilledUnit:
        translation = replace(
            result.translation, source=plain_text(unit.source).strip(), text=plain_text(result.target).strip()
        )
        filling = Filling(
            result.target, FillingOrigin.MACHINE, score=translation.score, pair_ids=main_pairs(translation)
        )
        if self.translator.model.codec.unknown_share(translation.source) > _MOST_UNKNOWN:
            findings += (_UNKNOWN,)
        return FilledUnit(filling, translation, result.findings + findings)

    def _segments(
        self,
        requests: Sequence[tuple[Segment, bool | None]],
        progress: Progress | None = None,
        *,
        aligned: bool = False,
    ) -> list[_Result]:
        """Translate segments by sentences; the flag says whether `%s` is a placeholder.

        Single tags are translated with the text, as protected spans, unless they are to be `aligned`, that is,
        projected like the tags of pairs.
        """
        if not requests:
            return []
        inline = [InlineTags(segment) if aligned else with_single_tags(segment) for segment, _ in requests]
        segments = [each.segment for each in inline]
        texts = [plain_text(segment) for segment in segments]
        spans = [self._spans(text, printf) for text, (_, printf) in zip(texts, requests, strict=True)]
        sentences = [text[start:end] for text, cuts in zip(texts, spans, strict=True) for start, end in cuts]
        flags = [printf for (_, printf), cuts in zip(requests, spans, strict=True) for _ in cuts]
        given: dict[str, Any] = {"explain": self._explain, "progress": progress, "printf": flags}
        given |= {"alternatives": self._alternatives} if self._alternatives else {}
        found = iter(self.translator.translate(sentences, **given, terms=self.glossary))
        wholes, translations, span_pairs, findings = [], [], [], []
        for each, text, cuts in zip(inline, texts, spans, strict=True):
            parts = [next(found) for _ in cuts]
            whole, target_spans = assembled(text, cuts, [part.text for part in parts])
            wholes.append(whole)
            span_pairs.append(list(zip(cuts, target_spans, strict=True)))
            translations.append(each.explained(joined(text, parts)))
            findings.append(length_findings(parts, self.translator.model.seq2seq.positions) + search_findings(parts))
        tagged = self._tagged(segments, wholes, span_pairs)
        targets = [each.restored(target) for each, target in zip(inline, tagged, strict=True)]
        return [_Result(*result) for result in zip(targets, translations, findings, strict=True)]

    def _spans(self, text: str, printf: bool | None) -> list[Span]:
        if self._split:
            return sentence_spans(text, self.translator.model.language_pair[0], printf)
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


def _moved(link: Link, source: int, target: int) -> Link:
    (a, b), (c, d) = link.source, link.target
    return Link((a + source, b + source), (c + target, d + target))
