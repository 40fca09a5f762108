"""nearmt evaluate"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import open_output, progress_bar
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import gather, run_options
from nearmt.cli.setup import make_translator
from nearmt.corpus import read_pairs
from nearmt.evaluation import Evaluation, evaluate


@click.command(cls=ManualCommand)
@click.option(
    "--test",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    help="pairs to translate and compare with; give it twice for two aligned files",
)
@click.option("--limit", type=click.IntRange(min=1), help="use only the first pairs")
@click.option("--output", type=click.Path(path_type=Path), help="write the translations here")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@run_options
def command(
    test: tuple[Path, ...],
    limit: int | None,
    output: Path | None,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Translate a test set and score it with BLEU and chrF (sacrebleu).

    The test set is a file of pairs in any format of `nearmt build`. Exact matches are not taken from the
    memory here: what is measured is the translation. Tokens a second are those of the best translations,
    end of sentence included, over the time of translating, loading excluded.

    \b
    nearmt evaluate --test test.tsv --datastore memory --method chunk --json
    """
    read_pairs(*test)  # a missing file or an unknown format is found before the model is loaded
    typed = frozenset(name.replace("_", "-") for name, value in options.items() if value is not None)
    translator = make_translator(gather(options, config_file), typed)
    source_lang, target_lang = translator.model.language_pair
    pairs = list(read_pairs(*test, source_lang=source_lang, target_lang=target_lang, limit=limit))
    with progress_bar("sentences") as progress:
        result, translations = evaluate(translator, pairs, progress)
    if output is not None:
        with open_output(output) as file:
            file.writelines(translation.text + "\n" for translation in translations)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(result)))
    else:
        print_evaluation(result)


def print_evaluation(result: Evaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in dataclasses.asdict(result).items():
        table.add_row(f"[bold]{name.replace('_', ' ')}", "none" if value is None else str(value))
    Console().print(table)
