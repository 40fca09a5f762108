"""nearmt demo"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import echo, progress_bar
from nearmt.cli.explain import print_explanation
from nearmt.cli.given import given_settings, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.contracts import Pair, Translation
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.demo import HELD_OUT, MEMORY
from nearmt.models import ModelConfig, load_model
from nearmt.research.evaluation import Evaluation, evaluate
from nearmt.translator import Translator

_SHOWN = 6


@click.command(cls=ManualCommand)
@click.option("--json", "as_json", is_flag=True, help="print the scores as JSON")
@config_options(ModelConfig)
def command(as_json: bool, **options: Any) -> None:
    """See a frozen model adapt to a manual.

    Builds a datastore from the manual of an invented folding machine, written for this demo, and
    translates sentences that are not in it: first with the model alone, then with the memory.
    """
    settings = given_settings(options)
    base = Translator(load_model(pick(ModelConfig, settings)))
    memory, test = list(read_pairs(MEMORY)), list(read_pairs(HELD_OUT))
    with tempfile.TemporaryDirectory(prefix="nearmt-demo-") as folder:
        with progress_bar("reading the memory") as progress:
            store = Datastore.build(Path(folder) / "memory", memory, base.model, progress=progress)
        adapted = base.with_datastore(store)
        with progress_bar("model alone") as progress:
            before, plain = evaluate(base, test, progress)
        with progress_bar("with memory") as progress:
            after, chunk = evaluate(adapted, test, progress)
        if as_json:
            scores = {"pairs": len(memory), "entries": len(store), "sentences": len(test)}
            echo(json.dumps({**scores, "base_bleu": before.bleu, "adapted_bleu": after.bleu}))
            return
        _show(len(memory), len(store), test, plain, chunk, before, after)
        print_explanation(sys.stdout, adapted.translate(test[_most_changed(plain, chunk)[0]].source, explain=True))


def _most_changed(plain: list[Translation], chunk: list[Translation]) -> list[int]:
    """Sentences whose translations differ, by the gain in score from plain to adapted."""
    changed = [n for n in range(len(plain)) if plain[n].text != chunk[n].text]
    return sorted(changed, key=lambda n: plain[n].score - chunk[n].score) or [0]


def _show(
    pairs: int,
    entries: int,
    test: list[Pair],
    plain: list[Translation],
    chunk: list[Translation],
    before: Evaluation,
    after: Evaluation,
) -> None:
    from rich.table import Table

    from nearmt.cli.safe_console import SafeConsole

    console = SafeConsole()
    console.print(
        f"\nA memory of {pairs} sentence pairs ({entries:,} decoder states). The model's weights do not change.\n"
    )
    table = Table(title=f"{_SHOWN} of {len(test)} sentences that are not in the memory", show_lines=True)
    for heading, style in (("German", "dim"), ("model alone", ""), ("with memory", "bold"), ("human", "green")):
        table.add_column(heading, style=style, ratio=1)
    for number in _most_changed(plain, chunk)[:_SHOWN]:
        table.add_row(test[number].source, plain[number].text, chunk[number].text, test[number].target)
    console.print(table)
    scores = Table(title=f"all {len(test)} sentences")
    for heading in ("", "BLEU", "chrF", "tokens/s", "searches a sentence"):
        scores.add_column(heading, justify="right" if heading else "left")
    for name, result in (("model alone", before), ("with memory", after)):
        scores.add_row(
            name,
            f"{result.bleu:.1f}",
            f"{result.chrf:.1f}",
            f"{result.tokens_per_second:.0f}",
            f"{result.searches_per_sentence:.1f}",
        )
    console.print(scores)
    console.print("\nWhere the words come from (reversed: a search; bold: from the memory):\n")
