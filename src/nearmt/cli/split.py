"""nearmt split"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from nearmt.cli.changing import say
from nearmt.cli.checking import check_folder, check_output
from nearmt.cli.console import counted, open_output, progress_bar, warn
from nearmt.cli.given import given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.reading import check_not_empty, reading_options, warn_about
from nearmt.contracts import Pair
from nearmt.corpus import CleaningConfig, LimitsConfig, PairStream, Request
from nearmt.corpus.locating import locate
from nearmt.corpus.splitting import HeldOut
from nearmt.corpus.unpacking import inner_suffix
from nearmt.corpus.writers import WRITERS
from nearmt.errors import ConfigError, InputError, OutputError, writing

#: Formats that name the languages of their texts.
_WITH_LANGUAGES = ("tmx", "po")
_PATH = click.Path(path_type=Path)


@click.command(cls=ManualCommand)
@click.argument("files", nargs=-1, required=True, type=_PATH)
@click.option("--hold-out", required=True, type=click.IntRange(min=1), help="pairs of the test set")
@click.option("--dev", type=click.IntRange(min=1), help="pairs of a dev set, for tuning")
@click.option("--out", type=_PATH, help="folder for train.tsv, test.tsv and dev.tsv")
@click.option("--out-train", type=_PATH, help="file for the pairs to build from, instead of --out")
@click.option("--out-test", type=_PATH, help="file for the test set")
@click.option("--out-dev", type=_PATH, help="file for the dev set")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="another one holds out others")
@click.option("--source-lang", help="source language [default: the one the file names first]")
@click.option("--target-lang", help="target language [default: the one the file names next]")
@click.option("--overwrite", is_flag=True, help="replace files that are already there")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@reading_options
def command(
    files: tuple[Path, ...],
    hold_out: int,
    dev: int | None,
    out: Path | None,
    out_train: Path | None,
    out_test: Path | None,
    out_dev: Path | None,
    seed: int,
    source_lang: str | None,
    target_lang: str | None,
    overwrite: bool,
    as_json: bool,
    limit: int | None,
    strict: bool,
    unconfirmed: bool,
    **options: Any,
) -> None:
    """Hold out a test set from a memory.

    FILES are memories in any format of `nearmt build`. They are split into pairs to build from and pairs to
    measure with, drawn from all of them. Pairs that share their source or their target with one of the test or the
    dev set are left out of the rest, so that nothing is measured on what is stored; letter case and white space do
    not count. Duplicates are left out (--no-drop-duplicates keeps them in the rest). The same memory and --seed
    give the same sets.

    Files are written in the format of their suffix: TSV, JSONL, TMX or PO. Needs no model.

    \b
    nearmt split memory.tmx --hold-out 5 --out parts
    nearmt split memory.tmx --hold-out 4 --dev 4 --out parts --overwrite --json
    nearmt split memory.tmx --hold-out 5 --out-train rest.jsonl --out-test held-out.tsv --seed 1
    """
    settings = {"drop-duplicates": True, **given_settings(options)}
    request = Request(source_lang, target_lang, unconfirmed, pick(LimitsConfig, settings))
    outputs = _outputs(out, {"train": out_train, "test": out_test, "dev": out_dev}, dev is not None)
    _check(outputs, out, files, request, overwrite)

    def read() -> PairStream:
        return PairStream(list(files), request, pick(CleaningConfig, settings), limit=limit, strict=strict)

    held_out = _held_out(read, [hold_out, *([dev] if dev else [])], seed)
    pairs = read()
    counts = _write(outputs, out, held_out, pairs, request)
    fields = {**counts, "removed": held_out.removed, "duplicates": pairs.report.dropped["drop-duplicates"]}
    written = {"files": {name: str(path) for name, path in outputs.items()}, "seed": seed}
    if not as_json:
        warn_about(pairs.report)
    told = ", ".join(f"{outputs[name]}: {count:,} pairs" for name, count in counts.items())
    removed = f"left out of the first: {held_out.removed:,} that share a source or a target with the others"
    say(as_json, f"{told}; {removed}", {**fields, **written, "reading": pairs.report.summary()})


def _outputs(folder: Path | None, files: Mapping[str, Path | None], with_dev: bool) -> dict[str, Path]:
    """The file of each set."""
    wanted = ["train", "test", *(["dev"] if with_dev else [])]
    given = {name: path for name, path in files.items() if path is not None}
    if folder is not None:
        if given:
            raise ConfigError(f"--out and --out-{min(given)} exclude each other: give a folder, or each file")
        return {name: folder / f"{name}.tsv" for name in wanted}
    for name in wanted:
        if name not in given:
            raise ConfigError(f"give --out FOLDER, or files for all sets: --out-{name} is missing")
    if not with_dev and "dev" in given:
        raise ConfigError("--out-dev needs --dev N, the pairs of the dev set")
    return {name: given[name] for name in wanted}


def _check(
    outputs: Mapping[str, Path], folder: Path | None, files: Sequence[Path], request: Request, overwrite: bool
) -> None:
    """Refuse outputs that cannot be written, that are inputs, or that exist."""
    sources = [path for source in locate(files, request) for path in (source.path, source.aligned) if path is not None]
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder}: is not a folder")
        check_folder(folder)
    for name, path in outputs.items():
        if path.parent.is_dir() or folder is None:
            check_output(path, sources, "--out" if folder is not None else f"--out-{name}")
        if path.exists() and not overwrite:
            raise OutputError(f"{path}: is already there; give --overwrite to replace it, or another name")
        _format_of(path, request)
    if len({path.resolve() for path in outputs.values()}) < len(outputs):
        raise ConfigError("two sets would be written to one file; name a file for each")


def _format_of(path: Path, request: Request) -> str:
    name = inner_suffix(path).removeprefix(".")
    if name not in WRITERS:
        raise ConfigError(
            f"{path}: unknown format; name a file that ends in {', '.join(f'.{each}' for each in WRITERS)}"
        )
    if name in _WITH_LANGUAGES and not (request.source_lang and request.target_lang):
        raise ConfigError(f"{path}: {name} names its languages; give --source-lang and --target-lang")
    return name


def _held_out(read: Callable[[], PairStream], sizes: Sequence[int], seed: int) -> HeldOut:
    """Choose the pairs; a memory without pairs is refused with the reason."""

    def pairs() -> Iterator[Pair]:
        stream = read()
        with progress_bar("reading") as progress:
            yield from counted(stream, progress)
        check_not_empty(stream.report, "split")

    return HeldOut(pairs, sizes, seed)


def _write(
    outputs: Mapping[str, Path], folder: Path | None, held_out: HeldOut, pairs: PairStream, request: Request
) -> dict[str, int]:
    """Write all sets, none of which gets its name before all are complete; returns their numbers of pairs."""
    if folder is not None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    languages = request.source_lang or "", request.target_lang or ""
    with ExitStack() as opened, progress_bar("writing") as progress:
        for path, found in zip(
            outputs.values(), [held_out.rest(counted(pairs, progress)), *held_out.sets], strict=True
        ):
            out = opened.enter_context(open_output(path))
            altered = WRITERS[_format_of(path, request)](found, out, *languages)
            if altered:
                warn(f"{altered:,} pairs have characters that {path} cannot hold: they were left out or replaced")
        if not held_out.kept:
            raise InputError(
                "nothing remains to build from: all other pairs share a source or a target; hold out fewer"
            )
    return dict(zip(outputs, [held_out.kept, *map(len, held_out.sets)], strict=True))
