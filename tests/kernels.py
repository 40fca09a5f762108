"""Which tests need C kernels: processors without AVX-512 have none."""

from __future__ import annotations

import pytest
import torch

from nearmt.engines.choose import has_kernels

needs_kernels = pytest.mark.skipif(not has_kernels(torch.device("cpu")), reason="this processor has no kernels")
