"""What endpoints need of a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from nearmt.serve.access import admitted, bearer
from nearmt.serve.keys import Principal
from nearmt.serve.service import Service


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _service_of(request: Request) -> Service:
    """Asynchronous, because FastAPI runs other functions in a thread."""
    return service_of(request)


async def principal_of(request: Request) -> Principal:
    """The principal of the key in `Authorization: Bearer KEY`."""
    return await admitted(request, bearer(request))


TheService = Annotated[Service, Depends(_service_of)]
ThePrincipal = Annotated[Principal, Depends(principal_of)]
