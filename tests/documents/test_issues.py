"""Untranslatable text is reported, in one line for each kind of issue."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.documents import fill_document
from nearmt.documents.issues import Issue, IssueSummary, find_issue
from nearmt.models import TranslationModel
from nearmt.translator import Translator

GERMAN = "die pumpe prüfen und reinigen"


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        (GERMAN, None),
        ("насос не работает", Issue.SCRIPT),
        ("泵不工作", Issue.SCRIPT),
        ("ポンプ", Issue.UNKNOWN),  # three letters may be a name
        ("die pumpe heißt насос", None),
        ("żźćń", Issue.UNKNOWN),
        ("pumpe 😀😀😀😀😀😀", None),
        ("123 %", None),
        ("", None),
    ],
)
def test_script_of_the_source(text: str, issue: Issue | None, tiny: TranslationModel) -> None:
    assert find_issue(tiny, text, "") is issue


def test_replacement_characters(tiny: TranslationModel) -> None:
    assert find_issue(tiny, GERMAN, "check \ufffd the pump") is Issue.BROKEN
    assert find_issue(tiny, GERMAN + "\ufffd", "check \ufffd the pump") is None


def test_unknown_letters_are_looked_up_once(tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tiny.codec.unknown_share("żżaż") == 0.75
    monkeypatch.setattr(tiny.codec, "_tokenizer", None)
    assert tiny.codec.unknown_share("aż" * 1000) == 0.5


def test_byte_subwords_are_unknown_characters(tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded model's tokenizer produces them."""

    class Bytes:
        unk_token_id = 1

        def tokenize(self, text: str) -> list[str]:
            return ["▁", *(f"<0x{byte:02X}>" for byte in text.encode())] if text == "ж" else [text]

        def convert_tokens_to_ids(self, subwords: list[str]) -> list[int]:
            return [7] * len(subwords)

    monkeypatch.setattr(tiny.codec, "_tokenizer", Bytes())
    monkeypatch.setattr(tiny.codec, "_unknown", {})
    assert tiny.codec.unknown_share("жm") == 0.5


def test_one_line_for_each_issue() -> None:
    issues = IssueSummary()
    for line in range(1, 1001):
        issues.add(line, Issue.SCRIPT if line % 2 else None, "насос", "")
    issues.add(7, Issue.UNKNOWN, "ż", "")
    assert issues.notes() == [
        "lines 1, 3, 5, 7, 9 and 495 more: not in a script of the source language",
        "line 7: mostly characters that the model does not know",
    ]


def test_text_that_is_copied() -> None:
    issues = IssueSummary()
    for line in (1, 2, 3):
        issues.add(line, None, "Check the pump before the motor is opened", "Check the pump before the motor is opened")
    issues.add(4, None, "die Pumpe", "the pump")
    assert issues.notes() == ["lines 1, 2, 3: most words were copied unchanged; is this the source language?"]


@pytest.mark.parametrize(("source", "target"), [("Nokia Siemens Bosch", "Nokia Siemens Bosch"), (GERMAN * 9, "")])
def test_names_and_translations_are_no_issue(source: str, target: str) -> None:
    issues = IssueSummary()
    issues.add(1, None, source, target)
    assert issues.notes() == []


def test_summary_of_a_document_names_the_lines(tiny: TranslationModel, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"{GERMAN}\nнасос не работает\n\n泵不工作\n", encoding="utf-8")
    summary = fill_document(path, tmp_path / "b.txt", Translator(tiny))
    assert summary.warnings[-1] == "lines 2, 4: not in a script of the source language"
