"""Pairs as arrays give what each pair gives on its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nearmt.models import TranslationModel
from nearmt.models.forced import ForcedPairs
from tests.conftest import make_pairs


@pytest.fixture
def pairs(tiny: TranslationModel) -> ForcedPairs:
    made = make_pairs(7, seed=5)
    codec = tiny.codec
    return ForcedPairs.of(
        codec, [codec.source_ids(pair.source) for pair in made], [codec.target_ids(pair.target) for pair in made]
    )


def test_states_and_words_are_those_of_each_pair(tiny: TranslationModel, pairs: ForcedPairs) -> None:
    key_NH, code_N = tiny.seq2seq.force_entries(pairs)
    sources, targets = ([row.tolist() for row in part.rows()] for part in (pairs.source, pairs.target))
    expected = torch.cat([tiny.seq2seq.force_decode([s], [t])[0] for s, t in zip(sources, targets, strict=True)])
    torch.testing.assert_close(key_NH, expected, rtol=1e-4, atol=1e-4)
    alone = [tiny.seq2seq.force_entries(pairs.take(np.array([number])))[1] for number in range(7)]
    assert code_N.tolist() == torch.cat(alone).tolist()
    assert all(code_N[end - 1] == 0 for end in pairs.target.end_R) and code_N.any()


def test_the_last_token_is_not_fed(pairs: ForcedPairs) -> None:
    fed_BT = pairs.fed([8, 9], padding=0)
    for row, target in zip(fed_BT.tolist(), pairs.target.rows(), strict=True):
        assert row[: 1 + len(target)] == [8, 9, *target[:-1].tolist()]
        assert not any(row[1 + len(target) :])


def test_positions_predict_and_feed_the_same_tokens(pairs: ForcedPairs) -> None:
    """With a prompt of two tokens, the second predicts the first target token."""
    fed_BT = pairs.fed([8, 9], padding=0)
    position_N, following_N, inner_N = pairs.positions(2, fed_BT.shape[1])
    firsts = pairs.target.start_R
    assert (fed_BT.flatten()[position_N[firsts]] == 9).all()
    assert (fed_BT.flatten()[following_N] == pairs.target.value_X)[inner_N == 1].all()
    assert (inner_N == 0).sum() == 7


def test_several_are_joined(pairs: ForcedPairs) -> None:
    joined = ForcedPairs.joined([pairs.take(np.arange(3)), pairs.take(np.arange(3, 7))])
    assert joined.source.value_X.tolist() == pairs.source.value_X.tolist()
    assert joined.code.length_R.tolist() == pairs.code.length_R.tolist()
    assert joined.target.length_R.tolist() == pairs.target.length_R.tolist()
