"""Every example runs as it stands, and is short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

#: Something that only an example that did its work prints.
EXPECTED = {
    "adapt.py": "with memory: Close the service hatch.",
    "compare.py": "chunk  BLEU",
    "correct.py": "trimmer",
    "explain.py": "search",
    "fill_po.py": "#, fuzzy",
    "live_session.py": "undone: Clean the trimmer.",
}


def test_there_are_six() -> None:
    assert [path.name for path in EXAMPLES] == sorted(EXPECTED)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 30


@pytest.mark.embedded
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_runs(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert EXPECTED[path.name] in done.stdout
