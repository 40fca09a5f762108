"""Text that a model cannot translate is named, in a line for all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.documents import fill_document
from nearmt.documents.doubts import Doubt, Doubts, doubt_about
from nearmt.models import TranslationModel
from nearmt.translator import Translator

GERMAN = "die pumpe prüfen und reinigen"


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        (GERMAN, None),
        ("насос не работает", Doubt.SCRIPT),
        ("泵不工作", Doubt.SCRIPT),
        ("ポンプ", Doubt.UNKNOWN),  # three letters may be a name
        ("die pumpe heißt насос", None),
        ("żźćń", Doubt.UNKNOWN),
        ("pumpe 😀😀😀😀😀😀", None),
        ("123 %", None),
        ("", None),
    ],
)
def test_what_a_source_is_written_in(text: str, doubt: Doubt | None, tiny: TranslationModel) -> None:
    assert doubt_about(tiny, text, "") is doubt


def test_characters_that_could_not_be_formed(tiny: TranslationModel) -> None:
    assert doubt_about(tiny, GERMAN, "check \ufffd the pump") is Doubt.BROKEN
    assert doubt_about(tiny, GERMAN + "\ufffd", "check \ufffd the pump") is None


def test_unknown_letters_are_looked_up_once(tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tiny.codec.unknown_share("żżaż") == 0.75
    monkeypatch.setattr(tiny.codec, "_tokenizer", None)
    assert tiny.codec.unknown_share("aż" * 1000) == 0.5


def test_pieces_of_bytes_are_unknown_characters(tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the embedded model's tokenizer gives them."""

    class Bytes:
        unk_token_id = 1

        def tokenize(self, text: str) -> list[str]:
            return ["▁", *(f"<0x{byte:02X}>" for byte in text.encode())] if text == "ж" else [text]

        def convert_tokens_to_ids(self, pieces: list[str]) -> list[int]:
            return [7] * len(pieces)

    monkeypatch.setattr(tiny.codec, "_tokenizer", Bytes())
    monkeypatch.setattr(tiny.codec, "_unknown", {})
    assert tiny.codec.unknown_share("жm") == 0.5


def test_a_line_for_each_doubt() -> None:
    doubts = Doubts()
    for line in range(1, 1001):
        doubts.add(line, Doubt.SCRIPT if line % 2 else None, "насос", "")
    doubts.add(7, Doubt.UNKNOWN, "ż", "")
    assert doubts.notes() == [
        "lines 1, 3, 5, 7, 9 and 495 more: not in a script of the source language",
        "line 7: mostly characters that the model does not know",
    ]


def test_text_that_comes_out_as_it_is() -> None:
    doubts = Doubts()
    for line in (1, 2, 3):
        doubts.add(line, None, "Check the pump before the motor is opened", "Check the pump before the motor is opened")
    doubts.add(4, None, "die Pumpe", "the pump")
    assert doubts.notes() == ["lines 1, 2, 3: most words came out as they are; is this the source language?"]


@pytest.mark.parametrize(("source", "target"), [("Nokia Siemens Bosch", "Nokia Siemens Bosch"), (GERMAN * 9, "")])
def test_names_and_translations_are_no_reason_to_doubt(source: str, target: str) -> None:
    doubts = Doubts()
    doubts.add(1, None, source, target)
    assert doubts.notes() == []


def test_the_summary_of_a_document_names_the_lines(tiny: TranslationModel, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"{GERMAN}\nнасос не работает\n\n泵不工作\n", encoding="utf-8")
    summary = fill_document(path, tmp_path / "b.txt", Translator(tiny))
    assert summary.warnings[-1] == "lines 2, 4: not in a script of the source language"
