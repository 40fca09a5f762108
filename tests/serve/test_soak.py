"""The soak in short: it runs, its requests get the answers that they should, and nothing that it counts grows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
#: Of RSS; the real soak, with more requests and a longer warm-up, asks for 2 %.
GROWTH = 0.1
#: Threads for files of answers, and files of segments that are sealed until the next compaction.
SPARE, SEGMENTS = 8, 80


@pytest.mark.services
def test_a_short_soak(tiny_folder: Path, tmp_path: Path) -> None:
    report_file = tmp_path / "soak.json"
    script = [
        sys.executable,
        str(ROOT / "benchmarks" / "soak.py"),
        "--out",
        str(report_file),
        "--serve",
        f"--model {tiny_folder}",
    ]
    amount = ["--seconds", "40", "--translations", "300", "--others", "6000", "--every", "0.5", "--clients", "4"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([*script, *amount], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(report_file.read_text(encoding="utf-8"))
    assert report["unexpected"] == {}
    assert sum(count for count, _ in report["requests"].values()) >= 6_000
    assert {name.split()[0] for name in report["answers"]} >= {"translate", "learn", "delete", "disconnect", "wrong"}
    rss, threads, files = report["cells"]
    assert rss["last"] < (1 + GROWTH) * rss["first"], report["cells"]
    assert threads["last"] <= threads["first"] + SPARE, report["cells"]
    assert files["last"] <= files["first"] + SEGMENTS, report["cells"]
