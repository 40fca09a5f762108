"""Write the tables and plots of README.md and docs from benchmarks/results.

python tools/results_table.py             prints the tables
python tools/results_table.py --write     writes them between their markers, and draws docs/plots
python tools/results_table.py --take OUT  copies the reports of experiments from OUT first

A file in benchmarks/results is the report of an experiment (`nearmt experiment NAME` writes OUT/NAME.json) or of a
benchmark: speed (`nearmt bench`), building, growth, precision, same-answer and others (scripts in benchmarks). Between
`<!-- results NAME: begin -->` and `end` are the tables of all reports of an experiment, between
`<!-- results bench-NAME: begin -->` and `end` those of a benchmark. With a file after the name, as in
`<!-- results bench-speed bench-speed-gpu: begin -->`, they are the tables of that report alone.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from nearmt.research.bench.tables import markdown as bench_tables
from nearmt.research.experiments.on_the_fly_plots import has_streams
from nearmt.research.experiments.plots import drawable, plot
from nearmt.research.experiments.tables import METRICS, difference_table, metric_table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PLOTS = ROOT / "docs" / "plots"
#: Whether a page shows the short form: BLEU only.
PAGES = {ROOT / "README.md": True} | {
    ROOT / "docs" / f"{name}.md": False
    for name in ("experiments", "speed", "concepts", "faithfulness", "documents", "scale", "server/operating")
}
_MARKED = re.compile(
    r"(<!-- results(?: ([a-z-]+)(?: ([\w-]+))?)?: begin -->\n).*?(<!-- results(?: [\w -]+)?: end -->)", re.DOTALL
)
#: Metrics of old reports that the pages leave out.
_HIDDEN = ("ter",)


def reports(
    experiment: str | None = None, folder: Path = RESULTS, kind: str = "experiment"
) -> list[tuple[Path, dict[str, Any]]]:
    """Read the reports of an experiment (or benchmark), or of all, sorted by file name; other files are skipped."""
    found = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"), key=_stem)]
    wanted = [(path, report) for path, report in found if kind in report]
    return [(path, report) for path, report in wanted if experiment in (None, report[kind])]


def _stem(path: Path) -> str:
    return path.stem


def tables(experiment: str, short: bool, folder: Path = RESULTS, file: str | None = None) -> str:
    """Render all tables of an experiment or a benchmark as Markdown, or those of one report (`file`)."""
    parts = []
    if experiment.startswith("bench-"):
        # The short form has only the report of that name, at typical sizes.
        wanted = file or (experiment if short else None)
        for path, report in reports(experiment.removeprefix("bench-"), folder, "benchmark"):
            if wanted in (None, path.stem):
                parts.append(f"{bench_tables(report, short)}\n\n{_file(path, short)}")
    for path, report in reports(experiment, folder):
        if file in (None, path.stem):
            parts += _experiment_tables(path, report, short)
    return "\n\n".join(parts) or "*(not measured yet)*"


def _experiment_tables(path: Path, report: dict[str, Any], short: bool) -> list[str]:
    parts = [_caption(path, report, short)]
    for metric in report["metrics"]:
        if metric in _HIDDEN or (short and metric != "bleu"):
            continue
        if table := metric_table(report, metric):
            parts += [table] if short else [f"{METRICS[metric][0]}:", table]
            if metric == "bleu" and not short and (differences := difference_table(report)):
                parts.append(differences)
    if not short and drawable(report):
        parts.append(f"![{report['title']}](plots/{path.stem}.svg)")
    return parts


def _caption(path: Path, report: dict[str, Any], short: bool) -> str:
    machines = dict.fromkeys(f"{run['machine']['device']}, {run['machine']['precision']}" for run in report["runs"])
    commits = ", ".join(dict.fromkeys(run["commit"] for run in report["runs"]))
    return f"{report['title']}: {'; '.join(machines)}; {report['date'][:10]}, commit {commits}; {_file(path, short)}"


def _file(path: Path, short: bool) -> str:
    return f"[{path.name}](benchmarks/results/{path.name})" if short else f"`benchmarks/results/{path.name}`"


def with_tables(text: str, short: bool) -> str:
    """Replace the tables between the markers of a page; a marker without a name is that of `main`."""

    def filled(found: re.Match[str]) -> str:
        return f"{found[1]}{tables(found[2] or 'main', short, file=found[3])}\n{found[4]}"

    return _MARKED.sub(filled, text)


def draw(folder: Path = RESULTS, out: Path = PLOTS) -> list[Path]:
    """Draw a plot of every report that can be drawn; return their paths."""
    out.mkdir(exist_ok=True)
    drawn = []
    for path, report in reports(folder=folder):
        picture = out / f"{path.stem}.svg"
        if plot(report, picture):
            drawn.append(picture)
    return drawn


def take(out: Path, folder: Path = RESULTS) -> list[Path]:
    """Copy the reports of an experiment's OUT. Streams have an OUT for each domain, which is added to the name."""
    taken = []
    for path, report in reports(folder=out):
        domain = f"-{'-'.join(report['domains'])}" if has_streams(report) else ""
        taken.append(folder / f"{report['experiment']}{domain}.json")
        shutil.copyfile(path, taken[-1])
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--take", type=Path, nargs="+", default=[], metavar="OUT")
    asked = parser.parse_args()
    for out in asked.take:
        if not take(out):
            parser.error(f"{out}: has no report; write it with `nearmt experiment NAME --report`")
    write = asked.write or bool(asked.take)
    if write:
        draw()
    for path, short in PAGES.items():
        page = with_tables(path.read_text(encoding="utf-8"), short)
        if write:
            path.write_text(page, encoding="utf-8")
        else:
            print("\n\n".join(found[0] for found in _MARKED.finditer(page)))


if __name__ == "__main__":
    main()
