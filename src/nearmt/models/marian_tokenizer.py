"""Marian's tokenizer by SentencePiece alone: the same tokens as transformers' MarianTokenizer."""

from __future__ import annotations

import json
import re
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

_END, _UNKNOWN, _PADDING = "</s>", "<unk>", "<pad>"
_SPECIAL = re.compile(f"({_END}|{_UNKNOWN}|{_PADDING})")
#: A language tag in front of a text is one token.
_TAG = re.compile(r">>.*?<<", re.DOTALL)


class MarianTokenizer:
    """The part of a Hugging Face tokenizer that `TextCodec` uses; both languages share one vocabulary."""

    separate_vocabs = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        settings = json.loads((folder / "tokenizer_config.json").read_bytes())
        self.source_lang, self.target_lang = settings["source_lang"], settings["target_lang"]
        self.encoder: dict[str, int] = json.loads((folder / "vocab.json").read_bytes())
        self.decoder = {number: token for token, number in self.encoder.items()}
        self.eos_token_id, self.unk_token_id = self.encoder[_END], self.encoder[_UNKNOWN]
        self._special = frozenset((self.eos_token_id, self.unk_token_id, self.encoder[_PADDING]))

    @cached_property
    def _source(self) -> SentencePieceProcessor:
        return _processor(self._folder / "source.spm")

    @cached_property
    def _target(self) -> SentencePieceProcessor:
        return _processor(self._folder / "target.spm")

    def __call__(
        self,
        text: str | list[str] | None = None,
        *,
        text_target: str | list[str] = "",
        verbose: bool = True,
    ) -> SimpleNamespace:
        """Token ids of a source, or of a target, with the end of sentence; of several texts, those of each."""
        given, processor = (text, self._source) if text is not None else (text_target, self._target)
        if isinstance(given, str):
            return SimpleNamespace(input_ids=self._ended(_tokens(given, processor)))
        return SimpleNamespace(input_ids=[self._ended(tokens) for tokens in _tokens_of_all(given, processor)])

    def _ended(self, tokens: list[str]) -> list[int]:
        return [*self.convert_tokens_to_ids(tokens), self.eos_token_id]

    def tokenize(self, text: str) -> list[str]:
        """The subwords of a source."""
        return _tokens(text, self._source)

    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]:
        return [self.encoder.get(token, self.unk_token_id) for token in tokens]

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.decoder[number] for number in ids]

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens, special ones left out."""
        assert skip_special_tokens
        pieces = self.convert_ids_to_tokens([number for number in ids if number not in self._special])
        return str(self._source.decode_pieces(pieces)).replace("\u2581", " ").strip()

    def get_vocab(self) -> dict[str, int]:
        return dict(self.encoder)


def _tokens(text: str, processor: SentencePieceProcessor) -> list[str]:
    """Subwords; the names of special tokens stand for these tokens."""
    tokens: list[str] = []
    for number, part in enumerate(_SPECIAL.split(text)):
        if number % 2:
            tokens.append(part)
        elif part:
            tag = _TAG.match(part)
            tokens += [tag[0]] if tag else []
            tokens += processor.encode(part[tag.end() if tag else 0 :], out_type=str)
    return tokens


def _tokens_of_all(texts: list[str], processor: SentencePieceProcessor) -> list[list[str]]:
    """The same for each text; those without special tokens are divided together, while other threads run."""
    found: dict[int, list[str]] = {}
    plain = []
    for number, text in enumerate(texts):
        if text and not _TAG.match(text) and not _SPECIAL.search(text):
            plain.append(number)
        else:
            found[number] = _tokens(text, processor)
    if plain:
        divided = processor.encode([texts[number] for number in plain], out_type=str)
        found |= dict(zip(plain, divided, strict=True))
    return [found[number] for number in range(len(texts))]


def _processor(path: Path) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_file=str(path))
