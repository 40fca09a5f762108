"""Tables and colours on a terminal: the only module that makes rich consoles."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from nearmt.cli.terminal import TerminalText, neutral


class SafeConsole(Console):
    """A rich console without markup and emoji codes that shows control characters as escapes."""

    def __init__(self, file: TextIO | TerminalText | None = None, **settings: Any) -> None:
        # Colours go to the terminal itself; `render` neutralises the text.
        raw = file.terminal if isinstance(file, TerminalText) else file
        super().__init__(file=raw, markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:  # type: ignore[override]  # it hands on what rich passes
        """Neutralise cells and lines before their widths are measured."""
        return super().render_str(neutral(text, keep="\n\t"), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Neutralise everything else: styled text before line breaking, other renderables after it."""
        if isinstance(renderable, Text):
            renderable = _neutral_text(renderable)
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(neutral(text, keep="\n\t"), style)


def _neutral_text(text: Text) -> Text:
    """The neutralised text, with its styles moved to the new positions of their characters."""
    if text.plain.isprintable():
        return text
    escaped = [neutral(character, keep="\n\t") for character in text.plain]
    start = [0, *accumulate(map(len, escaped))]
    found = text.blank_copy("".join(escaped))
    found.spans = [Span(start[span.start], start[min(span.end, len(escaped))], span.style) for span in text.spans]
    return found
