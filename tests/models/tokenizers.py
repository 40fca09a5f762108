"""Folders of every family with its real tokenizer, made from a tiny vocabulary, as users have them on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import transformers
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M_CODES

from tests.tiny import WORDS, sentencepiece_model, tiny_model


def _mbart(work: Path) -> Any:
    return transformers.MBartTokenizer(vocab=sentencepiece_model(work)[1])


def _mbart50(work: Path) -> Any:
    return transformers.MBart50Tokenizer(vocab=sentencepiece_model(work)[1])


def _nllb(work: Path) -> Any:
    """BPE with one merge for every prefix of every word."""
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    merges: list[tuple[str, str]] = []
    for letter in sorted({letter for word in WORDS for letter in "▁" + word}):
        vocabulary.setdefault(letter, len(vocabulary))
    for word in WORDS:
        for end in range(1, len(word) + 1):
            merge = ("▁" + word[: end - 1], word[end - 1])
            if "".join(merge) not in vocabulary:
                merges.append(merge)
                vocabulary["".join(merge)] = len(vocabulary)
    return transformers.NllbTokenizer(vocab=vocabulary, merges=merges)


def _m2m(work: Path) -> Any:
    model, pieces = sentencepiece_model(work)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    ordered = [*special, *(piece for piece, _ in pieces if piece not in special)]
    (work / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(ordered)}), encoding="utf-8")
    tags = [f"__{code}__" for code in M2M_CODES["m2m100"]]
    return transformers.M2M100Tokenizer(str(work / "vocab.json"), str(model), additional_special_tokens=tags)


def _t5(work: Path) -> Any:
    _, pieces = sentencepiece_model(work)
    special = ["<pad>", "</s>", "<unk>"]
    vocabulary = [*((piece, 0.0) for piece in special), *(p for p in pieces if p[0] not in [*special, "<s>"])]
    known = {piece for piece, _ in vocabulary}
    letters = sorted(set("translate German to English French :") - known - {" "})
    return transformers.T5Tokenizer(
        vocab=[*vocabulary, *((letter, -9.0) for letter in letters)], extra_ids=0, additional_special_tokens=[]
    )


MAKERS: dict[str, Callable[[Path], Any]] = {
    "mbart": _mbart,
    "mbart50": _mbart50,
    "nllb": _nllb,
    "m2m_100": _m2m,
    "t5": _t5,
}


def tokenizer_folder(family: str, folder: Path) -> Path:
    """A multilingual model of the family with its tokenizer."""
    work, made = folder / "work", folder / family
    work.mkdir()
    made.mkdir()
    tokenizer = MAKERS[family](work)
    tokenizer.save_pretrained(made)
    # Hub models do not force a language of their own accord.
    changes = {} if family in ("mbart", "t5") else {"forced_bos_token_id": None}
    model = tiny_model(family, 3, vocab_size=len(tokenizer) + 8)
    for name, value in changes.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(made)
    return made


def fsmt_folder(folder: Path, same_vocabulary: bool) -> Path:
    """FSMT keeps two vocabularies; WMT19's German model has the same twice, the Russian one has not."""

    def vocabulary(words: list[str]) -> dict[str, int]:
        numbers = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
        for letter in "".join(words):
            numbers.setdefault(letter, len(numbers))
            numbers.setdefault(letter + "</w>", len(numbers))
        return numbers

    source = vocabulary(WORDS)
    target = source if same_vocabulary else vocabulary(WORDS[::-1])
    (folder / "vocab-src.json").write_text(json.dumps(source), encoding="utf-8")
    (folder / "vocab-tgt.json").write_text(json.dumps(target), encoding="utf-8")
    (folder / "merges.txt").write_text("", encoding="utf-8")
    # As facebook/wmt19-de-en has it: no end of sentence is named, only the separator that defaults to it.
    settings = {"langs": ["de", "en"], "model_max_length": 64, "tokenizer_class": "FSMTTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    tiny_model("fsmt", 3, src_vocab_size=len(source), tgt_vocab_size=len(target)).save_pretrained(folder)
    return folder
