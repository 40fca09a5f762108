"""Whoever has the key."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from nearmt.serve.dialects.modernmt.envelope import enveloped, principal_of
from nearmt.serve.dialects.modernmt.ids import number_of

router = APIRouter()


@router.get("/users/me")
async def me(request: Request) -> dict[str, Any]:
    """Plug-ins try their key here. There is no bill."""
    principal = await principal_of(request)
    billing = {"begin": None, "end": None, "chars": 0, "plan": "nearmt", "planDescription": "nearmt"}
    prices = {"planForCatTool": True, "amount": 0, "currency": "EUR", "currencySymbol": "€"}
    return enveloped(
        {
            "id": number_of(principal.name),
            "name": principal.name,
            "email": "",
            "registrationDate": None,
            "country": None,
            "isBusiness": False,
            "status": "active",
            "billingPeriod": billing | prices,
        }
    )
