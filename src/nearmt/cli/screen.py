"""Tables and colours for people: the only place that makes consoles of rich."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from nearmt.cli.terminal import TerminalText, neutral


class Screen(Console):
    """A console that shows text as it is: no markup, no emoji codes, and control characters as escapes."""

    def __init__(self, file: TextIO | TerminalText | None = None, **settings: Any) -> None:
        # Colours are written past the protection, text is not.
        raw = file.terminal if isinstance(file, TerminalText) else file
        super().__init__(file=raw, markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:  # type: ignore[override]  # it hands on what rich passes
        """Cells and lines: here their widths are not known yet."""
        return super().render_str(neutral(text, keep="\n\t"), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything else: text with styles before it is broken into lines, and what renders itself after that."""
        if isinstance(renderable, Text):
            renderable = _neutral_text(renderable)
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(neutral(text, keep="\n\t"), style)


def _neutral_text(text: Text) -> Text:
    """The same, with its styles at the places to which their characters moved."""
    if text.plain.isprintable():
        return text
    pieces = [neutral(character, keep="\n\t") for character in text.plain]
    start = [0, *accumulate(map(len, pieces))]
    found = text.blank_copy("".join(pieces))
    found.spans = [Span(start[span.start], start[min(span.end, len(pieces))], span.style) for span in text.spans]
    return found
