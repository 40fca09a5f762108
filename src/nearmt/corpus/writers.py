"""Pairs written as files, so that nobody's memory is locked in.

Writers take one pair at a time, and return how many pairs hold something that the format cannot carry
and that was therefore altered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, count
from typing import Any, TextIO
from xml.sax.saxutils import quoteattr

from nearmt import __version__
from nearmt.contracts import Pair
from nearmt.corpus.cleaning import digest
from nearmt.corpus.lines import one_line
from nearmt.corpus.markup import carried as carried_by_xml
from nearmt.corpus.markup import escaped

#: Pairs, where to write them, source language, target language -> number of altered pairs.
Writer = Callable[[Iterable[Pair], TextIO, str, str], int]

# Metadata that TMX has attributes for.
_TU_ATTRIBUTES = ("creationdate", "creationid", "changedate", "changeid")
_LINE_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Metadata that PO has a place for.
_PO_OWN = ("context", "comment", "occurrences")
# Control characters for which PO files have no escape that all tools know.
_NOT_PO = re.compile("[\x00-\x07\x0e-\x1f]")
_PO_ESCAPES = str.maketrans(
    {"\\": r"\\", '"': r"\"", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\b": r"\b", "\f": r"\f", "\v": r"\v"}
)


def write_tmx(pairs: Iterable[Pair], out: TextIO, source_lang: str, target_lang: str) -> int:
    """TMX 1.4; characters that XML cannot carry are left out."""
    languages = [quoteattr(language) for language in (source_lang, target_lang)]
    out.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="nearmt" creationtoolversion="{__version__}" segtype="sentence" o-tmf="nearmt"'
        f' adminlang="en" srclang={languages[0]} datatype="plaintext"/>\n<body>\n'
    )
    altered = 0
    for pair in pairs:
        carried = _with_texts(pair, carried_by_xml)
        altered += carried != pair
        out.write(_translation_unit(carried, *languages))
    out.write("</body>\n</tmx>\n")
    return altered


def write_tsv(pairs: Iterable[Pair], out: TextIO, source_lang: str, target_lang: str) -> int:
    """Source, target and origin; tabs and line breaks become blanks, identity and metadata are left out."""
    altered = 0
    for pair in pairs:
        columns = [pair.source, pair.target, *([pair.origin] if pair.origin else [])]
        # At the beginning of a file it would be taken for a byte-order mark.
        carried = [one_line(text).removeprefix("\ufeff") for text in columns]
        altered += carried != columns
        out.write("\t".join(carried) + "\n")
    return altered


def write_po(pairs: Iterable[Pair], out: TextIO, source_lang: str, target_lang: str) -> int:
    """A gettext catalogue; what else is known of a pair becomes comments."""
    header = {
        "Language": target_lang,
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "X-Source-Language": source_lang,
        "X-Generator": f"nearmt {__version__}",
    }
    out.write('msgid ""\n' + _po_string("msgstr", "".join(f"{name}: {value}\n" for name, value in header.items())))
    altered = 0
    # The header is the entry of the empty source.
    seen = {digest("", "")}
    for pair in pairs:
        carried = _with_texts(pair, lambda text: _NOT_PO.sub("", text))
        comments, shortened = _po_comments(carried)
        altered += carried != pair or shortened
        context = _free_context(carried, seen)
        out.write("\n" + comments + (_po_string("msgctxt", context) if context else ""))
        out.write(_po_string("msgid", carried.source) + _po_string("msgstr", carried.target))
    return altered


def write_jsonl(pairs: Iterable[Pair], out: TextIO, source_lang: str, target_lang: str) -> int:
    """Everything that is known of a pair, one object a line."""
    for pair in pairs:
        entry: dict[str, Any] = {"id": pair.id} if pair.id else {}
        entry |= {"source": pair.source, "target": pair.target, "origin": pair.origin}
        if pair.metadata:
            entry["metadata"] = dict(pair.metadata)
        out.write(json.dumps(entry, ensure_ascii=False) + "\n")
    return 0


WRITERS: dict[str, Writer] = {"tmx": write_tmx, "tsv": write_tsv, "po": write_po, "jsonl": write_jsonl}


def _with_texts(pair: Pair, carry: Callable[[str], str]) -> Pair:
    """The pair with all its texts as a format can carry them."""
    return replace(
        pair,
        source=carry(pair.source),
        target=carry(pair.target),
        id=carry(pair.id),
        origin=carry(pair.origin),
        metadata={carry(name): carry(value) for name, value in pair.metadata.items()},
    )


def _translation_unit(pair: Pair, source_lang: str, target_lang: str) -> str:
    attributes = ({"tuid": pair.id} if pair.id else {}) | {
        name: pair.metadata[name] for name in _TU_ATTRIBUTES if name in pair.metadata
    }
    properties = chain(
        [("x-origin", pair.origin)] if pair.origin else [],
        ((name, value) for name, value in pair.metadata.items() if name not in _TU_ATTRIBUTES),
    )
    return "".join(
        [
            "<tu" + "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items()) + ">\n",
            *(f"<prop type={quoteattr(name)}>{escaped(value, 'utf-8')}</prop>\n" for name, value in properties),
            f"<tuv xml:lang={source_lang}><seg>{escaped(pair.source, 'utf-8')}</seg></tuv>\n",
            f"<tuv xml:lang={target_lang}><seg>{escaped(pair.target, 'utf-8')}</seg></tuv>\n</tu>\n",
        ]
    )


def _po_string(keyword: str, text: str) -> str:
    """A keyword with its text, broken after line feeds as usual."""
    lines = re.findall("[^\n]*\n|[^\n]+", text)
    quoted = [f'"{line.translate(_PO_ESCAPES)}"\n' for line in lines]
    return f"{keyword} " + "".join(quoted if len(quoted) == 1 else ['""\n', *quoted])


def _po_comments(pair: Pair) -> tuple[str, bool]:
    """What is known of a pair as comments, and whether line breaks had to go."""
    facts = {"origin": pair.origin} if pair.origin else {}
    facts |= {name: value for name, value in pair.metadata.items() if name not in _PO_OWN}
    lines = [f"#. {name}: {value}" for name, value in facts.items()]
    if comment := pair.metadata.get("comment"):
        lines += [f"#. {line}" for line in comment.split("\n")]
    if occurrences := pair.metadata.get("occurrences"):
        lines.append(f"#: {occurrences}")
    carried = [_LINE_BREAK.sub(" ", line) for line in lines]
    return "".join(f"{line}\n" for line in carried), carried != lines


def _free_context(pair: Pair, seen: set[bytes]) -> str:
    """The pair's context, or the first stand-in that keeps its entry apart from those before it; it is now taken."""
    for context in _contexts(pair):
        key = digest(context, pair.source)
        if key not in seen:
            seen.add(key)
            return context
    raise AssertionError("numbers do not end")


def _contexts(pair: Pair) -> Iterator[str]:
    yield pair.metadata.get("context", "")
    if pair.id:
        yield pair.id
    yield from (str(number) for number in count(2))
