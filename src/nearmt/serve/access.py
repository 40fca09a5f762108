"""Who sends a request: each dialect finds the key by its own means and asks here for its principal."""

from __future__ import annotations

import asyncio

from fastapi import Request

from nearmt.serve.keys import Keyring, Principal
from nearmt.serve.limits import Limits


async def admitted(request: Request, key: str | None) -> Principal:
    """The principal of a key, or of no key; counts the request, which may have to wait a little.

    Raises `Unauthorized` and `TooMany`.
    """
    state = request.app.state
    keyring: Keyring = state.keyring
    limits: Limits = state.service.limits
    principal = keyring.principal(key)
    request.state.principal = principal
    if wait := limits.request(principal):
        await asyncio.sleep(wait)
    return principal


def bearer(request: Request) -> str | None:
    """The key in `Authorization: Bearer KEY`."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if kind.lower() == "bearer" else None


def key_in_headers(headers: dict[str, str]) -> str | None:
    """The key in any header that a dialect uses: known before the body is read."""
    if key := headers.get("mmt-apikey") or headers.get("x-api-key"):
        return key
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() or None if kind.lower() in ("bearer", "deepl-auth-key") else None
