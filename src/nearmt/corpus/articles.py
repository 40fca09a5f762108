"""The English indefinite article, which depends on the word behind it."""

from __future__ import annotations

import re

_ARTICLE = re.compile(r"(?<!\w)(an?)( )$", re.IGNORECASE)


def with_article(before: str, following: str) -> str:
    """Text that ends in `a ` or `an `, as the word that follows needs it; `u` and `h` have several sounds."""
    found = _ARTICLE.search(before)
    if found is None or not following[:1].isalpha() or following[0].lower() in "uh":
        return before
    article = found[1][0] + ("n" if following[0].lower() in "aeio" else "")
    return before[: found.start()] + article + found[2]
