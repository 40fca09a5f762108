"""Does a server that is left running keep its memory, threads and files?

    python benchmarks/soak.py --out benchmarks/results/bench-soak.json                    # 30 minutes
    python benchmarks/soak.py --seconds 60 --translations 300 --others 3000 --out soak.json

Starts `nearmt serve` with empty memories. Clients send short translations at beam 1 and ten times as many other
requests, evenly over the time: they list, search, learn and delete pairs, compact memories, send wrong requests and
disconnect while a translation runs. RSS, threads and file descriptors of the server are sampled. The report compares
the end with the time after the warm-up.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from soak_clients import MEMORIES, Client, Plan, Tally

from nearmt.datastore.disk.files import write_json
from nearmt.models import ModelConfig
from nearmt.research.bench.tables import markdown
from nearmt.research.machine import describe_commit, describe_machine


class Watch:
    """Samples the process of the server."""

    def __init__(self, pid: int, every: float) -> None:
        self._process = Path(f"/proc/{pid}")
        self._every, self._stopped = every, threading.Event()
        self.samples: list[dict[str, float]] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        start = time.monotonic()
        while True:
            status = dict(line.split(":", 1) for line in (self._process / "status").read_text().splitlines())
            self.samples.append(
                {
                    "seconds": round(time.monotonic() - start, 1),
                    "rss_megabytes": _megabytes(status["VmRSS"]),
                    "of_files_megabytes": _megabytes(status["RssFile"]),
                    "threads": int(status["Threads"]),
                    "files": len(list((self._process / "fd").iterdir())),
                }
            )
            if self._stopped.wait(self._every):
                return


def _megabytes(told: str) -> float:
    return round(int(told.split(maxsplit=1)[0]) / 1000, 1)


#: What must not grow, and how many of its samples stand for a time: their median, or their maximum.
WATCHED = {"rss_megabytes": "RSS, MB", "threads": "threads", "files": "file descriptors"}
#: The part of RSS that is mapped from files, which the system takes back and reads again as it likes.
MAPPED = "of_files_megabytes"
#: Seconds between the samples that a report keeps.
KEPT_EVERY = 30.0


def growth(samples: list[dict[str, float]], warm_up: float) -> list[dict[str, Any]]:
    """Of RSS the medians over a tenth of the time, after the warm-up and at the end; of threads and files the most, in
    the first half after the warm-up and in the last tenth."""
    after = [sample for sample in samples if sample["seconds"] >= warm_up]
    size = max(1, len(after) // 10)
    found = []
    for key, name in WATCHED.items():
        early, of = (size, statistics.median) if key == "rss_megabytes" else (max(1, len(after) // 2), max)
        first, last = (of([sample[key] for sample in part]) for part in (after[:early], after[-size:]))
        found.append({"name": name, "first": round(first, 1), "last": round(last, 1)})
    return found


def kept(samples: list[dict[str, float]]) -> dict[str, list[float]]:
    """Some of the samples, by column."""
    thinned = samples[:1]
    for sample in samples:
        if sample["seconds"] >= thinned[-1]["seconds"] + KEPT_EVERY:
            thinned.append(sample)
    return {key: [sample[key] for sample in thinned] for key in ("seconds", *WATCHED, MAPPED)}


@contextlib.contextmanager
def serving(arguments: list[str], folder: Path) -> Iterator[tuple[int, int]]:
    """A server with its port and process id; it has to end well."""
    with (folder / "out").open("w+") as out, (folder / "log").open("w") as log:
        command = [sys.executable, "-m", "nearmt", "serve", "--port", "0", "--memories", str(folder / "memories")]
        process = subprocess.Popen([*command, *arguments], stdout=out, stderr=log, env=os.environ)
        try:
            while " at http" not in (folder / "out").read_text():
                if process.poll() is not None:
                    raise SystemExit(f"the server ended with {process.returncode}: {(folder / 'log').read_text()}")
                time.sleep(0.1)
            yield int((folder / "out").read_text().split("127.0.0.1:")[1].split()[0]), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(120)
    if code:
        raise SystemExit(f"the server ended with {code}")


def prepare(port: int, source: str, target: str) -> None:
    """Make the memories, each with a pair whose translation needs no model."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Content-Type": "application/json"}
    for number in range(MEMORIES):
        name = f"soak{number}"
        pair = {"pairs": [{"source": "Pumpe", "target": "pump"}]}
        body = {"name": name, "source_lang": source, "target_lang": target}
        for path, content in (("/api/v1/memories", body), (f"/api/v1/memories/{name}/pairs", pair)):
            connection.request("POST", path, json.dumps(content), headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 201:
                raise SystemExit(f"{path}: {answer.status} {text.decode()}")
    connection.close()


def soak(plan: Plan, serve: list[str], every: float, warm_up: float, languages: tuple[str, str]) -> dict[str, Any]:
    """Run everything and report."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, serving(serve, Path(folder)) as (port, pid):
        prepare(port, *languages)
        clients = [Client(port, number, tally) for number in range(plan.clients)]
        start = time.monotonic()
        with Watch(pid, every) as watch:
            _together([lambda client=client: client.run(plan) for client in clients])  # type: ignore[misc]
        seconds = time.monotonic() - start
    return {
        "plan": vars(plan),
        "seconds": round(seconds, 1),
        "answers": dict(sorted(tally.answers.items())),
        "unexpected": dict(tally.unexpected),
        "requests": {name: [len(times), _quantiles(times)] for name, times in sorted(tally.seconds.items())},
        "warm_up": warm_up,
        "cells": growth(watch.samples, warm_up),
        "samples": kept(watch.samples),
    }


def _together(tasks: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {name: round(1000 * ordered[int(part * (len(ordered) - 1))], 1) for name, part in at.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--translations", type=int, default=20_000)
    parser.add_argument("--others", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    parser.add_argument("--warm-up", type=float, help="seconds at the start that do not count [default: a sixth]")
    parser.add_argument("--languages", default="de,en", help="those of the model")
    parser.add_argument("--serve", default="", help="further arguments of nearmt serve")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    plan = Plan(arguments.seconds, arguments.translations, arguments.others, arguments.clients)
    warm_up = plan.seconds / 6 if arguments.warm_up is None else arguments.warm_up
    source, target = arguments.languages.split(",")
    about = {
        "benchmark": "soak",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": describe_commit(),
        "machine": describe_machine(ModelConfig()),
    }
    found = soak(plan, arguments.serve.split(), arguments.every, warm_up, (source, target))
    report = {**about, "data": f"made-up sentences, {found['seconds'] / 60:.0f} minutes", **found}
    write_json(arguments.out, report)
    print(markdown(report))
    print(f"unexpected answers: {report['unexpected'] or 'none'}")


if __name__ == "__main__":
    main()
