"""The speed benchmark: systems, timing, quality, reports."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.decoding import BeamConfig, beam_search
from nearmt.errors import ConfigError, InputError
from nearmt.methods import PlainMethod
from nearmt.models import Seq2SeqModel, TranslationModel
from nearmt.research.bench import Bench, BenchConfig, SystemLoader, ctranslate2, generate, load, opened
from nearmt.research.bench.loading import threads_set
from nearmt.research.bench.measuring import Measured, blocks_of, quartiles, ratios, sample, sorted_by_length, take_turns
from nearmt.research.bench.processes import ProcessPool
from nearmt.research.bench.profile import OTHER, PARTS, UNNAMED, part_of, shares
from nearmt.research.bench.quality import queries_of, recall
from nearmt.research.bench.runners import Batch, Output, PeerRunner, Runner, Variant
from nearmt.research.bench.tables import TABLES, markdown
from nearmt.timing import Timings
from nearmt.translator import Translator
from tests.tiny import random_sources, restless_model
from tools import results_table


@pytest.fixture
def loader(tiny_store: Datastore) -> Iterator[SystemLoader]:
    config = BenchConfig(
        datastore=str(tiny_store.path), beams="1,3", batch_sizes="3", repeats=2, device="cpu", max_new_tokens=8
    )
    with opened(config) as found:
        yield found


def run(loader: SystemLoader, pairs: Sequence[Pair]) -> dict[str, Any]:
    bench = Bench.of(loader, pairs, "tiny", lambda label: nullcontext())
    *_, last = bench.run()
    return last


# Settings


def test_invalid_settings_are_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"systems": "plain,knnn"}, "did you mean 'knn'"),
        ({"precisions": "fp16"}, "no 'fp16'"),
        ({"beams": "1,x"}, "beams = '1,x'"),
        ({"batch_sizes": "0"}, "batch-sizes = '0'"),
        ({"batch_sizes": ","}, "batch-sizes = ','"),
        ({"reference": "plain"}, "reference = 'plain'"),
        ({"reference": "plane:fp32"}, "reference = 'plane:fp32'"),
        ({"repeats": 0}, "repeats = 0"),
    ]
    for wrong, named in refused:
        with pytest.raises(ConfigError, match=named):
            BenchConfig(**wrong)
    assert BenchConfig(systems=" chunk, plain").system_names == ["plain", "chunk"]
    assert BenchConfig(beams="5,1,5").beam_sizes == [1, 5]
    assert BenchConfig().sizes(on_gpu=True) == [1, 8, 64]


def test_default_variants(loader: SystemLoader) -> None:
    names = [[variant.name for variant in variants] for _, _, variants in loader.variants()]
    assert len(names) == 2 and names[0] == names[1]
    assert "transformers int8" not in names[0] and {"transformers bf16", "chunk int8", "knn fp32"} < set(names[0])
    with opened(BenchConfig(device="cpu")) as without:
        found = {variant.system for _, _, variants in without.variants() for variant in variants}
        assert found == {"transformers", "ctranslate2", "plain"}


# Systems


@pytest.mark.parametrize("family", ["marian", "m2m_100"])
@pytest.mark.parametrize("beams", [1, 4])
def test_transformers_equals_plain(family: str, beams: int) -> None:
    """Outputs contain the end of sentence, but no start or forced tokens."""
    seq2seq, beam = Seq2SeqModel(restless_model(family)), BeamConfig(beams=beams, max_new_tokens=20)
    sources = random_sources(0, count=8)
    own, _ = beam_search(seq2seq, PlainMethod(), sources, list(map(len, sources)), beam)
    peer = generate.decoder(restless_model(family), seq2seq, beam)([(sources[:5], 20), (sources[5:], 20)])
    assert peer == [hypothesis.tokens for hypothesis in own]
    assert len(set(map(len, peer))) > 1


def test_peers_translate_in_input_order(loader: SystemLoader, tiny_pairs: list[Pair]) -> None:
    texts = [pair.source for pair in tiny_pairs[:9]]
    peer, own = (loader.runner(Variant(name, "fp32", 4, 3)) for name in ("transformers", "plain"))
    assert peer.translate(texts) == own.translate(texts)
    assert isinstance(peer, PeerRunner)
    # Batches are sorted by length; outputs return in the order of the texts.
    batch_lengths: list[list[int]] = []

    def echo(batches: list[Batch]) -> list[list[int]]:
        batch_lengths.extend(list(map(len, sources)) for sources, _ in batches)
        return [source for sources, _ in batches for source in sources]

    found = dataclasses.replace(peer, decode=echo).translate(texts)
    codec = loader.model("fp32").codec
    assert [output.text for output in found] == [codec.text(codec.source_ids(text)) for text in texts]
    lengths = [length for batch in batch_lengths for length in batch]
    assert [len(batch) for batch in batch_lengths] == [4, 4, 1] and lengths == sorted(lengths, reverse=True)


@pytest.mark.services
def test_ctranslate2_equals_plain(loader: SystemLoader, tiny_pairs: list[Pair]) -> None:
    """The start embedding of the tiny model is not zero, which CTranslate2's converter would assume."""
    model = loader.model("fp32")
    texts = [pair.source for pair in tiny_pairs[:9]]
    peer, own = (loader.runner(Variant(name, "fp32", 4, 1)).translate(texts) for name in ("ctranslate2", "plain"))
    # At the length limit nearmt forces an end of sentence and CTranslate2 does not.
    assert all(ours.text and theirs.text.startswith(ours.text) for theirs, ours in zip(peer, own, strict=True))
    subword_of = {number: subword for subword, number in model.codec.vocabulary().items()}
    sources = [model.codec.source_ids(pair.source) for pair in tiny_pairs[:9]]
    targets = [model.codec.target_ids(pair.target) for pair in tiny_pairs[:9]]
    sides = [[[subword_of[token] for token in row] for row in side] for side in (sources, [r[:-1] for r in targets])]
    scores = ctranslate2.load(loader._converted, "fp32", "cpu", 1).score_batch(*sides)
    for score, wanted_T in zip(scores, model.seq2seq.score(sources, targets), strict=True):
        assert score.log_probs == pytest.approx(wanted_T.tolist(), abs=1e-3)
    assert len(loader.runner(Variant("ctranslate2", "int8", 4, 3)).translate(texts)) == 9


@pytest.mark.services
def test_ctranslate2_does_not_change_torch_threads(loader: SystemLoader, tiny_pairs: list[Pair]) -> None:
    """It would in the same process."""
    with threads_set(3):
        loader.runner(Variant("ctranslate2", "fp32", 4, 1)).translate([pair.source for pair in tiny_pairs[:3]])
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 1


def test_parallel_transformers_equals_plain(tiny_store: Datastore, tiny_pairs: list[Pair]) -> None:
    """With several threads there are as many processes; outputs keep their order."""
    config = BenchConfig(datastore=str(tiny_store.path), device="cpu", max_new_tokens=8, threads=2)
    texts = [pair.source for pair in tiny_pairs[:9]]
    with opened(config) as found:
        peer = found.runner(Variant("transformers", "fp32", 2, 3)).translate(texts)
        assert peer == found.runner(Variant("plain", "fp32", 2, 3)).translate(texts)
        pool = found._loaded["transformers", "fp32"]
        assert isinstance(pool, ProcessPool)
        assert len(set(pool.map(_process_of, [(0.2,)] * 4))) == 2
        with pytest.raises(ZeroDivisionError):
            pool.map(_process_of, [(0.0,), ("",)])
        assert pool.map(_process_of, [(0.0,)])  # a failure does not lose a process
    assert not multiprocessing.active_children()


def _process_of(loaded: object, seconds: float | str) -> int:
    if isinstance(seconds, str):
        raise ZeroDivisionError
    time.sleep(seconds)
    return os.getpid()


def test_cpu_time_of_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU time of this process and its children is not counted."""
    (tmp_path / "stat").write_text("cpu  900 10 80 5000 700 3 4 3 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    for pid, name, ticks in ((7, "py (a) b", 300), (8, "worker", 200)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) R {'0 ' * 10}{ticks} 50 9 9 20\n")
    monkeypatch.setattr(load, "_PROC", tmp_path)
    monkeypatch.setattr(load, "_own_processes", lambda: [7, 8])
    assert load.other_cpu_seconds() == pytest.approx((1000 - 350 - 250) / load._TICKS)
    monkeypatch.setattr(load, "_PROC", tmp_path / "nowhere")
    assert load.other_cpu_seconds() is None


def test_own_systems_equal_translators(loader: SystemLoader, tiny_pairs: list[Pair], tiny_store: Datastore) -> None:
    texts = [pair.source for pair in tiny_pairs[:5]]
    runner = loader.runner(Variant("chunk", "fp32", 2, 3))
    translator = Translator(loader.model("fp32"), tiny_store, "chunk", beam=loader.beam(3), batch_size=2)
    assert [found.text for found in runner.translate(texts)] == [found.text for found in translator.translate(texts)]
    assert runner.signature() == translator.signature()


# Turns


def test_blocks_consist_of_whole_batches(tiny: TranslationModel, tiny_pairs: list[Pair]) -> None:
    texts = [pair.source for pair in tiny_pairs]
    ordered = [texts[index] for index in sorted_by_length(texts, tiny.codec)]
    assert [text for block in blocks_of(ordered, 2) for text in block] == ordered
    lengths = [tiny.codec.source_length(tiny.codec.source_ids(text)) for text in ordered]
    assert lengths == sorted(lengths, reverse=True)
    assert [len(block) for block in blocks_of(ordered, 3)] == [24, 24, 12]  # BATCHES batches
    assert [len(block) for block in blocks_of(ordered, 40)] == [60]
    assert [len(block) for block in blocks_of(ordered, 1)] == [16, 16, 16, 12]  # at least SHORTEST_RUN sentences
    assert [len(block) for block in blocks_of(ordered, 3, 16)] == [48, 12]


def test_sample_consists_of_whole_batches() -> None:
    assert sample(10, 10, 4) == sample(10, 99, 4) == list(range(10))
    assert sample(100, 3, 8) == [48, 49, 50]  # fewer than a run: of medium length
    found = sample(1000, 70, 16)
    runs = [found[start : start + 16] for start in range(0, len(found), 16)]
    assert len(found) == 64 and all(run == list(range(run[0], run[0] + 16)) for run in runs)
    assert [run[0] for run in runs] == [123, 369, 615, 861]
    assert sample(20, 19, 6) == sorted(set(sample(20, 19, 6)))  # overlapping runs give no duplicates


def test_limit_samples_the_sorted_pairs(tiny_store: Datastore, tiny_pairs: list[Pair]) -> None:
    config = BenchConfig(datastore=str(tiny_store.path), batch_sizes="2,16", device="cpu", limit=35)
    with opened(config) as limited:
        bench = Bench.of(limited, tiny_pairs, "tiny", lambda label: nullcontext())
    with opened(dataclasses.replace(config, limit=None)) as unlimited:
        whole = Bench.of(unlimited, tiny_pairs, "tiny", lambda label: nullcontext())
    assert bench.pairs == [whole.pairs[index] for index in sample(len(whole.pairs), 35, 16)]
    assert len(bench.pairs) == 32 < len(whole.pairs)


class Recorder:
    """A runner that logs its calls."""

    def __init__(self, name: str, log: list[str], fails_at: int = -1) -> None:
        self.name, self.log, self.fails_at, self.calls = name, log, fails_at, 0

    def translate(self, texts: Sequence[str]) -> list[Output]:
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError(f"{self.name}\nfailed")
        self.log.append(self.name)
        return [Output(text, len(text)) for text in texts]

    def signature(self) -> str:
        return self.name


def test_systems_take_turns() -> None:
    log: list[str] = []
    runners: dict[Variant, Runner] = {Variant(name, "fp32", 2, 1): Recorder(name, log) for name in "abc"}
    texts = [str(number) for number in range(33)]
    found = take_turns(runners, blocks_of(texts, 2), 2, lambda variant, error: pytest.fail(str(error)))
    assert log[:3] == ["a", "b", "c"]  # warm-up
    rounds = ["".join(log[start : start + 3]) for start in range(3, len(log), 3)]
    assert len(rounds) == 6 and all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert {each[0] for each in rounds} == {"a", "b", "c"}
    for each in found:
        assert [output.text for output in each.outputs] == texts
        assert [len(blocks) for blocks in each.seconds] == [3, 3]


@pytest.mark.parametrize("fails_at", [1, 3])
def test_failing_system_is_dropped_and_others_continue(fails_at: int) -> None:
    log: list[str] = []
    good, bad = Variant("good", "fp32", 2, 1), Variant("bad", "fp32", 2, 1)
    runners: dict[Variant, Runner] = {bad: Recorder("bad", log, fails_at), good: Recorder("good", log)}
    failed: list[Variant] = []
    found = take_turns(runners, blocks_of(["x"] * 40, 2), 2, lambda variant, error: failed.append(variant))
    assert failed == [bad] and [each.variant for each in found] == [good]
    assert [len(blocks) for blocks in found[0].seconds] == [3, 3] and len(found[0].outputs) == 40
    assert take_turns({bad: Recorder("bad", log, 1)}, [["x"]], 2, lambda variant, error: None) == []


def test_speeds_and_ratios() -> None:
    variant = Variant("plain", "fp32", 1, 1)
    mine = Measured(variant, "", [[1.0, 1.0], [1.0, 9.0], [1.0, 3.0]], [Output("a", 8), Output("b", 8)])
    other = Measured(variant, "", [[2.0, 2.0], [2.0, 18.0], [2.0, 6.0]], [Output("a", 4), Output("b", 4)])
    assert mine.speed == 16 / (1.0 + 3.0)  # medians ignore the slow block
    assert dataclasses.replace(mine, others=4.0).others_share == 4 / 16
    assert mine.speed_quartiles == (16 / (1.0 + 6.0), 16 / (1.0 + 2.0))
    assert mine.speeds == [8.0, 1.6, 4.0]
    assert ratios(mine, other) == [4.0, 4.0, 4.0]
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0) and quartiles([7.0]) == (7.0, 7.0)


# Quality and profile


def test_recall_of_exact_and_half_search(tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair]) -> None:
    sources, targets = [pair.source for pair in tiny_pairs[:5]], [pair.target for pair in tiny_pairs[:5]]
    hidden_QH = queries_of(tiny, sources, targets)
    assert len(hidden_QH) == sum(len(tiny.codec.target_ids(target)) for target in targets)
    snapshot = tiny_store.snapshot()
    assert snapshot.search(snapshot.query(hidden_QH), 1).distance_BK.max() < 1e-2  # the queries are entries
    assert recall(tiny_store, Datastore.open(tiny_store.path, nominate="exact"), hidden_QH) == 1.0

    class Half:
        """Finds every second neighbour, and entries far away."""

        query = staticmethod(tiny_store.snapshot().query)

        def snapshot(self) -> Any:
            return self

        def search(self, query_BD: Any, k: int) -> Any:
            found = tiny_store.snapshot().search(query_BD, k)
            found.distance_BK[:, ::2] += 1e9
            return found

    assert recall(Half(), tiny_store, hidden_QH) == 0.5  # type: ignore[arg-type]


def test_shares_cover_all_timers() -> None:
    timings = Timings({"model/encode": 1.0, "model/new": 1.0, "index/search": 2.0, "brand/new": 3.0}, elapsed=10.0)
    found = shares(timings)
    assert found == {"encoder": 0.1, "decoder layers": 0.1, "search": 0.2, OTHER: 0.3, UNNAMED: 0.3}
    known = [
        "model/encode",
        "model/layers",
        "model/output",
        "index/search",
        "index/similar",
        "cache/search",
        "mix",
        "beam/top",
    ]
    assert {part_of(name) for name in known} <= set(PARTS)


# Reports


def test_report_of_all_systems(loader: SystemLoader, tiny_pairs: list[Pair]) -> None:
    loader.config = dataclasses.replace(loader.config, precisions="fp32")
    report = run(loader, tiny_pairs[:6])
    cells = {(cell["system"], cell["precision"], cell["beams"]): cell for cell in report["cells"]}
    assert {beams for _, _, beams in cells} == {1, 3} and report["sentences"] == 6
    for cell in report["cells"]:
        assert cell["tokens_per_second"] > 0 and len(cell["seconds"]) == 2 and cell["signature"]
        assert ("recall" in cell) == ("to_plain" in cell) == (cell["system"] in ("knn", "chunk"))
        assert ("shares" in cell) == (cell["system"] not in ("transformers", "ctranslate2"))
    assert cells["transformers", "fp32", 3]["to_reference"] == 1.0
    assert cells["plain", "fp32", 3]["same_as_reference"] == 1.0
    assert cells["plain", "fp32", 3]["tokens"] == cells["transformers", "fp32", 3]["tokens"]
    knn = cells["knn", "fp32", 3]
    # The store is small, so its search is exact.
    assert knn["recall"] == 1.0 and knn["bleu"] == knn["exact_bleu"] and knn["searches_per_sentence"] > 0
    assert report["datastore"]["entries"] > 0 and "/" not in report["datastore"]["identity"]
    assert cells["chunk", "fp32", 3]["cache"] == "engine" and "cache" not in knn
    text = markdown(report)
    assert "| knn fp32 | 3 | 3 |" in text and "× transformers fp32" in text and "decoder layers" in text
    assert markdown(report, short=True) in text and "decoder layers" not in markdown(report, short=True)
    typical = {**knn, "batch_size": 8, "beams": 5}
    shown = markdown({**report, "cells": [*report["cells"], typical]}, short=True)
    assert "| knn fp32 | 8 | 5 |" in shown and "| knn fp32 | 3 | 3 |" not in shown
    torch_cache = markdown({**report, "cells": [{**typical, "cache": "torch"}]})
    assert (
        "| beam | cache |" not in text
        and "| beam | cache |" in torch_cache
        and "| knn fp32 | 8 | 5 | torch |" in torch_cache
    )


def test_systems_that_cannot_run_are_listed(tiny_folder: Path, tiny_pairs: list[Pair]) -> None:
    config = BenchConfig(
        systems="plain,knn", precisions="fp32", beams="1", batch_sizes="4", repeats=1, model=str(tiny_folder),
        device="cpu", reference="plain:fp32", quality=False, profile=False,
    )  # fmt: skip
    with opened(config) as loader:
        report = run(loader, tiny_pairs[:4])
    assert [cell["system"] for cell in report["cells"]] == ["plain"] and "datastore" not in report
    assert [(found["system"], found["reason"][:17]) for found in report["not_run"]] == [("knn", "needs a datastore")]
    assert "shares" not in report["cells"][0]


def test_overlong_sentences_are_left_out(loader: SystemLoader, tiny_pairs: list[Pair]) -> None:
    long = Pair("pumpe " * 100, "pump")
    bench = Bench.of(loader, [long, *tiny_pairs[:3]], "tiny", lambda label: nullcontext())
    assert len(bench.pairs) == 3
    for none in ([], [long]):
        with pytest.raises(InputError, match="nothing to measure"):
            Bench.of(loader, none, "tiny", lambda label: nullcontext())


def test_tables_of_other_benchmarks() -> None:
    common = {"data": "d", "date": "2026-01-01T00:00", "commit": "c", "machine": {"cpu": "x", "device": "cpu"}}
    common["machine"] |= {"threads": 2, "torch": "2"}  # type: ignore[operator]
    building = {"precision": "fp32", "forced": 100.0, "building": 80.0, "ratio": 0.8, "ratio_quartiles": [0.7, 0.9]}
    growth = {"entries": 10_000, "keys": "real", "index": "exact", "effort": 0, "recall": 1.0}
    growth |= {"search_milliseconds": 1.5, "step_milliseconds": {"plain": 20.0, "knn": 22.0}}
    text = markdown({"benchmark": "building", **common, "cells": [building]})
    assert "| fp32 | 100 | 80 | 0.80 | 0.70-0.90 |" in text
    text = markdown({"benchmark": "growth", **common, "cells": [growth]})
    assert "| 10,000 | real | exact | 1.000 | 1.50 | 20.0 | 22.0 |" in text
    assert "other programs" not in text
    text = markdown({"benchmark": "growth", **common, "cells": [{**growth, "others": 0.72}]})
    assert "commit c; other programs used up to 0.7 CPUs\n" in text
    precision = {"data": "a/test.tsv", "precision": "int8", "lines": 1000, "fp32_bleu": 32.0, "bleu": 31.5}
    precision |= {"p_value": 0.05, "fp32_log_likelihood": -2.0, "log_likelihood": -2.5}
    text = markdown({"benchmark": "precision", **common, "cells": [precision]})
    assert "| a/test.tsv | int8 | 1,000 | 32.00 | 31.50 | 0.050 | 25.00 |" in text
    startup = {"case": "import torch", "seconds": 1.254, "quartiles": [1.2, 1.5], "least": 1.1, "cpu_seconds": 2.0}
    text = markdown({"benchmark": "startup", **common, "cells": [startup]})
    assert "| import torch | 1.25 | 1.20-1.50 | 2.00 |" in text
    soak = {"name": "RSS, MB", "first": 500.0, "last": 505.0}
    requests = {"health": [1000, {"p50": 1.4, "p95": 5.6}]}
    text = markdown({"benchmark": "soak", **common, "cells": [soak], "requests": requests})
    assert "| RSS, MB | 500.0 | 505.0 | +1.0 |" in text and "| health | 1,000 | 1 | 6 |" in text
    same = {"precision": "int8", "method": "knn", "way": "again", "lines": 9, "other_texts": 1, "other_scores": 2}
    text = markdown({"benchmark": "same-answer", **common, "cells": [{**same, "largest": 0.5}]})
    assert "| int8 | knn | 1 (2) of 9 | 5.0e-01 |" in text
    assert set(TABLES) == {
        *("speed", "building", "growth", "startup", "precision", "same-answer", "catalogues", "spans", "span-ways"),
        *("glossary", "catalogues-check", "span-cost", "soak", "milvus"),
    }


def test_benchmarks_and_experiments_have_separate_tables(tmp_path: Path) -> None:
    """`speed` is the name of a benchmark and of an experiment."""
    machine = {"cpu": "a chip", "device": "cpu", "threads": 2, "torch": "2"}
    cell = {"precision": "fp32", "forced": 100.0, "building": 80.0, "ratio": 0.8, "ratio_quartiles": [0.7, 0.9]}
    report = {"benchmark": "building", "data": "d", "date": "2026-01-01T00:00", "commit": "c", "machine": machine}
    write_json(tmp_path / "bench-building.json", {**report, "cells": [cell]})
    shown = results_table.tables("bench-building", short=False, folder=tmp_path)
    assert shown.startswith("d; a chip, 2 threads") and shown.endswith("`benchmarks/results/bench-building.json`")
    assert "| fp32 | 100 | 80 | 0.80 |" in shown
    assert "not measured" in results_table.tables("building", short=False, folder=tmp_path)
    assert "not measured" in results_table.tables("bench-speed", short=False, folder=tmp_path)
