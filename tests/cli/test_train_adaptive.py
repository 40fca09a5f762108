"""nearmt train-adaptive: a file for the setting adaptive."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from nearmt.cli.main import cli
from nearmt.datastore import Datastore
from nearmt.methods.adaptive import load_adaptive
from nearmt.research.training.adaptive import AdaptiveResult, HeadResult
from tests.cli.conftest import Nearmt
from tests.conftest import make_pairs

QUICK = ("--updates", "20", "--batch-tokens", "64", "--set", "k=4", "--device", "cpu")
USE = ("--set", "k=4", "--device", "cpu", "--beams", "1")


def write(path: Path, count: int, seed: int) -> Path:
    lines = [f"{pair.source}\t{pair.target}\n" for pair in make_pairs(count, seed)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    return write(tmp_path / "dev.tsv", 180, seed=4)


@pytest.fixture
def general(tmp_path: Path) -> Path:
    return write(tmp_path / "general.tsv", 20, seed=5)


@pytest.mark.parametrize("method", ["chunk", "knn"])
def test_translate_and_evaluate_take_the_file(
    nearmt: Nearmt, store: Path, dev: Path, general: Path, text: Path, tmp_path: Path, method: str
) -> None:
    out = tmp_path / "net"
    command = ("train-adaptive", store, "--dev", dev, "--general", general, "--out", out, "--method", method)
    result = nearmt(*command, *QUICK, "--json")
    assert result.code == 0 and result.err == "", result.err
    found = json.loads(result.out)
    assert set(found) == {field.name for field in dataclasses.fields(AdaptiveResult)}
    assert (found["path"], found["method"]) == (str(out), method)
    assert (found["domain_sentences"], found["general_sentences"]) == (180, 20)
    assert list(found["heads"]) == (["search", "cache"] if method == "chunk" else ["search"])
    for head in found["heads"].values():
        assert set(head) == {field.name for field in dataclasses.fields(HeadResult)} and head["updates"] == 20
    use = ("--datastore", store, "--method", method, "--set", f"adaptive={out}", *USE)
    translated = nearmt("translate", text, *use)
    assert translated.code == 0 and translated.out.strip(), translated.err
    identity = load_adaptive(out, 4, None).identity
    scored = nearmt("evaluate", "--test", dev, "--limit", "3", *use, "--set", "max-new-tokens=5", "--json")
    assert scored.code == 0, scored.err
    signature = json.loads(scored.out)["signature"]
    assert f"|adaptive:{identity}|adaptive-boost:0|" in signature and str(tmp_path) not in signature


def test_chunk_is_the_default_and_the_table_names_both_heads(
    nearmt: Nearmt, store: Path, dev: Path, general: Path, tmp_path: Path
) -> None:
    out = tmp_path / "net"
    result = nearmt("train-adaptive", store, "--dev", dev, "--general", general, "--out", out, *QUICK)
    assert result.code == 0, result.err
    assert all(word in result.out for word in ("search", "cache", "tokens", "loss", "temperature"))
    assert f"--method chunk --set adaptive={out}" in result.err


def test_limits_and_the_warning_without_general_text(
    nearmt: Nearmt, store: Path, dev: Path, general: Path, tmp_path: Path
) -> None:
    command = ("train-adaptive", store, "--dev", dev, "--method", "knn", "--dev-limit", "50", *QUICK, "--json")
    alone = nearmt(*command, "--out", tmp_path / "one")
    assert alone.code == 0 and "no --general text" in alone.err and "ignore the memory" in alone.err
    assert json.loads(alone.out)["domain_sentences"] == 50 and json.loads(alone.out)["general_sentences"] == 0
    both = nearmt(*command, "--out", tmp_path / "two", "--general", general, "--general-limit", "7")
    assert both.code == 0 and "general" not in both.err
    assert json.loads(both.out)["general_sentences"] == 7
    assert nearmt(*command, "--out", tmp_path / "three", "--quiet").err == ""


def test_without_a_dev_set_part_of_the_memory_is_held_out(
    nearmt: Nearmt, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pairs that serve are hidden from the searches: none of them finds itself."""
    memory = write(tmp_path / "memory.tsv", 200, seed=6)
    built = nearmt("build", memory, "--out", tmp_path / "s", "--model", tiny_folder, "--device", "cpu")
    assert built.code == 0, built.err
    seen: dict[str, Any] = {}

    def spy(model: Any, datastore: Datastore, method: str, dev: Any, *rest: Any) -> AdaptiveResult:
        seen.update(store=datastore, dev=dev)
        return AdaptiveResult("net", method, len(dev), 0, {}, 0.0)

    with monkeypatch.context() as patch:
        patch.setattr("nearmt.cli.train_adaptive.train_adaptive", spy)
        command = ("train-adaptive", tmp_path / "s", "--out", tmp_path / "net", "--method", "knn", *QUICK, "--json")
        assert json.loads(nearmt(*command, "--dev-limit", "7").out)["domain_sentences"] == 7
        assert nearmt(*command).code == 0
    assert len(seen["dev"]) == 40 and "-without-" in seen["store"].snapshot().identity
    places = {(pair.source, pair.target): number for number, pair in enumerate(make_pairs(200, seed=6))}
    assert {places[pair.source, pair.target] for pair in seen["dev"]} <= seen["store"].hidden
    result = nearmt(*command)
    assert result.code == 0 and json.loads(result.out)["domain_sentences"] == 40, result.err


def test_settings_of_a_tuned_file(nearmt: Nearmt, store: Path, dev: Path, tmp_path: Path) -> None:
    """Its weights and temperatures are what the network replaces; the rest holds."""
    config, out = tmp_path / "tuned.toml", tmp_path / "net"
    config.write_text(
        'method = "knn"\nk = 3\nlambda = 0.25\ntemperature = 9.0\nbeams = 2\ndatastore = "elsewhere"\n',
        encoding="utf-8",
    )
    result = nearmt("train-adaptive", store, "--dev", dev, "--out", out, "--config", config, *QUICK[:4], "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["method"] == "knn"
    assert load_adaptive(out, 3, None).heads["search"].shape.k == 3
    # The command line wins.
    again = nearmt("train-adaptive", store, "--dev", dev, "--out", out, "--overwrite", "--config", config, *QUICK)
    assert again.code == 0, again.err
    assert load_adaptive(out, 4, None).heads["search"].shape.k == 4


def test_presets_are_settings(nearmt: Nearmt, store: Path, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "net"
    result = nearmt("train-adaptive", store, "--dev", dev, "--out", out, "--preset", "in-order", *QUICK, "--json")
    assert result.code == 0, result.err
    assert b"recall:in-order" in out.read_bytes()


def test_there_is_one_way_to_say_a_thing() -> None:
    command = cli.get_command(cli.make_context("nearmt", [], resilient_parsing=True), "train-adaptive")
    assert command is not None
    names = [name for parameter in command.params for name in parameter.opts]
    gone = ("--lambda", "--temperature", "--cache-lambda", "--adaptive", "--adaptive-boost", "--datastore", "--beams")
    assert len(names) == len(set(names)) and not set(gone) & set(names)
    shown = [name for option in command.params if not getattr(option, "hidden", False) for name in option.opts]
    assert {"--set", "--config", "--learning-rate", "--method", "--model"} <= set(shown) and "--k" not in shown


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--method", "plain"), 2, "plain"),
        (("--method", "efficient"), 2, "efficient"),
        (("--config", "EFFICIENT"), 2, "method = 'efficient': must be one of chunk, knn"),
        (("--method", "knn", "--set", "chunk=4"), 2, "has no setting 'chunk'"),
        (("--method", "knn", "--preset", "paper"), 2, "has no presets"),
        (("--set", "k=0"), 2, "k = 0"),
        (("--updates", "0"), 2, "updates = 0"),
        (("--learning-rate", "nan"), 2, "learning-rate"),
        (("--dev-limit", "0"), 2, "dev-limit"),
        (("--set", "schedule=sometimes"), 2, "schedule"),
        (("--dev", "nowhere.tsv"), 1, "nowhere.tsv"),
        (("--dev", "EMPTY"), 1, "no pairs"),
        (("--dev", "SHORT"), 1, "tokens to learn from at search steps"),
        (("--general", "nowhere.tsv"), 1, "nowhere.tsv"),
        (("--out", "nowhere/net"), 1, "there is no folder nowhere"),
        (("--out", "FOLDER"), 1, "is a folder"),
        (("--out", "SHORT"), 1, "exists"),
        (("--dev", "SHORT", "--out", "SHORT", "--overwrite"), 2, "is an input file"),
    ],
)
def test_mistakes_are_one_line(
    nearmt: Nearmt, store: Path, dev: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    names = {"EMPTY": tmp_path / "empty.tsv", "SHORT": write(tmp_path / "short.tsv", 3, 1), "FOLDER": tmp_path}
    names["EMPTY"].write_text("", encoding="utf-8")
    names["EFFICIENT"] = tmp_path / "run.toml"
    names["EFFICIENT"].write_text('method = "efficient"\n', encoding="utf-8")
    given = [names.get(word, word) for word in arguments]
    defaults = [] if "--dev" in arguments else ["--dev", dev]
    before = names["SHORT"].read_bytes()
    result = nearmt(
        "train-adaptive",
        store,
        "--out",
        tmp_path / "net",
        "--quiet",
        "--updates",
        "9",
        "--device",
        "cpu",
        *defaults,
        *given,
    )
    assert result.code == code and message in result.err, result.err
    assert result.err.count("\n") == 1 and not (tmp_path / "net").exists()
    assert names["SHORT"].read_bytes() == before


def test_what_is_missing(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    assert nearmt("train-adaptive", store).code == 2
    nowhere = nearmt("train-adaptive", tmp_path / "nowhere", "--out", tmp_path / "net", "--quiet")
    assert nowhere.code == 1 and "nowhere" in nowhere.err and not list(tmp_path.iterdir())


def test_a_file_of_another_number_of_neighbours(
    nearmt: Nearmt, store: Path, dev: Path, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "net"
    made = nearmt("train-adaptive", store, "--dev", dev, "--out", out, "--method", "knn", *QUICK)
    assert made.code == 0, made.err
    use = ("translate", text, "--datastore", store, "--device", "cpu", "--set", f"adaptive={out}")
    for arguments, code, message in (
        (("--method", "knn", "--set", "k=8"), 2, "set k=4"),
        (("--set", "k=4"), 2, "--method chunk"),
        (("--method", "knn", "--set", "k=4", "--set", f"adaptive={tmp_path}"), 1, "cannot be read"),
        (("--method", "knn", "--set", "k=4", "--set", f"adaptive={dev}"), 1, "not a network"),
        (("--method", "knn", "--set", "k=4", "--set", f"adaptive={tmp_path}/nowhere"), 1, "nowhere: cannot be read"),
    ):
        result = nearmt(*use, *arguments)
        assert result.code == code and message in result.err and result.err.count("\n") == 1, result.err
