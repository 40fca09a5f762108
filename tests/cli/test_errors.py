"""Bad input: one line on stderr that says what and where, exit code 1 or 2, and nothing is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmt.config.old_names import REMOVED
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from tests.cli.conftest import Nearmt, Result
from tests.tiny import tiny_marian_folder


def assert_one_line(result: Result, code: int, *parts: object) -> None:
    assert result.code == code, result
    assert result.out == ""
    assert result.err.count("\n") == 1 and result.err.startswith("nearmt: error: "), result.err
    for part in parts:
        assert str(part) in result.err


def test_missing_file(nearmt: Nearmt, tmp_path: Path, memory: Path) -> None:
    assert_one_line(nearmt("build", tmp_path / "memori.tsv", "--out", tmp_path / "s"), 1, "memori.tsv", "memory.tsv")
    assert_one_line(nearmt("translate", tmp_path / "none.txt"), 1, "none.txt: no such file")
    assert_one_line(nearmt("evaluate", "--test", tmp_path / "none.tsv"), 1, "none.tsv: no such file")
    assert not (tmp_path / "s").exists()


def test_not_utf8(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    path = tmp_path / "latin.tsv"
    path.write_bytes(b"gut\tgood\nsch\xf6n\tnice\n")
    result = nearmt("build", path, "--out", tmp_path / "s", "--model", tiny_folder, "--strict")
    assert_one_line(result, 1, "latin.tsv, line 2: not UTF-8")
    assert_one_line(nearmt("translate", path, "--model", tiny_folder), 1, "latin.tsv, line 2: not UTF-8")
    assert not (tmp_path / "s").exists()


def test_a_line_without_a_tab(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    path = tmp_path / "m.tsv"
    path.write_text("gut\tgood\nschlecht bad\n", encoding="utf-8")
    build = ("build", path, "--model", tiny_folder)
    assert_one_line(nearmt(*build, "--out", tmp_path / "s", "--strict"), 1, "m.tsv, line 2: no tab")
    # Without --strict the rest is used, and what is not is named.
    lenient = nearmt(*build, "--out", tmp_path / "s")
    assert lenient.code == 0 and "m.tsv, line 2: no tab" in lenient.err


def test_empty_corpus(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    path = tmp_path / "empty.tsv"
    path.write_text("\n\n \t \n", encoding="utf-8")
    assert_one_line(nearmt("build", path, "--out", tmp_path / "s", "--model", tiny_folder), 1, "no pairs")
    assert_one_line(nearmt("evaluate", "--test", path, "--model", tiny_folder), 1, "no pairs")
    assert not list(tmp_path.glob("s*"))


def test_unknown_language(nearmt: Nearmt, tmp_path: Path, memory: Path, tiny_folder: Path) -> None:
    arguments = ("--out", tmp_path / "s", "--model", tiny_folder, "--source-lang", "fr")
    assert_one_line(nearmt("build", memory, *arguments), 1, "translates de to en, not fr to en")


def test_unknown_model(nearmt: Nearmt, tmp_path: Path, text: Path) -> None:
    assert_one_line(nearmt("translate", text, "--model", tmp_path), 1, f"folder '{tmp_path}' cannot be loaded")


def test_datastore_of_another_model(nearmt: Nearmt, text: Path, store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    tiny_marian_folder(other, seed=1)
    result = nearmt("translate", text, "--datastore", store, "--model", other, "--device", "cpu")
    assert_one_line(result, 1, "built with model", Manifest.load(store).fingerprint, other)


@pytest.mark.parametrize("name", ["key.f16", "token.i32", "end.i64", "pairs.jsonl", "pair_start.i64"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
def test_damaged_datastore(nearmt: Nearmt, text: Path, store: Path, tmp_path: Path, name: str, damage: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    path = copy / "segment-000001" / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(data[:-1])
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert_one_line(nearmt("translate", text, "--datastore", copy, "--device", "cpu"), 1, path)
    assert_one_line(nearmt("info", copy), 1, path)


def test_unfinished_and_missing_datastores(nearmt: Nearmt, text: Path, tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    assert_one_line(nearmt("info", tmp_path / "half"), 1, "not a datastore")
    assert_one_line(nearmt("info", tmp_path / "none"), 1, "no such datastore")
    assert_one_line(nearmt("reindex", tmp_path / "none"), 1, "no such datastore")
    assert_one_line(nearmt("translate", text, "--datastore", tmp_path / "none"), 1, "no such datastore")


def test_output_that_cannot_be_written(nearmt: Nearmt, text: Path, tiny_folder: Path, tmp_path: Path) -> None:
    run = ("translate", text, "--model", tiny_folder, "--beams", "1", "--set", "max-new-tokens=5", "--device", "cpu")
    assert_one_line(nearmt(*run, "--output", tmp_path / "no" / "folder.txt"), 1, "cannot be written")
    assert_one_line(nearmt(*run, "--output", tmp_path), 2, "is an input file")  # it goes into the folder
    text.write_text("\n\n", encoding="utf-8")  # nothing to translate, and so nothing to warn of
    assert_one_line(nearmt(*run, "--output", "/dev/full"), 1, "/dev/full: the disk is full")


def test_a_failed_run_leaves_the_old_output(nearmt: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    old = tmp_path / "out.txt"
    old.write_text("precious\n", encoding="utf-8")
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"gut\n\xff\n")
    result = nearmt("translate", bad, "--model", tiny_folder, "--output", old)
    assert_one_line(result, 1, "bad.txt, line 2")
    assert old.read_text(encoding="utf-8") == "precious\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "out.txt"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--set", "lambda=1.5"), ("lambda = 1.5", "between 0 and 1")),
        (("--set", "lambda=nan"), ("lambda = nan", "between 0 and 1")),
        (("--set", "cache-lambda=-0.1"), ("cache-lambda = -0.1", "between 0 and 1")),
        (("--set", "k=0"), ("k = 0", "between 1 and 1024")),
        (("--set", "temperature=0"), ("temperature = 0", "at least")),
        (("--set", "schedule=sometimes"), ("schedule = 'sometimes'", "geometric:2:16")),
        (("--set", "schedule=geometric:9:2"), ("i_min <= i_max",)),
        (("--beams", "0"), ("beams = 0",)),
        (("--batch-size", "0"), ("batch-size = 0",)),
        (("--method", "nkk"), ("nkk", "knn")),
        (("--temperatur", "3"), ("no option --temperatur", "--set temperature=VALUE")),
        (("--device", "tpu"), ("device = 'tpu'",)),
        (("--precision", "fp8"), ("fp8", "bf16")),
        (("--set", "k=many"), ("many",)),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_bad_settings(
    nearmt: Nearmt, text: Path, store: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert_one_line(nearmt("translate", text, "--datastore", store, *arguments), 2, *parts)


def test_method_without_datastore(nearmt: Nearmt, text: Path) -> None:
    assert_one_line(nearmt("translate", text, "--method", "knn"), 2, "needs a datastore", "nearmt build")


def test_preset_of_another_method(nearmt: Nearmt, text: Path, store: Path) -> None:
    result = nearmt("translate", text, "--datastore", store, "--method", "knn", "--preset", "paper")
    assert_one_line(result, 2, "no presets")


def test_unknown_command(nearmt: Nearmt) -> None:
    assert_one_line(nearmt("translat"), 2, "no command 'translat'; did you mean 'translate'?")


@pytest.mark.parametrize("given", [("--gather", "8"), ("--gather=8",), ("--search-beyond", "0.8")])
def test_removed_options(nearmt: Nearmt, text: Path, store: Path, given: tuple[str, ...]) -> None:
    name = given[0].partition("=")[0].strip("-")
    result = nearmt("translate", text, "--datastore", store, *given)
    assert_one_line(result, 2, f"setting '{name}' was removed ({REMOVED[name]}); leave it out")


@pytest.mark.parametrize(
    ("content", "code", "part"),
    [
        ("lambda = 2.0\n", 2, "lambda = 2.0"),
        ("lamda = 0.5\n", 2, "unknown setting 'lamda'; did you mean 'lambda'?"),
        ("search-beyond = 0.8\n", 2, "c.toml: setting 'search-beyond' was removed"),
        ("k = 2.5\n", 2, "k = 2.5: must be a whole number"),
        ('beams = "five"\n', 2, "beams = 'five': must be a whole number"),
        ("lambda =\n", 1, "not valid TOML"),
        ('preset = "none"\n', 2, "preset = 'none'"),
    ],
)
def test_bad_config_file(
    nearmt: Nearmt, text: Path, store: Path, tmp_path: Path, content: str, code: int, part: str
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(content, encoding="utf-8")
    assert_one_line(nearmt("translate", text, "--datastore", store, "--config", config), code, part)


def test_bad_index(nearmt: Nearmt, memory: Path, tmp_path: Path, tiny_folder: Path) -> None:
    build = ("build", memory, "--out", tmp_path / "s", "--model", tiny_folder)
    assert_one_line(nearmt(*build, "--index", "Nonsense7"), 2, "index = 'Nonsense7'")
    assert_one_line(nearmt(*build, "--index", "IVF4096,SQ8"), 2, "too few to train")
    assert_one_line(nearmt("info", tmp_path / "s"), 1, "an unfinished build")


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def press(target: str) -> None:
        def control_c(*arguments: object, **settings: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(target, control_c)

    return press


def test_control_c_while_building(
    nearmt: Nearmt, memory: Path, tmp_path: Path, tiny_folder: Path, interrupt: Callable[[str], None]
) -> None:
    build = ("build", memory, "--out", tmp_path / "s", "--model", tiny_folder)
    assert nearmt(*build).code == 0
    before = Datastore.open(tmp_path / "s", verify=True).snapshot().identity
    interrupt("nearmt.datastore.edit.build.encode_blocks")
    assert_one_line(nearmt(*build, "--overwrite"), 130, "interrupted")
    assert Datastore.open(tmp_path / "s", verify=True).snapshot().identity == before


def test_control_c_while_translating(
    nearmt: Nearmt, text: Path, tiny_folder: Path, tmp_path: Path, interrupt: Callable[[str], None]
) -> None:
    interrupt("nearmt.translator.beam_search")
    out = tmp_path / "out.txt"
    assert_one_line(nearmt("translate", text, "--model", tiny_folder, "--output", out), 130, "interrupted")
    assert not out.exists() and not list(tmp_path.glob("*.partial"))


def test_without_debugging_even_a_bug_is_one_line(
    nearmt: Nearmt, text: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NEARMT_DEBUG")
    monkeypatch.setattr("nearmt.translator.beam_search", lambda *a, **s: 1 / 0)
    assert_one_line(nearmt("translate", text, "--model", tiny_folder), 1, "unexpected ZeroDivisionError")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('batch-size = "x"', "batch-size = 'x': must be a whole number"),
        ("batch-size = 0", "batch-size = 0: must be at least 1"),
        ("datastore = 5", "datastore = 5: must be text"),
        ('method = "chunks"', "did you mean 'chunk'?"),
        ('preset = "best"', "preset = 'best': must be one of"),
        ('lambda = "viel"', "lambda = 'viel': must be a number"),
    ],
)
def test_bad_values_of_a_file(nearmt: Nearmt, tmp_path: Path, text: Path, line: str, message: str) -> None:
    """Also for settings that the method at hand does not use."""
    path = tmp_path / "settings.toml"
    path.write_text(line + "\n", encoding="utf-8")
    assert_one_line(nearmt("translate", text, "--config", path), 2, message)
