"""nearmt translate"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import click

from nearmt.cli.console import open_output, progress_bar, warn
from nearmt.cli.explain import print_explanation
from nearmt.cli.options import gather, run_options
from nearmt.cli.setup import make_translator
from nearmt.contracts import Translation
from nearmt.corpus import numbered_lines
from nearmt.errors import InputError
from nearmt.translator import Translator

# Lines read before they are translated: enough to find sentences of similar length among them.
_WINDOW_BATCHES = 64


@click.command()
@click.argument("file", default="-", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="write here instead of standard output")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a line, with score and counts")
@click.option("--explain", is_flag=True, help="show where the words come from")
@run_options
def command(
    file: Path, output: Path | None, as_json: bool, explain: bool, config_file: Path | None, **options: Any
) -> None:
    """Translate lines of text.

    FILE has one unit a line; without it, or with -, standard input is read. Line n of the output
    belongs to line n of the input; an empty line stays empty.

    \b
    nearmt translate text.txt --datastore memory --output text.en.txt
    echo "Guten Morgen!" | nearmt translate
    nearmt translate text.txt --datastore memory --method knn --k 16 --lambda 0.7
    """
    if str(file) != "-" and not file.is_file():
        raise InputError(f"{file}: no such file")
    typed = frozenset(name.replace("_", "-") for name, value in options.items() if value is not None)
    translator = make_translator(gather(options, config_file), typed)
    with open_output(output) as out:
        for numbers, translations in _translate(translator, file, explain):
            for number, translation in zip(numbers, translations, strict=True):
                _write(out, translation, as_json, explain)
                _warn(number, translation, translator)
            out.flush()


def _translate(translator: Translator, file: Path, explain: bool) -> Iterator[tuple[list[int], list[Translation]]]:
    """Window after window of (line numbers, translations)."""
    lines = numbered_lines(file)
    window = translator.batch_size * _WINDOW_BATCHES
    while block := list(islice(lines, window)):
        # The bar is gone before results are printed, which may be on the same terminal.
        with progress_bar("sentences") as progress:
            found = translator.translate([text for _, text in block], explain=explain, progress=progress)
        yield [number for number, _ in block], found


def _write(out: TextIO, translation: Translation, as_json: bool, explain: bool) -> None:
    if as_json:
        fields = dataclasses.asdict(translation)
        if not explain:
            del fields["provenance"]
        out.write(json.dumps(fields, ensure_ascii=False) + "\n")
    elif explain:
        print_explanation(out, translation)
    else:
        out.write(translation.text + "\n")


def _warn(number: int, translation: Translation, translator: Translator) -> None:
    if translation.pieces > 1:
        positions = translator.model.seq2seq.positions
        warn(f"line {number}: longer than the model's {positions} tokens; translated in {translation.pieces} pieces")
    if translation.truncated:
        warn(f"line {number}: the translation reached its length bound and was cut there (see --max-new-tokens)")
