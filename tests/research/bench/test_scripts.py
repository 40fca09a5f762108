"""The scripts in benchmarks/ run, and their datastores are as described."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.models import TranslationModel
from tests.research.training.toy import toy_pairs

BENCHMARKS = Path(__file__).parent.parent.parent.parent / "benchmarks"


@pytest.fixture
def data(tmp_path: Path, tiny_pairs: list[Pair]) -> Path:
    path = tmp_path / "test.tsv"
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in tiny_pairs[:4]), encoding="utf-8")
    return path


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(BENCHMARKS / name), run_name="__main__")


def report_of(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def test_building_reports_every_precision(
    monkeypatch: pytest.MonkeyPatch, data: Path, tiny_folder: Path, tiny: TranslationModel, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out, model = tmp_path / "building.json", ("--model", tiny_folder, "--device", "cpu", "--transformers")
    run(monkeypatch, "building.py", "--data", data, "--out", out, "--repeats", 2, "--precisions", "fp32,int8", *model)
    report = report_of(out)
    cells = {cell["precision"]: cell for cell in report["cells"]}
    lines = data.read_text(encoding="utf-8").splitlines()
    tokens = sum(len(tiny.codec.target_ids(line.split("\t")[1])) for line in lines)
    assert cells["fp32"]["tokens"] == cells["int8"]["tokens"] == tokens
    assert cells["fp32"]["transformers"] > 0 and "transformers" not in cells["int8"]
    assert "model/force_decode" in cells["fp32"]["build_seconds"] and "| fp32 |" in capsys.readouterr().out


def test_precision_compares_with_fp32(
    monkeypatch: pytest.MonkeyPatch, data: Path, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "precision.json"
    run(monkeypatch, "precision.py", data, "--out", out, "--model", tiny_folder, "--device", "cpu", "--limit", 3)
    (cell,) = report_of(out)["cells"]
    assert cell["lines"] == 3 and cell["precision"] == "int8" and 0 <= cell["same_texts"] <= 3
    assert cell["log_likelihood"] != cell["fp32_log_likelihood"] and cell["log_likelihood"] < 0
    assert 0 <= cell["p_value"] <= 1 and "| int8 | 3 |" in capsys.readouterr().out


def test_same_answer_compares_every_way(
    monkeypatch: pytest.MonkeyPatch, data: Path, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, model = tmp_path / "same.json", ("--model", tiny_folder, "--device", "cpu")
    run(monkeypatch, "same_answer.py", "--data", data, "--memory", data, "--out", out, "--precisions", "fp32", *model)
    cells = report_of(out)["cells"]
    ways = ["again", "batch 1", "batch 3", "batch 64", "another order", "fewer others", "2 threads"]
    assert [cell["way"] for cell in cells if cell["method"] == "plain"] == ways
    assert {cell["other_texts"] for cell in cells} == {0} and "| fp32 | chunk | 0 (" in capsys.readouterr().out


def test_catalogues_measures_every_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "strings.tsv", tmp_path / "catalogues.json"
    data.write_text("".join(f"Datei {n} öffnen\tOpen file {n}\n" for n in range(40)), encoding="utf-8")
    given = ("--sizes", "3,0", "--lines", 10, "--seeds", 2, "--model", tiny_folder, "--device", "cpu")
    run(monkeypatch, "catalogues.py", "--data", data, "--out", out, *given)
    cells, systems = report_of(out)["cells"], ["knn", "chunk", "chunk, agreement=0"]
    assert [(cell["system"], cell["pairs"]) for cell in cells[:4]] == [("plain", 0), *((name, 3) for name in systems)]
    assert {cell["pairs"] for cell in cells} == {0, 3, 30} and {cell["lines"] for cell in cells} == {10}
    assert len(cells) == 2 * 7 and "| chunk | 30 | 20 |" in capsys.readouterr().out


def test_loops_and_unknown_words_are_found() -> None:
    script = runpy.run_path(str(BENCHMARKS / "catalogues.py"))
    loops, unknown_words = script["loops"], script["unknown_words"]
    assert loops("one-----...", "eins", "one") and loops("a (e)(e)(e)(e)(e)", "ein", "a")
    assert loops("the file the file the file the file the file ", "die Datei", "the file")
    assert not loops("one-----...", "eins-----", "one") and not loops("one-----", "eins", "one-----")
    assert not loops("It is what it is, and it was.", "Es ist, was es ist.", "It is.")
    known = frozenset({"the", "second"})
    assert unknown_words("Second thet. 12 Xylo", "Das zweite xylo", known) == ["thet"]


def test_a_test_set_shares_no_side_with_memories() -> None:
    divided = runpy.run_path(str(BENCHMARKS / "catalogues.py"))["divided"]
    pairs = [Pair(f"quelle {n % 30}", f"target {n % 20}") for n in range(90)]
    strings = divided(pairs, 5, 0)
    sources, targets = {p.source for p in strings.test}, {p.target for p in strings.test}
    assert len(strings.test) == len(sources) == 5 and strings.others
    assert not any(pair.source in sources or pair.target in targets for pair in strings.others)
    assert strings.known == {"target"}


def test_growth_measures_every_size(
    monkeypatch: pytest.MonkeyPatch, data: Path, tiny_store: Datastore, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out, real = tmp_path / "growth.json", len(tiny_store)
    sizes = ("--sizes", f"100,{3 * real + 10}", "--folder", tmp_path, "--repeats", 1, "--threads", 1)
    run(monkeypatch, "growth.py", "--datastore", tiny_store.path, "--data", data, "--out", out, *sizes)
    small, large = report_of(out)["cells"]
    assert small["keys"] == "real" and large["keys"] == f"{real / large['entries']:.0%} real"
    assert 100 <= small["entries"] < 120 and 3 * real + 10 <= large["entries"] < 3 * real + 40
    assert small["recall"] == large["recall"] == 1.0 and set(large["step_milliseconds"]) == {"plain", "knn", "chunk"}
    assert "| plain step, ms |" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["growth.json", "test.tsv"]


def test_grown_store_starts_with_the_real_one(tiny_store: Datastore, tiny: TranslationModel, tmp_path: Path) -> None:
    growth = runpy.run_path(str(BENCHMARKS / "growth.py"))
    source, real = growth["Source"](tiny_store.path), len(tiny_store)
    spread_D = growth["neighbour_spread"](tiny_store)
    assert spread_D.shape == (tiny_store.snapshot().columns,) and (spread_D > 0).all()
    store = growth["make_store"](tmp_path / "grown", source, 2 * real, tiny, spread_D).snapshot()
    assert len(store) == 2 * real
    entry_N, columns = np.arange(2 * real), store.columns
    key_ND = store.keys(torch.from_numpy(entry_N), columns).numpy()
    wanted_ND = tiny_store.snapshot().keys(torch.arange(real), columns).numpy()
    assert (key_ND[:real] == wanted_ND).all()
    moved_ND = key_ND[real:] - wanted_ND
    assert np.allclose(moved_ND.std(axis=0), spread_D, rtol=0.3)
    tokens = store.tokens(torch.from_numpy(entry_N))
    assert torch.equal(tokens[:real], tokens[real:])
    sources = [[pair.source for pair in each.snapshot().pairs()] for each in (tiny_store, store)]
    assert sources[1] == 2 * sources[0]


#: The others are modules of these.
SCRIPTS = [path for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_benchmark_script_explains_its_options(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout


def test_spans_are_counted_by_kind(
    monkeypatch: pytest.MonkeyPatch, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue = tmp_path / "a.tsv"
    rows = ["der motor %s <b>x</b>\tthe engine %s <b>x</b>", "die pumpe {a}\tthe pump {a}", "der motor\tthe engine"]
    catalogue.write_text("\n".join([*rows, *rows, "%s\t%s"]) + "\n", encoding="utf-8")
    out, given = tmp_path / "spans.json", ("--source-lang", "de", "--target-lang", "en", "--model", tiny_folder)
    run(monkeypatch, "spans.py", catalogue, "--out", out, *given, "--device", "cpu")
    cells = {cell["kind"]: cell for cell in report_of(out)["cells"]}
    assert {kind: cell["spans"] for kind, cell in cells.items()} == {"printf": 1, "tag": 2, "brace": 1, "all": 4}
    assert cells["all"]["units"] == 2 and 0 <= cells["all"]["sound"] <= 2 and "| tag | 2 |" in capsys.readouterr().out
    run(monkeypatch, "spans.py", catalogue, "--ways", "--limit", 1, "--out", out, *given, "--device", "cpu")
    ways = {cell["way"]: cell for cell in report_of(out)["cells"]}
    assert ways["span itself"]["spans"] == ways["X1"]["spans"] == 3 and "BLEU around" in capsys.readouterr().out


def test_the_cost_of_looking_for_spans_is_that_of_units_without_any(
    monkeypatch: pytest.MonkeyPatch, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = tmp_path / "a.tsv"
    memory.write_text("der motor %s\tthe engine %s\nder motor\tthe engine\ndie pumpe\tthe pump\n", encoding="utf-8")
    out = tmp_path / "cost.json"
    given = ("--source-lang", "de", "--target-lang", "en", "--model", tiny_folder, "--device", "cpu")
    run(monkeypatch, "spans.py", memory, "--cost", "--repeats", 2, "--out", out, *given)
    (cell,) = report_of(out)["cells"]
    assert cell["units"] == 2 and cell["other_texts"] == 0 and len(cell["ratios"]) == 2
    assert f"| {cell['ratio']:.4f} |" in capsys.readouterr().out


def test_codes_that_are_words_have_blanks_around_them() -> None:
    spans = runpy.run_path(str(BENCHMARKS / "spans.py"))
    coded, ways, source = spans["coded"], spans["WAYS"], "<b>Wort</b>%d%s Tage"
    assert coded(source, ways["X1"]) == ("X1 Wort X2 X3 X4 Tage", ["X1", "X2", "X3", "X4"])
    assert coded(source, ways["[1]"])[0] == "[1]Wort[2][3][4] Tage" and coded(source, ways["span itself"])[0] == source
    assert coded("%s</b>%s<i>", ways["X1"], spans["numbers_of"](source))[0] == "X4 X2%s<i>"
    assert spans["shape"]("%s <b>%d</b> %1$s %(a)s<br>") == (["%s", "%d"], True)
    assert spans["shape"]("<b><i></b></i>") == ([], False)


def test_adapters_are_measured_beside_fine_tuning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_folder: Path
) -> None:
    pairs = toy_pairs(210)
    for folder, parts in (
        ("toy", {"train": pairs, "dev": pairs[:3], "test": pairs[:4]}),
        ("news", {"test": pairs[:2]}),
    ):
        (tmp_path / folder).mkdir()
        for part, some in parts.items():
            lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in some)
            (tmp_path / folder / f"{part}.tsv").write_text(lines, encoding="utf-8")
    out, model = tmp_path / "out.json", ("--model", tiny_folder, "--device", "cpu", "--epochs", 1)
    given = (tmp_path / "toy", "--news", tmp_path / "news", "--out", out, "--work", tmp_path / "work", *model)
    run(monkeypatch, "adapters.py", *given, "--commit", "abc")
    report = report_of(out)
    rows = report["rows"]
    assert report["commit"] == "abc" and rows["toy adapter"]["lines"] == 4
    assert rows["toy adapter training"]["dev_loss"] < rows["toy adapter training"]["dev_loss_before"]
    assert rows["toy adapter training"]["bytes"] < rows["toy fine-tuning"]["bytes"]
    assert "+" in rows["toy adapter chunk"]["signature"] and "+" not in rows["toy base chunk"]["signature"]
    assert rows["toy routing"]["test"]["inf"] == {"bleu": rows["toy base"]["bleu"], "share": 1.0}
    run(monkeypatch, "adapters.py", *given, "--commit", "abc", "--only-try", "--try", "rank=2,dropout=0.2")
    again = report_of(out)["rows"]
    assert {name: again[name] for name in rows} == rows  # nothing is measured again
    assert again["toy try rank=2,dropout=0.2"]["settings"]["rank"] == 2
