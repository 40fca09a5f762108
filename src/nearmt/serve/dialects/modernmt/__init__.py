"""ModernMT, under /mmt: https://www.modernmt.com/api.

`hints` choose the memories. Content and files that are sent to a memory are learnt. The official clients send every
request as a POST with the method in a header, others use real methods: both are answered.
"""

from __future__ import annotations

from fastapi import APIRouter

from nearmt.serve.dialects.modernmt import account, content, memories, translation
from nearmt.serve.dialects.modernmt.envelope import shape
from nearmt.serve.dialects.modernmt.override import MethodOverride

__all__ = ["MethodOverride", "router", "shape"]

router = APIRouter(prefix="/mmt")
for _part in (account, content, memories, translation):
    router.include_router(_part.router)
