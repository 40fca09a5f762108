"""Log-probabilities and candidates by kernels. Rows of logits are contiguous and on a CPU."""

from __future__ import annotations

from ctypes import byref

import torch
from torch import Tensor

from nearmt.engines.cpu.library import Mixing, address, kernels, loaded


def serves(logits_BV: Tensor) -> bool:
    """Whether there are kernels that read these."""
    return (
        logits_BV.device.type == "cpu"
        and logits_BV.dtype == torch.float32
        and logits_BV.stride(1) == 1
        and kernels() is not None
    )


def log_of_sum(logits_BV: Tensor) -> Tensor:
    """log sum exp of each row, [B]."""
    library, (rows, vocabulary) = loaded(), logits_BV.shape
    sum_B = torch.empty(rows)
    library.log_of_sum(logits_BV.data_ptr(), logits_BV.stride(0), rows, vocabulary, address(sum_B))
    return sum_B


def mix(logits_BV: Tensor, offset_B: Tensor, token_BK: Tensor, weight_BK: Tensor, share_B: Tensor) -> Tensor:
    """Equation 3: the logits change in place; what is to be added to each row is returned."""
    library, (rows, vocabulary) = loaded(), logits_BV.shape
    offset_B, share_B = offset_B.clone(), share_B.float().contiguous()
    token_BK, weight_BK = token_BK.contiguous(), weight_BK.contiguous()
    library.mix(
        logits_BV.data_ptr(), logits_BV.stride(0), rows, vocabulary, address(token_BK), address(weight_BK),
        token_BK.shape[1], address(share_B), address(offset_B),
    )  # fmt: skip
    return offset_B


def mix_neighbours(
    mixing: Mixing, logits_BV: Tensor, entry_BK: Tensor, distance_BK: Tensor, asked_B: Tensor, token_N: Tensor,
    trust_B: Tensor | None,
) -> Tensor:  # fmt: skip
    """Equations 2 and 3 for neighbours as they were retrieved: the logits change in place; what is to be added to each
    row is returned."""
    library, (rows, vocabulary) = loaded(), logits_BV.shape
    k, offset_B = entry_BK.shape[1], torch.empty(rows)
    room = torch.empty(12 * k, dtype=torch.uint8)
    entry_BK, distance_BK, asked_B = entry_BK.contiguous(), distance_BK.contiguous(), asked_B.contiguous()
    library.mix_neighbours(
        byref(mixing), logits_BV.data_ptr(), logits_BV.stride(0), rows, vocabulary, address(entry_BK),
        address(distance_BK), k, address(asked_B), address(token_N), address(trust_B), address(offset_B), address(room),
    )  # fmt: skip
    return offset_B


def best(logits_BV: Tensor, base_B: Tensor, sentences: int, count: int) -> Tensor:
    """Scores, rows and tokens of the best continuations of each sentence, [S, 3, count]."""
    library = loaded()
    rows, vocabulary = logits_BV.shape
    found_S3K = torch.empty(sentences, 3, count, dtype=torch.double)
    library.best(
        logits_BV.data_ptr(), logits_BV.stride(0), sentences, rows // sentences, vocabulary, address(base_B), count,
        address(found_S3K),
    )  # fmt: skip
    return found_S3K
