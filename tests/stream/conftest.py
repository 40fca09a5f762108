"""A session of the tiny model, with a memory that repeats what it has learnt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.documents import FillConfig
from nearmt.models import TranslationModel
from nearmt.stream import Session
from nearmt.translator import Translator

#: The memory's nearest entry alone decides: what was learnt comes back word for word, what was not does not.
PARROT = {"lambda": 1.0, "k": 1, "guard": False}

MakeSession = Callable[..., Session]


@pytest.fixture
def folder(tmp_path: Path, tiny: TranslationModel) -> Path:
    """A datastore of one pair."""
    from nearmt.contracts import Pair

    path = tmp_path / "memory"
    Datastore.build(path, [Pair("das ventil", "the valve", "old-1")], tiny)
    return path


@pytest.fixture
def make_session(folder: Path, tiny: TranslationModel) -> MakeSession:
    """Each call opens the datastore anew, as another process would."""

    def make(*, exact: bool = True, learn_every: int = 1) -> Session:
        beam = BeamConfig(beams=1, max_new_tokens=12)
        translator = Translator(tiny, Datastore.open(folder), "knn", PARROT, beam)
        return Session(translator, learn_every=learn_every, filling=FillConfig(exact=exact, split_sentences=False))

    return make


@pytest.fixture
def session(make_session: MakeSession) -> Session:
    return make_session()
