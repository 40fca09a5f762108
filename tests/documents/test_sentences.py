"""Sentence splitting keeps all text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nearmt.documents.sentences import sentence_spans


def split(text: str, language: str = "de") -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


def test_abbreviations_do_not_end_sentences() -> None:
    text = "Siehe z. B. Abb. 5 von Dr. Müller. Am 3. Mai kam er an!  Ist das gut?"
    assert split(text) == ["Siehe z. B. Abb. 5 von Dr. Müller.", "Am 3. Mai kam er an!", "Ist das gut?"]


def test_line_breaks_end_sentences() -> None:
    assert split("Eine Überschrift\nEin Satz.\r\n\r\n  Noch einer. ") == [
        "Eine Überschrift",
        "Ein Satz.",
        "Noch einer.",
    ]


def test_protected_spans_are_not_divided() -> None:
    text = 'Ziel: a=/../de und Bild. Dann <a\n  href="x. Y">hier</a> weiter. Ende.'
    assert split(text) == ["Ziel: a=/../de und Bild.", 'Dann <a\n  href="x. Y">hier</a> weiter.', "Ende."]


def test_regions_and_unknown_languages() -> None:
    assert split("One. Two.", "en-GB") == split("One. Two.", "xx") == ["One.", "Two."]


@given(st.text(st.sampled_from("aB .!?\n\r\t 。\u00a0😀é\"'"), max_size=60))
def test_spans_are_ordered_and_cover_all_text(text: str) -> None:
    spans = sentence_spans(text, "de")
    ends = [0, *(end for _, end in spans)]
    assert all(start >= before for (start, _), before in zip(spans, ends, strict=False))
    outside = "".join(text[end:start] for end, (start, _) in zip(ends, [*spans, (len(text), 0)], strict=True))
    assert not outside.strip()
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in spans)


def test_line_that_crashes_the_library_is_one_sentence() -> None:
    """In sentencex 1.0 a full stop after a no-break space panics, and the panic is not an Exception."""
    assert sentence_spans("Eins. Zwei.\n;’ A\u00a0. ", "de") == [(0, 5), (6, 11), (12, 18)]
