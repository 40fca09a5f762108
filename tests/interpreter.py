"""Without a GPU kernels are run by an interpreter.

Triton asks for it when it is loaded, as it is by transformers: imported before all else, but not by the whole package,
some of whose programs must not load torch.
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
