"""Progress bars, as the research code asks for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from nearmt.contracts import Progress

#: Opens a progress bar with a label and yields the function that moves it; None where no bar is shown.
ProgressBar = Callable[[str], AbstractContextManager[Progress | None]]


def no_progress_bar(label: str) -> AbstractContextManager[Progress | None]:
    """Show nothing."""
    return nullcontext()
