"""nearmt add"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from nearmt.cli.changing import finishing, open_with_model, say
from nearmt.cli.console import progress_bar
from nearmt.cli.given import given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.cli.reading import count_pairs, reading_options, warn_about
from nearmt.contracts import Pair, Progress
from nearmt.corpus import CleaningConfig, LabelsConfig, LimitsConfig, PairStream, Request
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.pairs import blocks_of
from nearmt.models import ModelConfig

#: Adds a block of pairs, reports progress, and returns how many pairs were new or changed.
Add = Callable[[list[Pair], Progress], int]


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--log-only", is_flag=True, help="only log the pairs; they are encoded when a model is next loaded")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@reading_options
@config_options(ModelConfig)
def command(
    folder: Path,
    files: tuple[Path, ...],
    log_only: bool,
    limit: int | None,
    strict: bool,
    unconfirmed: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Add translation memories to a datastore.

    FILES are what `nearmt build` takes. A pair whose id is in the datastore replaces the old one; the id of a pair
    without one is made of its text. Adding a file again changes nothing. Reduction and index are kept.

    Pairs are written to disk in blocks of 2,048 and then encoded. After an interruption, run the same command again:
    pairs that are already there are skipped.

    \b
    nearmt add memory corpus.de corpus.en
    nearmt add memory test.tsv --drop-duplicates --json
    nearmt add memory test.tsv --log-only
    """
    settings = given_settings(options)
    manifest = Manifest.load(folder)
    cleaning = pick(CleaningConfig, settings)
    limits, labels = pick(LimitsConfig, settings), pick(LabelsConfig, settings)
    request = Request(manifest.source_lang, manifest.target_lang, unconfirmed, limits, labels)

    def stream() -> PairStream:
        return PairStream(list(files), request, cleaning, limit=limit, strict=strict)

    total = count_pairs(stream(), "add") if all(path.is_dir() or path.is_file() for path in files) else 0
    pairs = stream()
    wanted = with_ids(pairs)
    if log_only:
        with Ledger.changing(folder) as ledger:
            before = ledger.pairs
            log: Add = lambda block, progress: ledger.add(block, progress, skip_unchanged=True)  # noqa: E731
            added = _add_all(folder, wanted, log, total)
            after, pending = ledger.pairs, ledger.pending
    else:
        store, model = open_with_model(folder, manifest, settings)
        before = store.total_pairs
        learn: Add = lambda block, progress: store.add(block, model, progress, skip_unchanged=True)  # noqa: E731
        added = _add_all(folder, wanted, learn, total)
        after, pending = store.total_pairs, store.pending
    warn_about(pairs.report)
    replaced = max(0, added - (after - before))
    line = f"{folder}: {added:,} pairs added, {replaced:,} of them in place of old ones; {after:,} pairs"
    line += f", {pending:,} of them wait for a model" if pending else ""
    counts = {"datastore": str(folder), "added": added, "replaced": replaced, "pairs": after, "pending": pending}
    say(as_json, line, {**counts, "reading": pairs.report.summary()})


def _add_all(folder: Path, pairs: Iterator[Pair], add: Add, total: int) -> int:
    """Add block after block and return how many pairs were new or changed."""
    added = done = begun = 0
    with progress_bar("pairs", total) as bar, finishing() as interruption:

        def progress(count: int, of: int) -> None:
            if bar:
                bar(done + count, of)
            interruption.check()  # a block is in the log before progress is reported

        try:
            for block in blocks_of(pairs):
                interruption.check()
                begun += len(block)
                added += add(block, progress)
                done = begun
        except KeyboardInterrupt as error:
            told = f"interrupted: {begun:,} pairs are safe in {folder}; the same command adds the rest"
            error.args = (told,)
            raise
    return added
