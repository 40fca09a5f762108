"""The manifest seals a store: what it does not vouch for is refused, naming the file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearmt.contracts import Pair
from nearmt.datastore.disk import Calibration, FileRecord, Manifest, SegmentWriter
from nearmt.datastore.disk.files import json_text
from nearmt.datastore.disk.manifest import FILE_NAME, reduction_name, sealed
from nearmt.datastore.disk.migrations import FORMAT
from nearmt.datastore.disk.segment import FILES
from nearmt.errors import DatastoreError, OutputError
from nearmt.reduction import Reduction

COLUMNS = 4


def made_store(folder: Path, **changes: Any) -> Manifest:
    """A sealed store of two pairs, without any model."""
    folder.mkdir(exist_ok=True)
    writer = SegmentWriter(folder / "segment-000001", {})
    keys = [np.full((3, COLUMNS), 0.5, np.float16), np.full((2, COLUMNS), 1.5, np.float16)]
    writer.append([Pair("größer", "bigger"), Pair("b", "c")], keys, [[5, 6, 0], [7, 0]], [[3, 0], [4, 0]], 0)
    reduction = Reduction.identity_of(COLUMNS)
    path = folder / reduction_name(reduction.identity)
    reduction.save(path)
    manifest = Manifest(
        model="tiny",
        fingerprint="0123456789abcdef",
        source_lang="de",
        target_lang="en",
        key_layer="output",
        precision="fp32",
        columns=COLUMNS,
        cache_columns=COLUMNS,
        reduction=reduction.identity,
        reduction_file=FileRecord.of(path),
        calibration=Calibration(1.5, 0.5, 10, 8, 0.99),
        segments=(writer.seal(),),
        nearmt="0",
        created="2026-01-01T00:00:00+00:00",
    )
    manifest = dataclasses.replace(manifest, **changes)
    manifest.save(folder)
    return manifest


def edited(folder: Path, **changes: Any) -> None:
    raw = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    rewritten(folder, {**raw, **changes})


def rewritten(folder: Path, raw: dict[str, Any]) -> None:
    """Another manifest, with a checksum that is right."""
    bare = {name: value for name, value in raw.items() if name != "checksum"}
    (folder / FILE_NAME).write_text(json_text(sealed(bare)), encoding="utf-8")


def altered(folder: Path, old: str, new: str) -> None:
    """Another text, with the checksum that was there."""
    text = (folder / FILE_NAME).read_text(encoding="utf-8")
    assert old in text
    (folder / FILE_NAME).write_text(text.replace(old, new), encoding="utf-8")


def test_round_trip(tmp_path: Path) -> None:
    manifest = made_store(tmp_path)
    again = Manifest.load(tmp_path)
    assert again == manifest
    assert isinstance(again.segments[0].files["key.f16"], FileRecord)
    assert isinstance(again.calibration, Calibration)
    assert (again.pairs, again.entries) == (2, 5)
    assert again.identity == manifest.identity
    again.check_files(tmp_path, thorough=True)


@pytest.mark.parametrize("version", [0, FORMAT + 1, "1", None])
def test_another_format_is_refused(version: object, tmp_path: Path) -> None:
    made_store(tmp_path)
    edited(tmp_path, format=version)
    with pytest.raises(DatastoreError, match=rf"has format {version}, this nearmt reads format {FORMAT}") as caught:
        Manifest.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_the_format_before_is_read_and_checked(tmp_path: Path) -> None:
    manifest = made_store(tmp_path)
    raw = json.loads((tmp_path / FILE_NAME).read_text())
    rewritten(tmp_path, {**raw, "format": 2})
    assert Manifest.load(tmp_path) == manifest
    altered(tmp_path, '"pairs": ', '"pairs": 1')
    with pytest.raises(DatastoreError, match="its checksum differs"):
        Manifest.load(tmp_path)


def test_a_checksum_is_not_passed_over_for_another_format(tmp_path: Path) -> None:
    made_store(tmp_path)
    altered(tmp_path, f'"format": {FORMAT}', '"format": 1')  # which had none
    with pytest.raises(DatastoreError, match="its checksum differs"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"3",
        b"{}",
        b'{"format": 1}',
        b"\xff\xfe",
        b'{"format": 1, "segments": 3, "reduction_file": {}, "calibration": {}}',
        b'{"format": 1, "segments": [{"files": {"a": 1}}]}',
    ],
)
def test_damaged_json_is_named(content: bytes, tmp_path: Path) -> None:
    made_store(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(DatastoreError, match=r"manifest\.json: damaged") as caught:
        Manifest.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_field_too_many_or_too_few_is_damage(tmp_path: Path) -> None:
    made_store(tmp_path)
    edited(tmp_path, colour="red")
    with pytest.raises(DatastoreError, match=r"damaged .*colour"):
        Manifest.load(tmp_path)
    raw = json.loads((tmp_path / FILE_NAME).read_text(encoding="utf-8"))
    del raw["colour"], raw["fingerprint"]
    rewritten(tmp_path, raw)
    with pytest.raises(DatastoreError, match=r"damaged .*fingerprint"):
        Manifest.load(tmp_path)


def test_a_weight_that_is_no_longer_measured_is_ignored(tmp_path: Path) -> None:
    """Stores of development versions of nearmt 0.6 have it."""
    manifest = made_store(tmp_path)
    raw = json.loads((tmp_path / FILE_NAME).read_text())
    edited(tmp_path, calibration={**raw["calibration"], "agreeing_weight": 0.5})
    assert Manifest.load(tmp_path).calibration == manifest.calibration


def test_a_blank_more_or_less_is_damage(tmp_path: Path) -> None:
    """Whitespace that does not change the content changes the checksum: the file was edited."""
    made_store(tmp_path)
    text = (tmp_path / FILE_NAME).read_text(encoding="utf-8")
    for offset in range(0, len(text), 7):
        (tmp_path / FILE_NAME).write_text(text[:offset] + " " + text[offset:], encoding="utf-8")
        with pytest.raises(DatastoreError, match=r"manifest\.json: damaged"):
            Manifest.load(tmp_path)


def test_a_list_of_files_is_damage(tmp_path: Path) -> None:
    made_store(tmp_path)
    raw = json.loads((tmp_path / FILE_NAME).read_text(encoding="utf-8"))
    raw["segments"][0]["files"] = []
    rewritten(tmp_path, raw)
    with pytest.raises(DatastoreError, match="damaged"):
        Manifest.load(tmp_path)


def test_no_folder_and_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(DatastoreError, match="no such datastore"):
        Manifest.load(tmp_path / "gone")
    with pytest.raises(DatastoreError, match="not a datastore"):
        Manifest.load(tmp_path)


def sealed_files(folder: Path, manifest: Manifest) -> list[Path]:
    return [folder / manifest.reduction_name, *(folder / "segment-000001" / name for name in FILES)]


@pytest.mark.parametrize("number", range(1 + len(FILES)))
@pytest.mark.parametrize("damage", ["cut", "longer", "altered", "missing", "folder"])
def test_each_damaged_file_is_named(number: int, damage: str, tmp_path: Path) -> None:
    manifest = made_store(tmp_path)
    path = sealed_files(tmp_path, manifest)[number]
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "longer":
        path.write_bytes(content + b"\0")
    elif damage == "altered":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "folder":
        path.mkdir()
    with pytest.raises(DatastoreError) as caught:
        manifest.check_files(tmp_path)
    reasons = {"cut": "bytes instead of", "longer": "bytes instead of", "altered": "altered", "missing": "missing"}
    expected = reasons.get(damage, "no ordinary file")
    assert str(caught.value).startswith(f"{path}: ") and expected in str(caught.value)


def test_large_stores_are_checked_by_size_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = made_store(tmp_path)
    path = tmp_path / "segment-000001" / "token.i32"
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    monkeypatch.setattr("nearmt.datastore.disk.manifest.VERIFIED_AT_OPENING", 10)
    manifest.check_files(tmp_path)
    with pytest.raises(DatastoreError, match=r"token\.i32: altered"):
        manifest.check_files(tmp_path, thorough=True)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DatastoreError, match=r"token\.i32: has 16 bytes instead of 20"):
        manifest.check_files(tmp_path)


def test_identity_follows_content_not_index(tmp_path: Path) -> None:
    manifest = made_store(tmp_path)
    record = manifest.segments[0]
    indexed = dataclasses.replace(record, files={**record.files, "index-1.faiss": FileRecord(1, "x")})
    assert dataclasses.replace(manifest, segments=(indexed,)).identity == manifest.identity
    for name in FILES:
        other = dataclasses.replace(record, files={**record.files, name: FileRecord(1, "x")})
        assert dataclasses.replace(manifest, segments=(other,)).identity != manifest.identity
    assert dataclasses.replace(manifest, reduction="x").identity != manifest.identity
    assert dataclasses.replace(manifest, segments=(record, record)).identity != manifest.identity


def test_saving_removes_unreferenced_files(tmp_path: Path) -> None:
    manifest = made_store(tmp_path)
    (tmp_path / "segment-000009").mkdir()
    (tmp_path / "segment-000009" / "key.f16").write_bytes(b"x")
    (tmp_path / "segment-000001" / "index-01d.faiss").write_bytes(b"x")
    (tmp_path / "reduction-01d.safetensors").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    manifest.save(tmp_path)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    sealed = [str(path.relative_to(tmp_path)) for path in sealed_files(tmp_path, manifest)]
    assert found == sorted([FILE_NAME, "notes.txt", *sealed])


def test_a_failed_save_leaves_the_old_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = made_store(tmp_path)
    stray = tmp_path / "reduction-01d.safetensors"
    stray.write_bytes(b"the old manifest may still need it")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OutputError, match=r"manifest\.json: the disk is full"):
            dataclasses.replace(manifest, model="other").save(tmp_path)
    assert Manifest.load(tmp_path) == manifest
    assert stray.exists()
