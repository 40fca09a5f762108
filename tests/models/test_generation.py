"""The table of generation fields: complete, and what it refuses is refused by name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import GenerationConfig, WatermarkingConfig

from nearmt.errors import ModelError
from nearmt.models import ModelConfig, Seq2SeqModel, load_model
from nearmt.models.generation import (
    HONOURED,
    IRRELEVANT,
    REFUSED,
    REPLACED,
    check_generation,
    special_tokens,
    unknown_fields,
)
from tests.tiny import tiny_model

#: For each refused field a value that would change what `generate()` finds.
HARMFUL: dict[str, Any] = {
    "assistant_ensemble_weight": 0.5,
    "cache_implementation": "quantized",
    "constraints": [object()],
    "do_sample": True,
    "dola_layers": "high",
    "encoder_no_repeat_ngram_size": 2,
    "encoder_repetition_penalty": 1.5,
    "force_words_ids": [[7]],
    "guidance_scale": 2.0,
    "is_assistant": True,
    "max_time": 1.0,
    "num_beam_groups": 2,
    "penalty_alpha": 0.6,
    "stop_strings": ["."],
    "token_healing": True,
    "watermarking_config": WatermarkingConfig(),
}


def test_every_field_of_transformers_is_known() -> None:
    """If this fails, transformers has a new field: decide in `models/generation.py` what becomes of it."""
    assert unknown_fields(GenerationConfig()) == []


def test_no_field_is_in_two_parts_of_the_table() -> None:
    parts = [HONOURED, REPLACED.keys(), IRRELEVANT.keys(), REFUSED.keys()]
    assert sum(map(len, parts)) == len(frozenset().union(*parts))


def test_the_documentation_has_the_same_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text(encoding="utf-8")
    table = text.split("## The model's generation config")[1].split("## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    honoured, replaced, refused = [set(re.findall(r"`([a-z_]+)`", row)) for row in rows]
    assert (honoured, replaced, refused) == (set(HONOURED), set(REPLACED), set(REFUSED))


def test_defaults_and_harmless_values_are_accepted() -> None:
    check_generation(GenerationConfig())
    check_generation(GenerationConfig(**GenerationConfig._get_default_generation_params()))
    for name, values in REFUSED.items():
        for value in values:
            config = GenerationConfig()
            setattr(config, name, value)
            check_generation(config)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_done_is_refused_by_name(name: str) -> None:
    model = tiny_model("marian")
    setattr(model.generation_config, name, HARMFUL[name])
    with pytest.raises(ModelError, match=rf"^the model's generation config sets {name} = .*does not support") as caught:
        Seq2SeqModel(model)
    assert "\n" not in str(caught.value)


def test_a_field_of_a_newer_transformers_is_refused_when_it_is_set() -> None:
    class Newer(GenerationConfig):  # type: ignore[misc]
        def __init__(self, **settings: Any) -> None:
            self.novelty = settings.pop("novelty", None)
            super().__init__(**settings)

    check_generation(Newer())
    with pytest.raises(ModelError, match=r"sets novelty = 0\.5, which nearmt does not support"):
        check_generation(Newer(novelty=0.5))


def test_an_entry_that_transformers_does_not_know_is_ignored_as_there() -> None:
    check_generation(GenerationConfig(of_somebody_else=3))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"eos_token_id": None}, "has no eos_token_id"),
        ({"decoder_start_token_id": None, "bos_token_id": None}, "has no decoder_start_token_id"),
        ({"eos_token_id": [0, 60]}, r"sets eos_token_id = \[0, 60\]: not a token"),
        ({"forced_bos_token_id": -1}, "sets forced_bos_token_id = -1: not a token"),
        ({"forced_bos_token_id": [4, 5]}, r"sets forced_bos_token_id = \[4, 5\], which nearmt does not support"),
        ({"repetition_penalty": 2}, "is not valid: `penalty` has to be a strictly positive float, but is 2"),
        ({"bad_words_ids": [[60]]}, "is not valid: The model vocabulary size is 60"),
        ({"sequence_bias": []}, "is not valid: `sequence_bias` has to be a non-empty"),
        ({"exponential_decay_length_penalty": 3}, "is not valid: "),
    ],
)
def test_values_that_are_wrong_are_one_line(settings: dict[str, Any], line: str) -> None:
    model = tiny_model("marian")
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    with pytest.raises(ModelError, match=f"^the model's generation config {line}") as caught:
        Seq2SeqModel(model)
    assert "\n" not in str(caught.value)


def test_special_tokens_have_the_defaults_of_generate() -> None:
    tokens = special_tokens(GenerationConfig(eos_token_id=[3, 4], bos_token_id=5), 10)
    assert (tokens.ends, tokens.padding, tokens.start) == ([3, 4], 3, 5)
    assert tokens.forced_first is None and tokens.forced_last is None


def test_a_folder_that_asks_for_sampling_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_folder, tmp_path / "copy"))
    file = copy / "generation_config.json"
    file.write_text(file.read_text(encoding="utf-8").replace("{", '{"do_sample": true, ', 1), encoding="utf-8")
    with pytest.raises(ModelError, match="sets do_sample = True"):
        load_model(ModelConfig(model=str(copy), device="cpu"))
