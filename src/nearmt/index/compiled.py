"""Compiled for a CPU: what `kernels` does on a GPU."""

# The compiler finds out types by itself, and gives none to what it makes.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nearmt.compiling import compiled


@intrinsic
def _half(typing, bits):
    """The number that 16 bits are, in half precision: the compiler has no such numbers, but processors do."""

    def generate(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.int16), generate


@compiled
def nearest(query_BE, bits_ND, start, candidate_BX, entry_BK, distance_BK):
    """Put candidates among the nearest so far, which are in order: by squared distance, and equals by number.

    Entries from `start` on have these keys, halves as bits; candidates that are not among them are left out.
    """
    last = entry_BK.shape[1] - 1
    for b in range(len(query_BE)):
        for x in range(candidate_BX.shape[1]):
            entry = candidate_BX[b, x]
            if entry < start or entry >= start + len(bits_ND):
                continue
            squared = np.float32(0.0)
            for column in range(query_BE.shape[1]):
                difference = _half(bits_ND[entry - start, column]) - query_BE[b, column]
                squared += difference * difference
            place = last + 1
            while place > 0 and (
                squared < distance_BK[b, place - 1]
                or (squared == distance_BK[b, place - 1] and entry < entry_BK[b, place - 1])
            ):
                place -= 1
            if place <= last:
                for behind in range(last, place, -1):
                    entry_BK[b, behind] = entry_BK[b, behind - 1]
                    distance_BK[b, behind] = distance_BK[b, behind - 1]
                entry_BK[b, place], distance_BK[b, place] = entry, squared
