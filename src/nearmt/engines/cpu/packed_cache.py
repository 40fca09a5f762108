"""A file of packed int8 weights for each model, so that later starts map them instead of quantising and packing again.

The folder is NEARMT_CACHE, or nearmt in XDG_CACHE_HOME or ~/.cache; NEARMT_CACHE=off turns the cache off. Files hold
numbers only. A file is written under a temporary name and renamed, so processes may write at the same time. A file of
other weights or kernels, and one that is truncated or damaged, is made again and replaced. The cache is optional: where
it cannot be read or written, weights are packed in memory.

Layout: magic, SHA-256 of all that follows, length of the header, header (JSON), tensors aligned to 64 bytes.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearmt.engines.cpu.library import declarations
from nearmt.engines.cpu.linear import PackedLinear, int8_sizes

#: Changed whenever the meaning of packed weights changes while kernels.h stays the same.
_LAYOUT = "int8 panels [P, I / 4, 64, 4] of weight + 128; fp32 scale and bias"
_VARIABLE, _OFF = "NEARMT_CACHE", "off"
_MAGIC, _ALIGNMENT = b"nearmt packed 1\n", 64
_HASHED = len(_MAGIC) + 32  # where the hashed part begins
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PackedCache:
    """The packed layers of one model by name: mapped from a file, or made and written by `save`."""

    def __init__(self, folder: Path | None, fingerprint: str, precision: str, checksum: str) -> None:
        """`checksum` covers every weight; a fingerprint only samples them."""
        self._folder, self._file = folder, f"{fingerprint}-{precision}.packed"
        #: A file of anything else is stale.
        self._made_for = [fingerprint, precision, checksum, kernel_version()]
        self._known = {} if folder is None else _read(folder, self._file, self._made_for)
        self._layers: dict[str, PackedLinear] = {}
        self._is_complete = True

    def linear(self, name: str, outputs: int, inputs: int, has_bias: bool, make: Callable[[], nn.Module]) -> nn.Module:
        """A layer of the file, or else what `make` gives."""
        found = self._mapped(name, outputs, inputs, has_bias)
        if found is None:
            made = make()
            if not isinstance(made, PackedLinear):  # another kernel multiplies
                return made
            found, self._is_complete = made, False
        self._layers[name] = found
        return found

    def save(self) -> None:
        """Write all layers, if some were not in the file."""
        if self._folder is None or self._is_complete:
            return
        parts = {f"{name}.{kind}": part for name, layer in self._layers.items() for kind, part in _tensors(layer)}
        try:
            _write(self._folder, self._file, self._made_for, parts)
        except OSError:  # not writable, or the disk is full
            return
        self._is_complete = True

    def _mapped(self, name: str, outputs: int, inputs: int, has_bias: bool) -> PackedLinear | None:
        """A layer of the file if all its tensors have the sizes that kernels are going to read."""
        panel_bytes, numbers = int8_sizes(outputs, inputs)
        panels, scale, bias = (self._known.get(f"{name}.{kind}") for kind in ("panels", "scale", "bias"))
        if panels is None or scale is None or (bias is not None) != has_bias:
            return None
        if len(panels) != panel_bytes or any(len(part) != 4 * numbers for part in (scale, bias) if part is not None):
            return None
        biases = None if bias is None else bias.view(torch.float32)
        return PackedLinear.from_packed(outputs, inputs, panels, scale.view(torch.float32), biases)


def cache_folder() -> Path | None:
    """Where packed weights are kept; None if they are not."""
    stated = os.environ.get(_VARIABLE)
    if stated:
        return None if stated == _OFF else Path(stated)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache") / "nearmt"
    except RuntimeError:  # no home
        return None


def kernel_version() -> str:
    """Changes with the kernels' declarations and with the layout of packed weights."""
    return hashlib.sha256(f"{declarations()}\n{_LAYOUT}".encode()).hexdigest()[:16]


def _tensors(layer: PackedLinear) -> list[tuple[str, Tensor]]:
    named = ("panels", layer.panels), ("scale", layer.scale_P), ("bias", layer.bias_P)
    return [(kind, part) for kind, part in named if part is not None]


def _read(folder: Path, file: str, made_for: list[str]) -> dict[str, Tensor]:
    """The tensors of a file as bytes, mapped; none if it is missing, stale or damaged."""
    try:
        directory = os.open(folder, _FOLDER)
        try:
            # Not blocking: opening a pipe would wait for its other end.
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
        finally:
            os.close(directory)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return {}
            # Private, since torch wants memory that can be written; the file never changes.
            mapped = mmap.mmap(handle, 0, access=mmap.ACCESS_COPY)
        finally:
            os.close(handle)
        return _parsed(mapped, made_for)
    except (OSError, ValueError, TypeError, KeyError):  # whatever is in the file
        return {}


def _parsed(mapped: mmap.mmap, made_for: list[str]) -> dict[str, Tensor]:
    begin = _HASHED + 8
    if mapped[: len(_MAGIC)] != _MAGIC:
        return {}
    length = int.from_bytes(mapped[_HASHED:begin], "little")
    header = json.loads(mapped[begin : begin + length])
    if header["made_for"] != made_for:
        return {}
    with memoryview(mapped) as view:
        if hashlib.sha256(view[_HASHED:]).digest() != mapped[len(_MAGIC) : _HASHED]:
            return {}
    whole = torch.frombuffer(mapped, dtype=torch.uint8)[_first(length) :]
    spans: dict[str, list[int]] = header["tensors"]
    if any(start % _ALIGNMENT or not 0 <= start <= end <= len(whole) for start, end in spans.values()):
        return {}
    return {name: whole[start:end] for name, (start, end) in spans.items()}


def _write(folder: Path, file: str, made_for: list[str], parts: dict[str, Tensor]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory, temporary = os.open(folder, _FOLDER), f".{file}.{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as output:
            digest = hashlib.sha256()
            output.write(_MAGIC + bytes(_HASHED - len(_MAGIC)))
            for block in _blocks(made_for, parts):
                digest.update(block)
                output.write(block)
            output.seek(len(_MAGIC))
            output.write(digest.digest())
        os.rename(temporary, file, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    finally:
        os.close(directory)


def _blocks(made_for: list[str], parts: dict[str, Tensor]) -> Iterator[Any]:
    """What follows the hash: length of the header, header, tensors at offsets that count from the first of them."""
    spans, start = {}, 0
    for name, part in parts.items():
        spans[name] = [start, start + part.nbytes]
        start = _aligned(start + part.nbytes)
    header = json.dumps({"made_for": made_for, "tensors": spans}).encode()
    yield len(header).to_bytes(8, "little") + header
    yield bytes(_first(len(header)) - _HASHED - 8 - len(header))
    for part in parts.values():
        yield part.contiguous().view(-1).view(torch.uint8).numpy()
        yield bytes(_aligned(part.nbytes) - part.nbytes)


def _first(header: int) -> int:
    """Where tensors begin behind a header of this length."""
    return _aligned(_HASHED + 8 + header)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
