"""Which way round a catalogue is: by its header, its place, and its texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmt.corpus.po_entries import Message
from nearmt.corpus.report import Report, Request
from nearmt.corpus.stop_words import hits
from nearmt.corpus.unpacking import inner_stem
from nearmt.errors import InputError
from nearmt.languages import CODE_OF_NAME, ENGLISH_NAME, base_language, same_language

#: How many messages tell the direction of a catalogue.
SAMPLE = 500
#: The source language, unless the header names another.
_USUAL_SOURCE = "en"
# Header fields with the language of the translations, and of the messages, in the order in which they are believed.
_TARGET_FIELDS = ("language", "language-code", "x-language", "x-target-language", "x-poedit-language")
_SOURCE_FIELDS = ("x-source-language", "x-poedit-sourcelanguage", "x-poedit-source-language")
# `German <de@li.org>`, `German (https://example.org/teams/58664/de/)`
_TEAM = re.compile(r"^([A-Z][a-z]+)\b|(?<=[/<])([a-z]{2,3}(?:[_@-][A-Za-z]+)?)(?=/?[)>]|@)")
# Ends of names that may be codes: `app-pt-br` has two.
_ENDS = re.compile(r"(?:^|(?<=[._-]))(?=([a-z]{2,3}(?:[_-][A-Za-z]{2,4})?(?:@[a-z]+)?)$)")
# Keys of messages: description_detailed_settings, app.title, saveButton.
_SYMBOL = re.compile(r"(?!\d)\w+(?:[._:/-]\w+)+|[a-z]\w*[A-Z]\w*|[A-Z][A-Z\d]+(?:_[A-Z\d]+)+", re.ASCII)
# A single word may be a key where most messages are.
_MAYBE_SYMBOL = re.compile(r"[\w.:/-]+", re.ASCII)
_FEWEST_SYMBOLS = 3
# Words that tell a direction that nothing names; that contradict a stated one; and how many times as many they must be.
_FEWEST, _DECISIVE, _FACTOR = 3, 5, 4


@dataclass(frozen=True)
class Direction:
    """How the messages of a catalogue become pairs."""

    #: The language of the translations, as the file names it.
    language: str
    #: The translation is the source of the pair.
    reverse: bool
    #: Most messages are keys instead of texts.
    symbolic: bool = False

    def leaves_out(self, message: Message) -> bool:
        """Whether a message is a key, and its pair not a translation."""
        return self.symbolic and _MAYBE_SYMBOL.fullmatch(message.source) is not None


def is_symbolic(sources: Sequence[str]) -> bool:
    """Whether most messages are identifiers."""
    symbols = sum(_SYMBOL.fullmatch(source) is not None for source in sources)
    return symbols >= _FEWEST_SYMBOLS and 2 * symbols > len(sources)


def direction_of(
    path: Path, header: Mapping[str, str], messages: Sequence[Message], request: Request, report: Report
) -> Direction | None:
    """The direction of a catalogue, of which the first messages are given; None if its pairs are of no use.

    The reason is counted, or reported as a problem: a catalogue is never read reversed by mistake.
    """
    language = stated_language(path, header, by_name=True)
    symbolic = is_symbolic([message.source for message in messages])
    if request.labels.pair is None and not (request.source_lang and request.target_lang):
        # Without both languages no direction is asked for.
        return _or_counted(False if same_language(language, request.target_lang) else None, language, symbolic, report)
    stated = _stated(language, header, request)
    if request.labels.pair is not None or symbolic:
        return _or_counted(stated, language, symbolic, report)
    found = _direction_of_texts(messages, request)
    if not language and messages:
        if found.reverse is None:
            report.problem(path, None, _undetermined(request))
            return None
        return Direction("", found.reverse)
    if stated is not None and (found.is_one_language or _is_variant(language, messages)):
        return _or_counted(None, language, symbolic, report)
    if found.is_decisive and stated is not None and found.reverse is not stated:
        report.problem(path, None, _contradiction(language, found.reverse is True, request))
        return None
    return _or_counted(stated, language, symbolic, report)


def stated_language(path: Path, header: Mapping[str, str], by_name: bool) -> str:
    """The language of the translations that the header or the folder names, or the file's own name; else empty."""
    for field in _TARGET_FIELDS:
        if value := header.get(field, ""):
            return CODE_OF_NAME.get(value.lower(), value)
    folders = path.absolute().parts[:-1]
    if len(folders) > 1 and folders[-1] == "LC_MESSAGES":
        return folders[-2]
    names = _ENDS.findall(inner_stem(path)) + list(folders[-1:]) if by_name else []
    teams = _TEAM.findall(header.get("language-team", ""))
    names += [CODE_OF_NAME.get(name.lower(), code) for name, code in teams]
    return next((name for name in names if base_language(name) in ENGLISH_NAME), "")


def check_languages(path: Path, header: Mapping[str, str], sources: Sequence[str], request: Request) -> None:
    """Refuse a document whose translations are in another language than the model's, or whose texts are already."""
    wanted, pair = request.target_lang, request.labels.pair
    if pair is not None:
        if request.is_reversed(None, None) is not False:
            raise InputError(
                f"{path}: file-languages is {':'.join(pair)}, the model translates {request.source_lang} to {wanted}"
            )
        return
    language = stated_language(path, header, by_name=False)
    if not same_language(language, wanted):
        raise InputError(f"{path}: is a catalogue of '{language}', the model translates into '{wanted}'")
    if not request.source_lang or not wanted or same_language(request.source_lang, wanted):
        return
    said = hits(sources, request.source_lang, wanted)
    if said.second >= _DECISIVE and said.second >= _FACTOR * said.first:
        raise InputError(
            f"{path}: its msgid look like '{wanted}', the model translates from '{request.source_lang}'; "
            f"give the setting file-languages={request.source_lang}:{wanted} if they do not"
        )


def _stated(language: str, header: Mapping[str, str], request: Request) -> bool | None:
    """Whether the sides are swapped, as the file says; None if it is of other languages."""
    if request.labels.pair is not None:
        return request.is_reversed(None, None)
    if same_language(language, request.target_lang):
        return False
    source = next((header[field] for field in _SOURCE_FIELDS if header.get(field)), _USUAL_SOURCE)
    return request.is_reversed(CODE_OF_NAME.get(source.lower(), source), language) or None


@dataclass(frozen=True)
class _Evidence:
    """What the texts of a catalogue tell."""

    reverse: bool | None
    #: Clear enough to contradict the file.
    is_decisive: bool = False
    #: Both sides are in the same language.
    is_one_language: bool = False


def _direction_of_texts(messages: Sequence[Message], request: Request) -> _Evidence:
    source, target = request.source_lang, request.target_lang
    if not source or not target or same_language(source, target):
        return _Evidence(None)
    said = hits((message.source for message in messages), source, target)
    meant = hits((form for message in messages for form in message.forms[:1]), source, target)
    straight, reverse = said.first + meant.second, said.second + meant.first
    most, least = max(straight, reverse), min(straight, reverse)
    clear = [max(side) >= _DECISIVE and max(side) >= _FACTOR * min(side) for side in (said, meant)]
    is_one_language = all(clear) and (said.first > said.second) == (meant.first > meant.second)
    if is_one_language or most < _FEWEST or most < _FACTOR * least:
        return _Evidence(None, is_one_language=is_one_language)
    return _Evidence(reverse > straight, is_decisive=all(clear))


def _is_variant(language: str, messages: Sequence[Message]) -> bool:
    """Whether a catalogue adapts messages in the usual language to a region: most are unchanged."""
    same = sum(message.source == message.forms[0] for message in messages)
    return same_language(language, _USUAL_SOURCE) and 2 * same > len(messages)


def _or_counted(reverse: bool | None, language: str, symbolic: bool, report: Report) -> Direction | None:
    """The direction; a catalogue of other languages is usual in folders of catalogues, and counted."""
    if reverse is None:
        report.skipped["catalogues of other languages"] += 1
        return None
    return Direction(language, reverse, symbolic)


def _undetermined(request: Request) -> str:
    example = base_language(request.target_lang or "")
    return (
        "neither the header nor the name says what language it translates into, and its texts do not tell; "
        f"add 'Language: {example}' to its header, name it NAME.{example}.po or give the setting file-languages"
    )


def _contradiction(language: str, reverse: bool, request: Request) -> str:
    source, target = (base_language(code or "") for code in (request.source_lang, request.target_lang))
    looks = f"{target}:{source}" if reverse else f"{source}:{target}"
    return f"names '{language}' as its language, but its texts look like {looks}; give the setting file-languages"
