"""Every altered byte is found, without a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nearmt.datastore import Datastore
from nearmt.datastore.disk.live_segment import Block
from nearmt.datastore.disk.records import RecordWriter, read_records
from nearmt.datastore.upkeep.verify import DAMAGED, RECOMPUTED, SOUND, STRAY, TORN, UNKNOWN, verify
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from tests.datastore.damage import edited_store
from tests.datastore.helpers import contents

#: Number of bytes that are altered in larger files, including the first and the last.
SAMPLED = 12


@pytest.fixture(scope="module")
def edited(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sealed segments, one of them with deleted pairs, a log of three calls, and a live segment."""
    return edited_store(tmp_path_factory.mktemp("verified") / "store", tiny)


def verdicts(path: Path) -> dict[str, str]:
    return {finding.file: finding.verdict for finding in verify(path)}


def offsets(size: int) -> list[int]:
    step = max(1, (size - 1) // SAMPLED)
    return sorted({*range(0, size, step), size - 1}) if size else []


def test_a_whole_store_is_sound(edited: Path) -> None:
    found = verdicts(edited)
    assert set(found.values()) == {SOUND}
    assert set(found) == set(contents(edited)) - {".lock"}
    kinds = {Path(name).name.partition("-")[0].partition(".")[0] for name in found}
    assert {"manifest", "reduction", "key", "pairs", "deleted", "log", "live"} <= kinds


def test_every_altered_byte_is_found(edited: Path) -> None:
    """And a store with one in a sealed file is not opened; what can be computed again does not matter."""
    before = contents(edited)
    for name, data in before.items():
        path = edited / name
        for offset in offsets(len(data)):
            for change in (0x01, 0x2A):
                path.write_bytes(data[:offset] + bytes([data[offset] ^ change]) + data[offset + 1 :])
                found = verdicts(edited)
                changed = {file for file, verdict in found.items() if verdict != SOUND}
                assert name in changed, (name, offset, change)
                expected = {RECOMPUTED} if name.startswith("live") else {DAMAGED, TORN} if "log-" in name else {DAMAGED}
                assert found[name] in expected, (name, offset, found[name])
                if change == 0x01 and offset == offsets(len(data))[len(data) % 3]:
                    _assert_opening(edited, name, found[name])
        path.write_bytes(data)
    assert contents(edited) == before


def _assert_opening(store: Path, name: str, verdict: str) -> None:
    if verdict == DAMAGED:
        with pytest.raises(DatastoreError) as caught:
            Datastore.open(store)
        assert name in str(caught.value) and "\n" not in str(caught.value)
    else:
        Datastore.open(store)


def test_no_altered_byte_of_a_log_looks_torn(edited: Path) -> None:
    log = next(edited.glob("log-*.log"))
    data = log.read_bytes()
    for offset in range(0, len(data), 3):
        log.write_bytes(data[:offset] + bytes([data[offset] ^ 0x10]) + data[offset + 1 :])
        assert verdicts(edited)[log.name] == DAMAGED, offset
    log.write_bytes(data)


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(DatastoreError, match="not a datastore") as caught:
        verify(tmp_path)
    assert "repair" not in str(caught.value)


def test_missing_cut_and_longer_files(edited: Path) -> None:
    for name, data in contents(edited).items():
        if not data or name.startswith("live"):
            continue
        path = edited / name
        for content in (None, data[:-1], data + b"\0", b""):
            path.unlink()
            if content is not None:
                path.write_bytes(content)
            found = {finding.file: finding for finding in verify(edited)}
            assert found[name].verdict in ({DAMAGED, TORN} if "log-" in name else {DAMAGED}), (name, content)
            assert found[name].detail
            path.write_bytes(data)


def test_a_log_that_lost_operations_is_noticed(edited: Path) -> None:
    """Where it ends between two of them nothing in it is wrong; but more was computed from it."""
    log = next(edited.glob("log-*.log"))
    data = log.read_bytes()
    ends = read_records(log, durable=True).ends
    for end in (12, *ends[:4]):
        log.write_bytes(data[:end])
        found = {finding.file: finding for finding in verify(edited)}
        assert found[log.name].verdict == DAMAGED and "computed from it" in found[log.name].detail, end
    log.write_bytes(data)


def test_blocks_of_other_pairs_are_not_used(edited: Path) -> None:
    live = next(edited.glob("live-*.blocks"))
    data = live.read_bytes()
    known = [Block.from_bytes(raw, 16) for raw in read_records(live).payloads]
    blocks = [replace(block, made_of="another") for block in known if block is not None]
    assert len(blocks) == len(known)
    live.unlink()
    with RecordWriter(live, durable=False) as file:
        file.append([block.to_bytes() for block in blocks])
    found = verdicts(edited)
    live.write_bytes(data)
    assert found[live.name] == RECOMPUTED and found[next(edited.glob("log-*.log")).name] == SOUND


def test_strays_are_named_and_harmless(edited: Path) -> None:
    (edited / "notes.txt").write_text("mine", encoding="utf-8")
    (edited / "segment-000009").mkdir()
    (edited / "segment-000009" / "key.f16").write_bytes(b"x")
    found = verify(edited)
    assert [finding.file for finding in found if finding.verdict == STRAY] == ["notes.txt", "segment-000009/key.f16"]
    assert not any(finding.damaged for finding in found)
    (edited / "notes.txt").unlink()
    (edited / "segment-000009" / "key.f16").unlink()
    (edited / "segment-000009").rmdir()


def test_without_a_manifest_only_the_log_is_known(edited: Path) -> None:
    manifest = edited / "manifest.json"
    data = manifest.read_bytes()
    manifest.unlink()
    found = verdicts(edited)
    manifest.write_bytes(data)
    assert found.pop("manifest.json") == DAMAGED
    assert found.pop(next(edited.glob("log-*.log")).name) == SOUND
    assert set(found.values()) == {UNKNOWN}


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DatastoreError, match="no such datastore"):
        verify(tmp_path / "nowhere")
