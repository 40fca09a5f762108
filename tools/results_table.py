"""The tables and plots of results in README.md and docs (experiments, speed, concepts), from benchmarks/results.

python tools/results_table.py             prints the tables
python tools/results_table.py --write     puts them between their markers, and draws docs/plots
python tools/results_table.py --take OUT  does so after taking over the reports in OUT, where an experiment left them

A file is the report of an experiment (`nearmt experiment NAME` writes OUT/NAME.json); its name may say more than the
experiment's. Between `<!-- results NAME: begin -->` and `end` stand the tables of all reports of that experiment.
Between `<!-- results bench-NAME: begin -->` and `end` stand those of a benchmark: speed (`nearmt bench`), building,
growth, precision or same-answer (scripts in benchmarks).
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
#: Page -> whether it shows the short form: BLEU only.
PAGES = {ROOT / "README.md": True} | {
    ROOT / "docs" / f"{name}.md": False for name in ("experiments", "speed", "concepts")
}
_MARKED = re.compile(r"(<!-- results(?: ([a-z-]+))?: begin -->\n).*?(<!-- results(?: [a-z-]+)?: end -->)", re.DOTALL)


def reports(
    experiment: str | None = None, folder: Path = RESULTS, kind: str = "experiment"
) -> list[tuple[Path, dict[str, Any]]]:
    """The reports of an experiment (or benchmark), or of all, by file name. Other results are none."""
    found = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"), key=_stem)]
    wanted = [(path, report) for path, report in found if kind in report]
    return [(path, report) for path, report in wanted if experiment in (None, report[kind])]


def _stem(path: Path) -> str:
    return path.stem


def tables(experiment: str, short: bool, folder: Path = RESULTS) -> str:
    """All tables of an experiment, or of a benchmark, as Markdown."""
    parts = []
    if experiment.startswith("bench-"):
        for path, report in reports(experiment.removeprefix("bench-"), folder, "benchmark"):
            # In short: the report of that name alone, and that only at the usual sizes.
            if short and path.stem != experiment:
                continue
            parts.append(f"{bench_tables(report, short)}\n\n{_file(path, short)}")
    for path, report in reports(experiment, folder):
        parts.append(_caption(path, report, short))
        for metric in report["metrics"]:
            table = metric_table(report, metric) if metric == "bleu" or not short else None
            if table:
                parts += [table] if short else [f"{METRICS[metric][0]}:", table]
            if table and metric == "bleu" and not short:
                parts += [found] if (found := difference_table(report)) else []
        if not short and drawable(report):
            parts.append(f"![{report['title']}](plots/{path.stem}.svg)")
    return "\n\n".join(parts) or "*(not measured yet)*"


def _caption(path: Path, report: dict[str, Any], short: bool) -> str:
    machines = dict.fromkeys(f"{run['machine']['device']}, {run['machine']['precision']}" for run in report["runs"])
    commits = ", ".join(dict.fromkeys(run["commit"] for run in report["runs"]))
    return f"{report['title']}: {'; '.join(machines)}; {report['date'][:10]}, commit {commits}; {_file(path, short)}"


def _file(path: Path, short: bool) -> str:
    return f"[{path.name}](benchmarks/results/{path.name})" if short else f"`benchmarks/results/{path.name}`"


def with_tables(text: str, short: bool) -> str:
    """A page with the present tables between its markers; a marker without a name is that of `main`."""

    def filled(found: re.Match[str]) -> str:
        return f"{found[1]}{tables(found[2] or 'main', short)}\n{found[3]}"

    return _MARKED.sub(filled, text)


def draw(folder: Path = RESULTS, out: Path = PLOTS) -> list[Path]:
    """A plot of every report that has something to draw; their paths."""
    out.mkdir(exist_ok=True)
    drawn = []
    for path, report in reports(folder=folder):
        picture = out / f"{path.stem}.svg"
        if plot(report, picture):
            drawn.append(picture)
    return drawn


def take(out: Path, folder: Path = RESULTS) -> list[Path]:
    """Copy the reports of an experiment's OUT. Streams have an OUT for each domain: theirs are named after it."""
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
