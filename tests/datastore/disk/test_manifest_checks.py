"""What a manifest says is of the right kind and within its bounds, or refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.files import json_text
from nearmt.datastore.disk.manifest import FILE_NAME, sealed
from nearmt.errors import DatastoreError
from nearmt.models import TranslationModel
from tests.conftest import make_pairs


@pytest.fixture(scope="module")
def indexed(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("claims") / "store"
    Datastore.build(path, make_pairs(30), tiny, BuildConfig(index="IVF4,SQ8_direct_signed"))
    return path


def rewritten(path: Path, place: str, value: Any) -> Path:
    """A manifest with another value, and the checksum that fits."""
    raw = json.loads((path / FILE_NAME).read_text())
    *parents, name = place.split("/")
    node = raw
    for parent in parents:
        node = node[int(parent) if parent.isdigit() else parent]
    node[name] = value
    (path / FILE_NAME).write_text(json_text(sealed({key: part for key, part in raw.items() if key != "checksum"})))
    return path


@pytest.mark.parametrize(
    ("place", "values"),
    [
        ("columns", [0, -1, True, 2.0, "16", None, 10**12]),
        ("cache_columns", [0, 17, None]),
        ("model", [None, 1, []]),
        ("log", [False, 3]),
        ("segments", [3, [1], None]),
        ("calibration/search_scale", [0, -1.0, math.nan, math.inf, 10**400, "1", None]),
        ("calibration/likely_weight", [-0.1, 1.1, math.nan, True, "x"]),
        ("calibration/recall", [1.5, math.nan, []]),
        ("calibration/familiar", [-1, math.inf]),
        ("calibration/entries", [-1, 0.5, 1 << 60]),
        ("reduction_file/bytes", [-1, "7", 1.0]),
        ("segments/0/entries", [-1, True, "5", 1 << 60]),
        ("segments/0/too_long", [31]),
        ("segments/0/files", [None, []]),
        ("segments/0/deleted", [3, {"file": "x", "pairs": 1, "entries": 1}]),
        ("segments/0/index", [None, {}, {"kind": "other"}, {"kind": "exact", "recall": "x"}]),
        ("segments/0/index/effort", [-1, 1.5, 1 << 40, None]),
        ("segments/0/index/unit", [0, -1, math.nan, 1e300, "1"]),
        ("segments/0/index/file", ["other", None]),
        ("segments/0/index/quantiser", [None, {}, {"file": 1, "entries": 1}]),
        ("segments/0/index/pruned", [3, {"file": "x", "kept": 1}]),
    ],
)
def test_a_claim_of_another_kind_is_refused(place: str, values: list[Any], indexed: Path, tmp_path: Path) -> None:
    path = shutil.copytree(indexed, tmp_path / "store")
    right = (path / FILE_NAME).read_text()
    for value in values:
        with pytest.raises(DatastoreError, match=r"manifest\.json: damaged \([^\n]*\); `nearmt verify --repair`"):
            Manifest.load(rewritten(path, place, value))
        (path / FILE_NAME).write_text(right)
    Manifest.load(path)


def test_a_manifest_that_is_too_deep_is_refused(indexed: Path, tmp_path: Path) -> None:
    path = shutil.copytree(indexed, tmp_path / "store")
    (path / FILE_NAME).write_text('{"format": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(DatastoreError, match=r"manifest\.json: damaged"):
        Manifest.load(path)
