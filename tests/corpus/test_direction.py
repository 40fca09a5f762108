"""The languages that documents name."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.corpus.direction import language_of_name, language_of_path, named_direction

XLIFF_1 = '<xliff version="1.2"><file source-language="de-AT" target-language="en-GB"><body/></file></xliff>'
XLIFF_2 = '<xliff version="2.0" srcLang="de"><file id="1"><unit id="1"/></file></xliff>'
TMX = '<tmx><header srclang="{}"/><body><tu>'
TMX += '<tuv xml:lang="EN-US"><seg>a</seg></tuv><tuv xml:lang="de"/></tu></body></tmx>'


@pytest.mark.parametrize(
    ("format", "content", "expected"),
    [
        ("po", 'msgid ""\nmsgstr "Language: de_AT\\n"\n', ("en", "de")),
        ("po", 'msgid ""\nmsgstr "Language: en\\nX-Source-Language: de\\n"\n', ("de", "en")),
        ("po", 'msgid ""\nmsgstr "Language: en\\n"\n', ("", "en")),
        ("po", 'msgid "a"\nmsgstr "b"\n', ("", "")),
        ("xliff", XLIFF_1, ("de", "en")),
        ("xliff", XLIFF_2, ("de", "")),
        ("xliff", "<xliff/>", ("", "")),
        ("tmx", TMX.format("de-DE"), ("de", "en")),
        ("tmx", TMX.format("*all*"), ("en", "de")),
        ("tmx", "<tmx/>", ("", "")),
        ("tsv", "a\tb\n", ("", "")),
    ],
)
def test_named_languages(tmp_path: Path, format: str, content: str, expected: tuple[str, str]) -> None:
    path = tmp_path / "file"
    path.write_text(content, encoding="utf-8")
    assert named_direction(path, format) == expected


def test_no_file_names_nothing(tmp_path: Path) -> None:
    assert named_direction(tmp_path / "missing.po", "po") == ("", "")


@pytest.mark.parametrize(
    ("name", "language"), [("a.de", "de"), ("a.pt-BR.gz", "pt"), ("a.txt", ""), ("a", ""), ("de", ""), ("a.md", "")]
)
def test_names_of_texts(name: str, language: str) -> None:
    assert language_of_name(Path(name)) == language


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("app_de.arb", "de"),
        ("messages.de-AT.json", "de"),
        ("locales/pt-BR/app.ftl", "pt"),
        ("de.lproj/Localizable.strings", "de"),
        ("values-de/strings.xml", "de"),
        ("values-de-rAT/strings.xml", "de"),
        ("app-de.json", "de"),
        ("what-is-new.md", ""),
        ("app.json", ""),
    ],
)
def test_languages_of_paths(name: str, language: str) -> None:
    assert language_of_path(Path(name)) == language
