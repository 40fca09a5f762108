"""Packed weights are kept in a file: the same layers as packed anew, whatever happens to the file."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from nearmt.engines.cpu import PackedLinear, packed_cache
from nearmt.engines.cpu.packed_cache import PackedCache, cache_folder
from nearmt.engines.precision import Int8Linear, Precision
from nearmt.models import ModelConfig, TranslationModel, load_model
from tests.kernels import needs_kernels

pytestmark = needs_kernels

SHAPES = {"first": (30, 70, True), "second": (64, 64, False), "third": (5, 129, True)}
FILE = "abc-int8.packed"


def linear_of(name: str) -> nn.Linear:
    inputs, outputs, bias = SHAPES[name]
    torch.manual_seed(inputs)
    return nn.Linear(inputs, outputs, bias=bias).requires_grad_(False)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def opened(folder: Path | None, checksum: str = "1", fingerprint: str = "abc") -> PackedCache:
    return PackedCache(folder, fingerprint, "int8", checksum)


def layers_of(cache: PackedCache) -> tuple[dict[str, nn.Module], list[str]]:
    """All layers, and the names of those that were packed now."""
    made: list[str] = []

    def making(name: str) -> Callable[[], nn.Module]:
        def make() -> nn.Module:
            made.append(name)
            return Int8Linear(linear_of(name)).product

        return make

    layers = {name: cache.linear(name, o, i, bias, making(name)) for name, (i, o, bias) in SHAPES.items()}
    return layers, made


def fill(folder: Path) -> None:
    cache = opened(folder)
    assert layers_of(cache)[1] == list(SHAPES)
    cache.save()


def check(folder: Path | None, made: list[str]) -> None:
    """Layers are those of the model, and only these are packed anew."""
    layers, found = layers_of(opened(folder))
    assert found == made
    for name, layer in layers.items():
        row_RI = torch.randn(7, SHAPES[name][0])
        assert torch.equal(layer(row_RI), Int8Linear(linear_of(name))(row_RI))


def test_layers_are_mapped_from_the_second_start_on(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    fill(folder)
    assert files(folder) == [FILE]
    check(folder, made=[])
    layers, _ = layers_of(opened(folder))
    for layer in layers.values():
        assert isinstance(layer, PackedLinear) and layer.panels.data_ptr() % 64 == 0


def test_a_complete_file_is_not_written_again(tmp_path: Path) -> None:
    fill(tmp_path)
    before = (tmp_path / FILE).stat()
    cache = opened(tmp_path)
    layers_of(cache)
    cache.save()
    assert (tmp_path / FILE).stat().st_ino == before.st_ino


def test_the_folder_and_the_file_are_the_users_alone(tmp_path: Path) -> None:
    fill(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cache" / FILE).stat().st_mode & 0o777 == 0o600


def test_files_of_other_weights_or_kernels_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    cache = opened(tmp_path, checksum="2")
    assert layers_of(cache)[1] == list(SHAPES)
    cache.save()
    assert layers_of(opened(tmp_path, checksum="1"))[1] == list(SHAPES)
    monkeypatch.setattr(packed_cache, "_LAYOUT", "another")
    cache = opened(tmp_path, checksum="2")
    assert layers_of(cache)[1] == list(SHAPES)
    cache.save()
    assert files(tmp_path) == [FILE]
    assert layers_of(opened(tmp_path, checksum="2"))[1] == []


def test_another_model_has_a_file_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path)
    other = opened(tmp_path, fingerprint="other")
    assert layers_of(other)[1] == list(SHAPES)
    other.save()
    assert files(tmp_path) == [FILE, "other-int8.packed"]


def damaged(file: Path, way: str) -> None:
    content = bytearray(file.read_bytes())
    header = content.index(b"{")
    if way == "empty":
        content.clear()
    elif way.startswith("cut at"):
        del content[int(way.rsplit(maxsplit=1)[-1]) :]
    elif way == "cut by a byte":
        del content[-1:]
    elif way == "longer":
        content += b"\0"
    elif way == "a weight":
        content[-5000] ^= 1
    elif way == "the hash":
        content[20] ^= 1
    elif way == "the header":
        content[header] = ord("[")
    elif way == "another offset":
        content = content.replace(b"[0, ", b"[8, ", 1)
    elif way == "a huge header":
        content[48:56] = b"\xff" * 8
    elif way == "text":
        content = bytearray(b"something else")
    file.write_bytes(content)


CUTS = ["empty", "cut at 10", "cut at 40", "cut at 60", "cut at 300", "cut at 5000", "cut by a byte"]
CHANGES = ["longer", "a weight", "the hash", "the header", "another offset", "a huge header", "text"]


@pytest.mark.parametrize("way", [*CUTS, *CHANGES])
def test_a_damaged_file_is_made_again(tmp_path: Path, way: str) -> None:
    fill(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    damaged(tmp_path / FILE, way)
    assert (tmp_path / FILE).read_bytes() != whole
    cache = opened(tmp_path)
    assert layers_of(cache)[1] == list(SHAPES)
    cache.save()
    assert (tmp_path / FILE).read_bytes() == whole
    check(tmp_path, made=[])


def forged(folder: Path, change: Callable[[dict[str, list[int]]], None]) -> None:
    """A file with other spans and a valid hash."""
    cache = opened(folder)
    parts = {
        f"{name}.{kind}": part
        for name, layer in layers_of(cache)[0].items()
        if isinstance(layer, PackedLinear)
        for kind, part in packed_cache._tensors(layer)
    }
    blocks = list(packed_cache._blocks(cache._made_for, parts))
    start = blocks[0].index(b"{")
    header = json.loads(blocks[0][start:])
    change(header["tensors"])
    told = json.dumps(header).encode()
    padding = bytes(packed_cache._first(len(told)) - packed_cache._HASHED - 8 - len(told))
    body = len(told).to_bytes(8, "little") + told + padding + b"".join(bytes(block) for block in blocks[2:])
    (folder / FILE).write_bytes(packed_cache._MAGIC + hashlib.sha256(body).digest() + body)


def test_kernels_never_read_beyond_what_a_file_holds(tmp_path: Path) -> None:
    """Sizes come from the model, whatever a file says."""
    forged(tmp_path, lambda spans: None)
    check(tmp_path, made=[])

    def shorten(spans: dict[str, list[int]]) -> None:
        spans["first.panels"][1] -= 64
        spans["second.scale"][1] += 64

    forged(tmp_path, shorten)
    check(tmp_path, made=["first", "second"])

    def lengthen(spans: dict[str, list[int]]) -> None:
        spans["third.bias"][1] += 1 << 20

    forged(tmp_path, lengthen)
    check(tmp_path, made=list(SHAPES))

    def before(spans: dict[str, list[int]]) -> None:
        spans["first.panels"] = [-64, spans["first.panels"][1] - 64]

    forged(tmp_path, before)
    check(tmp_path, made=list(SHAPES))

    def leave_out(spans: dict[str, list[int]]) -> None:
        del spans["first.bias"], spans["third.scale"]

    forged(tmp_path, leave_out)
    check(tmp_path, made=["first", "third"])


@pytest.mark.parametrize("kind", ["file", "dangling", "folder", "pipe"])
def test_only_an_ordinary_file_is_read(tmp_path: Path, kind: str) -> None:
    """Links are not followed, and replaced as such."""
    folder, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    fill(elsewhere)
    folder.mkdir()
    if kind == "file":
        (folder / FILE).symlink_to(elsewhere / FILE)
    elif kind == "dangling":
        (folder / FILE).symlink_to(tmp_path / "nothing")
    elif kind == "folder":
        (folder / FILE).mkdir()
    else:
        os.mkfifo(folder / FILE)
    before = (elsewhere / FILE).read_bytes()
    cache = opened(folder)
    assert layers_of(cache)[1] == list(SHAPES)
    cache.save()
    assert (elsewhere / FILE).read_bytes() == before and not (tmp_path / "nothing").exists()
    check(folder, made=list(SHAPES) if kind == "folder" else [])
    assert not (folder / FILE).is_symlink()
    assert not [name for name in files(folder) if name != FILE]


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere")
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    cache = opened(tmp_path / "cache")
    assert layers_of(cache)[1] == list(SHAPES)
    cache.save()
    assert files(tmp_path / "elsewhere") == [FILE]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for folder in (tmp_path / "file", tmp_path / "file" / "within", None):
        cache = opened(folder)
        layers_of(cache)
        cache.save()

    def full(*parts: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nearmt.engines.cpu.packed_cache.os.rename", full)
    cache = opened(tmp_path / "cache")
    layers_of(cache)
    cache.save()
    assert files(tmp_path / "cache") == []


def test_several_may_write_at_once(tmp_path: Path) -> None:
    caches = [opened(tmp_path) for _ in range(8)]
    for cache in caches:
        layers_of(cache)
    threads = [threading.Thread(target=cache.save) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files(tmp_path) == [FILE]
    check(tmp_path, made=[])


def test_a_mapped_layer_outlives_its_file(tmp_path: Path) -> None:
    fill(tmp_path)
    layers, made = layers_of(opened(tmp_path))
    cache = opened(tmp_path, checksum="2")
    layers_of(cache)
    cache.save()
    (tmp_path / FILE).unlink()
    assert made == []
    row_RI = torch.randn(7, 64)
    assert torch.equal(layers["second"](row_RI), Int8Linear(linear_of("second"))(row_RI))


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NEARMT_CACHE")
    assert cache_folder() == Path("/home/somebody/.cache/nearmt")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/home/somebody/.cache/nearmt")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_folder() == Path("/var/cache/nearmt")
    monkeypatch.setenv("NEARMT_CACHE", "")
    assert cache_folder() == Path("/var/cache/nearmt")
    monkeypatch.setenv("NEARMT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("NEARMT_CACHE", "off")
    assert cache_folder() is None


def test_other_kernels_keep_nothing(tmp_path: Path, no_kernels: None) -> None:
    """What torch packs is no file."""
    cache = opened(tmp_path)
    layers, made = layers_of(cache)
    assert made == list(SHAPES) and not any(isinstance(layer, PackedLinear) for layer in layers.values())
    cache.save()
    assert files(tmp_path) == []


# Whole models.


def translated(model: TranslationModel) -> list[torch.Tensor]:
    source = model.codec.source_ids("die pumpe öffnen .")
    target = model.codec.target_ids("open the pump .")
    keys = model.seq2seq.force_decode([source, source[:3]], [target, target])
    return [*keys, *model.seq2seq.attention([source], [target])]


def test_a_model_is_the_same_with_and_without(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ModelConfig(model=str(tiny_folder), precision="int8", device="cpu")
    expected = translated(load_model(config))
    monkeypatch.setenv("NEARMT_CACHE", str(tmp_path))
    first = load_model(config)
    assert files(tmp_path) == [f"{first.fingerprint}-int8.packed"]
    monkeypatch.setattr("nearmt.engines.precision.quantised", None)  # is not asked again
    second = load_model(config)
    for model in (first, second):
        assert all(map(torch.equal, translated(model), expected))
    load_model(ModelConfig(model=str(tiny_folder), precision="fp32", device="cpu"))
    assert len(files(tmp_path)) == 1


def test_names_are_told_apart(tmp_path: Path) -> None:
    """Layers of a model and joined layers have names of their own."""
    cache = opened(tmp_path)
    precision = Precision("int8", torch.device("cpu"), cache)
    model = nn.Sequential(linear_of("first"), nn.Sequential(linear_of("second")))
    precision.joined("joined", model[0], model[0])
    precision.apply(model)
    assert sorted(cache._layers) == ["0", "1.0", "joined"]
