"""Fine-tuning: learning, early stopping, the best epoch, the model folder."""

from __future__ import annotations

import dataclasses
import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.decoding import BeamConfig
from nearmt.demo import HELD_OUT, MEMORY
from nearmt.errors import ConfigError, InputError, ModelError, OutputError
from nearmt.models import ModelConfig, TranslationModel, load_model, load_trainable
from nearmt.research.training.finetune import FinetuneResult, finetune
from nearmt.research.training.loop import FinetuneConfig
from nearmt.research.training.teacher import Teacher
from nearmt.translator import Translator
from tests.models.tokenizers import MAKERS, fsmt_folder, tokenizer_folder
from tests.research.training.toy import files_of, on_cpu, toy_pairs

PAIRS = toy_pairs(16)
QUICK = FinetuneConfig(learning_rate=1e-3, epochs=1, dev_limit=0)


def mean_loss(model: TranslationModel, pairs: list[Pair]) -> float:
    """Compute the dev loss with `score`, one pair at a time."""
    codec = model.codec
    losses: list[float] = []
    for pair in pairs:
        losses += model.seq2seq.score([codec.source_ids(pair.source)], [codec.target_ids(pair.target)])[0].tolist()
    return -sum(losses) / len(losses)


@pytest.fixture(scope="module")
def learned(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FinetuneResult]:
    """The tiny model, trained on the toy language."""
    out = tmp_path_factory.mktemp("learned") / "model"
    config = FinetuneConfig(
        learning_rate=0.01, epochs=50, patience=50, batch_tokens=32, label_smoothing=0.0, dropout=0.0, dev_limit=12
    )
    return out, finetune(on_cpu(tiny_folder), PAIRS, PAIRS, out, config)


def test_toy_language_is_learned(learned: tuple[Path, FinetuneResult]) -> None:
    out, result = learned
    losses = [epoch.dev_loss for epoch in result.history]
    assert losses[0] is not None and losses[0] > 2 and result.dev_loss < 0.2
    translator = Translator(load_model(on_cpu(out)), beam=BeamConfig(beams=1))
    found = [translation.text for translation in translator.translate([pair.source for pair in PAIRS])]
    assert found == [pair.target for pair in PAIRS]
    assert (result.dev_bleu, result.dev_bleu_sentences) == (100.0, 12)


def test_best_epoch_is_kept(learned: tuple[Path, FinetuneResult]) -> None:
    out, result = learned
    losses = [epoch.dev_loss for epoch in result.history if epoch.dev_loss is not None]
    assert result.dev_loss == min(losses) == losses[result.best_epoch]
    assert mean_loss(load_model(on_cpu(out)), PAIRS) == pytest.approx(result.dev_loss, rel=1e-4)


def test_record_is_written_to_the_model_folder(learned: tuple[Path, FinetuneResult]) -> None:
    out, result = learned
    stored = json.loads((out / "finetune.json").read_text(encoding="utf-8"))
    assert FinetuneResult.from_dict(stored) == result
    assert stored["settings"]["learning-rate"] == 0.01
    assert (result.pairs, result.dev_pairs, result.precision, result.stopped) == (16, 16, "fp32", "epochs")
    assert result.updates == 50 * result.updates_per_epoch and len(result.history) == 51


def test_epoch_0_is_the_base_model(learned: tuple[Path, FinetuneResult], tiny: TranslationModel) -> None:
    first = learned[1].history[0]
    assert (first.number, first.train_loss, first.learning_rate) == (0, None, 0.0)
    assert first.dev_loss == pytest.approx(mean_loss(tiny, PAIRS), rel=1e-4)
    assert learned[1].fingerprint == tiny.fingerprint


def test_transformers_loads_the_folder(learned: tuple[Path, FinetuneResult]) -> None:
    out, _ = learned
    tokenizer, model = AutoTokenizer.from_pretrained(out), AutoModelForSeq2SeqLM.from_pretrained(out)
    for pair in PAIRS:
        ids = model.generate(**tokenizer([pair.source], return_tensors="pt"), num_beams=1, max_new_tokens=30)
        assert tokenizer.decode(ids[0], skip_special_tokens=True) == pair.target


def test_base_model_is_unchanged(tiny_folder: Path, tmp_path: Path) -> None:
    before = files_of(tiny_folder)
    finetune(on_cpu(tiny_folder), toy_pairs(10), toy_pairs(5), tmp_path / "out", QUICK)
    assert files_of(tiny_folder) == before
    settings = json.loads((tmp_path / "out" / "generation_config.json").read_text(encoding="utf-8"))
    given = json.loads(before["generation_config.json"])
    kept = ("decoder_start_token_id", "pad_token_id", "eos_token_id", "forced_eos_token_id", "bad_words_ids")
    assert {name: settings[name] for name in kept} == {name: given[name] for name in kept}
    assert not (tmp_path / "out.partial").exists()


def test_same_seed_gives_the_same_model(tiny_folder: Path, tmp_path: Path) -> None:
    pairs, config = toy_pairs(20), dataclasses.replace(QUICK, batch_tokens=64)
    for number, seed in enumerate((1, 1, 2)):
        model = load_trainable(on_cpu(tiny_folder))
        torch.manual_seed(number)
        state = torch.get_rng_state()
        finetune(model, pairs, pairs[:5], tmp_path / str(number), dataclasses.replace(config, seed=seed))
        assert torch.equal(torch.get_rng_state(), state), "the caller's random numbers are its own"
    weights = [(tmp_path / str(number) / "model.safetensors").read_bytes() for number in range(3)]
    assert weights[0] == weights[1] != weights[2]


def test_fixed_parameters_are_not_trained(tiny_folder: Path) -> None:
    model = load_trainable(on_cpu(tiny_folder))
    frozen = {name for name, weight in model.weights.named_parameters() if not weight.requires_grad}
    assert frozen == {name for name, _ in model.weights.named_parameters() if "embed_positions" in name} != set()


@pytest.mark.parametrize("family", ["fsmt", *MAKERS])
def test_every_family_can_be_trained(family: str, tmp_path: Path) -> None:
    """With language tags, the folder translates in the direction of the training."""
    given = fsmt_folder(tmp_path, False) if family == "fsmt" else tokenizer_folder(family, tmp_path)
    config = FinetuneConfig(learning_rate=0.01, epochs=8, patience=8, label_smoothing=0.0, dropout=0.0, dev_limit=2)
    pairs = toy_pairs(12)
    result = finetune(on_cpu(given, languages=True), pairs, pairs[:6], tmp_path / "out", config)
    base = result.history[0].dev_loss
    assert base is not None and result.dev_loss < 0.9 * base
    before, after = load_model(on_cpu(given, languages=True)), load_model(on_cpu(tmp_path / "out", languages=True))
    assert after.fingerprint != before.fingerprint
    assert after.seq2seq.prompt == before.seq2seq.prompt
    for pair in pairs:
        assert after.codec.source_ids(pair.source) == before.codec.source_ids(pair.source)
        assert after.codec.target_ids(pair.target) == before.codec.target_ids(pair.target)
    assert mean_loss(after, pairs[:6]) == pytest.approx(result.dev_loss, rel=1e-4)
    Translator(after).translate(["die pumpe"])


# Stopping.


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the dev losses by planned ones."""

    def plan(*losses: float) -> None:
        remaining: Iterator[float] = iter(losses)
        monkeypatch.setattr(Teacher, "loss_per_token", lambda *_: next(remaining))

    return plan


def run_quick(tiny_folder: Path, out: Path, **changes: Any) -> FinetuneResult:
    config = dataclasses.replace(QUICK, batch_tokens=64, **changes)
    return finetune(on_cpu(tiny_folder), toy_pairs(12), toy_pairs(3), out, config)


def test_training_stops_when_patience_runs_out(planned: Any, tiny_folder: Path, tmp_path: Path) -> None:
    planned(5, 4, 4.5, 3, 3, 3.1)
    result = run_quick(tiny_folder, tmp_path / "out", epochs=20, patience=2)
    assert (result.best_epoch, len(result.history), result.stopped, result.dev_loss) == (3, 6, "patience", 3)


def test_learning_rate_is_halved_on_a_plateau(planned: Any, tiny_folder: Path, tmp_path: Path) -> None:
    planned(5, 4, 4.5, 3, 3, 3.1, 2)
    result = run_quick(tiny_folder, tmp_path / "out", epochs=6, schedule="plateau")
    rates = [epoch.learning_rate for epoch in result.history[1:]]
    assert rates == pytest.approx([1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4, 1.25e-4])
    assert result.stopped == "epochs"


def test_base_model_is_kept_if_no_epoch_is_better(planned: Any, tiny_folder: Path, tmp_path: Path) -> None:
    planned(1, 2, 3)
    result = run_quick(tiny_folder, tmp_path / "out", epochs=5, patience=2)
    assert (result.best_epoch, result.stopped) == (0, "patience")
    assert load_model(on_cpu(tmp_path / "out")).fingerprint == load_model(on_cpu(tiny_folder)).fingerprint


def test_diverged_loss_stops_training(planned: Any, tiny_folder: Path, tmp_path: Path) -> None:
    planned(5, 4, float("nan"))
    result = run_quick(tiny_folder, tmp_path / "out", epochs=20)
    assert (result.best_epoch, result.stopped, len(result.history)) == (1, "diverged", 3)
    assert "NaN" not in (tmp_path / "out" / "finetune.json").read_text(encoding="utf-8")
    planned(float("nan"))
    with pytest.raises(ModelError, match="not a number before any training"):
        run_quick(tiny_folder, tmp_path / "other")


# Errors.


def test_empty_data_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    model, pairs, long = on_cpu(tiny_folder), toy_pairs(3), [Pair("pumpe " * 100, "pump")]
    with pytest.raises(InputError, match=r"no pairs to train on$"):
        finetune(model, [], pairs, tmp_path / "out", QUICK)
    with pytest.raises(InputError, match=r"no pairs to measure the dev loss on$"):
        finetune(model, pairs, [], tmp_path / "out", QUICK)
    with pytest.raises(InputError, match="all 1 are longer than the model's 64 positions"):
        finetune(model, long, pairs, tmp_path / "out", QUICK)
    assert list(tmp_path.iterdir()) == []
    result = finetune(model, pairs + long, pairs + long, tmp_path / "out", QUICK)
    assert (result.pairs, result.too_long, result.dev_pairs, result.dev_too_long) == (3, 1, 3, 1)


def test_one_pair_is_enough(tiny_folder: Path, tmp_path: Path) -> None:
    result = finetune(on_cpu(tiny_folder), toy_pairs(1), toy_pairs(1), tmp_path / "out", QUICK)
    assert (result.pairs, result.updates) == (1, 1)


def test_existing_folder_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work", encoding="utf-8")
    (tmp_path / "file").write_text("", encoding="utf-8")
    for out in (tmp_path / "full", tmp_path / "file", tiny_folder):
        before = sorted(out.iterdir()) if out.is_dir() else None
        with pytest.raises(OutputError, match="exists and is not an empty folder"):
            finetune(on_cpu(tiny_folder), toy_pairs(3), toy_pairs(3), out, QUICK)
        assert before is None or sorted(out.iterdir()) == before
    (tmp_path / "empty").mkdir()
    finetune(on_cpu(tiny_folder), toy_pairs(3), toy_pairs(3), tmp_path / "empty", QUICK)
    load_model(on_cpu(tmp_path / "empty"))


@pytest.mark.parametrize(
    "setting",
    [
        {"learning-rate": 0.0},
        {"learning-rate": -1e-4},
        {"learning-rate": float("nan")},
        {"schedule": "cosine"},
        {"epochs": 0},
        {"patience": 0},
        {"batch-tokens": 0},
        {"dropout": 1.0},
        {"label-smoothing": 1.0},
    ],
    ids=str,
)
def test_invalid_settings_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{next(iter(setting))} = "):
        FinetuneConfig.from_mapping(setting)


def test_weights_are_trained_in_fp32_only(tiny_folder: Path) -> None:
    with pytest.raises(ConfigError, match="precision = 'int8': weights are trained in fp32"):
        load_trainable(dataclasses.replace(on_cpu(tiny_folder), precision="int8"))


def test_interrupt_leaves_no_files(tiny_folder: Path, tmp_path: Path) -> None:
    def stop(done: int, of: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    config = dataclasses.replace(QUICK, batch_tokens=32)
    with pytest.raises(KeyboardInterrupt):
        finetune(on_cpu(tiny_folder), toy_pairs(20), toy_pairs(3), tmp_path / "out", config, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_out_of_memory_names_the_option(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(Teacher, "loss_sum", full)
    with pytest.raises(ConfigError, match="batch-tokens = 8192: does not fit the memory of cpu"):
        finetune(on_cpu(tiny_folder), toy_pairs(3), toy_pairs(3), tmp_path / "out", QUICK)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("I/O error: No space left (os error 28)")],
    ids=["file", "weights"],
)
def test_full_disk_leaves_no_files(error: Exception, tiny_folder: Path, tmp_path: Path) -> None:
    model = load_trainable(on_cpu(tiny_folder))

    def full(*_: Any, **__: Any) -> None:
        raise error

    model.weights.save_pretrained = full
    with pytest.raises(OutputError, match="the disk is full"):
        finetune(model, toy_pairs(3), toy_pairs(3), tmp_path / "out", QUICK)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.embedded
def test_embedded_model_learns_the_demo(tmp_path: Path) -> None:
    """A few updates on a manual lower the loss on its held-out sentences."""
    pairs, dev = list(read_pairs(MEMORY, limit=32)), list(read_pairs(HELD_OUT, limit=6))
    config = FinetuneConfig(learning_rate=1e-4, epochs=1, batch_tokens=256, dev_limit=0)
    result = finetune(ModelConfig(device="cpu"), pairs, dev, tmp_path / "out", config)
    base = result.history[0].dev_loss
    assert base is not None and result.dev_loss < 0.95 * base
    tuned = load_model(on_cpu(tmp_path / "out"))
    assert tuned.language_pair == ("de", "en")
    assert mean_loss(tuned, dev) == pytest.approx(result.dev_loss, rel=1e-3)
