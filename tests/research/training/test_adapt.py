"""Training adapters: learning, what stays as it was, held-out pairs, going on after an interruption."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore.disk.ids import digest_of, with_ids
from nearmt.errors import ConfigError, DatastoreError, InputError
from nearmt.models import ModelConfig, load_model, load_trainable
from nearmt.opening import ADAPTING
from nearmt.research.training import adapt
from nearmt.research.training.adapt import AdaptConfig, AdapterData, AdapterResult, split, train_adapter
from nearmt.research.training.adapting import training_folder
from nearmt.research.training.checkpoint import FILE, Checkpoint
from nearmt.translator import Translator
from tests.models.tokenizers import MAKERS, fsmt_folder, tokenizer_folder
from tests.research.training.test_finetune import mean_loss
from tests.research.training.toy import on_cpu, toy_pairs

CONFIG = AdaptConfig(rank=4, learning_rate=0.02, epochs=3, batch_tokens=256)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories of any size are enough."""
    monkeypatch.setattr(adapt, "FEWEST_PAIRS", 1)
    monkeypatch.setattr(adapt, "_LEAST_HELD_OUT", 4)


def trained(
    config: ModelConfig, pairs: list[Pair], how: AdaptConfig = CONFIG, folder: Path | None = None, stop_at: int = 0
) -> AdapterResult:
    def progress(done: int, of: int) -> None:
        if done == stop_at:
            raise KeyboardInterrupt

    model = load_trainable(config)
    return train_adapter(model, AdapterData.encoded(pairs, model, ""), how, folder, progress=progress)


def test_held_out_pairs_are_spread_over_the_memory() -> None:
    def numbered(count: int) -> list[Pair]:
        return [Pair(str(number), str(number)) for number in range(count)]

    for count, every in ((200, 10), (399, 19), (400, 20), (1000, 20), (4000, 20), (100_000, 500)):
        train, held_out = split(numbered(count))
        assert [int(pair.source) for pair in held_out] == list(range(0, count, every))
        assert len(held_out) <= 200 and len(train) + len(held_out) == count


def test_repetitions_of_held_out_pairs_are_not_trained_on() -> None:
    pairs = [Pair(str(number % 150), "x") for number in range(300)]
    train, held_out = split(pairs)
    assert not {pair.source for pair in train} & {pair.source for pair in held_out} and train


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(InputError, match=r"^199 pairs are too few for an adapter, .* at least 200"):
        split([Pair("a", "b")] * 199)


def test_the_merged_model_has_the_reported_loss(tiny_folder: Path) -> None:
    pairs = toy_pairs(240)
    found = trained(on_cpu(tiny_folder), pairs)
    assert found.adapter is not None and found.loss < 0.8 * found.base_loss
    held_out = split(pairs)[1]
    assert mean_loss(load_model(on_cpu(tiny_folder)), held_out) == pytest.approx(found.base_loss, rel=1e-4)
    assert mean_loss(load_model(on_cpu(tiny_folder), found.adapter), held_out) == pytest.approx(found.loss, rel=1e-3)
    assert found.adapter.rank == 4
    assert found.adapter.notes["pairs"] == len(split(pairs)[0]) and found.adapter.pairs == 240
    assert found.adapter.held_out == {digest_of(pair.id) for pair in list(with_ids(pairs)) if pair.id} & {
        digest_of(pair.id) for pair in with_ids(held_out)
    }


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("family", ["fsmt", *MAKERS])
def test_every_family_can_be_adapted(family: str, tmp_path: Path) -> None:
    folder = fsmt_folder(tmp_path, False) if family == "fsmt" else tokenizer_folder(family, tmp_path)
    config, pairs = on_cpu(folder, languages=True), toy_pairs(20)
    how = dataclasses.replace(CONFIG, epochs=8, patience=8, label_smoothing=0.0, dropout=0.0)
    found = trained(config, pairs, how)
    assert found.adapter is not None and found.loss < 0.9 * found.base_loss
    adapted = load_model(config, found.adapter)
    assert mean_loss(adapted, split(pairs)[1]) == pytest.approx(found.loss, rel=1e-3)
    Translator(adapted).translate(["die pumpe"])


def test_only_the_adapter_is_trained(tiny_folder: Path) -> None:
    model = load_trainable(on_cpu(tiny_folder))
    before = {name: weight.clone() for name, weight in model.weights.state_dict().items()}
    data = AdapterData.encoded(toy_pairs(200), model, "")
    train_adapter(model, data, dataclasses.replace(CONFIG, epochs=1))
    after = model.weights.state_dict()
    for name, weight in before.items():
        parent, _, last = name.rpartition(".")
        assert torch.equal(weight, after.get(name, after.get(f"{parent}.frozen.{last}", weight + 1)))


def test_no_gain_on_held_out_pairs_gives_no_adapter(tiny_folder: Path) -> None:
    found = trained(on_cpu(tiny_folder), toy_pairs(200), dataclasses.replace(CONFIG, learning_rate=1e-9, epochs=1))
    assert found.adapter is None and len(found.outcome.history) == 2


def test_the_scale_is_alpha_by_rank() -> None:
    assert AdaptConfig(rank=8).scale == AdaptConfig(rank=64).scale == 2.0
    assert AdaptConfig(rank=8, alpha=4.0).scale == 0.5
    with pytest.raises(ConfigError, match="rank = 0"):
        AdaptConfig(rank=0)


# Going on after an interruption.


@pytest.fixture
def every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpoint, "due", property(lambda self: True))


@pytest.mark.usefixtures("every_update")
def test_an_interrupted_training_ends_as_one_in_one_go(tiny_folder: Path, tmp_path: Path) -> None:
    config, pairs = on_cpu(tiny_folder), toy_pairs(240)
    whole = trained(config, pairs)
    updates = whole.outcome.updates_per_epoch
    for stop_at in (updates // 2, updates + 3, 2 * updates):  # within an epoch and at its end
        with pytest.raises(KeyboardInterrupt):
            trained(config, pairs, folder=tmp_path, stop_at=stop_at)
    resumed = trained(config, pairs, folder=tmp_path)
    assert whole.adapter is not None and resumed.adapter is not None
    assert all(
        torch.equal(layer.up_OR, resumed.adapter.layers[name].up_OR) for name, layer in whole.adapter.layers.items()
    )
    losses = [[(each.train_loss, each.dev_loss) for each in r.outcome.history] for r in (whole, resumed)]
    assert losses[0] == losses[1]
    again = trained(config, pairs, folder=tmp_path, stop_at=1)  # nothing is left to train
    assert again.adapter is not None and again.adapter.identity == resumed.adapter.identity


@pytest.mark.usefixtures("every_update")
def test_another_training_is_not_continued(tiny_folder: Path, tmp_path: Path) -> None:
    config, pairs = on_cpu(tiny_folder), toy_pairs(200)
    with pytest.raises(KeyboardInterrupt):
        trained(config, pairs, folder=tmp_path, stop_at=2)
    for others, how in ((pairs[::-1], CONFIG), (pairs, dataclasses.replace(CONFIG, rank=3))):
        with pytest.raises(InputError, match="is a training of other pairs, another model or other settings"):
            trained(config, others, how, tmp_path)


@pytest.mark.usefixtures("every_update")
def test_a_damaged_checkpoint_is_told_in_one_line(tiny_folder: Path, tmp_path: Path) -> None:
    config, pairs = on_cpu(tiny_folder), toy_pairs(200)
    with pytest.raises(KeyboardInterrupt):
        trained(config, pairs, folder=tmp_path, stop_at=2)
    content = (tmp_path / FILE).read_bytes()
    for damaged in (b"", content[: len(content) // 2], content.replace(b'\\"done\\"', b'\\"gone\\"')):
        assert damaged != content
        (tmp_path / FILE).write_bytes(damaged)
        with pytest.raises(InputError, match="cannot be continued") as error:
            trained(config, pairs, folder=tmp_path)
        assert "\n" not in str(error.value)


def test_the_folder_of_a_training(tmp_path: Path) -> None:
    def interrupted() -> None:
        with training_folder(tmp_path, resume=True) as folder:
            (folder / FILE).write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(ConfigError, match="give --resume"), training_folder(tmp_path, resume=False):
        pass
    with training_folder(tmp_path, resume=True) as folder:
        assert (folder / FILE).read_text() == "x"
        with pytest.raises(DatastoreError, match="another process is writing"), training_folder(tmp_path, resume=True):
            pass
    assert not (tmp_path / ADAPTING).exists()
