"""Loading by name, and the identity of what was loaded."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from nearmt.errors import ConfigError, ModelError
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.models.fingerprint import PlainWeights, checksum, fingerprint
from tests.tiny import tiny_marian_folder, tiny_model

WORDS = {"a": 0, "b": 1}


def weights_of(model: nn.Module) -> dict[str, PlainWeights]:
    return {name: PlainWeights(tensor) for name, tensor in model.state_dict().items()}


def identity(model: nn.Module, vocabulary: dict[str, int] = WORDS) -> str:
    return fingerprint("marian", weights_of(model), vocabulary)


def test_the_same_folder_has_the_same_fingerprint(tiny: TranslationModel, tiny_folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_folder, tmp_path / "copy"))
    for config in (
        ModelConfig(model=str(tiny_folder), device="cpu"),
        ModelConfig(model=str(copy), device="cpu"),
        ModelConfig(model=str(tiny_folder), device="cpu", precision="int8"),
        ModelConfig(model=str(tiny_folder), device="cpu", precision="bf16", key_layer="feed-forward"),
    ):
        assert load_model(config).fingerprint == tiny.fingerprint


def test_another_seed_has_another_fingerprint(tiny: TranslationModel, tmp_path: Path) -> None:
    other = load_model(ModelConfig(model=str(tiny_marian_folder(tmp_path, seed=1)), device="cpu"))
    assert other.fingerprint != tiny.fingerprint
    assert identity(tiny_model("marian", 0)) != identity(tiny_model("marian", 1))


def test_another_vocabulary_has_another_fingerprint(tiny: TranslationModel, tiny_folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_folder, tmp_path / "copy"))
    vocabulary = json.loads((copy / "vocab.json").read_text(encoding="utf-8"))
    first, second = [piece for piece in vocabulary if piece.startswith("▁")][:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (copy / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    assert load_model(ModelConfig(model=str(copy), device="cpu")).fingerprint != tiny.fingerprint


def test_the_fingerprint_sees_one_trained_weight() -> None:
    model = tiny_model("marian")
    before = identity(model)
    assert identity(model, dict(reversed(WORDS.items()))) == before
    with torch.no_grad():
        model.get_decoder().layers[-1].fc2.bias[0] += 1e-3
    assert identity(model) != before


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (3, 5), (40, 1000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
def test_the_checksum_sees_every_number(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """A fingerprint samples weights; what is derived from them must not outlive any change."""
    tensor = torch.randint(-50, 50, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    before = checksum({"a": PlainWeights(tensor)})
    assert checksum({"a": PlainWeights(tensor.clone())}) == before
    flat = tensor.view(-1)
    for place in {0, 1, len(flat) // 2, len(flat) - 1} & set(range(len(flat))):
        flat[place] += 1
        assert checksum({"a": PlainWeights(tensor)}) != before
        flat[place] -= 1
    assert checksum({"a": PlainWeights(tensor)}) == before
    assert checksum({"b": PlainWeights(tensor)}) != before


def test_the_checksum_of_a_part_of_a_tensor() -> None:
    whole = torch.arange(100, dtype=torch.float16)
    assert checksum({"a": PlainWeights(whole[3:50])}) == checksum({"a": PlainWeights(whole[3:50].clone())})


def test_no_gpu_is_a_config_error(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for device in ("cuda", "cuda:1"):
        with pytest.raises(ConfigError, match=f"device = '{device}': no usable GPU here"):
            load_model(ModelConfig(model=str(tiny_folder), device=device))
    with pytest.raises(ConfigError, match="device = 'gpu': unknown"):
        load_model(ModelConfig(model=str(tiny_folder), device="gpu"))
    assert load_model(ModelConfig(model=str(tiny_folder), device="auto")).seq2seq.device.type == "cpu"


def test_another_direction_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(ModelError, match="translates de to en, not fr to en"):
        load_model(ModelConfig(model=str(tiny_folder), source_lang="fr", device="cpu"))
    with pytest.raises(ModelError, match="translates de to en, not de to fr"):
        load_model(ModelConfig(model=str(tiny_folder), target_lang="fr", device="cpu"))
    named = load_model(ModelConfig(model=str(tiny_folder), source_lang="de-AT", target_lang="en", device="cpu"))
    assert named.language_pair == ("de-AT", "en")


def test_a_missing_package_that_is_not_needed_is_not_asked_for(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    load_model(ModelConfig(model=str(tiny_folder), device="cpu"))
    assert not [str(warning.message) for warning in recwarn if "sacremoses" in str(warning.message)]
