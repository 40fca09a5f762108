"""JSON files of texts in one language, whose strings are translated: i18next and similar, and ARB of Flutter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from nearmt.corpus.document import Document, Fillings, Part, Unit
from nearmt.corpus.encoding import Encoding, sniff
from nearmt.corpus.json_text import Token, check_json, string_of, tokens, written
from nearmt.corpus.report import Report, Request
from nearmt.corpus.whole import whole_text
from nearmt.errors import InputError
from nearmt.languages import same_language

#: The members that name the language of a file: of ARB, and of Angular's JSON.
_ARB_LOCALE, _LOCALE = "@@locale", "locale"
_CODE = re.compile(r"[a-z]{2,3}(?:[-_]\w{2,8})*", re.IGNORECASE)


def json_document(path: Path, request: Request, report: Report) -> Document:
    """Open a file whose strings are units, at any depth; keys and other values stay."""
    encoding = sniff(path)
    return Document(encoding, _parts(path, encoding, request, report), paragraphs=True)


def arb_document(path: Path, request: Request, report: Report) -> Document:
    """Open an ARB file: members whose names begin with `@` describe others and stay."""
    encoding = sniff(path)
    return Document(encoding, _parts(path, encoding, request, report, is_arb=True), paragraphs=True)


def _parts(path: Path, encoding: Encoding, request: Request, report: Report, is_arb: bool = False) -> Iterator[Part]:
    text = whole_text(path, encoding, request.limits)
    check_json(path, text)
    # A file in ASCII with escapes stays in ASCII.
    ascii_only = text.isascii() and "\\u" in text
    offset, counted, line, member = 0, 0, 1, ""
    for token in tokens(text):
        if token.kind == "key" and token.depth == 1:
            member = json.loads(text[token.start : token.end])
        if token.kind != "string":
            continue
        line, counted = line + text.count("\n", counted, token.start), token.start
        content = string_of(text[token.start : token.end])
        if is_arb and member == _ARB_LOCALE:
            _check_locale(path, line, content, request)
        if token.depth == 1 and member == (_ARB_LOCALE if is_arb else _LOCALE) and _is_source(content, request):
            yield Part(text[offset : token.start])
            yield Part(text[token.start : token.end], render=partial(_target_language, request))
            offset = token.end
            continue
        is_kept = is_arb and member.startswith("@")
        unit = None if is_kept else _unit(path, line, content, token, request, report)
        if unit is not None:
            render = partial(_rendered, text, offset, token, unit, ascii_only)
            yield Part(text[offset : token.end], (unit,), render)
            offset = token.end
    yield Part(text[offset:])


def _is_source(code: str | None, request: Request) -> bool:
    """Whether a text is a code of the source language, in place of which the target language can be named."""
    source, target = request.source_lang, request.target_lang
    return bool(code and source and target and _CODE.fullmatch(code)) and same_language(code, source)


def _target_language(request: Request, _: Fillings) -> str:
    return json.dumps(request.target_lang)


def _unit(path: Path, line: int, content: str | None, token: Token, request: Request, report: Report) -> Unit | None:
    if token.end - token.start > request.limits.unit_bytes:
        report.problem(path, line, f"a string of {request.limits.too_large}")
        return None
    if content is None:
        report.problem(path, line, "a string with half a character, like \\ud800, or with bytes that are not UTF-8")
        return None
    return Unit((content,), line=line)


def _rendered(text: str, offset: int, token: Token, unit: Unit, ascii_only: bool, fillings: Fillings) -> str:
    (filling,) = fillings
    assert filling is not None
    if (filling.text,) == unit.source:  # however it is escaped
        return text[offset : token.end]
    return text[offset : token.start] + written(filling.text, ascii_only=ascii_only)


def _check_locale(path: Path, line: int, locale: str | None, request: Request) -> None:
    if not same_language(locale, request.source_lang):
        raise InputError(f"{path}, line {line}: is in '{locale}', the model translates from '{request.source_lang}'")
