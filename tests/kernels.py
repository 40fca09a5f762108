"""Which tests need kernels in C: machines without AVX-512 have none."""

from __future__ import annotations

import pytest

from nearmt.engines.cpu import kernels

needs_kernels = pytest.mark.skipif(kernels() is None, reason="this processor has no kernels")
