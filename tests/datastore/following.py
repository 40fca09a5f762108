"""One process writes to a store and others follow it; all of them are killed at random, and say what they did and saw.

Readers are ordinary users who see the folder through a read-only mount of their own, where the test may mount. When
replaced files are removed, they are emptied as well: whoever still reads them is ended by SIGBUS, as on a network file
system.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from nearmt.contracts import Pair
from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk import manifest as manifests
from nearmt.datastore.edit import editor
from nearmt.datastore.search.snapshot import Snapshot
from nearmt.datastore.upkeep.reindex import rebuild, reindex
from nearmt.decoding import BeamConfig
from nearmt.engines.reference.distances import squared_l2
from nearmt.models import TranslationModel
from nearmt.translator import Translator

WORDS = "pumpe welle motor ventil schraube deckel öffnen prüfen pump shaft valve screw cover close check".split()
#: So that segments are sealed and merged all the time.
_LIVE_ENTRIES = 250
#: Pairs from which more are deleted than added.
_PAIRS = 60
_SETTINGS = {"k": 4, "lambda": 0.7, "temperature": 2.0, "guard": False, "agreement": 0.5, "ends": "all"}
#: An ordinary user.
_NOBODY = 65534
_NEW_MOUNTS, _READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 0x20000, 1, 32, 4096, 16384, 1 << 18
Say = Callable[..., None]


# Processes.


def forked(work: Callable[[Say], None], journal: Path) -> int:
    """Run something in a process of its own, whose words are lines of a file; its number."""
    handle = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    child = os.fork()
    if child:
        os.close(handle)
        return child

    def say(**what: Any) -> None:
        os.write(handle, json.dumps(what).encode() + b"\n")

    try:
        warnings.simplefilter("ignore")
        work(say)
    except BaseException:
        say(failed=traceback.format_exc())
    finally:
        os._exit(1)


def said(journal: Path) -> list[dict[str, Any]]:
    """The lines of a journal; a word that was cut off by the end of its process is left out."""
    lines = journal.read_bytes().split(b"\n") if journal.exists() else []
    found = []
    for line in filter(None, lines):
        try:
            found.append(json.loads(line))
        except ValueError:
            assert not line.endswith(b"}")
    return found


def mounts_allowed() -> bool:
    """Whether this process may give others mounts of their own."""
    child = os.fork()
    if not child:
        os._exit(int(ctypes.CDLL(None).unshare(_NEW_MOUNTS) != 0))
    return os.waitpid(child, 0)[1] == 0


def become_reader(folder: Path, place: Path) -> Path:
    """Be an ordinary user with a read-only mount of the folder from now on, and return its path."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: Path, target: Path, flags: int) -> None:
        if libc.mount(bytes(source), bytes(target), None, flags, None):
            raise OSError(ctypes.get_errno(), "mount")

    assert not libc.unshare(_NEW_MOUNTS)
    mount(Path("/"), Path("/"), _RECURSIVE | _PRIVATE)
    mount(folder, place, _BIND)
    mount(folder, place, _BIND | _REMOUNT | _READ_ONLY)
    become_ordinary()
    return place


def become_ordinary() -> None:
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)


# The writer.


def write(path: Path, model: TranslationModel, seed: int, say: Say) -> None:
    """Change a store until the process is killed."""
    editor.LIVE_ENTRIES = _LIVE_ENTRIES
    manifests.remove_unnamed = emptying(manifests.remove_unnamed)  # type: ignore[attr-defined]
    random = Random(seed)
    store = Datastore.open(path)
    store.catch_up(model)
    say(opened=content_of(store.pairs()), at=time.monotonic())
    for number in range(10**9):
        pairs, change = next_change(store, model, random, f"{seed}-{number}")
        say(begun=pairs, at=time.monotonic())
        change()
        say(done=content_of(store.pairs()), at=time.monotonic())


def next_change(
    store: Datastore, model: TranslationModel, random: Random, name: str
) -> tuple[dict[str, list[str]] | None, Callable[[], Any]]:
    """A change, and the pairs that the store has after it; None if it leaves them as they are."""
    now = {pair.id: pair for pair in store.pairs()}
    kind = random.random()
    if kind < 0.1:
        ways: list[Callable[[], Any]] = [
            lambda: store.compact(model),
            lambda: reindex(store.path, "exact"),
            lambda: rebuild(store.path, model, BuildConfig()),
        ]
        change = random.choice(ways)
        return None, lambda: (change(), store.refresh())
    if kind < 0.25 or len(now) > _PAIRS:
        gone = random.sample(sorted(now), min(len(now), random.randint(1, 6)))
        return content_of(pair for pair in now.values() if pair.id not in gone), lambda: store.delete(gone)
    pairs = [Pair(_text(random), _text(random), f"{name}-{place}") for place in range(random.choice([1, 1, 2, 5]))]
    if now and kind < 0.5:
        pairs[0] = replace(pairs[0], id=random.choice(sorted(now)))
    after = content_of((now | {pair.id: pair for pair in pairs}).values())
    if kind < 0.6:
        return after, lambda: (store.add(pairs), store.catch_up(model))
    return after, lambda: store.add(pairs, model)


def _text(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(2, 9)))


def content_of(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    return {pair.id: [pair.source, pair.target] for pair in pairs}


def emptying(remove: Callable[..., None]) -> Callable[..., None]:
    """What removes files, and empties those that it has removed."""

    def emptied(folder: Path, named: Collection[str], kept: Collection[str]) -> None:
        handles = [os.open(path, os.O_RDWR) for path in folder.rglob("*") if path.is_file()]
        remove(folder, named, kept)
        for handle in handles:
            if not os.fstat(handle).st_nlink:
                os.ftruncate(handle, 0)
            os.close(handle)

    return emptied


# The readers.


def read(path: Path, model: TranslationModel, seed: int, say: Say, patience: float) -> None:
    """Follow a store, check what is seen, and say which content it is, until the process is killed.

    `patience`: the longest time to keep a snapshot, or to do nothing, in seconds.
    """
    random = Random(seed)
    store = Datastore.open(path)
    translator = Translator(model, store, "knn", _SETTINGS, BeamConfig(beams=2, max_new_tokens=8))
    say(user=os.getuid(), writable=os.access(path, os.W_OK))
    kept: tuple[float, Snapshot, str] | None = None
    while True:
        start, kind = time.monotonic(), random.random()
        if kind < 0.1:
            translator.translate(_text(random))  # follows by itself
        else:
            store.refresh()
        snapshot = store.snapshot()
        end = time.monotonic()
        digest = check(snapshot, model, random)
        say(saw=digest, since=start, until=end, entries=len(snapshot))
        if kept is not None and time.monotonic() - kept[0] < patience:
            assert check(kept[1], model, random) == kept[2]
            say(kept=round(time.monotonic() - kept[0], 3))
        if kept is None or time.monotonic() - kept[0] > patience / 2:
            kept = start, snapshot, digest
        if kind > 0.99:
            kept = None
            time.sleep(2 * patience)
            say(slept=True)


def check(snapshot: Snapshot, model: TranslationModel, random: Random) -> str:
    """Compare everything in a snapshot with its pairs, and searches with exact ones; a digest of its pairs."""
    numbers = list(snapshot.numbers())
    pairs = [snapshot.pair(number) for number in numbers]
    ends = snapshot.pair_lengths().cumsum(0).tolist()
    tokens = snapshot.tokens(torch.arange(len(snapshot))).tolist()
    for number, pair in zip(numbers, pairs, strict=True):
        begin = ends[number - 1] if number else 0
        assert tokens[begin : ends[number]] == model.codec.target_ids(pair.target), pair
    if pairs:
        place = random.randrange(len(pairs))
        _check_keys(snapshot, model, numbers[place], pairs[place])
        _check_search(snapshot, random, set(numbers))
    return digest_of(content_of(pairs))


def _check_keys(snapshot: Snapshot, model: TranslationModel, number: int, pair: Pair) -> None:
    ends = snapshot.pair_lengths().cumsum(0).tolist()
    entry_T = torch.arange(ends[number - 1] if number else 0, ends[number])
    states = model.seq2seq.force_decode([model.codec.source_ids(pair.source)], [model.codec.target_ids(pair.target)])
    expected_TD = snapshot.reduction.apply(states[0]).half().float()
    torch.testing.assert_close(snapshot.keys(entry_T, snapshot.columns).float(), expected_TD, rtol=2e-3, atol=2e-3)


def _check_search(snapshot: Snapshot, random: Random, visible: set[int]) -> None:
    key_ND = snapshot.keys(torch.arange(len(snapshot)), snapshot.columns).float()
    seen_N = snapshot.findable_N()
    entry_M = torch.arange(len(snapshot)) if seen_N is None else seen_N.nonzero().flatten()
    query_BD = key_ND[random.choices(range(len(key_ND)), k=4)] + 0.03
    found = snapshot.search(query_BD, 6)
    distance_BM = squared_l2(query_BD, key_ND[entry_M][None])
    nearest_BK = distance_BM.sort(dim=1).values[:, :6]
    torch.testing.assert_close(found.distance_BK[:, : nearest_BK.shape[1]], nearest_BK, rtol=1e-5, atol=1e-5)
    for entry in found.entry_BK[:, : nearest_BK.shape[1]].flatten().tolist():
        assert int(snapshot.entries.pair_numbers(torch.tensor([entry]))) in visible


def digest_of(content: dict[str, list[str]]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


# The proof.


@dataclass
class State:
    """A content of the store: not there before `begun`, the only one from `done` on, until the next."""

    digest: str
    begun: float
    done: float


@dataclass
class Proof:
    """What was done and seen."""

    seconds: float
    kills: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    #: Contents that readers saw, and searches that they compared with exact ones.
    observations: int = 0
    kept_snapshots: int = 0
    longest_kept: float = 0.0
    #: Seconds from the acknowledgement of a change until a reader had checked for it and seen it.
    delays: list[float] = field(default_factory=list)
    mounts: bool = False
    user: int = -1

    def summary(self) -> dict[str, Any]:
        late = np.quantile(self.delays, [0.5, 0.99, 1]).round(3).tolist() if self.delays else []
        return {
            "seconds": self.seconds,
            "changes": self.changes,
            "kills": dict(self.kills),
            "observations": self.observations,
            "kept_snapshots": self.kept_snapshots,
            "longest_kept_seconds": self.longest_kept,
            "seen_after_seconds": dict(zip(("median", "99%", "longest"), late, strict=False)),
            "own_mounts": self.mounts,
            "readers_user": self.user,
        }


def prove(
    model: TranslationModel, folder: Path, seconds: float, seed: int, readers: int = 4, kept_seconds: int = 6
) -> Proof:
    """Let a writer and readers work and kill them at random; check that all agree."""
    path, random = folder / "store", Random(seed)
    pairs = [Pair(_text(random), _text(random), f"first-{number}") for number in range(20)]
    Datastore.build(path, pairs, model, BuildConfig(keep_replaced=kept_seconds))
    proof = Proof(seconds, mounts=mounts_allowed())
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        reader = _reader(path, Path(place) if proof.mounts else None, model, kept_seconds / 3)
        starts = [lambda say, seed: write(path, model, seed, say), *[reader] * readers]
        journals = _run(starts, folder, seconds, random, proof)
    states = states_of(said(journals[0]))
    proof.changes = len(states) - 1
    for journal in journals[1:]:
        _compare(said(journal), states, proof)
    store = Datastore.open(path, verify=True)
    store.catch_up(model)
    assert digest_of(content_of(store.pairs())) in {state.digest for state in states[-2:]}
    return proof


def _reader(path: Path, place: Path | None, model: TranslationModel, patience: float) -> Callable[[Say, int], None]:
    def start(say: Say, seed: int) -> None:
        read(path if place is None else become_reader(path, place), model, seed, say, patience)

    return start


def _run(
    starts: list[Callable[[Say, int], None]], folder: Path, seconds: float, random: Random, proof: Proof
) -> list[Path]:
    """Keep all processes running, killing one now and then; their journals."""
    journals = [folder / f"journal-{number}" for number in range(len(starts))]
    children: dict[int, int] = {}

    def start(number: int) -> None:
        seed = random.randrange(10**9)
        children[number] = forked(lambda say: starts[number](say, seed), journals[number])

    for number in range(len(starts)):
        start(number)
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            time.sleep(random.uniform(0.2, 2.5))
            for number, child in list(children.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    del children[number]
                assert not ended, (number, os.waitstatus_to_exitcode(status), said(journals[number])[-1:])
            number = random.choice([0, 0, *range(1, len(starts))])
            _kill(children.pop(number))
            proof.kills["writer" if number == 0 else "reader"] += 1
            start(number)
    finally:
        for child in children.values():
            _kill(child)
    return journals


def _kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def states_of(words: list[dict[str, Any]]) -> list[State]:
    """The contents that a writer, killed and started again, gave a store; each change is whole or has no effect."""
    states: list[State] = []
    begun: tuple[str | None, float] = None, 0.0
    for word in words:
        assert "failed" not in word, word["failed"]
        if "begun" in word:
            begun = (digest_of(word["begun"]) if word["begun"] is not None else None), word["at"]
            continue
        content = word["done"] if "done" in word else word["opened"]
        digest = digest_of(content)
        wanted, at = begun
        if not states:
            states.append(State(digest, 0.0, 0.0))
        elif "done" in word:
            assert digest == (wanted or states[-1].digest), "a change gave another content than it should"
        if digest != states[-1].digest:
            assert digest == wanted, "what was acknowledged is gone, or something else has come"
            states.append(State(digest, at, word["at"]))
        begun = None, 0.0
    if begun[0] is not None:  # the last change, which was not acknowledged
        states.append(State(begun[0], begun[1], float("inf")))
    return states


def _compare(words: list[dict[str, Any]], states: list[State], proof: Proof) -> None:
    """Every content that a reader saw was the one of that moment."""
    numbers: dict[str, list[int]] = {}
    for number, state in enumerate(states):
        numbers.setdefault(state.digest, []).append(number)
    life: list[tuple[int, float]] = []
    for word in words:
        assert "failed" not in word, word["failed"]
        if "user" in word:
            proof.user = word["user"]
            assert not proof.mounts or (word["user"] == _NOBODY and not word["writable"])
        if "user" in word or "slept" in word:
            proof.delays += _delays(life, states)
            life = []
        elif "kept" in word:
            proof.kept_snapshots += 1
            proof.longest_kept = max(proof.longest_kept, word["kept"])
        else:
            proof.observations += 1
            fitting = [n for n in numbers.get(word["saw"], []) if _was_there(states, n, word["since"], word["until"])]
            assert fitting, f"a reader saw a content that the store did not have: {word}"
            life.append((fitting[-1], word["until"]))
    proof.delays += _delays(life, states)


def _was_there(states: list[State], number: int, since: float, until: float) -> bool:
    """Whether a reader that looked between two times may have seen a state; it must see what was acknowledged."""
    later = states[number + 1].done if number + 1 < len(states) else float("inf")
    return states[number].begun <= until and later >= since


def _delays(life: list[tuple[int, float]], states: list[State]) -> Iterator[float]:
    """How long after its acknowledgement a reader saw each change that came while it was alive."""
    for (before, _), (now, at) in pairwise(life):
        yield from (max(0.0, at - states[number].done) for number in range(before + 1, now + 1))
