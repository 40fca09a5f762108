"""Settings on the command line: --set, --config, `nearmt settings`, and the spellings of earlier versions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nearmt.cli.given import SETTINGS
from nearmt.cli.main import cli
from nearmt.config.methods import METHODS
from nearmt.config.old_names import OPTIONS, REMOVED_OPTIONS
from tests.cli.conftest import Nearmt
from tests.cli.test_errors import assert_one_line

ROOT = Path(__file__).parent.parent.parent
#: Commands whose help lists few options, and how many at most.
SHORT = ("translate", "stream", "tune", "evaluate")
MOST = 25
FAST = ("--device", "cpu", "--set", "max-new-tokens=6")


@pytest.fixture
def unloaded(nearmt: Nearmt, monkeypatch: pytest.MonkeyPatch) -> Nearmt:
    """The command line, which must not load a model."""
    monkeypatch.setattr("nearmt.cli.setup.load_model", None)
    return nearmt


def options_of(name: str) -> list[click.Option]:
    context = cli.make_context("nearmt", [], resilient_parsing=True)
    command = cli.get_command(context, name)
    assert command is not None
    params = command.get_params(click.Context(command, info_name=name, parent=context))
    return [option for option in params if isinstance(option, click.Option)]


@pytest.mark.parametrize("name", SHORT)
def test_help_lists_few_options(nearmt: Nearmt, name: str) -> None:
    shown = [option for option in options_of(name) if not option.hidden]
    assert len(shown) <= MOST
    assert len(re.findall(r"^  (?:-\w, )?--[a-z]", nearmt(name, "--help").out, re.MULTILINE)) <= MOST


@pytest.mark.parametrize("name", [*SHORT, "train-adaptive", "experiment"])
def test_no_spelling_is_taken_twice(name: str) -> None:
    spellings = [spelling for option in options_of(name) for spelling in [*option.opts, *option.secondary_opts]]
    assert len(spellings) == len(set(spellings))


# --set


def test_set_is_the_same_as_an_option_and_a_file(nearmt: Nearmt, text: Path, store: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('method = "knn"\nk = 2\nlambda = 0.9\nbeams = 2\nguard = false\n', encoding="utf-8")
    run = ("translate", text, "--datastore", store, *FAST, "--verbose")
    given = ("--set", "k=2", "--set", "lambda=0.9", "--set", "beams=2", "--set", "guard=false")
    assigned = nearmt(*run, "--set", "method=knn", *given)
    assert assigned.code == 0 and "|k:2|lambda:0.9|" in assigned.err and "|beams:2|" in assigned.err
    assert nearmt(*run, "--config", config) == assigned
    # The command line wins over the file, and the last value over those before it.
    other = nearmt(*run, "--config", config, "--set", "k=4", "--set", "k=3")
    assert "|k:3|lambda:0.9|" in other.err


def test_filters_add_up(nearmt: Nearmt, text: Path, store: Path) -> None:
    given = ("--set", "filter=id=*", "--set", "filter=origin=*", "--verbose")
    found = nearmt("translate", text, "--datastore", store, *given, *FAST)
    assert found.code == 0 and "id=*" in found.err and "origin=*" in found.err


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (("--set", "lamda=0.5"), ("--set lamda=0.5", "unknown setting 'lamda'; did you mean 'lambda'?")),
        (("--set", "cache_k=4"), ("did you mean 'cache-k'?",)),
        (("--set", "zebra=1"), ("unknown setting 'zebra'", "nearmt settings")),
        (("--set", "k"), ("--set k: give NAME=VALUE",)),
        (("--set", "k=many"), ("k = 'many': must be a whole number",)),
        (("--set", "k=0"), ("k = 0: must be between 1 and 1024",)),
        (("--set", "guard=maybe"), ("guard = 'maybe': must be true or false",)),
        (("--set", "ends=nearr"), ("ends = 'nearr': must be one of near, all; did you mean 'near'?",)),
        (("--set", "nominate=fais"), ("nominate = 'fais'", "did you mean 'faiss'?")),
        (("--set", "search=exact"), ("unknown setting 'search'; it is called 'nominate'",)),
        (("--set", "gather=8"), ("setting 'gather' was removed",)),
        (("--set", "schedule=never"), ("schedule = 'never'",)),
        (("--set", "budget=4"), ("`nearmt translate` has no setting 'budget'",)),
        (("--set", "beams=2", "--beams", "2"), ("beams: is given as an option and with --set",)),
        (("--method", "knn", "--set", "chunk=4"), ("method 'knn' has no setting 'chunk'", "chunk")),
        (("--nominate", "exact"), ("no option --nominate; write --set nominate=VALUE",)),
        (("--max-tokens", "9"), ("no option --max-tokens; write --set max-new-tokens=VALUE",)),
    ],
)
def test_bad_assignments(
    unloaded: Nearmt, text: Path, store: Path, given: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert_one_line(unloaded("translate", text, "--datastore", store, *given), 2, *parts)


def test_settings_of_retrieval_need_a_datastore(unloaded: Nearmt, text: Path) -> None:
    message = "method 'plain' has no setting 'lambda'; methods with it: knn, efficient, chunk, subset, sk-mt, retomaton"
    assert_one_line(unloaded("translate", text, "--set", "lambda=0.5"), 2, message, "they need --datastore DIR")


def test_settings_of_other_commands(unloaded: Nearmt, memory: Path, store: Path) -> None:
    evaluated = unloaded("evaluate", "--test", memory, "--datastore", store, "--set", "min-match=0.5")
    assert_one_line(evaluated, 2, "`nearmt evaluate` has no setting 'min-match'")
    tuned = unloaded("tune", store, "--set", "datastore=x")
    assert_one_line(tuned, 2, "`nearmt tune` has no setting 'datastore'")


def test_completion_knows_settings(nearmt: Nearmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_NEARMT_COMPLETE", "bash_complete")

    def completed(*words: str) -> str:
        monkeypatch.setenv("COMP_WORDS", " ".join(["nearmt", "translate", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words) + 1))
        return nearmt().out

    assert "nominate=faiss" in completed("--set", "nom")
    assert "guard=true" in completed("--set", "gu") and "max-new-tokens=" in completed("--set", "max-n")
    options = completed("--")
    assert "--set" in options and "--datastore" in options and "--lambda" not in options


# nearmt settings


def test_settings_are_listed_with_everything_about_them(nearmt: Nearmt) -> None:
    found = {setting["name"]: setting for setting in json.loads(nearmt("settings", "--json").out)}
    assert set(found) == {name for config in SETTINGS for name in config.public_fields()}
    assert found["lambda"]["low"] == 0 and found["lambda"]["high"] == 1 and found["lambda"]["default"] is None
    assert found["nominate"]["choices"] == ["auto", "faiss", "torch", "exact"]
    assert found["chunk"]["default"] == 16 and found["chunk"]["methods"] == ["chunk"]
    assert found["k"]["methods"] == list(METHODS[1:]) and found["beams"]["methods"] is None
    assert all(setting["meaning"] and setting["group"] and setting["type"] for setting in found.values())
    table = nearmt("settings").out
    for name in found:
        assert re.search(rf"^{name} ", table, re.MULTILINE), name


def test_settings_of_a_method(nearmt: Nearmt) -> None:
    names = {
        method: {setting["name"] for setting in json.loads(nearmt("settings", method, "--json").out)}
        for method in ("plain", "knn", "efficient", "chunk")
    }
    assert "k" not in names["plain"] and "beams" in names["plain"]
    assert "k" in names["knn"] and "chunk" not in names["knn"] and "preset" not in names["knn"]
    assert "reuse-scope" in names["efficient"] and {"chunk", "preset"} <= names["chunk"]
    listed = {method: json.loads(nearmt("settings", method, "--json").out) for method in ("knn", "sk-mt")}
    defaults = {method: {each["name"]: each["default"] for each in found} for method, found in listed.items()}
    assert (defaults["knn"]["k"], defaults["sk-mt"]["k"], defaults["sk-mt"]["references"]) == (8, 2, 16)
    assert nearmt("settings", "magic").code == 2


def test_settings_load_no_torch() -> None:
    code = (
        "import sys; from nearmt.cli.main import run; run(['settings']); run(['settings', 'knn', '--json']); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'faiss')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


# Spellings of earlier versions.


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("--lambda", "0.7"), "lambda=0.7"),
        (("--no-guard",), "guard=false"),
        (("--guard",), "guard=true"),
        (("--search", "exact"), "nominate=exact"),
        (("--search-device", "cpu"), "store-device=cpu"),
        (("--no-exact",), "exact=false"),
        (("--max-unit", "2"), "max-unit=2"),
    ],
)
def test_old_options_work_with_a_warning(
    nearmt: Nearmt, text: Path, store: Path, old: tuple[str, ...], new: str
) -> None:
    run = ("translate", text, "--datastore", store, *FAST)
    before, after = nearmt(*run, *old), nearmt(*run, "--set", new)
    assert before.code == after.code == 0 and before.out == after.out
    warning = f"nearmt: {' '.join(old)}: write --set {new}\n"
    assert before.err == warning + after.err
    assert nearmt(*run, "--quiet", *old).err == nearmt(*run, *old, "--quiet").err == ""


def test_old_options_that_may_be_given_several_times(nearmt: Nearmt, memory: Path, store: Path) -> None:
    run = ("evaluate", "--test", memory, "--limit", 2, "--datastore", store, *FAST, "--json")
    found = nearmt(*run, "--filter", "id=*", "--filter", "origin=*")
    assert found.code == 0
    assert found.err.splitlines()[:2] == [
        "nearmt: --filter id=*: write --set filter=id=*",
        "nearmt: --filter origin=*: write --set filter=origin=*",
    ]


def test_old_options_are_hidden_and_complete() -> None:
    """Every option of 0.4 that is not shown any more is still taken."""
    gone = {"translate": {"lambda", "search", "exact", "max-unit", "key-layer"}, "stream": {"preset", "batch-size"}}
    gone |= {"tune": {"source-lang", "margin", "base"}, "evaluate": {"filter", "preset", "comet-model"}}
    for name, expected in gone.items():
        hidden = {option.opts[0].lstrip("-") for option in options_of(name) if option.hidden}
        assert expected <= hidden <= OPTIONS.keys()


def test_old_keys_of_files_work_with_a_warning(nearmt: Nearmt, text: Path, store: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('search = "exact"\nsearch-device = "cpu"\n', encoding="utf-8")
    run = ("translate", text, "--datastore", store, *FAST, "--config", config)
    found = nearmt(*run)
    assert found.code == 0
    assert found.err.splitlines()[:2] == [
        f"nearmt: {config}: search = 'exact': write nominate = 'exact'",
        f"nearmt: {config}: search-device = 'cpu': write store-device = 'cpu'",
    ]
    config.write_text('search = "exact"\nnominate = "exact"\n', encoding="utf-8")
    assert_one_line(nearmt(*run), 2, "'search' and 'nominate' are the same setting; keep 'nominate'")


@pytest.mark.parametrize(("command", "option"), REMOVED_OPTIONS)
def test_removed_options_say_what_to_do(nearmt: Nearmt, store: Path, memory: Path, command: str, option: str) -> None:
    result = nearmt(command, store, memory, f"--{option}", "3")
    assert_one_line(result, 2, f"--{option} was removed: {REMOVED_OPTIONS[command, option]}")


def test_bench_names_the_new_option(nearmt: Nearmt, memory: Path) -> None:
    result = nearmt("bench", "--data", memory, "--search", "exact", "--systems", "none")
    assert result.code == 2 and result.err.startswith("nearmt: --search exact: write --nominate exact\n")


def test_the_changelog_lists_old_spellings() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = changelog.partition("## 0.5.0")[2].partition("\n## ")[0]
    for name in [*OPTIONS, *(option for _, option in REMOVED_OPTIONS)]:
        assert f"`--{name}`" in section, name
