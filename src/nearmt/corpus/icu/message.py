"""Messages as whole sentences: each branch is a flat text that is translated on its own, and put back.

Text before and behind a plural or a selection is part of its branches, so that whole sentences are translated:
`{n, plural, one {# file} other {# files}} deleted` becomes `{n, plural, one {# file deleted} other {# files deleted}}`.
Several plurals are nested in this way; a second one of the same argument takes the branch of the first.

Plurals get the categories of the target language: missing ones take the text of `other`, others are dropped. Where the
target's `one` is about further numbers than 1 (21 in Russian) and the source's names no number (`a file`), that becomes
the branch `=1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nearmt.corpus.icu.plurals import category, numbers_by_category
from nearmt.corpus.icu.syntax import Choice, MessageError, NumberSign, Pattern, Simple, has_choice, parse

_MOST_BRANCHES = 200
_KEY = tuple[str, str, int]


@dataclass(frozen=True)
class Argument:
    """An argument, a number sign or quoted syntax, as written in its branch."""

    raw: str
    #: Numbers that it may stand for, if it is the number of a plural around it.
    examples: tuple[int, ...] = ()


@dataclass(frozen=True)
class Branch:
    """A flat text, and the branches that lead to it: argument, type, keyword."""

    path: tuple[tuple[str, str, str], ...]
    pieces: tuple[str | Argument, ...]

    @property
    def text(self) -> str:
        return "".join(piece if isinstance(piece, str) else piece.raw for piece in self.pieces)


@dataclass(frozen=True)
class Message:
    """A message with branches, for a target language."""

    branches: tuple[Branch, ...]
    #: Choices, by their beginning, with their branches; a leaf is the number of a branch.
    _tree: _Node
    _doubles_apostrophes: bool

    def rebuild(self, translations: Sequence[str]) -> str:
        """Make the message of the translations of all branches, in order, with the arguments as written there."""
        texts = [self._escaped(branch, text) for branch, text in zip(self.branches, translations, strict=True)]
        return _written(self._tree, texts)

    def _escaped(self, branch: Branch, text: str) -> str:
        """Quote syntax outside of the branch's arguments."""
        known = sorted({piece.raw for piece in branch.pieces if isinstance(piece, Argument)}, key=len, reverse=True)
        in_plural = any(kind != "select" for _, kind, _ in branch.path)
        tokens = re.compile("|".join([*map(re.escape, known), "[{}#]" if in_plural else "[{}]"]))
        written, offset = _Written(self._doubles_apostrophes), 0
        for found in tokens.finditer(text):
            written.text(text[offset : found.start()])
            if found[0] not in known:
                written.quoted(found[0])
            elif found[0][0] == "'":
                written.quoted(found[0][1:-1])
            else:
                written.argument(found[0])
            offset = found.end()
        written.text(text[offset:])
        return "".join(written.parts)


class _Written:
    """The text of a branch as written in a message."""

    def __init__(self, doubles_apostrophes: bool) -> None:
        self.parts: list[str] = []
        self._doubles = doubles_apostrophes
        self._is_quoted = False

    def text(self, text: str) -> None:
        """Add text; apostrophes are doubled if the message does, or if they would quote what is next to them."""
        if not text:
            return
        if self._is_quoted and not text.strip("'"):
            self.quoted(text.replace("'", "''"))
            return
        is_risky = self._doubles or "''" in text or text[0] == "'" or text[-1] == "'"
        self.parts.append(text.replace("'", "''") if is_risky else text)
        self._is_quoted = False

    def quoted(self, content: str) -> None:
        """Add quoted syntax; quotes next to each other are one, since `''` does not end a quote."""
        if self._is_quoted:
            self.parts[-1] = f"{self.parts[-1][:-1]}{content}'"
        else:
            self.parts.append(f"'{content}'")
        self._is_quoted = True

    def argument(self, raw: str) -> None:
        self.parts.append(raw)
        self._is_quoted = False


@dataclass(frozen=True)
class _Node:
    head: str
    cases: tuple[tuple[str, _Node | int], ...]


def _written(node: _Node | int, texts: Sequence[str]) -> str:
    if isinstance(node, int):
        return texts[node]
    cases = " ".join(f"{keyword} {{{_written(below, texts)}}}" for keyword, below in node.cases)
    return f"{{{node.head} {cases}}}"


def parse_message(text: str, source_lang: str, target_lang: str) -> Message | None:
    """Parse a message; None if it has no branches. Raises MessageError if it has some and cannot be parsed."""
    if not has_choice(text):
        return None
    pattern = parse(text)
    if not any(isinstance(part, Choice) for part in pattern):
        return None  # its syntax is quoted
    flattener = _Flattener(source_lang, target_lang)
    tree = flattener.flatten(pattern, ())
    assert isinstance(tree, _Node)
    return Message(tuple(flattener.branches), tree, "''" in text)


@dataclass(frozen=True)
class _Bound:
    """A choice around a text, its branch, and the numbers for which the target language takes it."""

    key: _KEY
    keyword: str
    #: The branch that the source language takes.
    taken: str
    examples: tuple[int, ...]


class _Flattener:
    """Distributes text over branches."""

    def __init__(self, source_lang: str, target_lang: str) -> None:
        self._source, self._target = source_lang, target_lang
        self.branches: list[Branch] = []

    def flatten(self, pattern: Pattern, path: tuple[_Bound, ...]) -> _Node | int:
        place = next((place for place, part in enumerate(pattern) if isinstance(part, Choice)), None)
        if place is None:
            return self._leaf(pattern, path)
        choice = pattern[place]
        assert isinstance(choice, Choice)
        before, after = pattern[:place], pattern[place + 1 :]
        bound = next((each for each in path if each.key == choice.key), None)
        if bound is not None:
            return self.flatten((*before, *self._case(choice, bound.taken), *after), path)
        keywords = dict.fromkeys(_keywords(pattern, choice.key))
        cases: list[tuple[str, _Node | int]] = []
        for each in self._bounds(choice, keywords, pattern):
            below = self.flatten((*before, *self._case(choice, each.taken), *after), (*path, each))
            cases.append((each.keyword, below))
        offset = f" offset:{choice.offset}" * (choice.offset > 0)
        return _Node(f"{choice.name}, {choice.type},{offset}", tuple(cases))

    def _leaf(self, pattern: Pattern, path: tuple[_Bound, ...]) -> int:
        if len(self.branches) >= _MOST_BRANCHES:
            raise MessageError(f"more than {_MOST_BRANCHES} branches")
        pieces: list[str | Argument] = []
        for part in pattern:
            assert not isinstance(part, Choice)
            piece = part if isinstance(part, str) else self._argument(part, path)
            if isinstance(piece, str) and pieces and isinstance(pieces[-1], str):
                pieces[-1] += piece
            else:
                pieces.append(piece)
        names = tuple((each.key[0], each.key[1], each.keyword) for each in path)
        self.branches.append(Branch(names, tuple(pieces)))
        return len(self.branches) - 1

    def _argument(self, part: Simple | NumberSign, path: tuple[_Bound, ...]) -> Argument:
        plurals = [each for each in path if each.key[1] != "select"]
        if isinstance(part, Simple):
            bound = next((each for each in plurals if part.name == each.key[0]), None)
            examples = () if bound is None else tuple(n + bound.key[2] for n in bound.examples)
            return Argument(part.raw, examples)
        bound = next(each for each in plurals if (each.key[0], each.key[2]) == (part.name, part.offset))
        if bound is plurals[-1]:
            return Argument("#", bound.examples)
        if part.offset:
            raise MessageError(f"'#' of '{part.name}' with an offset, around another plural")
        return Argument(f"{{{part.name}, number}}", bound.examples)

    def _bounds(self, choice: Choice, keywords: Mapping[str, None], pattern: Pattern) -> Iterator[_Bound]:
        """The branches that the target language needs, and what they are made of."""
        if choice.type == "select":
            yield from (_Bound(choice.key, keyword, keyword, ()) for keyword in keywords)
            return
        ordinal = choice.type == "selectordinal"
        exact = [keyword for keyword in keywords if keyword[0] == "="]
        wanted = numbers_by_category(self._target, ordinal)
        usual = [numbers for numbers in wanted.values() if numbers][-1]
        is_only_about_1 = wanted.get("one") == (1,) or "one" not in keywords or "one" not in wanted
        # Where the source's `one` is about 21, too, its text is right for it.
        is_only_about_1 |= numbers_by_category(self._source).get("one") != (1,)
        has_number = is_only_about_1 or ordinal or _has_number(pattern, choice, "one")
        if not has_number and "=1" not in exact and choice.offset == 0:
            yield _Bound(choice.key, "=1", "one", (1,))
        for keyword in exact:
            yield _Bound(choice.key, keyword, keyword, (int(keyword[1:]) - choice.offset,))
        for name, numbers in wanted.items():
            is_exact = name not in keywords and {f"={number + choice.offset}" for number in numbers} <= set(exact)
            if name == "other" or not is_exact:
                taken = name if name in keywords and (name != "one" or has_number) else "other"
                yield _Bound(choice.key, name, taken, numbers or usual)

    def _case(self, choice: Choice, keyword: str) -> Pattern:
        """The branch of a choice; one for a number is that of its category, if the choice has no other."""
        if keyword not in choice.cases and keyword[0] == "=":
            keyword = category(self._source, int(keyword[1:]) - choice.offset, choice.type == "selectordinal")
        last = next(reversed(choice.cases))
        return choice.cases.get(keyword, choice.cases.get("other", choice.cases[last]))


def _keywords(pattern: Pattern, key: _KEY) -> Iterator[str]:
    """The branches of all choices with a key; `other` is the last."""
    found: list[str] = []
    for part in pattern:
        if isinstance(part, Choice):
            if part.key == key:
                found += part.cases
            for case in part.cases.values():
                found += _keywords(case, key)
    return iter(sorted(found, key=lambda keyword: keyword == "other"))


def _has_number(pattern: Pattern, choice: Choice, keyword: str) -> bool:
    """Whether the text of a branch, or that around it, has the number of its choice."""
    around = [part for part in pattern if not isinstance(part, Choice)]
    return any(
        (isinstance(part, NumberSign) and part.name == choice.name)
        or (isinstance(part, Simple) and part.name == choice.name)
        for part in (*around, *choice.cases.get(keyword, ()))
    )
