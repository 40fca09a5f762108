"""nearmt tune: a configuration file that the other commands take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearmt.config import read_toml
from tests.cli.conftest import Nearmt
from tests.conftest import make_pairs

FAST = ("--beams", "1", "--set", "max-new-tokens=8", "--device", "cpu")
SHORT = ("--budget", "1", *FAST)


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    path = tmp_path / "dev.tsv"
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in make_pairs(6, seed=4)), encoding="utf-8")
    return path


def test_translate_and_evaluate_take_the_file(
    nearmt: Nearmt, store: Path, dev: Path, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "tuned.toml"
    result = nearmt("tune", store, "--dev", dev, "--out", out, *SHORT, "--json")
    assert result.code == 0, result.err
    found, written = json.loads(result.out), read_toml(out)
    table = written.pop("tuning")
    assert written == {"method": "chunk", **found["settings"], "beams": 1, "max-new-tokens": 8}
    assert table["score"] == found["score"] >= found["default-score"]
    scored = nearmt("evaluate", "--test", dev, "--datastore", store, "--config", out, "--device", "cpu", "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["bleu"] == found["score"]
    assert json.loads(scored.out)["signature"] == found["signature"]
    translated = nearmt("translate", text, "--datastore", store, "--config", out, "--device", "cpu")
    assert translated.code == 0 and translated.out.strip(), translated.err
    # Given once more, the command repeats nothing and comes to the same end.
    again = nearmt("tune", store, "--dev", dev, "--out", out, *SHORT, "--json")
    assert again.out == result.out


def test_the_table_names_tuned_default_and_base(nearmt: Nearmt, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned.toml"
    result = nearmt("tune", store, "--method", "knn", "--limit", "4", "--out", out, *SHORT)
    assert result.code == 0, result.err
    assert all(word in result.out for word in ("lambda", "temperature", "bleu", "tuned", "defaults", "the model alone"))
    assert str(out) in result.err.replace("\n", "")
    table = read_toml(out)["tuning"]
    assert table["sentences"] == 4 and table["dev-set"] == "held out of the memory"


def test_what_is_given_stays(nearmt: Nearmt, store: Path, dev: Path, tmp_path: Path) -> None:
    config, out = tmp_path / "run.toml", tmp_path / "tuned.toml"
    config.write_text('lambda = 0.25\ndatastore = "elsewhere"\n', encoding="utf-8")
    given = (
        "--config",
        config,
        "--set",
        "k=3",
        "--preset",
        "sentence",
        "--tune",
        "cache-lambda",
        "--set",
        "base=false",
    )
    result = nearmt("tune", store, "--dev", dev, "--out", out, *given, *SHORT)
    assert result.code == 0, result.err
    written = read_toml(out)
    assert (written["lambda"], written["k"], written["scope"]) == (0.25, 3, "batch")
    assert "cache-lambda" in written and "temperature" not in written and "base-score" not in written["tuning"]


def test_the_papers_grid(nearmt: Nearmt, store: Path, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned.toml"
    grid = (
        "--ranges",
        "paper",
        "--strategy",
        "grid",
        "--tune",
        "cache-lambda",
        "--budget",
        "3",
        "--set",
        "temperature=10",
    )
    result = nearmt("tune", store, "--dev", dev, "--out", out, *grid, *FAST)
    assert result.code == 0, result.err
    lines = (tmp_path / "tuned.toml.trials.jsonl").read_text(encoding="utf-8").splitlines()
    tried = [json.loads(line)["settings"] for line in lines[1:]]
    assert [{"cache-lambda": weight} in tried for weight in (0.4, 0.5, 0.6)] == [True] * 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--tune", "lamda"), 2, "did you mean 'lambda'"),
        (("--tune", "lambda", "--set", "lambda=0.5"), 2, "given and to be tuned"),
        (("--method", "plain"), 2, "nothing to tune"),
        (("--budget", "0"), 2, "budget"),
        (("--strategy", "grid"), 2, "the grid has"),
        (("--metric", "ter"), 2, "metric"),
        (("--set", "cache-lambda=0.3", "--method", "knn"), 2, "has no setting 'cache-lambda'"),
        (("--dev", "nowhere.tsv"), 1, "nowhere.tsv"),
        (("--dev", "EMPTY"), 1, "no pairs"),
        (("--out", "nowhere/tuned.toml"), 1, "cannot be written"),
        (("--out", "FOLDER"), 1, "is a folder"),
        (("--out", "DEV"), 1, "exists"),
    ],
)
def test_mistakes_are_one_line(
    nearmt: Nearmt, store: Path, dev: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "empty.tsv").write_text("", encoding="utf-8")
    names = {"EMPTY": tmp_path / "empty.tsv", "FOLDER": tmp_path, "DEV": dev}
    before = dev.read_bytes()
    result = nearmt("tune", store, "--out", tmp_path / "t.toml", *FAST, *(names.get(word, word) for word in arguments))
    assert result.code == code and message in result.err, result.err
    assert result.err.count("\n") == 1 and not (tmp_path / "t.toml").exists()
    assert dev.read_bytes() == before


def test_a_store_that_is_not_there(nearmt: Nearmt, tmp_path: Path) -> None:
    result = nearmt("tune", tmp_path / "nowhere", "--out", tmp_path / "t.toml")
    assert result.code == 1 and "nowhere" in result.err and not list(tmp_path.iterdir())


def test_a_small_memory_asks_for_a_dev_set(nearmt: Nearmt, memory: Path, tiny_folder: Path, tmp_path: Path) -> None:
    assert nearmt("build", memory, "--out", tmp_path / "s", "--model", tiny_folder, "--device", "cpu").code == 0
    result = nearmt("tune", tmp_path / "s", "--out", tmp_path / "t.toml", *SHORT)
    assert result.code == 1 and "30 pairs are too few" in result.err and "--dev" in result.err


def test_trials_of_another_run_are_kept_unless_told(nearmt: Nearmt, store: Path, dev: Path, tmp_path: Path) -> None:
    command = ("tune", store, "--dev", dev, "--method", "knn", "--out", tmp_path / "t.toml", *SHORT)
    assert nearmt(*command).code == 0
    before = (tmp_path / "t.toml").read_bytes()
    refused = nearmt(*command, "--set", "k=2")
    assert refused.code == 1 and "--overwrite" in refused.err
    assert (tmp_path / "t.toml").read_bytes() == before
    assert nearmt(*command, "--set", "k=2", "--overwrite").code == 0
    assert read_toml(tmp_path / "t.toml")["k"] == 2


def test_a_table_of_another_name_is_refused(nearmt: Nearmt, store: Path, text: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    for content in ("[tunning]\nscore = 1\n", "tuning = 3\n"):
        config.write_text(content, encoding="utf-8")
        result = nearmt("translate", text, "--datastore", store, "--config", config)
        assert result.code == 2 and "unknown setting 'tun" in result.err
