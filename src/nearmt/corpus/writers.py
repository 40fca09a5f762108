"""Writing of pairs in several formats.

Writers stream pairs, and return the number of pairs that were altered because the format cannot represent them.
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

#: Takes pairs, output, source and target language; returns the number of altered pairs.
Writer = Callable[[Iterable[Pair], TextIO, str, str], int]

# Metadata with attributes in TMX.
_TU_ATTRIBUTES = ("creationdate", "creationid", "changedate", "changeid")
_LINE_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Metadata with fields in PO.
_PO_OWN = ("context", "comment", "occurrences")
# Control characters for which PO files have no escape that all tools know.
_NOT_PO = re.compile("[\x00-\x07\x0e-\x1f]")
_PO_ESCAPES = str.maketrans(
    {"\\": r"\\", '"': r"\"", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\b": r"\b", "\f": r"\f", "\v": r"\v"}
)


def write_tmx(pairs: Iterable[Pair], out: TextIO, source_lang: str, target_lang: str) -> int:
    """Write TMX 1.4; characters that XML cannot contain are removed."""
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
    """Write source, target and origin; tabs and line breaks become blanks, ids and metadata are left out."""
    altered = 0
    for pair in pairs:
        columns = [pair.source, pair.target, *([pair.origin] if pair.origin else [])]
        # At the beginning of a file it would be read as a byte-order mark.
        carried = [one_line(text).removeprefix("\ufeff") for text in columns]
        altered += carried != columns
        out.write("\t".join(carried) + "\n")
    return altered


def write_po(pairs: Iterable[Pair], out: TextIO, source_lang: str, target_lang: str) -> int:
    """Write a gettext catalogue; metadata become comments."""
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
    """Write pairs with all metadata, one JSON object per line."""
    for pair in pairs:
        entry: dict[str, Any] = {"id": pair.id} if pair.id else {}
        entry |= {"source": pair.source, "target": pair.target, "origin": pair.origin}
        if pair.metadata:
            entry["metadata"] = dict(pair.metadata)
        out.write(json.dumps(entry, ensure_ascii=False) + "\n")
    return 0


WRITERS: dict[str, Writer] = {"tmx": write_tmx, "tsv": write_tsv, "po": write_po, "jsonl": write_jsonl}


def _with_texts(pair: Pair, carry: Callable[[str], str]) -> Pair:
    """Apply a function to all texts of a pair."""
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
    """Format a keyword with its text, broken after line feeds as usual."""
    lines = re.findall("[^\n]*\n|[^\n]+", text)
    quoted = [f'"{line.translate(_PO_ESCAPES)}"\n' for line in lines]
    return f"{keyword} " + "".join(quoted if len(quoted) == 1 else ['""\n', *quoted])


def _po_comments(pair: Pair) -> tuple[str, bool]:
    """Format metadata as comments; also return whether line breaks were removed."""
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
    """Return the pair's context, or a substitute if an earlier entry has the same context and source."""
    for context in _contexts(pair):
        key = digest(context, pair.source)
        if key not in seen:
            seen.add(key)
            return context
    raise AssertionError("unreachable: contexts are unlimited")


def _contexts(pair: Pair) -> Iterator[str]:
    yield pair.metadata.get("context", "")
    if pair.id:
        yield pair.id
    yield from (str(number) for number in count(2))
