"""A model's generation config changes translations exactly as it changes those of `generate()`."""

from __future__ import annotations

from typing import Any

import pytest

from nearmt.decoding import BeamConfig, beam_search
from nearmt.methods import PlainMethod
from nearmt.models import Seq2SeqModel
from nearmt.models.generation import HONOURED
from tests.decoding.test_beam import assert_same_as_generate
from tests.tiny import random_sources, restless_model

SEEDS = (0, 3, 6)
# Three quarters of the vocabulary: what is left must share the probability of what is forbidden.
MANY = list(range(15, 59))

#: A field, and what it is set to, on top of what else.
CASES: list[tuple[str, Any, dict[str, Any]]] = [
    ("bad_words_ids", [[9, 11], *([token] for token in range(15, 50))], {}),
    ("begin_suppress_tokens", list(range(4, 40)), {}),
    ("bos_token_id", 7, {"decoder_start_token_id": None, "bos_token_id": 5}),
    ("decoder_start_token_id", 7, {}),
    ("early_stopping", True, {}),
    ("early_stopping", "never", {}),
    ("eos_token_id", list(range(30)), {}),
    ("exponential_decay_length_penalty", [2, 1.1], {}),
    ("exponential_decay_length_penalty", [0, 0.3], {"suppress_tokens": [5, 6]}),
    ("forced_bos_token_id", 9, {}),
    ("forced_eos_token_id", None, {}),
    ("forced_eos_token_id", [3, 7], {}),
    ("min_length", 8, {}),
    ("min_new_tokens", 8, {}),
    ("min_new_tokens", 2, {"min_length": 12}),
    ("no_repeat_ngram_size", 1, {}),
    # The forbidden end gets the lowest number there is, and the factor 2 makes 0 of it.
    ("remove_invalid_values", True, {"exponential_decay_length_penalty": [3, 2.0], "min_length": 6}),
    ("renormalize_logits", True, {"suppress_tokens": MANY}),
    ("renormalize_logits", True, {"repetition_penalty": 1.5, "bad_words_ids": [[8, 9], [10]]}),
    ("repetition_penalty", 1.5, {}),
    ("repetition_penalty", 0.5, {"forced_bos_token_id": 9}),
    ("sequence_bias", [[[7], 2.0], [[9, 11], 3.0], [[20], -4.0]], {}),
    ("suppress_tokens", list(range(5, 30)), {}),
]
#: Fields that change nothing in greedy search: it has one hypothesis, and logits above 0.
OF_BEAMS = {"early_stopping", "remove_invalid_values", "renormalize_logits"}


def model_of(seed: int, settings: dict[str, Any]) -> Any:
    model = restless_model("marian", seed)
    assert model.generation_config is not None
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    return model


def translations(seed: int, beams: int, settings: dict[str, Any]) -> list[list[int]]:
    model, sources = Seq2SeqModel(model_of(seed, settings)), random_sources(seed)
    config = BeamConfig(beams=beams, max_new_tokens=15)
    found, _ = beam_search(model, PlainMethod(), sources, [len(source) for source in sources], config)
    return [hypothesis.tokens for hypothesis in found]


def test_there_is_a_case_of_every_field() -> None:
    assert {name for name, _, _ in CASES} == HONOURED


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize(("name", "value", "others"), CASES)
def test_is_honoured(name: str, value: Any, others: dict[str, Any], beams: int) -> None:
    settings, changed = {**others, name: value}, False
    for seed in SEEDS:
        assert_same_as_generate(model_of(seed, settings), random_sources(seed), beams, 1.0, 15)
        changed = changed or translations(seed, beams, settings) != translations(seed, beams, others)
    assert changed or (beams == 1 and name in OF_BEAMS)  # otherwise this test would say nothing


@pytest.mark.parametrize("penalty", [0.0, 1.7, -0.5])
@pytest.mark.parametrize("early_stopping", [True, "never"])
def test_early_stopping_with_length_penalties(early_stopping: bool | str, penalty: float) -> None:
    for seed in SEEDS:
        model = model_of(seed, {"early_stopping": early_stopping})
        assert_same_as_generate(model, random_sources(seed), 3, penalty, 12)


@pytest.mark.parametrize("family", ["nllb", "t5", "fsmt"])
def test_rules_of_other_families(family: str) -> None:
    """With and without a forced language, all rules together."""
    model = restless_model(family, 5)
    rules = {
        "begin_suppress_tokens": [10, 11],
        "exponential_decay_length_penalty": [4, 1.02],
        "no_repeat_ngram_size": 2,
        "renormalize_logits": True,
        "repetition_penalty": 1.2,
        "suppress_tokens": [5, 6, 7],
    }
    for name, value in rules.items():
        setattr(model.generation_config, name, value)
    for beams in (1, 4):
        assert_same_as_generate(model, random_sources(5), beams, 1.0, 15)


def test_without_kernels(no_kernels: None) -> None:
    settings = {"renormalize_logits": True, "suppress_tokens": MANY, "repetition_penalty": 1.5}
    for beams in (1, 4):
        assert_same_as_generate(model_of(1, settings), random_sources(1), beams, 1.0, 15)
