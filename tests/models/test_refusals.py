"""What is no model, or not all of one, or carries code: one line that says what is missing, and nothing is run."""

from __future__ import annotations

import errno
import io
import json
import logging
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

from nearmt.errors import ModelError
from nearmt.models import ModelConfig, TranslationModel, load_model
from tests.models.hostile import with_code, with_code_of_a_known_type, with_pickle
from tests.models.tokenizers import fsmt_folder, tokenizer_folder


def refusal(name: Path | str, **languages: str) -> str:
    """The line with which a model is refused, without the name that it begins with."""
    with pytest.raises(ModelError) as caught:
        load_model(ModelConfig(model=str(name), device="cpu", **languages))
    line = str(caught.value)
    kind = "folder" if Path(name).is_dir() else "model"
    start = f"{kind} '{name}' cannot be loaded: "
    assert "\n" not in line and line.startswith(start)
    return line.removeprefix(start)


@pytest.fixture
def copy(tiny_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder, tmp_path / "copy"))


@pytest.mark.parametrize("name", ["gone", "./gone", "/gone/away", "a/b/c", "../gone"])
def test_a_folder_that_is_not_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    expected = "in the cached files" if name == "gone" else "there is no such folder"
    line = refusal(name)
    assert expected in line and "give de-en, a model folder, or a hub id" in line


def test_a_folder_without_a_config(copy: Path) -> None:
    (copy / "config.json").unlink()
    assert refusal(copy).startswith("it has no config.json")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"model_type": "mari', '{"d_model": 16}', '{"model_type": []}']
)
def test_a_config_that_is_none(text: str, copy: Path) -> None:
    (copy / "config.json").write_text(text, encoding="utf-8")
    assert "config.json" in refusal(copy)


def test_a_config_with_values_that_cannot_be(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps({**config, "d_model": "wide"}), encoding="utf-8")
    refusal(copy)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_generation_config_that_is_none_is_not_passed_over(text: str, copy: Path) -> None:
    (copy / "generation_config.json").write_text(text, encoding="utf-8")
    assert refusal(copy).startswith("generation_config.json: it is not a JSON object")


def test_a_model_without_a_generation_config_is_loaded(copy: Path, tiny: TranslationModel) -> None:
    (copy / "generation_config.json").unlink()
    assert load_model(ModelConfig(model=str(copy), device="cpu")).fingerprint == tiny.fingerprint


def test_a_model_that_cannot_translate(tmp_path: Path) -> None:
    config = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(config).save_pretrained(tmp_path)
    assert "model type 'bert' is not supported; supported are fsmt" in refusal(tmp_path)


def test_a_folder_without_weights(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    assert refusal(copy).startswith("weights: ") and "model.safetensors" in refusal(copy)


@pytest.mark.parametrize("size", [0, 7, 100, -1])
def test_truncated_weights(size: int, copy: Path) -> None:
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert refusal(copy).startswith("weights: ")


def test_weights_that_lack_a_tensor_are_not_made_up(copy: Path) -> None:
    path = copy / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.decoder.layers.1.fc1.weight"]
    save_file(tensors, path, {"format": "pt"})
    assert "1 tensors are missing, such as model.decoder.layers.1.fc1.weight" in refusal(copy)


def test_weights_of_another_shape(copy: Path) -> None:
    path = copy / "model.safetensors"
    tensors = load_file(path)
    tensors["model.decoder.layers.1.fc1.weight"] = tensors["model.decoder.layers.1.fc1.weight"][:4].clone()
    save_file(tensors, path, {"format": "pt"})
    assert refusal(copy).startswith("weights: ")


Maker = Callable[[Path], Path]
TOKENIZERS: dict[str, tuple[Maker, dict[str, str], str]] = {
    "fsmt": (lambda folder: fsmt_folder(folder, True), {}, "vocab-src.json"),
    **{
        family: (partial(tokenizer_folder, family), {"source_lang": "de", "target_lang": "en"}, "tokenizer.json")
        for family in ("mbart", "nllb", "m2m_100", "t5")
    },
}


@pytest.mark.parametrize(("make", "languages", "first"), TOKENIZERS.values(), ids=TOKENIZERS)
def test_missing_tokenizers(make: Maker, languages: dict[str, str], first: str, tmp_path: Path) -> None:
    """Some would be taken for tokenizers of an empty vocabulary."""
    folder = make(tmp_path)
    load_model(ModelConfig(model=str(folder), device="cpu", **languages))
    needed = {"config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json"}
    for file in folder.iterdir():
        if file.is_file() and file.name not in needed:
            file.unlink()
    line = refusal(folder, **languages)
    assert line.startswith(f"tokenizer: there is no {first}") and "copy all files" in line


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
def test_a_missing_file_of_a_tokenizer_is_named(name: str, copy: Path) -> None:
    (copy / name).unlink()
    assert refusal(copy).startswith(f"tokenizer: there is no {name} (copy all files of the tokenizer")


@pytest.mark.parametrize("name", ["vocab.json", "source.spm", "tokenizer_config.json"])
def test_a_damaged_tokenizer(name: str, copy: Path) -> None:
    (copy / name).write_bytes(b"damaged")
    assert refusal(copy).startswith("tokenizer: ")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't allocate memory"), OSError(errno.EMFILE, "Too many open files")]
)
def test_a_machine_that_is_short_of_something_is_not_the_models_fault(
    error: Exception, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise error

    monkeypatch.setattr("transformers.AutoModelForSeq2SeqLM.from_pretrained", fail)
    with pytest.raises(type(error)):
        load_model(ModelConfig(model=str(copy), device="cpu"))


def test_a_hub_that_does_not_answer_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    requests = []

    def refuse(self: Any, request: Any, *rest: Any, **named: Any) -> Any:
        requests.append(str(request.url))
        raise ConnectionError("no network")

    from huggingface_hub import get_session

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(type(get_session()), "send", refuse)
    with caplog.at_level(logging.DEBUG, "huggingface_hub"):
        line = refusal("nearmt-nobody/nothing")
    assert "check the name and the network" in line
    # The library may ask about itself, once a process; about models nothing more is asked.
    asked = [url for url in requests if "/api/agent" not in url]
    assert len(asked) == 1 and not [record for record in caplog.records if "Retry" in record.getMessage()]
    assert capfd.readouterr().err == ""


def test_a_hub_id_is_loaded_from_the_cache_when_the_hub_does_not_answer(
    tiny_folder: Path, tmp_path: Path, tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "models--org--name"
    shutil.copytree(tiny_folder, cached / "snapshots" / ("0" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("nearmt.models.loading._hub_answers", lambda: False)
    assert load_model(ModelConfig(model="org/name", device="cpu")).fingerprint == tiny.fingerprint


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a model's code would write; every question on standard input is answered with yes."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 10))
    return tmp_path / "code-has-run"


def test_code_of_an_unknown_type_does_not_run(tmp_path: Path, marker: Path) -> None:
    assert "model type 'hostile' is not supported" in refusal(with_code(tmp_path / "model", marker))
    assert not marker.exists()


def test_code_of_a_tokenizer_does_not_run(tiny_folder: Path, tmp_path: Path, marker: Path) -> None:
    folder = with_code_of_a_known_type(tiny_folder, tmp_path / "model", marker)
    assert refusal(folder).startswith("tokenizer: ")
    assert not marker.exists()


def test_weights_in_a_pickle_are_tensors_alone(tiny_folder: Path, tmp_path: Path, marker: Path) -> None:
    line = refusal(with_pickle(tiny_folder, tmp_path / "model", marker))
    assert line.startswith("weights: they are a pickle with more than tensors in it, which is not loaded")
    assert not marker.exists()
