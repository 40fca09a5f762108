"""Requests and results of the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nearmt.contracts import Pair
from nearmt.corpus.glossary import Term

TextFormat = Literal["text", "html", "xml"]
#: Where a translation comes from.
TextOrigin = Literal["machine", "memory", "repaired", "copied"]


@dataclass(frozen=True)
class MemoryUse:
    """A memory and the weight of its neighbours."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class TranslationRequest:
    """Texts to translate, and how."""

    texts: Sequence[str]
    source_lang: str | None = None
    target_lang: str | None = None
    #: None: the default memory of the principal, if it has one; (): the model alone.
    memories: Sequence[MemoryUse] | None = None
    #: A condition on pairs, KEY=VALUE, or several that must all hold.
    filter: Sequence[str] | str | None = None
    method: str | None = None
    #: Settings of the method and the beam search by public name.
    settings: Mapping[str, object] = field(default_factory=dict)
    beams: int | None = None
    #: Further translations of each text.
    alternatives: int = 0
    explain: bool = False
    #: Most similar pairs that are shown for each text.
    matches: int = 0
    format: TextFormat = "text"
    #: Whether a text whose source is in the memory gets the stored translation.
    exact: bool = True
    terms: Sequence[Term] | None = None
    bulk: bool = False
    #: Seconds from now.
    deadline: float | None = None
    #: Whether texts (not markup) are split into sentences, as documents are.
    split_sentences: bool = False
    #: Elements of XML that are not translated, and those that end a unit; all others are inline.
    ignore_tags: Sequence[str] = ()
    splitting_tags: Sequence[str] = ()


@dataclass(frozen=True)
class Difference:
    """A span of a stored source that the text has not."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class MemoryMatch:
    """A stored pair with an equal or similar source."""

    id: str
    memory: str
    source: str
    target: str
    #: 1.0 for equal text.
    score: float
    origin: str = ""
    #: Equal text in the same context.
    context: bool = False
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class WordWitness:
    """A stored pair that spoke for a word, and its share."""

    id: str
    memory: str
    source: str
    target: str
    share: float


@dataclass(frozen=True)
class WordSilenced:
    """A stored pair that did not count for a word, since its source has another word there."""

    id: str
    token: str
    share: float
    source: str
    target: str


@dataclass(frozen=True)
class Word:
    """A word of a translation, and why it is there."""

    text: str
    #: Characters of the translation.
    start: int
    end: int
    step: int
    origin: Literal["model", "search", "cache"]
    searched: bool
    #: Probability before and after mixing in the neighbours.
    before: float
    after: float
    witnesses: tuple[WordWitness, ...] = ()
    silenced: tuple[WordSilenced, ...] = ()


@dataclass(frozen=True)
class Translated:
    """The translation of a text."""

    source: str
    text: str
    score: float
    origin: TextOrigin = "machine"
    truncated: bool = False
    searches: int = 0
    steps: int = 0
    warnings: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    matches: tuple[MemoryMatch, ...] = ()
    #: Only if asked to explain.
    words: tuple[Word, ...] = ()
    #: Searches that the server of an index did not answer: neighbours are missing.
    missed: int = 0


@dataclass(frozen=True)
class Timing:
    """Seconds of a request; those of model, search and cache are summed over threads."""

    seconds: float = 0.0
    model: float = 0.0
    search: float = 0.0
    cache: float = 0.0


@dataclass(frozen=True)
class TranslationResult:
    """The translations of a request, in order."""

    translations: list[Translated]
    model: str
    source_lang: str
    target_lang: str
    signature: str = ""
    timing: Timing = Timing()


@dataclass(frozen=True)
class MemoryInfo:
    """What is known of a memory without opening it."""

    name: str
    source_lang: str
    target_lang: str
    model: str
    pairs: int
    entries: int
    #: Pairs that are logged and not encoded yet.
    pending: int
    #: On disk.
    bytes: int
    #: Why the index should be made anew; empty if it should not.
    stale: str = ""
    index: str = ""
    #: Why it cannot be used here; empty if it can.
    problem: str = ""


@dataclass(frozen=True)
class PairPage:
    """Some of the pairs of a memory, and how many there are."""

    pairs: tuple[Pair, ...]
    total: int
    #: Whether the total is exact; a search for a text that almost all pairs have ends early.
    complete: bool = True


@dataclass(frozen=True)
class LearntPair:
    """What a memory has learnt of a unit. To take it back, give the pair `before` again, or delete it if it is new."""

    memory: str
    id: str
    #: The target that the pair had before; None: it is new.
    before: str | None


@dataclass(frozen=True)
class DocumentUnit:
    """A unit of a document, with its present translation; both with their markup."""

    #: From 0.
    number: int
    source: str
    #: Empty while it is not translated.
    target: str
    #: `machine`, `memory`, `repaired`, `copied`; `edited` by a person; `kept`: the document has it; empty: not yet.
    origin: str
    confirmed: bool = False
    warnings: tuple[str, ...] = ()
    score: float | None = None
    #: Of a correction that was just learnt.
    learnt: LearntPair | None = None


@dataclass(frozen=True)
class UnitPage:
    units: tuple[DocumentUnit, ...]
    total: int


@dataclass(frozen=True)
class Statistics:
    """What the server has done since it was started."""

    seconds: float
    #: Texts, and how many came from where.
    texts: int
    by_origin: Mapping[str, int]
    #: Of texts that the model translated.
    searches: int
    missed: int
    steps: int
    #: Sentences that wait, that are decoded now, and that can be decoded at a time.
    queued: int
    running: int
    slots: int
    #: Seconds of the running batches by timer, summed over threads.
    timers: Mapping[str, float]
