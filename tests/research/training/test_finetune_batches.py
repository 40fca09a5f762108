"""Batches, losses and learning rates equal their definitions."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearmt.contracts import Pair
from nearmt.errors import InputError
from nearmt.models import TrainableModel, load_trainable
from nearmt.research.training.batches import Batch, Batches, EncodedPairs, encode_pairs
from nearmt.research.training.schedules import learning_rate
from nearmt.research.training.teacher import Teacher, set_dropout
from tests.conftest import make_pairs
from tests.models.tokenizers import MAKERS, fsmt_folder, tokenizer_folder
from tests.research.training.toy import on_cpu

FAMILIES = ("marian", "fsmt", *MAKERS)


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Any:
    @cache
    def loaded(family: str) -> TrainableModel:
        if family == "marian":
            return load_trainable(on_cpu(tiny_folder))
        folder = tmp_path_factory.mktemp(family)
        made = fsmt_folder(folder, False) if family == "fsmt" else tokenizer_folder(family, folder)
        return load_trainable(on_cpu(made, languages=True))

    return loaded


def encoded(model: TrainableModel, pairs: list[Pair]) -> EncodedPairs:
    return encode_pairs(pairs, model.translation, "test")


def batches_of(model: TrainableModel, pairs: list[Pair], budget: int) -> list[Batch]:
    return list(Batches(encoded(model, pairs), budget, model.translation.seq2seq.pad_id).epoch())


def rows_of(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    sides = ((batch.source_BS, batch.source_mask_BS), (batch.target_BT, batch.target_mask_BT))
    source, target = ([tuple(row[mask].tolist()) for row, mask in zip(*side, strict=True)] for side in sides)
    return list(zip(source, target, strict=True))


# Batches.


@pytest.mark.parametrize("budget", [1, 40, 200, 10_000])
def test_every_pair_is_in_one_batch_within_the_budget(model_of: Any, budget: int) -> None:
    model, pairs = model_of("marian"), make_pairs(50)
    codec = model.translation.codec
    wanted = sorted((tuple(codec.source_ids(pair.source)), tuple(codec.target_ids(pair.target))) for pair in pairs)
    batches = Batches(encoded(model, pairs), budget, model.translation.seq2seq.pad_id)
    for shuffle in (None, np.random.default_rng(0), np.random.default_rng(1)):
        found = list(batches.epoch(shuffle))
        assert len(found) == len(batches)
        assert sorted(row for batch in found for row in rows_of(batch)) == wanted
        for batch in found:
            size = batch.source_BS.numel() + batch.target_BT.numel()
            assert size <= budget or len(batch.source_BS) == 1
            # As wide as the longest row, and padded with the padding token.
            assert batch.source_mask_BS.any(0).all() and batch.target_mask_BT.any(0).all()
            assert (batch.target_BT[~batch.target_mask_BT] == model.translation.seq2seq.pad_id).all()


def test_epochs_are_shuffled_by_their_seed(model_of: Any) -> None:
    model = model_of("marian")
    batches = Batches(encoded(model, make_pairs(60)), 100, model.translation.seq2seq.pad_id)

    def epoch(seed: int) -> list[list[Any]]:
        return [rows_of(batch) for batch in batches.epoch(np.random.default_rng(seed))]

    assert epoch(1) == epoch(1)
    assert epoch(1) != epoch(2)
    # The composition of batches changes, too.
    assert {frozenset(rows) for rows in epoch(1)} != {frozenset(rows) for rows in epoch(2)}


def test_long_pairs_are_left_out_and_counted(model_of: Any) -> None:
    model = model_of("marian")
    positions = model.translation.seq2seq.positions

    def words(count: int) -> str:
        return " ".join(["pump"] * count)

    per_word = len(model.translation.codec.target_ids(words(2))) - len(model.translation.codec.target_ids(words(1)))
    assert per_word == 1
    fitting, beyond = words(positions - 1), words(positions)  # plus the end of sentence
    pairs = [Pair(fitting, fitting), Pair(beyond, "pump"), Pair("pump", beyond), Pair("pump", "pump")]
    found = encoded(model, pairs)
    assert (len(found), found.too_long) == (2, 2)
    Teacher(model, False).loss_sum(batches_of(model, pairs, 10_000)[0])  # pairs that fit can be processed
    with pytest.raises(InputError, match=f"no pairs to test: all 2 are longer than the model's {positions} positions"):
        encoded(model, pairs[1:3])
    with pytest.raises(InputError, match=r"no pairs to test$"):
        encoded(model, [])


def test_digest_depends_on_pairs_and_their_order(model_of: Any) -> None:
    model, pairs = model_of("marian"), make_pairs(5)
    assert encoded(model, pairs).digest() == encoded(model, pairs).digest()
    assert encoded(model, pairs).digest() != encoded(model, pairs[::-1]).digest()
    assert encoded(model, pairs).digest() != encoded(model, pairs[:4]).digest()


# Losses.


@pytest.mark.parametrize("family", FAMILIES)
def test_loss_equals_the_scores_of_the_model(family: str, model_of: Any) -> None:
    """In one padded batch and alone; language tags are inputs but not part of the loss."""
    model, pairs = model_of(family), make_pairs(7)
    codec, seq2seq = model.translation.codec, model.translation.seq2seq
    sources = [codec.source_ids(pair.source) for pair in pairs]
    targets = [codec.target_ids(pair.target) for pair in pairs]
    assert len({len(target) for target in targets}) > 1
    alone = -sum(float(seq2seq.score([s], [t])[0].sum()) for s, t in zip(sources, targets, strict=True))
    teacher = Teacher(model, mixed_precision=True)  # has no effect on a CPU
    for budget in (1, 10_000):
        batches = batches_of(model, pairs, budget)
        assert len(batches) == (7 if budget == 1 else 1)
        assert sum(float(teacher.loss_sum(batch).detach()) for batch in batches) == pytest.approx(alone, rel=1e-5)
    data = encoded(model, pairs)
    mean = teacher.loss_per_token(Batches(data, 60, seq2seq.pad_id), data.target_tokens)
    assert mean == pytest.approx(alone / sum(len(target) for target in targets), rel=1e-5)


def test_padding_does_not_change_gradients(model_of: Any) -> None:
    model, pairs = model_of("nllb"), make_pairs(6)
    teacher, found = Teacher(model, False), []
    for budget in (1, 10_000):
        model.weights.zero_grad()
        for batch in batches_of(model, pairs, budget):
            teacher.loss_sum(batch, 0.1).backward()
        found.append({name: p.grad.clone() for name, p in model.weights.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing_equals_its_definition(model_of: Any, smoothing: float) -> None:
    model = model_of("marian")
    [batch] = batches_of(model, make_pairs(5), 10_000)
    teacher = Teacher(model, False)
    log_prob_BTV = teacher._logits(batch).detach().log_softmax(-1).double()
    by_hand = 0.0
    for (_, target), log_prob_TV in zip(rows_of(batch), log_prob_BTV, strict=True):
        for token, log_prob_V in zip(target, log_prob_TV, strict=False):
            by_hand -= (1 - smoothing) * float(log_prob_V[token]) + smoothing * float(log_prob_V.mean())
    assert float(teacher.loss_sum(batch, smoothing).detach()) == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_can_be_set_in_every_family(family: str, model_of: Any) -> None:
    model = model_of(family)
    for module in model.weights.modules():  # other random layers keep their rates
        if hasattr(model.weights.config, "attention_dropout") and "Attention" in type(module).__name__:
            module.dropout = 0.0
        if hasattr(module, "layerdrop"):
            module.layerdrop = 0.0
    [batch] = batches_of(model, make_pairs(5), 10_000)
    teacher = Teacher(model, False)
    still = float(teacher.loss_sum(batch).detach())
    model.weights.train()
    losses = {}
    for rate in (0.4, 0.0):
        torch.manual_seed(0)
        set_dropout(model.weights, rate)
        losses[rate] = float(teacher.loss_sum(batch).detach())
    model.weights.eval()
    assert losses[0.0] == pytest.approx(still, rel=1e-5)
    assert losses[0.4] != pytest.approx(still, rel=1e-4)


# Learning rates.


def rates(schedule: str, warmup: bool, updates: range, halvings: int = 0) -> list[float]:
    return [
        learning_rate(0.01, schedule, warmup, update=update, updates_per_epoch=10, halvings=halvings)
        for update in updates
    ]


def test_inverse_sqrt_equals_fairseqs() -> None:
    # fairseq: lr = decay_factor / sqrt(update), decay_factor = peak * sqrt(warm-up updates).
    decay = 0.01 * math.sqrt(10)
    for warmup in (True, False):
        assert rates("inverse-sqrt", warmup, range(11, 60)) == pytest.approx(
            [decay / math.sqrt(u) for u in range(11, 60)]
        )
    assert rates("inverse-sqrt", True, range(1, 11)) == pytest.approx([0.001 * u for u in range(1, 11)])
    assert rates("inverse-sqrt", False, range(1, 11)) == [0.01] * 10


def test_plateau_halves_the_rate() -> None:
    assert rates("plateau", True, range(1, 11)) == pytest.approx([0.001 * u for u in range(1, 11)])
    assert rates("plateau", False, range(1, 50)) == [0.01] * 49
    assert rates("plateau", True, range(30, 40), halvings=3) == [0.00125] * 10
