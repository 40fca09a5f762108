"""The tokenizer of the embedded model gives what transformers' tokenizer of the same files gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from nearmt.models.embedded import EMBEDDED
from nearmt.models.marian_tokenizer import MarianTokenizer
from tests.tiny import WORDS

AWKWARD = {
    "nothing": "",
    "blanks": "   ",
    "every blank": " \t\n\r\v\f\u00a0\u2002\u3000\u200b\u2028\u2029\u202f\ufeff",
    "blanks around": "  Zwei   Wörter\t und\nein Umbruch  ",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "a null": "a\x00b",
    "emoji": "Das ist 😀 gut 👩‍👩‍👧‍👦 und 🏳️‍🌈!",
    "combining": "e\u0301 o\u0308 n\u0303 \u0308",
    "compatibility": "ﬁnden ① ½ Ⅳ ｆｕｌｌ ℃ ™",
    "scripts": "Привет мир, 你好世界, مرحبا بالعالم, नमस्ते, ภาษาไทย, 한국어",
    "right to left marks": "\u202babc\u202c \u200fdef",
    "private use": "\ue000 \U000f0000 \U0010ffff \ufffe \uffff",
    "German quotes": "„Ja“, sagte er – ‚nein‘ … «doch»",
    "numbers": "1.234.567,89 € + 3×10⁻⁵ = 50 %",
    "markup": "<b>fett</b> &amp; <br/> {0} %s $x",
    "end of sentence": "a </s> b</s>c </s></s>",
    "unknown": "<unk> und <unk>",
    "padding": "x <pad> y<pad>",
    "nearly special": "< /s> </s <pad <<pad>> </S> <unk >",
    "a special token alone": "</s>",
    "a language tag": ">>de<< Hallo",
    "tags": ">>de<<>>en<< Hallo >>fr<<",
    "no tag": ">> Hallo << >>abc",
    "a tag over lines": ">>a\nb<< c",
    "a tag behind a special token": "</s>>>de<<hi <pad> >>en<< x",
    "the mark of words": "\u2581 a\u2581b \u2581\u2581",
    "bytes by name": "<0x41> <0xFF>",
    "one letter": "ß",
    "a long word": "Donaudampfschifffahrtsgesellschaft" * 40,
    "a long line": "Der Vertrag gilt auch für künftige Lieferungen, sofern nichts anderes vereinbart ist. " * 400,
    "a long line of nothing known": "\U0001f9ff" * 5000,
}


@pytest.fixture(scope="module")
def theirs() -> Any:
    return AutoTokenizer.from_pretrained(EMBEDDED["de-en"])


@pytest.fixture(scope="module")
def mine() -> MarianTokenizer:
    return MarianTokenizer(EMBEDDED["de-en"])


def check(mine: MarianTokenizer, theirs: Any, text: str) -> None:
    source, target = mine(text).input_ids, mine(text_target=text).input_ids
    assert source == theirs(text, verbose=False).input_ids
    assert target == theirs(text_target=text, verbose=False).input_ids
    assert mine.tokenize(text) == theirs.tokenize(text)
    assert mine.convert_ids_to_tokens(source) == theirs.convert_ids_to_tokens(source)
    assert mine.decode(source, skip_special_tokens=True) == theirs.decode(source, skip_special_tokens=True)


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_text(mine: MarianTokenizer, theirs: Any, name: str) -> None:
    check(mine, theirs, AWKWARD[name])


_ANY = st.text(st.characters(exclude_categories=["Cs"]))
_SPECIAL = st.sampled_from(["</s>", "<unk>", "<pad>", ">>de<<", ">>", "<<", " ", "\u2581", "<", "Haus", "\n"])


@given(st.one_of(_ANY, st.lists(st.one_of(_SPECIAL, _ANY), max_size=12).map("".join)))
def test_any_text(mine: MarianTokenizer, theirs: Any, text: str) -> None:
    check(mine, theirs, text)


def test_any_tokens_become_the_same_text(mine: MarianTokenizer, theirs: Any) -> None:
    chosen = random.Random(0)
    for length in (0, 1, 2, 5, 40):
        for _ in range(60):
            ids = [chosen.randrange(len(mine.encoder)) for _ in range(length)]
            assert mine.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)
    single = [[number] for number in range(len(mine.encoder))]
    assert [mine.decode(ids) for ids in single] == [theirs.decode(ids, skip_special_tokens=True) for ids in single]


def test_half_a_character_is_refused_alike(mine: MarianTokenizer, theirs: Any) -> None:
    for text in ("\ud800", "a\udfffb"):
        outcomes = []
        for tokenizer in (mine, theirs):
            try:
                outcomes.append(tokenizer(text).input_ids)
            except Exception as error:  # of whichever kind
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]


def test_the_vocabulary_and_its_special_tokens(mine: MarianTokenizer, theirs: Any) -> None:
    assert mine.get_vocab() == theirs.get_vocab()
    assert (mine.eos_token_id, mine.unk_token_id) == (theirs.eos_token_id, theirs.unk_token_id)
    assert (mine.source_lang, mine.target_lang) == (theirs.source_lang, theirs.target_lang)
    assert mine.encoder == theirs.encoder and mine.decoder == theirs.decoder
    names = ["</s>", ">>de<<", "nirgends", "▁Haus"]
    assert mine.convert_tokens_to_ids(names) == theirs.convert_tokens_to_ids(names)


def test_the_files_of_another_model(tiny_folder: Path) -> None:
    """Here the vocabulary counts otherwise than SentencePiece does, and bytes are unknown."""
    mine, theirs = MarianTokenizer(tiny_folder), AutoTokenizer.from_pretrained(tiny_folder)
    for text in (*AWKWARD.values(), " ".join(WORDS)):
        check(mine, theirs, text)


def test_many_texts_are_divided_as_each_alone(mine: MarianTokenizer) -> None:
    texts = list(AWKWARD.values()) * 2
    assert mine(texts).input_ids == [mine(text).input_ids for text in texts]
    assert mine(text_target=texts).input_ids == [mine(text_target=text).input_ids for text in texts]
    assert mine([]).input_ids == []
