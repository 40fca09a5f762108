"""Tuning end to end with a tiny model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nearmt.config import read_toml
from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError, InputError
from nearmt.models import DecoderState, TranslationModel
from nearmt.research.evaluation import evaluate
from nearmt.research.tuning import TuneConfig, Tuned, tune, write_config
from nearmt.translator import Translator
from tests.conftest import make_pairs

BEAM = BeamConfig(beams=1, max_new_tokens=10)
SMALL = TuneConfig(budget=2)


def run(tiny: TranslationModel, store: Datastore, method: str = "knn", **more: Any) -> Tuned:
    more.setdefault("dev", make_pairs(16))
    more.setdefault("config", SMALL)
    return tune(tiny, store, method, beam=BEAM, smallest_slice=3, **more)


def test_datastore_with_the_references_gets_a_high_weight(tiny: TranslationModel, tiny_store: Datastore) -> None:
    """The dev set is in the store, and not masked."""
    fixed = {"temperature": 0.1, "agreement": 0, "break-loops": False}
    tuned = run(tiny, tiny_store, "knn", settings=fixed, config=TuneConfig(tune="lambda", strategy="grid", budget=7))
    scores = {trial.settings["lambda"]: trial.score for trial in tuned.trials if trial.share == 1}
    assert set(scores) >= {0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}
    assert tuned.score == max(scores.values()) > scores[0.2] + 20
    assert tuned.settings["lambda"] >= 0.5
    assert tuned.base_score is not None and tuned.score > tuned.base_score + 20
    smart = run(tiny, tiny_store, "knn", settings=fixed, config=TuneConfig(tune="lambda", budget=36))
    assert smart.score >= tuned.score


def test_harmful_datastore_gets_a_low_weight(tiny: TranslationModel, tmp_path: Path) -> None:
    """The references are the model's translations, so neighbours can only lower the score."""
    sources = [pair.source for pair in make_pairs(16, seed=7)]
    own = Translator(tiny, beam=BEAM).translate(sources)
    dev = [Pair(source, found.text) for source, found in zip(sources, own, strict=True)]
    store = Datastore.build(tmp_path / "s", make_pairs(50, seed=8), tiny)
    grid = TuneConfig(tune="lambda", strategy="grid", budget=7)
    tuned = run(tiny, store, "knn", dev=dev, config=grid)
    assert tuned.settings["lambda"] <= 0.3 and tuned.base_score == pytest.approx(100)


@pytest.mark.parametrize("method", ["knn", "chunk", "efficient"])
def test_score_equals_that_of_evaluate(tiny: TranslationModel, tiny_store: Datastore, method: str) -> None:
    """Also if batches share a cache (`efficient`), and over several slices."""
    dev, settings = make_pairs(27, seed=2), {"k": 3}
    tuned = run(tiny, tiny_store, method, dev=dev, settings=settings, batch_size=4)
    assert {trial.share for trial in tuned.trials} > {1.0}
    result, _ = evaluate(Translator(tiny, tiny_store, method, tuned.settings, BEAM, 4), dev)
    assert (tuned.score, tuned.signature) == (result.bleu, result.signature)
    assert tuned.base_score == evaluate(Translator(tiny, beam=BEAM, batch_size=4), dev)[0].bleu
    assert tuned.settings.items() >= settings.items()
    assert tuned.score >= tuned.default_score and tuned.spent <= 2 + 1e-6
    assert tuned.metric_signature == result.bleu_signature


def test_tuning_on_chrf(tiny: TranslationModel, tiny_store: Datastore) -> None:
    dev = make_pairs(12)
    tuned = run(tiny, tiny_store, "knn", dev=dev, config=TuneConfig(budget=3, metric="chrf", base=False))
    assert tuned.score == evaluate(Translator(tiny, tiny_store, "knn", tuned.settings, BEAM), dev)[0].chrf
    assert tuned.base_score is None


def test_pairs_are_held_out_without_a_dev_set(tiny: TranslationModel, tiny_store: Datastore) -> None:
    tuned = run(tiny, tiny_store, "chunk", dev=None)
    assert tuned.held_out and 5 < tuned.sentences <= 12
    assert "without" in tuned.signature
    # Held-out pairs are not found; otherwise the score would be near 100.
    assert tuned.score < 50


def interrupted_after(tiny: TranslationModel, patch: pytest.MonkeyPatch, batches: int) -> list[int]:
    """Let the model fail after `batches` encoded batches; return the list that counts them."""
    done: list[int] = []
    encode = tiny.seq2seq.encode

    def failing(sources: Sequence[Sequence[int]]) -> DecoderState:
        if len(done) == batches:
            raise KeyboardInterrupt
        done.append(len(sources))
        return encode(sources)

    patch.setattr("nearmt.research.tuning.memo.MemoEncoder.encode", lambda self, sources: failing(sources))
    return done


def test_interrupted_run_resumes_without_repeating_trials(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, batch = TuneConfig(budget=2, tune="lambda"), {"batch_size": 16}
    with monkeypatch.context() as patch:
        all_batches = interrupted_after(tiny, patch, 10_000)
        whole = run(tiny, tiny_store, "knn", config=config, record=tmp_path / "whole.jsonl", **batch)
    assert len(all_batches) > 8  # one for each point and slice
    for stop in range(len(all_batches)):
        path = tmp_path / f"{stop}.jsonl"
        with monkeypatch.context() as patch:
            interrupted_after(tiny, patch, stop)
            with pytest.raises(KeyboardInterrupt):
                run(tiny, tiny_store, "knn", config=config, record=path, **batch)
        with path.open("ab") as file:
            file.write(b'{"settings": {"lam')  # an incomplete line, as after a crash
        with monkeypatch.context() as patch:
            more = interrupted_after(tiny, patch, 10_000)
            again = run(tiny, tiny_store, "knn", config=config, record=path, **batch)
        assert again == whole
        assert len(more) == len(all_batches) - stop
        assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_finished_run_continues_with_a_larger_budget(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    first = run(tiny, tiny_store, config=TuneConfig(budget=2), record=path)
    before = path.read_bytes()
    assert run(tiny, tiny_store, config=TuneConfig(budget=2), record=path) == first
    assert path.read_bytes() == before
    more = run(tiny, tiny_store, config=TuneConfig(budget=4), record=path)
    assert path.read_bytes().startswith(before) and more == run(tiny, tiny_store, config=TuneConfig(budget=4))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    keys = [json.dumps([line.get("settings"), line.get("slice")], sort_keys=True) for line in lines[1:]]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    "change",
    [
        {"dev": make_pairs(15)},
        {"dev": None},
        {"settings": {"k": 2}},
        {"method": "chunk"},
        {"batch_size": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_record_of_another_run_is_refused(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "t.jsonl"
    run(tiny, tiny_store, config=TuneConfig(budget=1), record=path)
    with pytest.raises(InputError, match="trials of another model"):
        run(tiny, tiny_store, **{"config": TuneConfig(budget=1), "record": path, **change})
    assert run(tiny, tiny_store, **{"config": TuneConfig(budget=1), "record": path, "overwrite": True, **change})


def test_sources_are_encoded_once(
    tiny: TranslationModel, tiny_store: Datastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    encode = tiny.seq2seq.encode

    def counting(sources: Sequence[Sequence[int]]) -> DecoderState:
        encoded.append(len(sources))
        return encode(sources)

    monkeypatch.setattr(tiny.seq2seq, "encode", counting)
    run(tiny, tiny_store)
    assert sum(encoded) == 16  # each sentence once for all points and the base model


def test_one_sentence_and_a_budget_of_one(tiny: TranslationModel, tiny_store: Datastore) -> None:
    tuned = run(tiny, tiny_store, "chunk", dev=make_pairs(1), config=TuneConfig(budget=1))
    assert tuned.sentences == 1 and tuned.spent == 1 and len(tuned.trials) == 2
    assert set(tuned.settings) == {"lambda", "temperature", "cache-lambda", "cache-temperature"}


def test_invalid_requests_are_refused(tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with pytest.raises(InputError, match="dev set has no pairs"):
        run(tiny, tiny_store, dev=[], record=path)
    with pytest.raises(ConfigError, match="nothing to tune"):
        run(tiny, tiny_store, "plain", record=path)
    with pytest.raises(ConfigError, match="tune = 'gather': setting 'gather' was removed"):
        run(tiny, tiny_store, config=TuneConfig(tune="gather"), record=path)
    with pytest.raises(ConfigError, match="'beams' cannot be tuned"):
        run(tiny, tiny_store, config=TuneConfig(tune="beams"), record=path)
    with pytest.raises(ConfigError, match=r"the grid has 56 points"):
        run(
            tiny,
            tiny_store,
            config=TuneConfig(strategy="grid"),
            progress=lambda done, of: pytest.fail("a trial was run"),
        )
    with pytest.raises(ConfigError, match="unknown setting 'lamda'"):
        run(tiny, tiny_store, settings={"lamda": 0.5}, record=path)
    with pytest.raises(ConfigError, match="budget = 0"):
        TuneConfig(budget=0)
    assert not path.exists()


def test_dev_sources_may_be_empty_or_long(tiny: TranslationModel, tiny_store: Datastore) -> None:
    dev = [Pair("", "the pump"), Pair("die pumpe prüfen. " * 40, "check the pump. " * 40), *make_pairs(2)]
    assert run(tiny, tiny_store, dev=dev, config=TuneConfig(budget=1)).sentences == 4


def test_progress_is_monotonic(tiny: TranslationModel, tiny_store: Datastore) -> None:
    calls: list[tuple[int, int]] = []
    tuned = run(tiny, tiny_store, progress=lambda done, of: calls.append((done, of)))
    done = [count for count, _ in calls]
    assert done == sorted(done) and all(count <= of for count, of in calls)
    # The defaults and the model alone are not part of the budget.
    assert done[-1] == round((tuned.spent + 2) * 16)


def test_configuration_file_has_settings_and_facts(
    tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    tuned = run(tiny, tiny_store, "chunk", settings={"schedule": "every:3", "varying-chunk": True})
    write_config(tmp_path / "tuned.toml", tuned, {"beams": 2, "max-new-tokens": None})
    found = read_toml(tmp_path / "tuned.toml")
    table = found.pop("tuning")
    assert found == {"method": "chunk", **tuned.settings, "beams": 2}
    assert found["schedule"] == "every:3" and found["varying-chunk"] is True
    assert table["score"] == tuned.score and table["default-score"] == tuned.default_score
    assert table["base-score"] == tuned.base_score and table["signature"] == tuned.signature
    assert table["sentences"] == 16 and table["dev-set"] == "given" and len(table["date"]) == 10
