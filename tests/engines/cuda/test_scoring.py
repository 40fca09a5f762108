"""The Triton kernel that mixes reads logits in blocks; buffers of the best continuations belong to one request."""

from __future__ import annotations

import gc

import pytest
import torch

from nearmt.contracts import Scores
from nearmt.engines.base import Mixing
from nearmt.engines.cuda import scoring
from nearmt.engines.cuda.scoring import CudaScoring
from nearmt.engines.reference.scoring import ReferenceScoring
from tests.engines.every_engine import GPU, WITH_TRITON
from tests.engines.test_scoring import (
    MIXING,
    RULES,
    WHOLE,
    mixed_neighbours,
    random,
    random_counts,
    random_found,
    random_logits,
    random_tokens,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.*")


@pytest.mark.parametrize("block", [4, 64])
@pytest.mark.parametrize("mixing", [MIXING, WHOLE], ids=["share", "whole"])
def test_logits_are_read_in_blocks(block: int, mixing: Mixing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_BLOCK", block)
    monkeypatch.setattr(scoring, "_WARPS", 1)
    found = random_found(1)
    mixed_neighbours(WITH_TRITON, random_logits(1), found, random_tokens(found), None, mixing)


@pytest.mark.parametrize("weighted", [False, True])
def test_without_triton_torch_mixes(weighted: bool) -> None:
    """As where PyTorch came without it."""
    found, logits_BV, (rule, end) = random_found(2), random_logits(2), RULES["some"]
    given = found, random_tokens(found, 3), random_counts(found) if weighted else None, MIXING, None, rule, [end]
    mine = CudaScoring(torch.device("cpu"), triton=False).mix_neighbours(logits_BV.clone(), *given)
    torch.testing.assert_close(
        mine.log_probs(), ReferenceScoring().mix_neighbours(logits_BV.clone(), *given).log_probs()
    )


class Owner:
    """A request."""


def test_requests_have_buffers_of_their_own() -> None:
    whole = CudaScoring(GPU, triton=True)
    first, second = Owner(), Owner()
    leases = [whole.lease(first), whole.lease(second)]
    runners = [lease._graphs for lease in leases]
    assert runners[0] is not runners[1]
    del first
    gc.collect()
    third = Owner()
    assert whole.lease(third)._graphs is runners[0]


def test_the_best_continuations_are_found_again_and_again() -> None:
    """A lease keeps its graphs, which are called with other numbers of slots."""
    owner = Owner()
    leased = CudaScoring(GPU, triton=True).lease(owner)
    for slots in (2, 3, 2, 3, 2):
        scores = Scores(random(2 * slots, 100, seed=slots).to(GPU), torch.zeros(2 * slots, device=GPU))
        found_S3K = leased.best(scores, torch.zeros(2 * slots, device=GPU), slots, 4).clone().cpu()
        expected_SK = scores.logits_BV.cpu().view(slots, -1).sort(dim=1, descending=True).values[:, :4]
        assert torch.equal(found_S3K[:, 0].float(), expected_SK)
