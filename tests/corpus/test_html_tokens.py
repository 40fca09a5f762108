"""Tokens of HTML: their spans cover the document, and scripts, comments and broken tags end where browsers end them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.html_tokens import Kind, attribute_text, attributes, escaped, quoted, tokens


def split(text: str, is_xml: bool = False) -> list[tuple[str, str]]:
    return [(token.kind.value, text[token.start : token.end]) for token in tokens(text, is_xml=is_xml)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<b>c</b>", [("text", "a"), ("start", "<b>"), ("text", "c"), ("end", "</b>")]),
        ("<!-->a", [("other", "<!-->"), ("text", "a")]),
        ("<!-- > --!>a", [("other", "<!-- > --!>"), ("text", "a")]),
        ("<!--a", [("other", "<!--a")]),
        ("<!doctype html>", [("other", "<!doctype html>")]),
        ("</ a>b", [("other", "</ a>"), ("text", "b")]),
        ("a < b <", [("text", "a < b <")]),
        ("<a b='>' c=\">\" d=/>e", [("start", "<a b='>' c=\">\" d=/>"), ("text", "e")]),
        ('<a b="x>y', [("start", '<a b="x>'), ("text", "y")]),
        ("<a b", [("rest", "<a b")]),
        ("<script>a<b</SCRIPT >c", [("start", "<script>"), ("other", "a<b"), ("end", "</SCRIPT >"), ("text", "c")]),
        ("<script>a</scripts>", [("start", "<script>"), ("other", "a</scripts>")]),
        ("<title>a<b></title>", [("start", "<title>"), ("text", "a<b>"), ("end", "</title>")]),
        ("<plaintext>a</plaintext>", [("start", "<plaintext>"), ("other", "a</plaintext>")]),
        ("<?php a > b ?>c", [("other", "<?php a > b ?>"), ("text", "c")]),
        ("<?xml:namespace a />b", [("other", "<?xml:namespace a />"), ("text", "b")]),
        ("<![CDATA[a>b]]>", [("other", "<![CDATA[a>"), ("text", "b]]>")]),
    ],
)
def test_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    assert split(text) == expected


def test_tokens_of_xhtml() -> None:
    assert split("<script/>a<![CDATA[b>c]]>", is_xml=True) == [
        ("start", "<script/>"),
        ("text", "a"),
        ("other", "<![CDATA[b>c]]>"),
    ]


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("<a b=c d='e' f=\"g\" h>", {"b": "c", "d": "e", "f": "g"}),
        ("<a/b = 'c'/>", {"b": "c"}),
        ("<a B=1 b=2>", {"b": "1"}),
        ("<a b=c/d>", {"b": "c/d"}),
        ("<aİ x=1>", {"x": "1"}),
        ("<a b=>", {}),
    ],
)
def test_attributes(tag: str, expected: dict[str, str]) -> None:
    (token,) = tokens(tag)
    found = attributes(tag, token)
    assert {name: attribute.value for name, attribute in found.items()} == expected
    assert all(tag[attribute.start : attribute.end] == attribute.value for attribute in found.values())


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a&amp;b&copy", "a&b©"),
        ("?a=1&copy=2&lt=3", "?a=1&copy=2&lt=3"),
        ("&copyright &notit; &#65;", "&copyright ¬it; A"),
        ("&auml;&", "ä&"),
    ],
)
def test_references_in_attributes(raw: str, text: str) -> None:
    assert attribute_text(raw) == text


def test_escapes() -> None:
    assert escaped("<a> & b\u00a0日", "cp1252") == "&lt;a&gt; &amp; b&nbsp;&#26085;"
    assert quoted("'\"", "'", "utf-8") == '&#39;"'
    assert quoted("'\"", "", "utf-8") == '"\'&quot;"'


SIGNS = st.text("<>/!-='\"? abscriptle&[]\n", max_size=40)


@given(SIGNS, st.booleans())
def test_tokens_cover_the_document(text: str, is_xml: bool) -> None:
    found = list(tokens(text, is_xml=is_xml))
    assert "".join(text[token.start : token.end] for token in found) == text
    assert all(token.start < token.end for token in found)
    assert all(token.kind is not Kind.REST for token in found[:-1])


class _Names(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, "".join(f" {name}={value}" for name, value in attrs if value)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", ""))


ELEMENTS = st.sampled_from(["<b>", "<p class=x>", "</p>", "<i title='a > b' x>", "a < b", "&amp;", "<!-- <b> -->", "c"])


@given(st.lists(ELEMENTS, max_size=10).map("".join))
def test_the_library_finds_the_same_tags(text: str) -> None:
    """On ordinary pages html.parser agrees."""
    parser = _Names()
    parser.feed(text)
    parser.close()
    found = []
    for token in tokens(text):
        if token.kind is Kind.START:
            values = attributes(text, token).items()
            found.append((token.name, "".join(f" {name}={attribute.value}" for name, attribute in values)))
        elif token.kind is Kind.END:
            found.append((f"/{token.name}", ""))
    assert found == [(re.sub(r"/$", "", name), values) for name, values in parser.found]
