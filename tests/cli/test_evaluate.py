"""Several systems in one run, translations from files, COMET, and what is refused before anything is loaded."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearmt.cli import setup
from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.models import load_model
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line
from tests.research.evaluation.outputs import (
    fake_comet,
    made_references,
    sacrebleu_command,
    sacrebleu_p_values,
    worsened,
    write_lines,
)

FAST = ("--beams", "2", "--set", "max-new-tokens=12", "--device", "cpu")


@pytest.fixture
def test_set(tmp_path: Path, tiny_pairs: list[Pair]) -> Path:
    return write_lines(tmp_path / "test.tsv", [f"{pair.source}\t{pair.target}" for pair in tiny_pairs[:12]])


@pytest.fixture
def references(tmp_path: Path, tiny_pairs: list[Pair]) -> Path:
    return write_lines(tmp_path / "references.txt", [pair.target for pair in tiny_pairs[:12]])


@pytest.fixture
def other(tmp_path: Path, tiny_pairs: list[Pair]) -> Path:
    """Translations of another system, some of them empty."""
    outputs = worsened([pair.target for pair in tiny_pairs[:12]], 0.4, seed=3)
    return write_lines(tmp_path / "other.txt", ["", *outputs[1:]])


def by_name(printed: str) -> dict[str, dict[str, Any]]:
    return {system["name"]: system for system in json.loads(printed)["systems"]}


def test_methods_side_by_side(
    nearmt: Nearmt, test_set: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gives what it gives alone, in the order of the command line; model and store are opened once."""
    run = ("evaluate", "--test", test_set, "--datastore", store, "--json", *FAST)
    alone = {}
    for method in ("plain", "knn", "chunk"):
        by_itself = nearmt(*run, "--method", method, "--output", tmp_path / f"{method}.alone")
        alone[method] = json.loads(by_itself.out)
    loaded: list[object] = []

    def counted(load: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            loaded.append(load)
            return load(*arguments, **settings)

        return call

    monkeypatch.setattr(setup, "load_model", counted(load_model))
    monkeypatch.setattr(Datastore, "open", counted(Datastore.open))
    several = ("--method", "knn", "--method", "plain", "--method", "chunk", "--output", tmp_path / "out.txt")
    result = nearmt(*run, *several)
    assert result.code == 0, result.err
    assert len(loaded) == 2
    systems = by_name(result.out)
    assert list(systems) == ["knn", "plain", "chunk"] and json.loads(result.out)["baseline"] == "knn"
    for method, found in systems.items():
        same = ("bleu", "chrf", "tokens", "searches_per_sentence", "average_interval", "signature")
        assert {name: found[name] for name in same} == {name: alone[method][name] for name in same}
        written = (tmp_path / f"out.{method}.txt").read_text(encoding="utf-8")
        assert written == (tmp_path / f"{method}.alone").read_text(encoding="utf-8")
    assert systems["knn"]["average_interval"] == 1.0 and systems["knn"]["comparison"] is None
    assert systems["plain"]["average_interval"] is None
    ratio = systems["chunk"]["tokens_per_second"] / systems["knn"]["tokens_per_second"]
    assert systems["chunk"]["speed_ratio"] == pytest.approx(ratio, abs=1e-3)


def test_scores_and_p_values_are_those_of_sacrebleus_command_line(
    nearmt: Nearmt, test_set: Path, references: Path, other: Path, store: Path, tmp_path: Path
) -> None:
    run = ("evaluate", "--test", test_set, "--datastore", store, "--method", "chunk", "--hypotheses", other)
    result = nearmt(*run, "--baseline", "other", "--ter", "--json", "--output", tmp_path / "out", *FAST)
    assert result.code == 0, result.err
    chunk, found = by_name(result.out)["chunk"], by_name(result.out)["other"]
    for system, path in ((chunk, tmp_path / "out.chunk"), (found, other)):
        printed = json.loads(sacrebleu_command(references, "-i", path, "-m", "bleu", "chrf", "ter", "-w", 2))
        assert [system[name] for name in ("bleu", "chrf", "ter")] == [metric["score"] for metric in printed]
        assert system["ter_signature"] == printed[2]["signature"]
    wanted = sacrebleu_p_values(references, other, tmp_path / "out.chunk")
    assert [round(chunk["comparison"][name]["p_value"], 4) for name in ("bleu", "chrf", "ter")] == wanted
    assert found["comparison"] is None and "tokens_per_second" not in found
    assert "translations:other.txt@" in found["signature"]


def test_settings_of_some_methods(nearmt: Nearmt, test_set: Path, store: Path) -> None:
    run = ("evaluate", "--test", test_set, "--datastore", store, "--json", *FAST)
    result = nearmt(
        *run, "--method", "plain", "--method", "knn", "--method", "chunk", "--set", "k=3", "--set", "chunk=5"
    )
    assert result.code == 0, result.err
    signatures = {name: system["signature"] for name, system in by_name(result.out).items()}
    assert "|k:3|" in signatures["knn"] and "|k:3|" in signatures["chunk"] and "|chunk:5|" in signatures["chunk"]
    assert "|k:3|" not in signatures["plain"]
    assert_one_line(nearmt(*run, "--method", "plain", "--method", "knn", "--set", "chunk=5"), 2, "no setting 'chunk'")
    preset = nearmt(*run, "--method", "knn", "--method", "chunk", "--set", "preset=paper")
    assert preset.code == 0 and "|scope:batch|" in by_name(preset.out)["chunk"]["signature"]
    assert_one_line(nearmt(*run, "--method", "knn", "--method", "plain", "--set", "preset=paper"), 2, "no presets")


def test_configuration_files_are_systems(nearmt: Nearmt, test_set: Path, store: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "small.toml", [f'datastore = "{store}"', 'method = "knn"', "k = 2"])
    write_lines(tmp_path / "large.toml", [f'datastore = "{store}"', 'method = "knn"', "k = 8", "beams = 5"])
    files = ("--compare-config", tmp_path / "small.toml", "--compare-config", tmp_path / "large.toml")
    result = nearmt("evaluate", "--test", test_set, *files, "--json", *FAST)
    assert result.code == 0, result.err
    systems = by_name(result.out)
    assert list(systems) == ["small", "large"]
    assert "|k:2|" in systems["small"]["signature"] and "|k:8|" in systems["large"]["signature"]
    assert "|beams:2|" in systems["large"]["signature"]  # the command line wins over all files
    with_method = nearmt("evaluate", "--test", test_set, *files, "--method", "plain", "--datastore", store, *FAST)
    assert with_method.code == 0 and with_method.out.split("\n")[3].startswith("plain")
    both = nearmt("evaluate", "--test", test_set, "--config", tmp_path / "small.toml", *files[2:], "--json", *FAST)
    assert list(by_name(both.out)) == ["knn", "large"]


def test_files_alone_need_no_model(
    nearmt: Nearmt, test_set: Path, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "load_model", lambda config: 1 / 0)
    result = nearmt("evaluate", "--test", test_set, "--hypotheses", other, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["ter"] is None and found["ter_signature"] is None
    assert found["sentences"] == 12 and 0 < found["bleu"] < 100 and "systems" not in found
    again = write_lines(tmp_path / "again.txt", other.read_text(encoding="utf-8").split("\n")[:-1])
    several = nearmt(
        "evaluate", "--test", test_set, "--hypotheses", other, "--hypotheses", again, "--limit", 5, "--json"
    )
    assert list(by_name(several.out)["again"]["comparison"]) == ["bleu", "chrf"]
    comparison = by_name(several.out)["again"]["comparison"]["bleu"]
    assert (comparison["difference"], comparison["p_value"]) == (0.0, 1.0)
    assert by_name(several.out)["other"]["sentences"] == 5


def test_one_sentence(nearmt: Nearmt, tmp_path: Path) -> None:
    test = write_lines(tmp_path / "one.tsv", ["die pumpe\tthe pump turns slowly now"])
    files = [
        write_lines(tmp_path / f"{name}.txt", [text]) for name, text in (("a", ""), ("b", "the pump turns slowly"))
    ]
    result = nearmt("evaluate", "--test", test, "--hypotheses", files[0], "--hypotheses", files[1], "--json")
    assert result.code == 0, result.err
    assert by_name(result.out)["b"]["comparison"]["bleu"]["p_value"] == 1.0
    assert by_name(result.out)["a"]["bleu"] == 0


def test_tables(nearmt: Nearmt, test_set: Path, store: Path, other: Path) -> None:
    run = ("evaluate", "--test", test_set, "--datastore", store, *FAST)
    several = (*run, "--method", "plain", "--method", "chunk", "--hypotheses", other)
    shown = nearmt(*several)
    assert shown.code == 0 and "COMET was not run" in shown.err
    rows = shown.out.split("\n")
    assert [row.split()[0] for row in rows[3:6]] == ["plain", "chunk", "other"]
    assert "method:chunk|datastore:" in shown.out and "bs:1000|seed:12345" in shown.out and "…" not in shown.out
    table = nearmt(*several, "--markdown")
    assert table.out.startswith("| system | BLEU | Δ BLEU | p |") and table.err == ""
    assert "- chunk: `nearmt:" in table.out
    one = nearmt(*run, "--markdown")
    assert one.out.startswith("| system | BLEU | chrF |") and "- chunk: `nearmt:" in one.out
    single = nearmt(*run)
    assert "bleu" in single.out and "comet" in single.out and "systems" not in single.out


def test_comet_scores_all_systems_in_one_run(
    nearmt: Nearmt, test_set: Path, store: Path, references: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_comet(tmp_path / "bin", "print('once', file=open(sys.argv[0] + '.log', 'a'))")
    perfect = write_lines(tmp_path / "perfect.txt", references.read_text(encoding="utf-8").split("\n")[:-1])
    run = ("evaluate", "--test", test_set, "--datastore", store, "--method", "plain", "--hypotheses", perfect, *FAST)
    result = nearmt(*run, "--comet", program, "--set", "comet-model=a/model", "--json")
    assert result.code == 0, result.err
    systems = by_name(result.out)
    assert systems["perfect"]["comet"] == 1.0 and systems["plain"]["comet"] == 0.0
    assert {system["comet_model"] for system in systems.values()} == {"a/model"}
    assert program.with_name("comet-score.log").read_text(encoding="utf-8") == "once\n"
    monkeypatch.setenv("NEARMT_COMET", f"{program} --gpus 0")
    assert "COMET" in nearmt(*run, "--markdown").out
    assert by_name(nearmt(*run, "--comet", "", "--json").out)["plain"]["comet"] is None  # switched off


def test_comet_that_fails_loses_nothing(
    nearmt: Nearmt, test_set: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_comet(tmp_path / "bin", "sys.exit('out of memory')")
    out = tmp_path / "out.txt"
    run = ("evaluate", "--test", test_set, "--model", tiny_folder, "--output", out, "--json", *FAST)
    asked = nearmt(*run, "--comet", program)
    assert asked.code == 1 and "out of memory" in asked.err and asked.err.count("\n") == 1
    assert json.loads(asked.out)["comet"] is None and len(out.read_text(encoding="utf-8").splitlines()) == 12
    monkeypatch.setenv("NEARMT_COMET", str(program))
    unasked = nearmt(*run)
    assert unasked.code == 0 and "out of memory" in unasked.err and json.loads(unasked.out)["bleu"] >= 0
    with monkeypatch.context() as patch:
        patch.setattr("nearmt.research.evaluation.Comet.scores", lambda *a: signal.raise_signal(signal.SIGINT))
        interrupted = nearmt(*run)
    assert interrupted.code == 130 and "interrupted" in interrupted.err and json.loads(interrupted.out)["bleu"] >= 0
    monkeypatch.setenv("NEARMT_COMET", "/no/where/comet-score")
    missing = nearmt(*run)
    assert missing.code == 0 and "COMET is not run" in missing.err and missing.err.count("\n") == 1


def test_what_is_refused_before_anything_is_loaded(
    nearmt: Nearmt, test_set: Path, store: Path, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "load_model", lambda config: 1 / 0)
    run = ("evaluate", "--test", test_set, "--datastore", store)
    assert_one_line(nearmt(*run, "--json", "--markdown"), 2, "choose one")
    assert_one_line(nearmt(*run, "--baseline", "chunks"), 2, "baseline = 'chunks'", "did you mean 'chunk'?")
    assert_one_line(nearmt(*run, "--method", "knn", "--method", "knn"), 2, "two systems are called 'knn'")
    assert_one_line(nearmt(*run, "--hypotheses", tmp_path / "none.txt"), 1, "none.txt: cannot be read")
    assert_one_line(nearmt(*run, "--compare-config", tmp_path / "none.toml"), 1, "none.toml: cannot be read")
    assert_one_line(nearmt(*run, "--comet", "/no/where"), 1, "comet = '/no/where': no such program")
    assert_one_line(nearmt(*run, "--output", tmp_path / "no" / "out.txt"), 1, "there is no folder")
    assert_one_line(nearmt(*run, "--output", test_set), 2, "is an input file")
    chunk = other.rename(tmp_path / "out.chunk.txt")
    overwritten = (*run, "--hypotheses", chunk, "--output", tmp_path / "out.txt")
    assert_one_line(nearmt(*overwritten), 2, "out.chunk.txt: is an input file")


def test_bad_files_of_translations(nearmt: Nearmt, test_set: Path, tmp_path: Path) -> None:
    short = write_lines(tmp_path / "short.txt", made_references(11))
    assert_one_line(
        nearmt("evaluate", "--test", test_set, "--hypotheses", short), 1, "short.txt: 11 lines for 12 pairs"
    )
    limited = nearmt("evaluate", "--test", test_set, "--hypotheses", short, "--limit", 3)
    assert_one_line(limited, 1, "11 lines for 12 pairs")
    (tmp_path / "latin.txt").write_bytes(b"sch\xf6n\n")
    assert_one_line(nearmt("evaluate", "--test", test_set, "--hypotheses", tmp_path / "latin.txt"), 1, "not UTF-8")
    empty = write_lines(tmp_path / "empty.tsv", [])
    nothing = write_lines(tmp_path / "nothing.txt", [])
    assert_one_line(nearmt("evaluate", "--test", empty, "--hypotheses", nothing), 1, "no pairs")


def test_output_of_several_systems(nearmt: Nearmt, test_set: Path, store: Path, other: Path, tmp_path: Path) -> None:
    run = ("evaluate", "--test", test_set, "--datastore", store, "--json", *FAST)
    folder = tmp_path / "folder"
    folder.mkdir()
    several = ("--method", "plain", "--method", "knn", "--hypotheses", other)
    assert nearmt(*run, *several, "--output", folder).code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["knn.txt", "plain.txt"]
    assert nearmt(*run, *several, "--output", folder / "a.b.txt.gz").code == 0
    assert {"a.b.knn.txt.gz", "a.b.plain.txt.gz"} < {path.name for path in folder.iterdir()}


def test_two_models_of_different_languages(
    nearmt: Nearmt, test_set: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "other.toml", ['method = "plain"', f'datastore = "{store}"', 'precision = "bf16"'])

    def load(config: Any, adapter: Any = None) -> Any:
        model = load_model(config)
        if config.precision == "bf16":
            monkeypatch.setattr(type(model), "language_pair", property(lambda self: ("fr", "en")))
        return model

    monkeypatch.setattr(setup, "load_model", load)
    run = ("evaluate", "--test", test_set, "--datastore", store, "--method", "knn", *FAST)
    result = nearmt(*run, "--compare-config", tmp_path / "other.toml")
    assert_one_line(result, 2, "system 'other' translates fr to en, the first system de to en")
