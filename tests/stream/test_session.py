"""What is confirmed is on disk and in use at once; what is taken back is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.joined import JoinedStore
from nearmt.errors import ConfigError, DatastoreError, InputError
from nearmt.models import TranslationModel
from nearmt.stream import Session
from nearmt.translator import Translator
from tests.stream.conftest import MakeSession

PUMP = ("die pumpe prüfen", "check the pump")
SHAFT = ("die welle reinigen", "clean the shaft always")


def stored(folder: Path) -> dict[str, str]:
    """Source and target of what another process finds."""
    return {pair.source: pair.target for pair in Datastore.open(folder).pairs()}


def test_a_confirmed_pair_is_used_by_the_next_translation(make_session: MakeSession, folder: Path) -> None:
    session = make_session(exact=False)
    assert session.translate(PUMP[0]).text != PUMP[1]
    pair = session.confirm(*PUMP)
    assert (pair.source, pair.target, pair.origin) == (*PUMP, "session") and pair.id
    # By the model's states, not by looking the source up.
    assert session.translate(PUMP[0]).text == PUMP[1]
    assert stored(folder) == {"das ventil": "the valve", **dict([PUMP])}
    assert make_session(exact=False).translate(PUMP[0]).text == PUMP[1]


def test_a_source_that_is_there_gets_the_stored_translation(session: Session) -> None:
    assert session.translate("das  ventil\n").text == "the valve"
    session.confirm("das ventil", "the screw")
    assert session.translate("das ventil").text == "the screw"


def test_the_same_id_replaces(session: Session, folder: Path) -> None:
    first = session.confirm(*PUMP, id="p", metadata={"project": "x"})
    assert first.metadata == {"project": "x"}
    session.confirm(PUMP[0], "check the valve", id="p")
    assert stored(folder) == {"das ventil": "the valve", PUMP[0]: "check the valve"}
    # Also one that was there before.
    session.confirm("das ventil", "the screw", id="old-1")
    assert stored(folder) == {"das ventil": "the screw", PUMP[0]: "check the valve"}


def test_a_person_changes_their_mind(session: Session, folder: Path) -> None:
    first = session.confirm(*PUMP, metadata={"project": "x"})
    session.confirm(*SHAFT, id="s")
    again = session.correct("clean the shaft", id="s")
    last = session.correct("clean the shaft not")
    assert again.id == last.id == "s" and first.id != "s"
    corrected = session.correct("check a pump", id=first.id)
    assert corrected.id == first.id and corrected.metadata == {"project": "x"}
    assert stored(folder) == {"das ventil": "the valve", PUMP[0]: "check a pump", SHAFT[0]: "clean the shaft not"}
    assert session.statistics.confirmed == 2
    with pytest.raises(InputError, match="'old-1' was not confirmed in this session"):
        session.correct("the screw", id="old-1")


def test_nothing_to_correct_or_undo(session: Session) -> None:
    with pytest.raises(InputError, match="nothing was confirmed yet"):
        session.correct("the screw")
    assert session.undo() is None


@pytest.mark.parametrize("learn_every", [1, 3, 100])
def test_undo_goes_back_step_by_step(make_session: MakeSession, folder: Path, learn_every: int) -> None:
    session = make_session(learn_every=learn_every)
    states = []

    def remember() -> None:
        session.flush()
        states.append((stored(folder), session.statistics.confirmed, session.statistics.edited))

    remember()
    for source, target, name in [
        (*PUMP, None),
        (*SHAFT, "s"),
        (SHAFT[0], "clean the shaft", "s"),
        ("das ventil", "the screw", "old-1"),
        ("das ventil", "the screw", None),  # says what the memory says
        (*PUMP, None),
        (PUMP[0], "check a pump", None),
        (*PUMP, None),  # a third pair of this source, with the words of the first
    ]:
        session.translate(source)
        session.confirm(source, target, name)
        remember()
    while states:
        found = states.pop()
        assert (stored(folder), session.statistics.confirmed, session.statistics.edited) == found
        undone = session.undo()
        session.flush()
        assert (undone is None) == (not states)


def test_what_the_memory_says_already_is_not_learnt_again(session: Session, folder: Path) -> None:
    before = list(Datastore.open(folder).pairs())
    assert session.confirm(" das ventil ", "the\tvalve") == before[0]
    assert list(Datastore.open(folder).pairs()) == before
    session.undo()
    assert list(Datastore.open(folder).pairs()) == before
    # New words about it are something new.
    assert session.confirm("das ventil", "the valve", metadata={"project": "x"}).id != "old-1"
    assert len(list(Datastore.open(folder).pairs())) == 2


def test_pairs_are_logged_at_once_and_learnt_in_blocks(make_session: MakeSession, folder: Path) -> None:
    session = make_session(exact=False, learn_every=2)
    session.confirm(*PUMP)
    assert session.datastore.pending == 1 == Datastore.open(folder).pending
    assert session.translate(PUMP[0]).text != PUMP[1]
    # Known, though not learnt: not logged twice.
    assert session.known(PUMP[0]) == session.confirm(*PUMP) and session.datastore.pending == 1
    session.confirm(*SHAFT)
    assert session.datastore.pending == 0
    assert session.translate(PUMP[0]).text == PUMP[1] and session.translate(SHAFT[0]).text == SHAFT[1]


def test_flush_and_the_end_of_the_block_learn_the_rest(make_session: MakeSession) -> None:
    with make_session(exact=False, learn_every=100) as session:
        session.confirm(*PUMP)
        assert session.flush() == 1 and session.flush() == 0
        assert session.translate(PUMP[0]).text == PUMP[1]
        session.confirm(*SHAFT)
    assert session.datastore.pending == 0
    assert session.translate(SHAFT[0]).text == SHAFT[1]


def test_the_next_session_learns_what_an_interrupted_one_logged(make_session: MakeSession, folder: Path) -> None:
    def interrupted() -> None:
        with make_session(learn_every=100) as session:
            session.confirm(*PUMP)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Datastore.open(folder).pending == 1
    following = make_session(exact=False)
    assert following.datastore.pending == 0
    assert following.translate(PUMP[0]).text == PUMP[1]


def test_delete_removes_pairs_of_any_origin(session: Session, folder: Path) -> None:
    session.confirm(*PUMP, id="p")
    session.confirm(*SHAFT)
    with pytest.raises(DatastoreError, match="nothing was changed"):
        session.delete(["p", "nobody"])
    assert session.delete(["p", "old-1", "p"]) == 2
    assert stored(folder) == dict([SHAFT])
    # What is deleted cannot be taken back: the one before is.
    undone = session.undo()
    assert undone is not None and undone.source == SHAFT[0] and session.undo() is None
    assert stored(folder) == {} and session.known(PUMP[0]) is None


def test_statistics_tell_accepted_from_edited(session: Session) -> None:
    machine = session.translate(PUMP[0]).text or "the"
    session.confirm(PUMP[0], machine)
    session.translate(SHAFT[0])
    session.confirm(*SHAFT)
    session.confirm("immer", "always")  # without a translation request before
    found = session.statistics
    assert (found.translated, found.confirmed, found.unchanged, found.edited) == (2, 3, 1, 1)
    assert 0 < found.mean_effort <= 0.5 and found.translating > 0 and found.learning > 0
    session.undo()
    session.undo()
    assert (found.confirmed, found.unchanged, found.edited, found.mean_effort) == (1, 1, 0, 0.0)
    assert "1 confirmed: 1 unchanged, 0 edited (0% of characters)" in str(found)


@pytest.mark.parametrize(("source", "target"), [("", "x"), ("x", " \n"), ("x", "\x00"), ("x", "\ud800"), ("x", 3)])
def test_what_is_no_pair_is_refused(session: Session, folder: Path, source: str, target: str) -> None:
    before = stored(folder)
    with pytest.raises(InputError):
        session.confirm(source, target)
    assert stored(folder) == before and session.undo() is None


@pytest.mark.parametrize("bad", [{"a": 1}, {"a": "\ud800"}, {1: "a"}])
def test_bad_metadata_is_refused(session: Session, bad: dict[str, str]) -> None:
    with pytest.raises(InputError, match="metadata"):
        session.confirm(*PUMP, metadata=bad)


def test_a_session_may_begin_with_nothing(tmp_path: Path, tiny: TranslationModel) -> None:
    store = Datastore.build(tmp_path / "empty", [], tiny)
    session = Session(Translator(tiny), store)
    assert session.translator.datastore is store
    assert session.translate("").text == "" and session.known("die pumpe") is None
    session.confirm("die pumpe", "the pump")
    assert session.translate("die pumpe").text == "the pump"
    assert [pair.target for pair in Datastore.open(store.path).pairs()] == ["the pump"]


def test_a_very_long_pair_is_kept(session: Session, folder: Path) -> None:
    long = " ".join(["pumpe"] * 10_000)
    session.confirm(long, long)
    assert stored(folder)[long] == long and session.translate(long).text == long


def test_of_several_datastores_the_last_one_learns(
    tmp_path: Path, tiny: TranslationModel, tiny_store: Datastore
) -> None:
    below = next(iter(tiny_store.pairs()))
    top = Datastore.build(tmp_path / "top", [], tiny)
    session = Session(Translator(tiny, JoinedStore([tiny_store, top])), metadata={"customer": "x"})
    assert session.datastore is top and session.known(below.source) is not None
    # What the memory below has is learnt all the same: the one on top may be used alone.
    pair = session.confirm(below.source, below.target)
    assert pair.metadata == {"customer": "x"} and list(top.pairs()) == [pair]
    assert session.confirm(below.source, below.target) == pair and list(top.pairs()) == [pair]


def test_others_may_teach_the_same_memory(make_session: MakeSession) -> None:
    one, other = make_session(exact=False), make_session()
    other.confirm(*PUMP)
    assert one.translate(PUMP[0]).text == PUMP[1]


def test_what_cannot_be_a_session(tiny: TranslationModel, tiny_store: Datastore) -> None:
    with pytest.raises(ConfigError, match="needs a datastore"):
        Session(Translator(tiny))
    with pytest.raises(ConfigError, match="learn-every = 0"):
        Session(Translator(tiny, tiny_store), learn_every=0)


def test_only_the_last_translations_are_remembered(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearmt.stream.session._REMEMBERED", 2)
    for word in ("pumpe", "welle", "motor"):
        session.translate(word)
    session.confirm("pumpe", "pump")
    assert session.statistics.unchanged + session.statistics.edited == 0
    session.confirm("motor", "motor")
    assert session.statistics.unchanged + session.statistics.edited == 1


def test_pairs_have_the_ids_of_the_store(session: Session) -> None:
    """Those that `Datastore.add` would give them."""
    pair = session.confirm(*PUMP)
    session.datastore.delete([pair.id])
    session.datastore.add([Pair(*PUMP)], session.translator.model)
    found = session.datastore.snapshot().exact(PUMP[0])
    assert found is not None and found.id == pair.id
