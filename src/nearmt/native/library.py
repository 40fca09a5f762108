"""The compiled library, and how its functions are called."""

from __future__ import annotations

import ctypes
import os
import warnings
from ctypes import POINTER, Structure, c_double, c_float, c_int64, c_void_p
from functools import cache
from importlib.util import find_spec

import numpy as np
from torch import Tensor

from nearmt.errors import NearmtWarning

#: Set to anything but 0, it is as if there were no kernels.
_OFF = "NEARMT_NO_KERNELS"


class Linear(Structure):
    """`Linear` of linear.h."""

    _fields_ = (
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("panels", c_void_p),
        ("scale", c_void_p),
        ("bias", c_void_p),
    )


class Norm(Structure):
    """`Norm` of blocks.h."""

    _fields_ = (("gain", c_void_p), ("shift", c_void_p), ("epsilon", c_double))


class Layer(Structure):
    """`Layer` of decoder.c."""

    _fields_ = (
        *((name, Linear) for name in ("own", "own_output", "cross", "cross_output", "first", "second")),
        *((name, Norm) for name in ("own_norm", "cross_norm", "last_norm")),
        ("own_scale", c_double),
        ("cross_scale", c_double),
    )


class Decoder(Structure):
    """`Decoder` of decoder.c."""

    _fields_ = (
        ("layers", c_int64),
        ("norm_first", c_int64),
        ("activation", c_int64),
        ("layer", POINTER(Layer)),
    )


class EncoderLayer(Structure):
    """`EncoderLayer` of encoder.c."""

    _fields_ = (
        *((name, Linear) for name in ("query", "key", "value", "output", "first", "second")),
        ("own_norm", Norm),
        ("last_norm", Norm),
        ("scale", c_double),
    )


class Encoder(Structure):
    """`Encoder` of encoder.c."""

    _fields_ = (
        *((name, c_int64) for name in ("layers", "heads", "norm_first", "activation")),
        ("layer", POINTER(EncoderLayer)),
    )


class Slots(Structure):
    """`Slots` of attention.h."""

    _fields_ = (
        *((name, c_int64) for name in ("sentences", "rows", "heads", "size", "used", "room", "halves")),
        ("key", c_void_p),
        ("value", c_void_p),
        ("seen", c_void_p),
        ("seen_room", c_int64),
        ("length", c_void_p),
    )


class Keys(Structure):
    """`Keys` of nearest.c."""

    _fields_ = (("segments", c_int64), ("columns", c_int64), ("key", POINTER(c_void_p)), ("start", POINTER(c_int64)))


class Cells(Structure):
    """`Cells` of cells.c."""

    _fields_ = (
        ("cells", c_int64),
        ("columns", c_int64),
        ("size", POINTER(c_int64)),
        ("code", POINTER(c_void_p)),
        ("entry", POINTER(c_void_p)),
        ("half", POINTER(c_void_p)),
    )


class Held(Structure):
    """`Held` of nearest.c."""

    _fields_ = (
        ("table", c_void_p),
        ("places", c_int64),
        ("entry", c_void_p),
        ("key", c_void_p),
        ("half", c_void_p),
        ("room", c_int64),
        ("columns", c_int64),
    )


class Mixing(Structure):
    """`Mixing` of mixture.c."""

    _fields_ = (
        *((name, c_double) for name in ("weight", "temperature", "cache_weight", "cache_temperature")),
        *((name, c_int64) for name in ("search", "end")),
        *((name, c_double) for name in ("near", "cache_near", "likely")),
    )


_P, _I = c_void_p, c_int64
_FUNCTIONS = {
    "supported": (ctypes.c_int, ()),
    "linear_room": (c_int64, (POINTER(Linear), c_int64)),
    "linear": (None, (POINTER(Linear), _P, c_int64, _P, _P)),
    "nominate_room": (c_int64, (_I, _I)),
    "nominate": (None, (_P, _P, _I, _I, _P, _P, _P, _I, _I, _P, _I, _I, _P, _P, _P, _P)),
    "hold": (None, (_P, _P, _I, _I, _P, _I, c_float)),
    "hold_entries": (None, (_P, _P, _I, _I, POINTER(Keys), _I, _P, _I, c_float)),
    "largest_of": (c_float, (POINTER(Keys), _I, _P, _I)),
    "mark": (_I, (_P, _I, _P, _I, _P)),
    "mark_chunks": (_I, (_P, _I, _P, _I, _I, _P, _I, _P)),
    "keep_chunks": (None, (POINTER(Keys), POINTER(Held), _I, _P, _P, _P, _I, _P, *[_I] * 2, _P, _I, _P, _P)),
    "nearest": (None, (POINTER(Keys), _P, _I, _I, _I, _P, _I, _I, _P, _P)),
    "recall": (None, (POINTER(Keys), _P, _P, _P, *[_I] * 2, *[_P] * 4, *[_I] * 2, _P, *[_I] * 4, *[_P] * 3)),
    "measure_cells": (None, (POINTER(Cells),)),
    "scan_room": (_I, (POINTER(Cells), _I, _I, _I)),
    "scan_cells": (None, (POINTER(Cells), _P, _I, _P, _I, _I, _P, _P, _P)),
    "search_room": (_I, (POINTER(Cells), _I, _I, _I)),
    "search_cells": (
        _I,
        (POINTER(Cells), POINTER(Keys), _P, _P, c_float, _I, c_float, _I, _P, _I, _P, *[_I] * 3, _P, _P, _P),
    ),
    "log_of_sum": (None, (_P, _I, _I, _I, _P)),
    "mix": (None, (_P, _I, _I, _I, _P, _P, _I, _P, _P)),
    "mix_neighbours": (None, (POINTER(Mixing), _P, _I, _I, _I, _P, _P, _I, _P, _P, _P, _P, _P)),
    "best": (None, (_P, _I, _I, _I, _I, _P, _I, _P)),
    "encoder_room": (c_int64, (POINTER(Encoder), c_int64)),
    "encode": (None, (POINTER(Encoder), _P, c_int64, c_int64, _P, _P)),
    "decoder_room": (c_int64, (POINTER(Decoder), POINTER(Slots), POINTER(Slots))),
    "decoder_step": (None, (POINTER(Decoder), POINTER(Slots), c_int64, c_int64, POINTER(Slots), c_int64, _P, _P, _P)),
}


@cache
def kernels() -> ctypes.CDLL | None:
    """The library; None where there is none that this processor could run."""
    spec = find_spec("nearmt.native._kernels")
    if spec is None or spec.origin is None or os.environ.get(_OFF, "0") != "0":
        return None
    try:
        library, held = ctypes.CDLL(spec.origin), ctypes.PyDLL(spec.origin)
        if not library.supported():
            return None
        for name, (result, arguments) in _FUNCTIONS.items():
            # What takes no time keeps Python's lock: another thread would take it meanwhile, for longer.
            function = getattr(held if name.endswith("_room") else library, name)
            function.restype, function.argtypes = result, arguments
            setattr(library, name, function)
    except OSError:  # built for something else
        return None
    except AttributeError:
        told = f"{spec.origin}: kernels of another version of nearmt, which are not used; install nearmt again"
        warnings.warn(told, NearmtWarning, stacklevel=2)
        return None
    return library


def loaded() -> ctypes.CDLL:
    """The library, for those who know that it is there."""
    library = kernels()
    assert library is not None
    return library


def addresses(array_XY: np.ndarray) -> list[int]:
    """Where the rows of a contiguous array begin, which has to live as long. To ask numpy for each takes its time."""
    first, size = array_XY.ctypes.data, array_XY.strides[0]
    return [first + row * size for row in range(len(array_XY))]


def address(tensor: Tensor | None) -> int | None:
    """Where the numbers of a contiguous tensor begin."""
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()
