"""Stores that older versions of nearmt wrote: they open, translate, are edited and become stores of today.

tests/fixtures has one for every format, written by the nearmt of that time with the tiny model of the tests: 60 pairs
with an index and, from format 2 on, two segments, deleted pairs, a live segment and pairs that wait for a model.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.migrations import FORMAT
from nearmt.datastore.upkeep.verify import verify
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.datastore.editing_helpers import built_alike, translations
from tests.datastore.helpers import assert_no_strays, contents

FIXTURES = Path(__file__).parent.parent / "fixtures"
FORMATS = range(1, FORMAT + 1)


@pytest.fixture(params=FORMATS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(FIXTURES / f"store-format-{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path / "store", filter="data")
    assert json.loads((tmp_path / "store" / "manifest.json").read_text(encoding="utf-8"))["format"] == request.param
    return tmp_path / "store"


@pytest.fixture
def model(tiny: TranslationModel, stored: Path) -> TranslationModel:
    """The model of the fixtures: the tiny one, whatever random numbers it is made of today."""
    return replace(tiny, fingerprint=Manifest.load(stored).fingerprint)


def expected_pairs(stored: Path) -> list[tuple[str, str]]:
    """What was put into the fixture, those pairs that wait for a model left out."""
    first = make_pairs(60)
    if json.loads((stored / "manifest.json").read_text(encoding="utf-8"))["format"] == 1:
        kept = first
    else:
        kept = [*first[3:], *make_pairs(8, seed=1), *make_pairs(3, seed=2), *make_pairs(2, seed=3)]
    return [(pair.source, pair.target) for pair in kept]


def texts(store: Datastore) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in store.pairs()]


def test_every_format_is_there() -> None:
    assert sorted(path.name for path in FIXTURES.glob("store-*")) == [f"store-format-{n}.tar.xz" for n in FORMATS]


def test_it_opens_and_reading_changes_nothing(stored: Path) -> None:
    before = contents(stored)
    assert not any(finding.damaged for finding in verify(stored))
    store = Datastore.open(stored, verify=True)
    assert texts(store) == expected_pairs(stored)
    assert store.total_pairs == Ledger(stored).pairs == len(expected_pairs(stored)) + store.pending
    assert contents(stored) == before


def test_it_translates(stored: Path, model: TranslationModel, tmp_path: Path) -> None:
    """As a store that is built today of the same pairs, without source agreement: words are not known."""
    store = Datastore.open(stored)
    Translator(model, store)  # learns what waits for a model
    assert store.pending == 0
    fresh = built_alike(tmp_path / "fresh", list(store.pairs()), model, store)
    for method in ("knn", "chunk"):
        said, should = (translations(model, each, method, agreement=0) for each in (store, fresh))
        assert [text for text, _ in said] == [text for text, _ in should] and any(text for text, _ in said)
        assert [score for _, score in said] == pytest.approx([score for _, score in should], rel=1e-3)


def test_it_is_edited_and_becomes_a_store_of_today(stored: Path, model: TranslationModel) -> None:
    expected = expected_pairs(stored)
    store = Datastore.open(stored)
    waiting = store.pending
    first = next(store.pairs())
    store.add([Pair("neue welle", "new shaft", "added")], model)
    assert Manifest.load(stored).format == FORMAT
    store.update("added", "the new shaft", model)
    store.delete([first.id])
    learnt = [(pair.source, pair.target) for pair in make_pairs(2, seed=4)][:waiting]
    expected = [*expected[1:], *learnt, ("neue welle", "the new shaft")]
    for handle in (store, Datastore.open(stored, verify=True)):
        assert texts(handle) == expected
    store.compact(model)
    again = Datastore.open(stored, verify=True)
    assert texts(again) == expected and again.manifest.format == FORMAT
    assert translations(model, again) == translations(model, store)
    assert not any(finding.damaged for finding in verify(stored))
    assert_no_strays(stored)
