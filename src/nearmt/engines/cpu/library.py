"""The compiled library, and how its functions are called."""

from __future__ import annotations

import ctypes
import os
import warnings
from ctypes import Structure
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from torch import Tensor

from nearmt.engines.cpu.header import Header, normalised
from nearmt.errors import NearmtWarning

#: Set to anything but 0, this environment variable turns kernels off.
_OFF = "NEARMT_NO_KERNELS"
#: Suffix of functions that return the size of a scratch buffer.
_SIZES = "_scratch"

_HEADER = Header(Path(__file__).with_name("kernels.h").read_text(encoding="utf-8"))


@_HEADER.structure
class Linear(Structure):
    """A linear layer: sizes and addresses of its weights."""


@_HEADER.structure
class Norm(Structure):
    """A layer norm."""


@_HEADER.structure
class Layer(Structure):
    """A layer of a decoder."""


@_HEADER.structure
class Decoder(Structure):
    """A decoder: its layers."""


@_HEADER.structure
class EncoderLayer(Structure):
    """A layer of an encoder."""


@_HEADER.structure
class Encoder(Structure):
    """An encoder: its layers."""


@_HEADER.structure
class KeyValues(Structure):
    """Cached keys and values that a layer attends to."""


@_HEADER.structure
class Keys(Structure):
    """Keys of all entries, in segments."""


@_HEADER.structure
class Caches(Structure):
    """Sentence caches: their entries and keys."""


@_HEADER.structure
class Cells(Structure):
    """Codes and entries of inverted lists."""


@_HEADER.structure
class Mixing(Structure):
    """How neighbours are weighted."""


@cache
def kernels() -> ctypes.CDLL | None:
    """The compiled library; None if it is missing, turned off, or not for this processor."""
    spec = find_spec("nearmt.engines.cpu._kernels")
    if spec is None or spec.origin is None or os.environ.get(_OFF, "0") != "0":
        return None
    try:
        library, locked = ctypes.CDLL(spec.origin), ctypes.PyDLL(spec.origin)
    except OSError:  # built for something else
        return None
    if not library.supported():
        return None
    if _declared(library) != _HEADER.text:
        told = f"{spec.origin}: kernels of another version of nearmt, which are not used; install nearmt again"
        warnings.warn(told, NearmtWarning, stacklevel=2)
        return None
    for name, (result, arguments) in _HEADER.functions().items():
        # Functions that only compute a size keep Python's lock: releasing it takes longer.
        function = getattr(locked if name.endswith(_SIZES) else library, name)
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    return library


def declarations() -> str:
    """The declarations of kernels.h; kernels compiled from others are not used."""
    return _HEADER.text


def _declared(library: ctypes.CDLL) -> str | None:
    """The declarations that a library was compiled from; None for old versions, which do not contain them."""
    try:
        told = library.declarations
    except AttributeError:
        return None
    told.restype = ctypes.c_char_p
    return normalised(told().decode())


def loaded() -> ctypes.CDLL:
    """The compiled library, which must be there."""
    library = kernels()
    assert library is not None
    return library


def addresses(array_XY: np.ndarray) -> list[int]:
    """Addresses of the rows of a contiguous array, which must be kept alive. Asking numpy for each row is slow."""
    first, size = array_XY.ctypes.data, array_XY.strides[0]
    return [first + row * size for row in range(len(array_XY))]


def address(tensor: Tensor | None) -> int | None:
    """The address of a contiguous tensor, which must be kept alive."""
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()
