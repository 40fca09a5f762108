"""The embedded model without transformers is the same model, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nearmt.decoding import BeamConfig
from nearmt.engines.precision import StoredLinear, quantised
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.models.embedded import EMBEDDED, WEIGHTS, load_embedded, open_embedded
from nearmt.models.generation import check_generation, read_generation, special_tokens
from nearmt.models.loading import load_pretrained
from nearmt.models.marian import StoredMarian
from nearmt.models.stored import read_stored, with_derived
from nearmt.translator import Translator
from tests.kernels import needs_kernels

pytestmark = pytest.mark.embedded

#: Datastores that users have built name it.
FINGERPRINT = "80d74ee4748f4a06"
TEXTS = [
    "Guten Morgen!",
    "Die Pumpe muss vor jedem Gebrauch gereinigt werden.",
    "Niemand wusste, warum der Zug an diesem Abend so lange auf freier Strecke stand.",
]


@cache
def transformers_model() -> Any:
    return load_embedded("de-en")


def test_every_tensor_is_that_of_transformers() -> None:
    """Tied and computed ones, too: positions to the last bit."""
    stored = open_embedded("de-en")[2]
    expected = transformers_model().state_dict()
    assert stored.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(stored[name].expanded(), tensor), name
        for stride in (1, 7, 1000):
            assert torch.equal(stored[name].sampled(stride), tensor.flatten()[::stride])


def test_stored_weights_are_the_quantised_weights() -> None:
    """What lets kernels read the stored int8 as they are: the largest number of every row is 127."""
    layers = [module for module in open_embedded("de-en")[0].modules() if isinstance(module, StoredLinear)]
    assert len(layers) == 6 * 6 + 6 * 10 + 1
    for layer in layers:
        for found, expected in zip(layer.quantised(), quantised(layer.expanded()), strict=True):
            if found is None or expected is None:
                assert found is expected
            else:
                assert torch.equal(found, expected)


def test_modules_have_the_names_of_transformers() -> None:
    """Packed weights are found by name, whichever of the two models asks."""
    kinds = nn.Linear | StoredLinear
    names = [
        {name: module.out_features for name, module in model.named_modules() if isinstance(module, kinds)}
        for model in (open_embedded("de-en")[0], transformers_model())
    ]
    assert names[0] == names[1]


def test_settings_are_those_of_transformers() -> None:
    model, expected = open_embedded("de-en")[0], transformers_model()
    assert isinstance(model, StoredMarian)
    for name in ("model_type", "hidden_size", "max_position_embeddings", "scale_embedding", "decoder_layers"):
        assert getattr(model.config, name) == getattr(expected.config, name)
    check_generation(model.generation_config)  # type: ignore[arg-type]
    mine, theirs = (special_tokens(each.generation_config, 16000) for each in (model, expected))  # type: ignore[arg-type]
    assert mine == theirs
    fields = vars(type(expected.generation_config)())
    assert not [name for name in fields if getattr(read_generation({}), name, None) is not None]


def test_nothing_else_is_stored() -> None:
    stored = read_stored(EMBEDDED["de-en"] / WEIGHTS)
    assert len(with_derived(stored, 512, 512)) == len(stored) + 5


# As a model that translates.


@needs_kernels
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("key_layer", ["output", "feed-forward"])
def test_numbers_are_those_of_transformers_weights(
    precision: str, key_layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same kernels over weights that transformers loaded and that were quantised from fp32."""
    config = ModelConfig(precision=precision, key_layer=key_layer, device="cpu")
    mine = load_model(config)
    monkeypatch.setattr("nearmt.models.kernels_support", lambda *asked: False)
    theirs = load_model(config)
    assert mine.fingerprint == theirs.fingerprint and mine.language_pair == theirs.language_pair
    outcomes = [numbers_of(model) for model in (mine, theirs)]
    assert all(map(torch.equal, *outcomes))


def numbers_of(model: TranslationModel) -> list[torch.Tensor]:
    """Keys, log-probabilities, logits of steps, attention."""
    sources = [model.codec.source_ids(text) for text in TEXTS]
    state = model.seq2seq.encode(sources)
    steps = [model.seq2seq.step(state, torch.tensor([[token]] * 3)) for token in (15999, 400, 900)]
    targets = [model.codec.target_ids("It stood there for a long time."), [5, 6, 0], [7, 0]]
    taught = model.seq2seq.teach(sources, targets)
    return [
        *(part for step in steps for part in step),
        *model.seq2seq.force_decode(sources, targets),
        *(part for pair in taught for part in pair),
        *model.seq2seq.attention(sources, targets),
    ]


_TRANSLATE = """
import sys
from nearmt.models import ModelConfig
from nearmt.translator import Translator
translator = Translator(ModelConfig(precision=sys.argv[1], device="cpu"))
print(translator.translate("Der Hund schläft auf dem Sofa.").text)
print(translator.model.fingerprint)
heavy = {"transformers", "tokenizers", "huggingface_hub", "faiss", "sacrebleu", "sentencex", "rapidfuzz", "sacremoses"}
print(sorted(heavy & sys.modules.keys()))
translator.model.seq2seq.attention([[5, 0]], [[5, 6, 0]])
print(sorted(heavy & sys.modules.keys()))
"""


@needs_kernels
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_translation_needs_no_transformers(precision: str, tmp_path: Path) -> None:
    """Nor faiss, nor what scores, splits and matches text; word alignment does without them, too."""
    environment = {**os.environ, "NEARMT_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _TRANSLATE, precision],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["The dog is sleeping on the couch.", FINGERPRINT, "[]", "[]"]
    files = [path.name for path in tmp_path.iterdir()]
    assert files == ([f"{FINGERPRINT}-int8.packed"] if precision == "int8" else [])


@needs_kernels
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_batches_give_what_single_sentences_give(precision: str) -> None:
    model = load_model(ModelConfig(precision=precision, device="cpu"))
    beams = BeamConfig(max_new_tokens=40)
    together, alone = (Translator(model, beam=beams, batch_size=size).translate(TEXTS) for size in (8, 1))
    assert [(t.text, t.score) for t in together] == [(t.text, t.score) for t in alone]


@needs_kernels
def test_without_kernels_transformers_runs_it(no_kernels: None) -> None:
    model = load_model(ModelConfig(precision="int8", device="cpu"))
    assert model.fingerprint == FINGERPRINT
    assert Translator(model).translate("Der Hund schläft auf dem Sofa.").text == "The dog is sleeping on the couch."


def test_transformers_tokenizer_gives_the_same_fingerprint() -> None:
    model, tokenizer = load_pretrained("de-en")
    assert type(model).__name__ == "MarianMTModel" and type(tokenizer).__name__ == "MarianTokenizer"
    assert load_model(ModelConfig(precision="bf16", device="cpu")).fingerprint == FINGERPRINT
