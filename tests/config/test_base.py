"""Settings refuse what they cannot use, by name, value and range."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from nearmt.cli.given import SETTINGS
from nearmt.config import Config, option, read_toml
from nearmt.config.old_names import OPTIONS, REMOVED, RENAMED
from nearmt.config.store import StoreConfig
from nearmt.errors import ConfigError, InputError
from nearmt.methods import ChunkConfig, KnnConfig


@dataclass(frozen=True)
class Sample(Config):
    weight: float = option(0.5, "a share", name="lambda", low=0, high=1)
    count: int | None = option(None, "how many", low=1)
    kind: str = option("a", "which", choices=("a", "bee"))
    deep_water: bool = option(False, "a switch")
    names: tuple[str, ...] | None = option(None, "several")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weight": 1.01}, "lambda = 1.01: must be between 0 and 1"),
        ({"weight": float("nan")}, "lambda = nan: must be between 0 and 1"),
        ({"weight": "much"}, "lambda = 'much': must be a number"),
        ({"weight": True}, "lambda = True: must be a number"),
        ({"count": 0}, "count = 0: must be at least 1"),
        ({"count": 1.0}, "count = 1.0: must be a whole number"),
        ({"kind": "be"}, "kind = 'be': must be one of a, bee; did you mean 'bee'?"),
        ({"deep_water": 1}, "deep-water = 1: must be true or false"),
    ],
)
def test_bad_values(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Sample(**values)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_public_names_and_signature() -> None:
    sample = Sample.from_mapping({"lambda": 1, "deep-water": True})
    assert sample == Sample(weight=1, deep_water=True)
    assert sample.public_values() == {"lambda": 1, "count": None, "kind": "a", "deep-water": True, "names": None}
    assert sample.signature() == "lambda:1|count:None|kind:a|deep-water:True|names:None"
    with pytest.raises(ConfigError, match="unknown setting 'lamda'; did you mean 'lambda'"):
        Sample.from_mapping({"lamda": 1})


@pytest.mark.parametrize("name", REMOVED)
def test_removed_settings(name: str) -> None:
    assert name not in ChunkConfig.public_fields()
    with pytest.raises(ConfigError, match=rf"setting '{name}' was removed \(.*\); leave it out"):
        ChunkConfig.from_mapping({name: 1})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("lambda", "0.5", 0.5),
        ("lambda", "1", 1.0),
        ("count", "3", 3),
        ("kind", "bee", "bee"),
        ("deep-water", "true", True),
        ("deep-water", "Off", False),
        ("names", "a=b", ("a=b",)),
    ],
)
def test_values_from_text(name: str, text: str, value: object) -> None:
    found = Sample.parse(name, text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lambda", "much", "lambda = 'much': must be a number"),
        ("count", "1.5", "count = '1.5': must be a whole number"),
        ("count", "", "count = '': must be a whole number"),
        ("deep-water", "maybe", "deep-water = 'maybe': must be true or false"),
    ],
)
def test_bad_texts(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Sample.parse(name, text)
    assert str(error.value) == message


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_renamed_settings(old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown setting '{old}'; it is called '{new}'"):
        StoreConfig.from_mapping({old: "cpu"})


def test_old_names_lead_to_settings() -> None:
    """Every old option names a setting that exists, and no setting has the name of another one that is gone."""
    known = {name for config in SETTINGS for name in config.public_fields()}
    assert set(OPTIONS.values()) <= known
    assert not (RENAMED.keys() | REMOVED.keys()) & known


def test_chunk_settings_extend_those_of_knn() -> None:
    assert set(KnnConfig.public_fields()) < set(ChunkConfig.public_fields())
    defaults = ChunkConfig()
    assert (defaults.k, defaults.chunk, defaults.schedule) == (8, 16, "geometric:2:16")
    assert (defaults.scope, defaults.retention, defaults.duplicates) == ("source", "all", "remove")
    with pytest.raises(ConfigError, match="schedule"):
        ChunkConfig(schedule="never")


def test_toml(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(InputError, match=r"a.toml: cannot be read"):
        read_toml(path)
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(InputError, match="not valid TOML"):
        read_toml(path)
    path.write_text("lambda = 0.3", encoding="utf-8")
    assert read_toml(path) == {"lambda": 0.3}
