"""Kernels in C for CPUs with AVX-512 and VNNI, compiled when nearmt is installed.

Where there is no compiler, or the processor is another one, there are none: torch does the same with more work. Python
is not held up while a kernel runs, so threads translate side by side.
"""

from nearmt.engines.cpu.library import kernels
from nearmt.engines.cpu.linear import PackedLinear

__all__ = ["PackedLinear", "kernels"]
