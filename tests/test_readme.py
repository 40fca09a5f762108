"""The README is executed: its commands run, its Python runs, its table is that of the result files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nearmt.demo import HELD_OUT, MEMORY
from tools.results_table import PAGES, PLOTS, draw, with_tables

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def sample_folder(tmp_path: Path) -> Path:
    """A folder with the files that the README names."""
    memory = MEMORY.read_text(encoding="utf-8").splitlines(keepends=True)[:60]
    (tmp_path / "memory.tsv").write_text("".join(memory), encoding="utf-8")
    for name, lines in (("corrections.tsv", memory[:2]), ("customer.tsv", memory[2:4])):
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    test = HELD_OUT.read_text(encoding="utf-8").splitlines(keepends=True)[:3]
    (tmp_path / "test.tsv").write_text("".join(test), encoding="utf-8")
    (tmp_path / "text.txt").write_text("".join(row.split("\t")[0] + "\n" for row in test[:2]), encoding="utf-8")
    (tmp_path / "app.po").write_text(
        'msgid ""\nmsgstr "Language: en\\n"\n\nmsgid "Die Datei %s fehlt."\nmsgstr ""\n', encoding="utf-8"
    )
    return tmp_path


@pytest.mark.embedded
def test_commands(sample_folder: Path) -> None:
    commands = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("nearmt ")]
    assert len(commands) >= 5
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    for command in commands:
        line = command.replace("nearmt ", f"{sys.executable} -m nearmt ", 1)
        done = subprocess.run(
            ["bash", "-c", line], cwd=sample_folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        assert ": write --" not in done.stderr, done.stderr  # old spellings
        assert done.stdout.strip() or "--output" in command, command


@pytest.mark.embedded
def test_python(sample_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(sample_folder)
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_make_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^make (\w+)", "\n".join(blocks("bash")), flags=re.MULTILINE)
    assert named[:2] == ["demo", "test"]
    for target in named:
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_those_of_the_result_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<!-- results" in text
    assert with_tables(text, PAGES[page]) == text, "run tools/results_table.py --write"


def test_plots_are_those_of_the_result_files(tmp_path: Path) -> None:
    """Compare text only: positions depend on the version of matplotlib."""

    def words(path: Path) -> list[str]:
        return re.findall(r">([^<>\n]+)</text>", path.read_text(encoding="utf-8"))

    drawn = draw(out=tmp_path / "plots")
    assert [path.name for path in drawn] == sorted(path.name for path in PLOTS.iterdir())
    for path in drawn:
        assert words(path) == words(PLOTS / path.name) != [], "run tools/results_table.py --write"
