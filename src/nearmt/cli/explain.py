"""A translation with the origins of its tokens in colour, after the examples in the paper's appendix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.text import Text

from nearmt.cli.safe_console import SafeConsole
from nearmt.contracts import Translation
from nearmt.corpus import Match

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
_CHUNKS_SHOWN = 4
# Silenced neighbours: the most that are shown, and the least share of all neighbours that they had.
_SILENCED_SHOWN, _SILENCED_SHARE = 4, 0.2
_SPECIAL = ("</s>", "<pad>", "<unk>")


def print_explanation(out: TextIO, translation: Translation, matches: Sequence[Match] = ()) -> None:
    """Print the output with a colour for each search and tokens from the memory in bold, then the matches."""
    console = SafeConsole(file=out, width=110 if not out.isatty() else None)
    console.print(Text("source  ", style="dim"), Text(translation.source), sep="")
    if translation.provenance is None or not translation.text:
        console.print(Text("output  ", style="dim"), Text(translation.text), sep="")
        _print_matches(console, matches)
        return
    output = Text("output  ", style="dim")
    chunks: list[tuple[int, str, tuple[str, ...]]] = []
    for step, token in enumerate(translation.provenance, 1):
        colour = "default"
        if token.searched:
            colour = _COLOURS[len(chunks) % len(_COLOURS)]
            chunks.append((step, colour, token.chunks))
        if token.token not in _SPECIAL:
            bold = "bold " if token.origin != "model" else "not bold "
            mark = "reverse " if token.searched else "not reverse "
            # No blank before the first word.
            text = token.token.lstrip() if step == 1 else token.token
            output.append(text, style=f"not dim {bold}{mark}{colour}")
    console.print(output)
    for step, colour, texts in chunks:
        shown = " | ".join(texts[:_CHUNKS_SHOWN])
        console.print(Text(f"  step {step:<3}", style=f"reverse {colour}"), Text(f" {shown}", style=colour), sep="")
    _print_silenced(console, translation)
    if translation.unsure:
        console.print(Text("  unsure  ", style="yellow"), Text(", ".join(translation.unsure)), sep="")
    console.print(_legend(translation))
    _print_matches(console, matches)
    console.print()


def _print_silenced(console: SafeConsole, translation: Translation) -> None:
    """Print what the memory would have said most, had its sources had the sentence's words."""
    lost: dict[tuple[int, str, str], float] = {}
    for step, token in enumerate(translation.provenance or (), 1):
        for silenced in token.silenced:
            lost[step, silenced.token.strip(), silenced.pair_id] = silenced.share
    shown = sorted(lost, key=lost.__getitem__, reverse=True)[:_SILENCED_SHOWN]
    for step, word, pair_id in sorted(key for key in shown if lost[key] >= _SILENCED_SHARE):
        told = f'  step {step:<3} not "{word}": the source of {pair_id} has another word there'
        console.print(Text(told, style="dim"))


def _print_matches(console: SafeConsole, matches: Sequence[Match]) -> None:
    for match in matches:
        percent = Text(f"  {match.percent:>4}  ", style="bold")
        console.print(percent, Text(match.source), Text("  ->  ", style="dim"), Text(match.target), sep="")


def _legend(translation: Translation) -> Text:
    tokens = translation.provenance or ()
    searched = sum(token.origin == "search" for token in tokens)
    cached = sum(token.origin == "cache" for token in tokens)
    witnesses = {witness.pair_id for token in tokens for witness in token.witnesses}
    return Text(
        f"  {len(tokens)} tokens: {searched} backed by a search, {cached} by the cache, "
        f"{len(tokens) - searched - cached} by the model alone; {len(witnesses)} stored pairs contributed",
        style="dim",
    )
