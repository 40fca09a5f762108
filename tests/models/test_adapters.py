"""Adapters: merged weights equal the explicit low-rank product, files are data that is checked."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from nearmt.engines.precision import StoredLinear, quantised
from nearmt.errors import DatastoreError, ModelError
from nearmt.models import Adapter, ModelConfig, TranslationModel, load_model
from nearmt.models.adapters import LowRank, adaptable, merge
from nearmt.models.embedded import load_embedded, open_embedded
from nearmt.translator import Translator
from tests.adapting import random_adapter, random_layers
from tests.tiny import FAMILIES, random_sources, tiny_model

BASE = "0123456789abcdef"


def logits(model: Any, source: list[int]) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(torch.tensor([source]), decoder_input_ids=torch.tensor([[2, 7, 9, 11]])).logits
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_merged_weights_equal_low_rank_products_computed_beside_the_layers(family: str) -> None:
    """W x + scale * up (down x), by hooks."""
    model, merged = tiny_model(family), tiny_model(family)
    adapter = Adapter(BASE, 1.5, random_layers(model))
    merge(merged, adapter, BASE, "tiny")

    def beside(change: LowRank) -> Any:
        def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return output + 1.5 * (inputs[0] @ change.down_RI.float().T) @ change.up_OR.float().T

        return add

    source = random_sources(0)[0]
    unchanged = logits(model, source)
    for name, linear in adaptable(model).items():
        linear.register_forward_hook(beside(adapter.layers[name]))
    assert torch.allclose(logits(merged, source), logits(model, source), atol=1e-4)
    assert not torch.allclose(logits(merged, source), unchanged, atol=1e-1)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_and_feed_forward_are_adaptable_and_the_output_is_not(family: str) -> None:
    model = tiny_model(family)
    names = set(adaptable(model))
    projections = 2 * 4 + 2 * 8
    feed_forward = 4 * 2
    assert len(names) == projections + feed_forward
    output = model.get_output_embeddings()
    assert not any(model.get_submodule(name) is output for name in names)


@pytest.mark.parametrize("precision", ["fp32", "int8", "bf16"])
def test_an_adapter_of_zeros_changes_no_token(tiny: TranslationModel, precision: str) -> None:
    config = dataclasses.replace(tiny.config, precision=precision)
    zeros = random_adapter(tiny, size=0.0)
    texts = ["die pumpe prüfen", "motor und welle nicht öffnen", "ventil"]
    alone, adapted = (Translator(load_model(config, each)).translate(texts) for each in (None, zeros))
    assert [(each.text, each.score) for each in alone] == [(each.text, each.score) for each in adapted]


def test_the_fingerprint_names_model_and_adapter(tiny: TranslationModel) -> None:
    adapter = random_adapter(tiny)
    adapted = load_model(tiny.config, adapter)
    assert adapted.fingerprint == f"{tiny.fingerprint}+{adapter.identity}"
    assert random_adapter(tiny, seed=1).identity != adapter.identity
    assert dataclasses.replace(adapter, scale=1.0).identity != adapter.identity
    assert dataclasses.replace(adapter, held_out=frozenset({5})).identity != adapter.identity


def test_the_base_is_the_model_without_the_adapter(tiny: TranslationModel) -> None:
    adapter = random_adapter(tiny)
    for adapted in (load_model(tiny.config, adapter), tiny.adapted(adapter)):
        assert adapted.base.fingerprint == tiny.fingerprint
        assert adapted.base is adapted.base
        source = [[5, 6, 7, 0]]
        assert torch.equal(adapted.base.seq2seq.score(source, source)[0], tiny.seq2seq.score(source, source)[0])
        assert not torch.equal(adapted.seq2seq.score(source, source)[0], tiny.seq2seq.score(source, source)[0])
    assert tiny.base is tiny and tiny.adapted(None) is tiny
    assert tiny.adapted(adapter).base is tiny


def test_packed_weights_of_model_and_adapter_are_kept_apart(
    tiny: TranslationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARMT_CACHE", str(tmp_path))
    config = dataclasses.replace(tiny.config, precision="int8")
    adapters = [None, random_adapter(tiny), random_adapter(tiny, seed=1)]
    source = [[5, 6, 7, 0]]
    scores = [load_model(config, each).seq2seq.score(source, source)[0] for each in adapters]
    again = [load_model(config, each).seq2seq.score(source, source)[0] for each in adapters]
    assert all(map(torch.equal, scores, again))
    assert not torch.equal(scores[0], scores[1]) and not torch.equal(scores[1], scores[2])


@pytest.mark.embedded
def test_stored_weights_are_merged_as_expanded_ones() -> None:
    whole, stored = load_embedded("de-en"), open_embedded("de-en")[0]
    names = ["model.encoder.layers.0.fc1", "model.decoder.layers.5.encoder_attn.q_proj"]
    layers = {name: change for name, change in random_layers(whole).items() if name in names}
    for model in (whole, stored):
        merge(model, Adapter(BASE, 2.0, layers), BASE, "de-en")
    assert set(adaptable(whole)) == set(adaptable(stored))
    for name in names:
        one, other = whole.get_submodule(name), stored.get_submodule(name)
        assert isinstance(one, nn.Linear) and isinstance(other, StoredLinear)
        assert torch.equal(one.weight, other.expanded().weight)
        for expanded, merged in zip(quantised(one), other.quantised(), strict=True):
            assert expanded is not None and merged is not None and torch.equal(expanded, merged)


# Files.


@pytest.fixture
def file(tiny: TranslationModel, tmp_path: Path) -> Path:
    random_adapter(tiny).save(tmp_path / "adapter.safetensors")
    return tmp_path / "adapter.safetensors"


def test_a_file_gives_the_adapter_back(tiny: TranslationModel, file: Path) -> None:
    adapter, found = random_adapter(tiny), Adapter.load(file)
    assert found.identity == adapter.identity
    assert (found.base, found.scale, found.notes, found.held_out, found.pairs) == (
        adapter.base,
        adapter.scale,
        adapter.notes,
        adapter.held_out,
        adapter.pairs,
    )
    assert all(torch.equal(found.layers[name].up_OR, layer.up_OR) for name, layer in adapter.layers.items())


ABOUT: dict[str, Any] = {"base": BASE, "scale": 1.0, "pairs": 3, "held_out": [1], "notes": {}}
HALF = torch.ones(2, 4).half()


@pytest.mark.parametrize(
    ("changes", "tensors"),
    [
        ({"base": "../../x"}, {}),
        ({"scale": "1"}, {}),
        ({"scale": True}, {}),
        ({"scale": 0}, {}),
        ({"scale": float("nan")}, {}),
        ({"scale": 1e30}, {}),
        ({"pairs": -1}, {}),
        ({"pairs": 1.5}, {}),
        ({"held_out": [-1]}, {}),
        ({"held_out": [1 << 64]}, {}),
        ({"held_out": ["x"]}, {}),
        ({"held_out": [[1]]}, {}),
        ({"notes": []}, {}),
        ({}, {"fc1.down": torch.full((2, 4), torch.nan).half()}),
        ({}, {"fc1.up": torch.full((4, 2), torch.inf).half()}),
        ({}, {"fc1.down": torch.ones(2, 4)}),
        ({}, {"fc1.down": torch.ones(3, 4).half()}),
        ({}, {"fc1.down": torch.ones(2, 4, 1).half()}),
        ({}, {"fc1.down": torch.ones(0, 4).half(), "fc1.up": torch.ones(4, 0).half()}),
        ({}, {"fc2.down": HALF.clone()}),
        ({}, {"fc1.other": HALF.clone()}),
    ],
)
def test_files_with_wrong_values_are_refused_in_one_line(
    tmp_path: Path, changes: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    path, right = tmp_path / "a.safetensors", {"fc1.down": HALF, "fc1.up": HALF.T.contiguous()}
    save_file(right, path, {"adapter": json.dumps(ABOUT)})
    assert Adapter.load(path).rank == 2
    save_file({**right, **tensors}, path, {"adapter": json.dumps({**ABOUT, **changes})})
    with pytest.raises(ModelError, match="not a readable adapter") as error:
        Adapter.load(path)
    assert "\n" not in str(error.value)


def test_other_files_are_refused(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "b.safetensors"
    contents = [b"", b"x", pickle.dumps({"fc1.down": [1]}), file.read_bytes()[:-5], file.read_bytes()[:40]]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ModelError, match="not a readable adapter"):
            Adapter.load(path)
    for about in ({}, {"adapter": "[]"}, {"adapter": "{"}, {"adapter": "[" * 5000}):
        save_file({"fc1.down": HALF}, path, about)
        with pytest.raises(ModelError, match="not a readable adapter"):
            Adapter.load(path)
    path.unlink()
    with pytest.raises(ModelError, match="not a readable adapter"):
        Adapter.load(path)
    path.symlink_to(file)
    with pytest.raises(DatastoreError, match="symbolic link"):
        Adapter.load(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DatastoreError, match="not an ordinary file"):
        Adapter.load(path)


def test_adapters_of_other_models_are_refused_in_one_line(tiny: TranslationModel) -> None:
    adapter = random_adapter(tiny)
    with pytest.raises(ModelError, match=f"trained for the model {BASE}, not for '.*' \\({tiny.fingerprint}\\)"):
        load_model(tiny.config, dataclasses.replace(adapter, base=BASE))
    name, layer = next(iter(adapter.layers.items()))
    for layers in ({"lm_head": layer}, {"x\n": layer}, {name: LowRank(layer.down_RI[:, :3], layer.up_OR)}):
        with pytest.raises(ModelError, match="does not fit the model") as error:
            load_model(tiny.config, dataclasses.replace(adapter, layers=layers))
        assert "\n" not in str(error.value)
    assert isinstance(load_model(ModelConfig(tiny.name, device="cpu"), adapter), TranslationModel)
