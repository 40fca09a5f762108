"""Few sizes in place of many: kernels are compiled, and CUDA graphs captured, for each."""

from __future__ import annotations

#: Numbers of slots that are worth a capture of their own; beyond, multiples of the last.
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def padded_size(count: int) -> int:
    """The smallest captured number of slots that is no smaller."""
    return next((size for size in _SIZES if size >= count), -(-count // _SIZES[-1]) * _SIZES[-1])


def power_of_two(number: int) -> int:
    """The smallest power of two that is no smaller; Triton takes no other block sizes."""
    return 1 << max(0, number - 1).bit_length()
