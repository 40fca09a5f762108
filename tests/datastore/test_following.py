"""Several processes follow a store on disk while another one changes it: see `following.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import replay
from nearmt.datastore.disk.log import Replay, read_named_log
from nearmt.models import TranslationModel
from tests.conftest import make_pairs
from tests.datastore.following import prove


def test_a_change_is_not_seen_before_an_earlier_one(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of the first change came after a reader had read the blocks, the second before it read the log."""
    store = Datastore.build(tmp_path / "store", make_pairs(6), tiny)
    reader, read = Datastore.open(store.path), read_named_log
    store.add(make_pairs(1, seed=1), tiny)

    def change_first(path: Path, start: int = 0) -> Replay:
        monkeypatch.setattr(replay, "read_named_log", read)
        store.add([Pair("welle", "shaft", "new")], tiny)
        store.delete([next(store.pairs()).id])
        return read(path, start)

    monkeypatch.setattr(replay, "read_named_log", change_first)
    assert reader.refresh()
    assert list(reader.pairs()) == list(store.pairs())
    assert [pair.id for pair in reader.pairs()][-1] == "new" and not reader.refresh()


def test_readers_follow_a_writer(tiny: TranslationModel, tmp_path: Path) -> None:
    proof = prove(tiny, tmp_path, 8, 1)
    assert proof.changes > 5 and proof.observations > 20 and proof.kept_snapshots > 5
    assert proof.kills["writer"] and proof.kills["reader"]


@pytest.mark.slow
def test_readers_follow_a_writer_for_ten_minutes(
    tiny: TranslationModel, tmp_path: Path, campaign_seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = prove(tiny, tmp_path, 600, campaign_seed, kept_seconds=10)
    with capsys.disabled():
        print(json.dumps(proof.summary()))
    assert proof.changes > 500 and proof.observations > 2000
    assert proof.kills["writer"] > 50 and proof.kills["reader"] > 50
