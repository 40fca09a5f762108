"""The README's table of results, from the JSON files in benchmarks/results.

python tools/results_table.py          prints the table
python tools/results_table.py --write  puts it into README.md between its markers
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
NAMES = {"base": "base model", "knn": "kNN-MT", "chunk": "chunk (nearmt's default)", "paper": "chunk, `--preset paper`"}


def table() -> str:
    """One row a system and result file."""
    rows = [
        "| domain | test lines | system | BLEU | chrF | searches a sentence | speed / base | file |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        base = result["systems"]["base"]
        for name, system in result["systems"].items():
            rows.append(_row(path, result, name, system, base))
    return "\n".join(rows)


def _row(path: Path, result: dict[str, Any], name: str, system: dict[str, Any], base: dict[str, Any]) -> str:
    speed = system["tokens_per_second"] / base["tokens_per_second"]
    counts = result["speeds_count"]
    cells = [
        result["domain"],
        f"{system['sentences']:,}",
        NAMES[name],
        f"{system['bleu']:.1f}",
        f"{system['chrf']:.1f}",
        f"{system['searches_per_sentence']:.1f}",
        f"{speed:.2f}" if counts else "",
        f"[{path.stem}](benchmarks/results/{path.name})",
    ]
    return "| " + " | ".join(cells) + " |"


def with_table(readme: str) -> str:
    """The README with the present table between its markers."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    path = ROOT / "README.md"
    if parser.parse_args().write:
        path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(table())


if __name__ == "__main__":
    main()
