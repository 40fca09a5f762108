"""Files that are sent to clients."""

from __future__ import annotations

from urllib.parse import quote


def disposition(filename: str) -> str:
    """The header by which a browser saves an answer under a name."""
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in filename
    )
    encoded = quote(filename.encode("utf-8", "replace"), safe="")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"
