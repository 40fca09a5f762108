"""An interactive session: translate, confirm, and learn from what was confirmed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from nearmt.contracts import Pair, Translation
from nearmt.corpus import Unit, clean, plain_text
from nearmt.datastore import Datastore
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.live_store import LiveStore, editable_store
from nearmt.documents import FillConfig, FilledUnit, Filler
from nearmt.errors import ConfigError, InputError
from nearmt.stream.statistics import SessionStatistics, edit_effort
from nearmt.translator import Translator

#: Confirmations that can be undone, and translations that are remembered until they are confirmed.
_REMEMBERED = 1000


@dataclass(frozen=True)
class _Change:
    """A confirmed pair, and how much of its translation was edited."""

    pair: Pair
    #: The previous pair with this id; the pair itself, if there was nothing to learn.
    replaced: Pair | None
    effort: float | None
    #: The change of this session that this one replaces.
    earlier: _Change | None = None


class Session:
    """A translator and a datastore to which confirmed pairs are added.

    A confirmed pair is on disk when `confirm` returns, and the next translation uses it. With `learn_every` above 1,
    pairs are encoded only when this many are pending, or by `flush`: encoding many pairs at once is faster. Pairs that
    an earlier session left pending are encoded when a session begins.
    """

    def __init__(
        self,
        translator: Translator,
        datastore: Datastore | None = None,
        *,
        learn_every: int = 1,
        filling: FillConfig | None = None,
        origin: str = "session",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """`datastore`: where pairs are added; by default the translator's, the last one of several.

        `filling`: how units are translated; by default, a source with an exact match gets the stored translation.
        `origin` and `metadata` are stored with every pair.
        """
        if learn_every < 1:
            raise ConfigError(f"learn-every = {learn_every}: must be at least 1")
        store: LiveStore | None = datastore
        if store is None and translator.datastore is not None:
            store = editable_store(translator.datastore)
        if not isinstance(store, Datastore):
            raise ConfigError("a session needs a datastore: Datastore.build(folder, [], model) makes an empty one")
        store.check_model(translator.model)
        self.translator = translator if translator.datastore is not None else translator.with_datastore(store)
        self.datastore, self.learn_every = store, learn_every
        self.filling, self.origin = filling or FillConfig(split_sentences=False), origin
        self.metadata = _checked(metadata)
        self.statistics = SessionStatistics()
        self._changes: deque[_Change] = deque(maxlen=_REMEMBERED)
        self._suggested: dict[str, str] = {}
        self.flush()

    def translate(self, source: str, *, explain: bool = False) -> Translation:
        """Translate a unit with everything learnt so far."""
        return self.suggest(source, explain=explain).translation

    def suggest(self, unit: str | Unit, *, explain: bool = False) -> FilledUnit:
        """Translate a unit; the result also has its origin, fuzzy matches, and warnings for the user."""
        if isinstance(unit, str):
            unit = Unit((clean(_text(unit, "source")),))
        filler = Filler(self.translator, self.filling, paragraphs=False, explain=explain)
        start = time.perf_counter()
        if self.translator.datastore is not None:
            self.translator.datastore.refresh()  # other processes may add to the same store
        (filled,) = filler.fill([unit])
        self.statistics.translating += time.perf_counter() - start
        self.statistics.translated += 1
        self._remember(clean(plain_text(unit.source)), clean(filled.translation.text))
        return filled

    def _remember(self, source: str, translation: str) -> None:
        self._suggested.pop(source, None)
        self._suggested[source] = translation
        if len(self._suggested) > _REMEMBERED:
            del self._suggested[next(iter(self._suggested))]

    def confirm(
        self, source: str, target: str, id: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> Pair:
        """Learn a pair. It replaces the pair with its id; without an id it is new, unless the store's latest
        translation of this source is the same: then there is nothing to learn."""
        source, target = clean(_text(source, "source")), clean(_text(target, "target"))
        if not source or not target:
            raise InputError("a pair needs a source and a target that are not empty")
        pair = Pair(source, target, _text(id or "", "id"), self.origin, {**self.metadata, **_checked(metadata)})
        suggested = self._suggested.get(source)
        effort = None if suggested is None else edit_effort(suggested, target)
        known = None if pair.id else self._same(pair)
        change = self._learnt(pair, effort) if known is None else _Change(known, known, effort)
        self._changes.append(change)
        self.statistics.count(effort)
        return change.pair

    def _learnt(self, pair: Pair, effort: float | None) -> _Change:
        (pair,) = with_ids([pair], self._is_taken)
        earlier, replaced = self._change(pair.id), self._stored(pair.id)
        self._learn(pair)
        if earlier is None:
            return _Change(pair, replaced, effort)
        self.statistics.count(earlier.effort, -1)
        # Without its own predecessor, so that repeated corrections do not form an ever longer chain.
        return _Change(pair, replaced, effort, replace(earlier, earlier=None))

    def correct(self, target: str, id: str | None = None) -> Pair:
        """Change the target of a pair that was confirmed in this session: the last one, or the one with this id."""
        confirmed = [change.pair for change in self._changes if id is None or change.pair.id == id]
        if not confirmed:
            raise InputError(f"pair '{id}' was not confirmed in this session" if id else "nothing was confirmed yet")
        pair = confirmed[-1]
        return self.confirm(pair.source, target, pair.id, pair.metadata)

    def undo(self) -> Pair | None:
        """Undo the last confirmation and return its pair; the pair it replaced is restored."""
        if not self._changes:
            return None
        change = self._changes[-1]
        if change.replaced is None:
            with self._learning():
                self.datastore.delete([change.pair.id])
        elif change.replaced != change.pair:
            self._learn(change.replaced)
        self._changes.pop()
        self.statistics.count(change.effort, -1)
        if change.earlier is not None:
            self.statistics.count(change.earlier.effort)
        return change.pair

    def delete(self, ids: Iterable[str]) -> int:
        """Delete pairs from the datastore, from this session or not, and return their number."""
        wanted = {_text(name, "id") for name in ids}
        with self._learning():
            deleted = self.datastore.delete(sorted(wanted))
        kept = [change for change in self._changes if change.pair.id not in wanted]
        self._changes = deque(kept, maxlen=_REMEMBERED)
        return deleted

    def flush(self) -> int:
        """Encode the pending pairs and return their number."""
        if not self.datastore.pending:
            return 0
        with self._learning():
            return self.datastore.catch_up(self.translator.model)

    def known(self, source: str) -> Pair | None:
        """The latest pair with exactly this source, pending or not, in any store that the translator uses."""
        pair, store = self._own(clean(source)), self.translator.datastore
        return store.snapshot().exact(source) if pair is None and store is not None else pair

    def _own(self, source: str) -> Pair | None:
        """The latest pair with exactly this source in the session's datastore."""
        for change in reversed(self._changes):
            # Skip changes that were replaced later: a correction may have changed the source.
            if change.pair.source == source and change is self._change(change.pair.id):
                return change.pair
        return self.datastore.snapshot().exact(source)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error, pending pairs are left to the next session.
        if kind is None:
            self.flush()

    def _learn(self, pair: Pair) -> None:
        with self._learning():
            if self.learn_every == 1:
                self.datastore.add([pair], self.translator.model)
                return
            self.datastore.add([pair])
        if self.datastore.pending >= self.learn_every:
            self.flush()

    @contextmanager
    def _learning(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.statistics.learning += time.perf_counter() - start

    def _same(self, pair: Pair) -> Pair | None:
        """The datastore's latest pair with this source, if its target and metadata are the same."""
        known = self._own(pair.source)
        if known is None or clean(known.target) != pair.target:
            return None
        return known if pair.metadata in (self.metadata, known.metadata) else None

    def _stored(self, id: str) -> Pair | None:
        """The pair with this id, in the datastore or confirmed in this session."""
        if (change := self._change(id)) is not None:
            return change.pair
        snapshot = self.datastore.snapshot()
        number = snapshot.find(id)
        return None if number is None else snapshot.pair(number)

    def _change(self, id: str) -> _Change | None:
        """The last change of a pair in this session."""
        return next((change for change in reversed(self._changes) if change.pair.id == id), None)

    def _is_taken(self, id: str) -> bool:
        return self._stored(id) is not None


def _text(value: str, name: str) -> str:
    """Refuse values that cannot be stored as UTF-8 text."""
    if not isinstance(value, str):
        raise InputError(f"{name}: must be text, not {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: has half a character (U+{ord(value[error.start]):04X})") from error
    return value


def _checked(metadata: Mapping[str, str] | None) -> dict[str, str]:
    return {_text(name, "metadata"): _text(value, "metadata") for name, value in (metadata or {}).items()}
