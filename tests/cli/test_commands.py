"""What each command does when all is well."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from nearmt import __version__
from nearmt.cli.main import COMMANDS
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.cli.conftest import Nearmt

FAST = ("--beams", "2", "--set", "max-new-tokens=12", "--device", "cpu")


def test_help_lists_every_command(nearmt: Nearmt) -> None:
    result = nearmt("--help")
    assert result.code == 0
    for name, summary in COMMANDS.items():
        assert f"  {name} " in result.out and summary in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(nearmt: Nearmt, command: str) -> None:
    result = nearmt(command, "--help")
    assert result.code == 0
    assert COMMANDS[command].rstrip(".") in result.out.replace("\n", " ").replace("  ", " ")


def test_version(nearmt: Nearmt) -> None:
    assert nearmt("--version").out == f"nearmt, version {__version__}\n"


def test_build_and_info_agree(nearmt: Nearmt, memory: Path, tmp_path: Path, tiny_folder: Path) -> None:
    out = tmp_path / "store"
    built = nearmt("build", memory, "--out", out, "--model", tiny_folder, "--device", "cpu", "--json")
    assert built.code == 0, built.err
    info = nearmt("info", out, "--verify", "--json")
    reading = json.loads(built.out).pop("reading")
    assert json.loads(built.out) == {**json.loads(info.out), "reading": reading}
    assert reading["pairs"] == reading["units"] == 30 and reading["problems"] == []
    found = json.loads(info.out)
    assert found["pairs"] == 30 and found["languages"] == "de-en" and found["entries"] > 60
    assert "entries" in nearmt("info", out).out


def test_build_takes_aligned_files_and_a_limit(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    (tmp_path / "a.de").write_text("die pumpe\nder motor\ndie welle\n", encoding="utf-8")
    (tmp_path / "a.en").write_text("the pump\nthe motor\nthe shaft\n", encoding="utf-8")
    files = (tmp_path / "a.de", tmp_path / "a.en")
    result = nearmt("build", *files, "--out", tmp_path / "s", "--model", tiny_folder, "--limit", 2)
    assert result.code == 0, result.err
    pairs = list(Datastore.open(tmp_path / "s").pairs())
    assert [(p.source, p.target) for p in pairs] == [("die pumpe", "the pump"), ("der motor", "the motor")]


def test_overwrite_replaces_a_store(nearmt: Nearmt, memory: Path, tmp_path: Path, tiny_folder: Path) -> None:
    command = ("build", memory, "--out", tmp_path / "s", "--model", tiny_folder)
    assert nearmt(*command).code == 0
    refused = nearmt(*command)
    assert refused.code == 1 and "--overwrite" in refused.err
    assert nearmt(*command, "--limit", 3, "--overwrite").code == 0
    assert Manifest.load(tmp_path / "s").pairs == 3


def test_line_n_of_the_output_belongs_to_line_n_of_the_input(
    nearmt: Nearmt, text: Path, tiny_folder: Path, tiny: TranslationModel
) -> None:
    result = nearmt("translate", text, "--model", tiny_folder, *FAST)
    assert result.code == 0, result.err
    lines = result.out.split("\n")
    assert len(lines) == 6 and lines[5] == ""
    assert lines[1] == "" and lines[3] == "   "
    assert all(lines[n] for n in (0, 2, 4))
    # One line of its own gives what it gives among others.
    text.write_text("der motor und die welle", encoding="utf-8")
    assert nearmt("translate", text, "--model", tiny_folder, *FAST).out == lines[2]


def test_standard_input(nearmt: Nearmt, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, text: Path) -> None:
    from_file = nearmt("translate", text, "--model", tiny_folder, *FAST).out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    assert nearmt("translate", "--model", tiny_folder, *FAST).out == from_file


def test_a_store_brings_its_model_and_the_method(nearmt: Nearmt, text: Path, store: Path) -> None:
    # Full agreement would leave the neighbours of this random model little to say.
    given = ("--datastore", store, "--set", "agreement=0", *FAST)
    by_default = nearmt("translate", text, *given)
    assert by_default.code == 0, by_default.err
    assert nearmt("translate", text, "--method", "chunk", *given).out == by_default.out
    assert nearmt("translate", text, "--datastore", store, "--method", "plain", *FAST).out != by_default.out
    rows = [json.loads(row) for row in nearmt("translate", text, "--json", *given).out.splitlines()]
    assert [row["text"] for row in rows] == [line.strip() for line in by_default.out.split("\n")[:-1]]
    assert rows[0]["searches"] > 0 and "searches" not in rows[1] and "provenance" not in rows[0]


def test_weights_of_zero_are_the_model_alone(nearmt: Nearmt, text: Path, store: Path) -> None:
    plain = nearmt("translate", text, "--datastore", store, "--method", "plain", *FAST).out
    zero = ("--set", "lambda=0", "--set", "cache-lambda=0")
    assert nearmt("translate", text, "--datastore", store, "--method", "chunk", *zero, *FAST).out == plain


def test_output_file_appears_only_when_complete(nearmt: Nearmt, text: Path, tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    result = nearmt("translate", text, "--model", tiny_folder, "--output", out, *FAST)
    assert result.code == 0 and result.out == ""
    assert len(out.read_text(encoding="utf-8").splitlines()) == 5
    assert not list(tmp_path.glob("*.partial"))


def test_config_file_is_overruled_by_the_command_line(nearmt: Nearmt, text: Path, store: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        f'datastore = "{store}"\nmethod = "knn"\nlambda = 0.9\nk = 3\nbeams = 2\nmax-new-tokens = 12\n'
        'device = "cpu"\nbatch-size = 2\n',
        encoding="utf-8",
    )
    from_file = nearmt("translate", text, "--config", config)
    assert from_file.code == 0, from_file.err
    same = nearmt(
        "translate", text, "--datastore", store, "--method", "knn", "--set", "lambda=0.9", "--set", "k=3", *FAST
    )
    assert same.out == from_file.out
    # A setting of another method in the file does not matter, on the command line it does.
    assert nearmt("translate", text, "--config", config, "--method", "plain").code == 0
    assert nearmt("translate", text, "--config", config, "--method", "plain", "--set", "k=3").code == 2


@pytest.mark.parametrize("preset", ["in-order", "single-chunk", "beam-batch", "sentence", "paper"])
def test_presets(nearmt: Nearmt, text: Path, store: Path, preset: str) -> None:
    result = nearmt("translate", text, "--datastore", store, "--preset", preset, *FAST)
    assert result.code == 0 and len(result.out.splitlines()) == 5


def test_explain_shows_chunks_and_json_provenance(nearmt: Nearmt, text: Path, store: Path) -> None:
    shown = nearmt("translate", text, "--datastore", store, "--explain", *FAST)
    assert shown.code == 0
    assert "source  die pumpe prüfen" in shown.out and "step 1" in shown.out and "stored pairs contributed" in shown.out
    rows = nearmt("translate", text, "--datastore", store, "--explain", "--json", *FAST).out.splitlines()
    row = json.loads(rows[0])
    assert len(row["provenance"]) == row["tokens"]
    assert row["provenance"][0]["searched"] and row["provenance"][0]["chunks"]
    assert sum(token["searched"] for token in row["provenance"]) <= row["searches"]
    backed = [token for token in row["provenance"] if token["origin"] != "model"]
    assert backed and all(token["witnesses"] for token in backed)


def test_evaluate_scores_like_sacrebleu(
    nearmt: Nearmt, memory: Path, store: Path, tmp_path: Path, tiny: TranslationModel, tiny_store: Datastore
) -> None:
    import sacrebleu

    out = tmp_path / "hyp.txt"
    result = nearmt(
        "evaluate", "--test", memory, "--limit", 10, "--datastore", store, "--ter", "--json", "--output", out, *FAST
    )
    assert result.code == 0, result.err
    found = json.loads(result.out)
    references = [row.split("\t")[1] for row in memory.read_text(encoding="utf-8").splitlines()[:10]]
    outputs = out.read_text(encoding="utf-8").splitlines()
    assert found["bleu"] == round(sacrebleu.corpus_bleu(outputs, [references]).score, 2)
    assert found["chrf"] == round(sacrebleu.corpus_chrf(outputs, [references]).score, 2)
    assert found["sentences"] == 10 and found["tokens_per_second"] > 0 and found["searches_per_sentence"] >= 1
    assert found["ter"] == round(sacrebleu.corpus_ter(outputs, [references]).score, 2)
    assert found["average_interval"] >= round(found["tokens"] / (found["searches_per_sentence"] * 10), 2)
    for part in (
        "method:chunk",
        f"datastore:{tiny_store.snapshot().identity}",
        tiny.fingerprint,
        "lambda:",
        "beams:2",
        "batch:8",
    ):
        assert part in found["signature"]
    printed = nearmt("evaluate", "--test", memory, "--limit", 2, "--datastore", store, *FAST).out
    assert "bleu signature" in printed and "ter signature" not in printed


def test_reindex(nearmt: Nearmt, memory: Path, tmp_path: Path, tiny_folder: Path) -> None:
    out = tmp_path / "s"
    assert nearmt("build", memory, "--out", out, "--model", tiny_folder, "--index", "exact").code == 0
    before = Datastore.open(out)
    assert nearmt("reindex", out, "--index", "HNSW16").code == 0
    after = Datastore.open(out)
    assert (
        after.snapshot().identity == before.snapshot().identity
        and after.manifest.segments[0].index["factory"] == "HNSW16"
    )
    query = before.snapshot().keys(torch.arange(5), before.manifest.columns)
    assert torch.equal(before.snapshot().search(query, 4).entry_BK, after.snapshot().search(query, 4).entry_BK)


def test_a_very_long_line_is_split_and_said(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("die pumpe prüfen und den motor reinigen. " * 60 + "\nventil\n", encoding="utf-8")
    result = nearmt("translate", path, "--model", tiny_folder, "--beams", "1", "--device", "cpu")
    assert result.code == 0
    assert len(result.out.splitlines()) == 2
    assert "line 1: longer than the model's 64 tokens; translated in" in result.err


@pytest.mark.embedded
def test_demo_learns_the_manual(nearmt: Nearmt) -> None:
    result = nearmt("demo", "--json", "--device", "cpu")
    assert result.code == 0, result.err
    scores = json.loads(result.out)
    assert scores["pairs"] >= 500 and scores["sentences"] == 50
    assert scores["adapted_bleu"] > scores["base_bleu"] + 25


@pytest.mark.embedded
def test_exported_model_is_the_embedded_model(nearmt: Nearmt, tmp_path: Path, embedded: TranslationModel) -> None:
    from nearmt.models import ModelConfig, load_model

    folder = tmp_path / "model"
    assert nearmt("export-model", folder).code == 0
    exported = load_model(ModelConfig(model=str(folder), device="cpu"))
    assert exported.fingerprint == embedded.fingerprint
    assert exported.language_pair == ("de", "en")
    text = "Die Sitzung beginnt um neun Uhr."
    assert Translator(exported).translate(text).text == Translator(embedded).translate(text).text
    again = nearmt("export-model", folder)
    assert again.code == 1 and "not empty" in again.err


def test_timings_are_shares_of_the_whole(
    nearmt: Nearmt, memory: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a build, whose timers lie within one another and whose threads run side by side."""
    monkeypatch.setattr("nearmt.threads.workers", lambda: 2)
    result = nearmt("build", memory, "--out", tmp_path / "s", "--model", tiny_folder, "--timings")
    shares = [float(line.split()[-1][:-1]) for line in result.err.splitlines() if line.rstrip().endswith("%")]
    assert result.code == 0 and len(shares) > 3
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))


def test_recall_is_shown_without_noise(nearmt: Nearmt, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    real = Manifest.load

    def load(folder: Path) -> Manifest:
        found = real(folder)
        return dataclasses.replace(found, calibration=dataclasses.replace(found.calibration, recall=0.9774999999999999))

    monkeypatch.setattr(Manifest, "load", load)
    assert json.loads(nearmt("info", store, "--json").out)["recall"] == 0.9775
    assert "0.9775 " in nearmt("info", store).out


@pytest.mark.parametrize("block", [4, 2048])
def test_build_reads_its_input_once(
    block: int, nearmt: Nearmt, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_folder: Path
) -> None:
    from nearmt.corpus.formats import READERS

    opened: list[Path] = []

    def counting(path: Path, *args: Any) -> Any:
        opened.append(path)
        return read(path, *args)

    read = READERS[".tsv"]
    monkeypatch.setitem(READERS, ".tsv", counting)
    monkeypatch.setattr("nearmt.datastore.disk.pairs.BLOCK", block)
    out = tmp_path / "store"
    assert nearmt("build", memory, "--out", out, "--model", tiny_folder, "--device", "cpu").code == 0
    assert opened == [memory] and Manifest.load(out).pairs == 30
