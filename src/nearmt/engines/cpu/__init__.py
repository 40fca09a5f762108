"""C kernels for CPUs with AVX-512 and VNNI, compiled when nearmt is installed.

Without a compiler, or on another processor, there are none, and torch computes the same more slowly. Kernels release
Python's lock, so threads translate concurrently.
"""

from nearmt.engines.cpu.library import kernels
from nearmt.engines.cpu.linear import PackedLinear

__all__ = ["PackedLinear", "kernels"]
