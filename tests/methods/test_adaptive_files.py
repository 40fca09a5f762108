"""A network's file: written whole or not at all, read only where it is one and fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nearmt.datastore import Datastore
from nearmt.errors import ConfigError, InputError, NearmtError, OutputError
from nearmt.methods import make_method
from nearmt.methods.adaptive import load_adaptive, save_adaptive
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.translator import Translator
from tests.conftest import make_pairs
from tests.methods.test_adaptive import TEXTS, made_head, saved
from tests.tiny import tiny_marian_folder


def test_save_and_load(tmp_path: Path) -> None:
    heads = {"search": made_head(6), "cache": made_head(6, scale=0.25, temperature=0.1, seed=3)}
    save_adaptive(tmp_path / "new" / "net", heads, {"model": "f00"})
    mixer = load_adaptive(tmp_path / "new" / "net", 6, 6, boost=0.5)
    assert (mixer.origin.model, mixer.boost) == ("f00", 0.5) and len(mixer.identity or "") == 12
    for name, head in heads.items():
        assert mixer.heads[name].shape == head.shape
        assert all(torch.equal(t, mixer.heads[name].state_dict()[key]) for key, t in head.state_dict().items())
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["net"]


def written(path: Path, heads: dict[str, dict[str, Any]] | None, tensors: dict[str, Tensor], **about: Any) -> Path:
    """A file that nearmt would not write."""
    from safetensors.torch import save_file

    metadata = None if heads is None else {"nearmt": json.dumps({"heads": heads, "model": "f00", **about})}
    save_file(tensors, path, metadata)
    return path


def damaged(folder: Path, kind: str) -> Path:
    path = folder / "net"
    head = made_head(4)
    shape: dict[str, Any] = {"k": 4, "confidence": True, "scale": 3.0}
    tensors = {f"search.{key}": value for key, value in head.state_dict().items()}
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("not a network at all, but long enough to be read as one", encoding="utf-8")
    elif kind == "cut short":
        save_adaptive(path, {"search": head}, {"model": "f00"})
        path.write_bytes(path.read_bytes()[:-40])
    elif kind == "no metadata":
        written(path, None, tensors)
    elif kind == "no model":
        written(path, {"search": shape}, tensors, model=None)
    elif kind == "no search head":
        written(path, {"cache": shape}, {key.replace("search", "cache"): value for key, value in tensors.items()})
    elif kind == "no heads":
        written(path, {}, tensors)
    elif kind == "a head of a list":
        written(path, {"search": [4]}, tensors)  # type: ignore[dict-item]
    elif kind == "another size":
        written(path, {"search": {**shape, "k": 5}}, tensors)
    elif kind == "a size without end":
        written(path, {"search": {**shape, "k": 10**12}}, tensors)
    elif kind == "no neighbours":
        written(path, {"search": {**shape, "k": 0}}, tensors)
    elif kind == "no scale":
        written(path, {"search": {**shape, "scale": 0.0}}, tensors)
    elif kind == "not a number":
        written(path, {"search": shape}, {**tensors, "search.log_temperature": torch.tensor(torch.nan)})
    elif kind == "a tensor missing":
        written(path, {"search": shape}, {key: value for key, value in tensors.items() if "bias" not in key})
    return path


@pytest.mark.parametrize(
    "kind",
    [
        *("empty", "text", "cut short", "no metadata", "no model", "no search head", "no heads", "a head of a list"),
        *("another size", "a size without end", "no neighbours", "no scale", "not a number", "a tensor missing"),
    ],
)
def test_a_file_that_is_no_network(tmp_path: Path, kind: str) -> None:
    path = damaged(tmp_path, kind)
    assert path.exists()
    with pytest.raises(InputError) as error:
        load_adaptive(path, 4, None)
    assert str(error.value) == f"{path}: not a network made by `nearmt train-adaptive`"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "\0"):
        with pytest.raises(InputError) as error:
            load_adaptive(path, 4, None)
        assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


def test_a_file_that_does_not_fit(tmp_path: Path, tiny_store: Datastore) -> None:
    path = tmp_path / "net"
    save_adaptive(path, {"search": made_head(4)}, {"model": "f00"})
    with pytest.raises(ConfigError, match="trained for 4 neighbours, not for 8; set k=4"):
        make_method("knn", tiny_store, {"adaptive": str(path)})
    with pytest.raises(ConfigError, match=r"trained without a cache.*train-adaptive --method chunk"):
        make_method("chunk", tiny_store, {"adaptive": str(path), "k": 4})
    make_method("knn", tiny_store, {"adaptive": str(path), "k": 4})


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = {"search": made_head(2)}
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "net", tmp_path / "folder"):
        with pytest.raises(OutputError, match="cannot be written"):
            save_adaptive(path, heads, {"model": "f00"})

    def full(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    before = tmp_path / "net"
    before.write_text("what was there", encoding="utf-8")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="the disk is full"):
        save_adaptive(before, heads, {"model": "f00"})
    assert before.read_text(encoding="utf-8") == "what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "net"]


def test_a_network_of_another_model(tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path) -> None:
    path = tmp_path / "net"
    save_adaptive(path, {"search": made_head(4)}, {"model": "0123456789abcdef"})
    with pytest.raises(NearmtError) as error:
        Translator(tiny, tiny_store, "knn", {"k": 4, "adaptive": str(path)})
    assert all(word in str(error.value) for word in (str(path), "0123456789abcdef", tiny.name, tiny.fingerprint))


def test_a_network_of_another_store(tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path) -> None:
    """Is used: a memory that grows has another identity every day."""
    path = tmp_path / "net"
    save_adaptive(path, {"search": made_head(4)}, {"model": tiny.fingerprint, "datastore": "another"})
    assert Translator(tiny, tiny_store, "knn", {"k": 4, "adaptive": str(path)}).translate(TEXTS[0]).text


def test_a_network_follows_its_own_model(tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    other = load_model(ModelConfig(model=str(tiny_marian_folder(tmp_path / "model", seed=7)), device="cpu"))
    path = saved(tmp_path / "net", {"search": made_head(4)}, tiny)
    store = Datastore.build(tmp_path / "store", make_pairs(5), other)
    with pytest.raises(ConfigError, match=other.fingerprint):
        Translator(other, store, "knn", {"k": 4, "adaptive": path})
