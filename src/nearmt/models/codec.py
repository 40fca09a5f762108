"""Text to token ids and back, with the language tags that multilingual models want."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from nearmt.errors import ModelError
from nearmt.models.languages import UNDETERMINED, check_direction, english_name, find_tag, language_tags

#: Texts that are tokenized together.
_TOGETHER = 256
_BYTE = re.compile(r"<0x([0-7][0-9A-F])>")
#: The byte tokens of characters that are not in SentencePiece's vocabulary.
_ANY_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


class TextCodec:
    """A tokenizer bound to one translation direction."""

    def __init__(
        self, tokenizer: Any, config: Any, model_name: str, source_lang: str | None, target_lang: str | None
    ) -> None:
        self._tokenizer = tokenizer
        # Tokenizers have a state, source or target side; threads must not change it at the same time.
        self._lock = threading.Lock()
        self._unknown: dict[str, bool] = {}
        # FSMT ends a sentence with its separator, and has a vocabulary for each side.
        is_fsmt = config.model_type == "fsmt"
        self._eos_id: int = tokenizer.sep_token_id if is_fsmt else tokenizer.eos_token_id
        self._target_vocabulary = {name: number for number, name in tokenizer.decoder.items()} if is_fsmt else None
        self._prefix = ""
        self.target_tag_id: int | None = None
        tags = language_tags(tokenizer.get_vocab())
        self._tag_ids = frozenset(tokenizer.convert_tokens_to_ids(list(tags.values())))
        is_t5 = config.model_type == "t5"
        if is_t5 or (tags and config.model_type != "marian"):
            if not source_lang or not target_lang:
                raise ModelError(f"{model_name} is multilingual: give --source-lang and --target-lang")
            self.source_lang, self.target_lang = source_lang, target_lang
            if is_t5:
                self._prompt_in_words(model_name)
            else:
                self._tag_both_sides(tags, model_name)
        else:
            langs = getattr(config, "langs", None) or [None, None]
            self._check_direction((source_lang, target_lang), langs, tags, model_name)
        # Tokens of the direction, not of the sentence (T5's prompt).
        self._prefix_length = len(self._source_ids("")) - 1 if is_t5 else 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def _check_direction(
        self, asked: tuple[str | None, str | None], langs: list[str | None], tags: dict[str, str], model_name: str
    ) -> None:
        """Set the languages of a model with one direction, or (Marian with tags) with several target languages."""
        known_source = getattr(self._tokenizer, "source_lang", None) or langs[0]
        known_target = getattr(self._tokenizer, "target_lang", None) or langs[1]
        if tags and asked[1]:
            self._prefix = find_tag(asked[1], tags, model_name) + " "
            known_target = asked[1]
        check_direction(model_name, asked, (known_source, known_target))
        self.source_lang = asked[0] or known_source or UNDETERMINED
        self.target_lang = asked[1] or known_target or UNDETERMINED

    def _prompt_in_words(self, model_name: str) -> None:
        """Set T5's prompt in English."""
        names = english_name(self.source_lang, model_name), english_name(self.target_lang, model_name)
        self._prefix = f"translate {names[0]} to {names[1]}: "

    def _tag_both_sides(self, tags: dict[str, str], model_name: str) -> None:
        """Set the language tokens of mBART, M2M100 and NLLB."""
        target_tag = find_tag(self.target_lang, tags, model_name)
        self._tokenizer.src_lang = find_tag(self.source_lang, tags, model_name).strip("_")
        self._tokenizer.tgt_lang = target_tag.strip("_")
        self.target_tag_id = int(self._tokenizer.convert_tokens_to_ids(target_tag))

    def source_ids(self, text: str) -> list[int]:
        """The encoder's input: subwords, end of sentence, language tags."""
        with self._lock:
            return self._source_ids(text)

    def _source_ids(self, text: str) -> list[int]:
        return list(self._tokenizer(self._prefix + text, verbose=False).input_ids)

    def target_ids(self, text: str) -> list[int]:
        """The decoder's output: subwords and end of sentence, without language tags."""
        with self._lock:
            if self._target_vocabulary is None:
                ids = self._tokenizer(text_target=text, verbose=False).input_ids
            else:
                ids = self._fsmt_target_ids(text, self._target_vocabulary)
        return self._ended(ids)

    def _ended(self, ids: Sequence[int]) -> list[int]:
        special = self._tag_ids | {self._eos_id}
        return [*(token for token in ids if token not in special), self._eos_id]

    def source_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`source_ids` of many texts, which most tokenizers find faster, and on threads of their own."""
        found: list[list[int]] = []
        for some in _parts(texts):
            with self._lock:  # for a short time: translations tokenize, too
                found += self._tokenizer([self._prefix + text for text in some], verbose=False).input_ids
        return [list(ids) for ids in found]

    def target_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`target_ids` of many texts."""
        if self._target_vocabulary is not None:
            return [self.target_ids(text) for text in texts]
        found: list[list[int]] = []
        for some in _parts(texts):
            with self._lock:
                found += self._tokenizer(text_target=list(some), verbose=False).input_ids
        return [self._ended(ids) for ids in found]

    def _fsmt_target_ids(self, text: str, vocabulary: dict[str, int]) -> list[int]:
        """FSMT's tokenizer tokenizes only its source language: set that to the target language for a moment."""
        tokenizer = self._tokenizer
        source_lang, tokenizer.src_lang = tokenizer.src_lang, tokenizer.tgt_lang
        try:
            unknown = vocabulary[tokenizer.unk_token]
            return [vocabulary.get(subword, unknown) for subword in tokenizer.tokenize(text)]
        finally:
            tokenizer.src_lang = source_lang

    def source_length(self, ids: list[int]) -> int:
        """|x| of the paper: subwords with end of sentence, without language tags."""
        return sum(token not in self._tag_ids for token in ids) - self._prefix_length

    def unknown_share(self, text: str) -> float:
        """The share of the letters of a source text that are not in the vocabulary."""
        letters = Counter(character for character in text if character.isalpha())
        unknown = sum(count for letter, count in letters.items() if self._is_unknown(letter))
        return unknown / max(1, letters.total())

    def _is_unknown(self, letter: str) -> bool:
        if letter not in self._unknown:
            with self._lock:
                subwords = self._tokenizer.tokenize(letter)
                ids = self._tokenizer.convert_tokens_to_ids(subwords)
            self._unknown[letter] = self._tokenizer.unk_token_id in ids or any(map(_ANY_BYTE.fullmatch, subwords))
        return self._unknown[letter]

    def text(self, ids: list[int]) -> str:
        """The text of output tokens."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def subwords(self, ids: Sequence[int]) -> list[str]:
        """The subwords of output tokens, with blanks where words begin or end."""
        return [_with_blanks(token) for token in self._tokenizer.convert_ids_to_tokens(ids)]

    def source_subwords(self, ids: Sequence[int]) -> list[str]:
        """The subwords of input tokens; empty for language tags, prompts and the end of sentence."""
        known = self._subword_of
        if new := [token for token in set(ids) if token not in known]:
            names = self._source_names
            subwords = self.subwords(new) if names is None else [_with_blanks(names[token]) for token in new]
            known.update(zip(new, subwords, strict=True))
        return ["" if position < self._prefix_length else known[token] for position, token in enumerate(ids)]

    @cached_property
    def _subword_of(self) -> dict[int, str]:
        """The subwords of input tokens that were asked for; tokenizers take long for each."""
        return dict.fromkeys([*self._tag_ids, self._eos_id], "")

    @cached_property
    def _source_names(self) -> dict[int, str] | None:
        """Source subwords by id, where the source has a vocabulary of its own (FSMT, some Marian models)."""
        apart = self._target_vocabulary is not None or getattr(self._tokenizer, "separate_vocabs", False)
        return {number: subword for subword, number in self._tokenizer.encoder.items()} if apart else None

    def vocabulary(self) -> dict[str, int]:
        """Every subword and its id, for the model's fingerprint."""
        target = {f"target {subword}": number for subword, number in (self._target_vocabulary or {}).items()}
        return {**self._tokenizer.get_vocab(), **target}


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + _TOGETHER] for start in range(0, len(texts), _TOGETHER))


def _with_blanks(token: str) -> str:
    """A subword as text; a byte token as its character, if it is ASCII."""
    if byte := _BYTE.fullmatch(str(token)):
        return chr(int(byte.group(1), 16))
    return str(token).replace("\u2581", " ").replace("</w>", " ")
