"""Waiting for background jobs."""

from __future__ import annotations

import time
from typing import Any

from fastapi.testclient import TestClient

from nearmt.serve.jobs import Job
from nearmt.serve.keys import Principal
from nearmt.serve.service import Service

#: Seconds after which a job will not finish any more.
_PATIENCE = 60.0


def finished(service: Service, principal: Principal, job: Job) -> Job:
    """A job when it is finished."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        now = service.jobs.get(principal, job.id)
        if now.is_finished:
            return now
        time.sleep(0.02)
    raise AssertionError(f"still {service.jobs.get(principal, job.id).state}")


def ended(client: TestClient, job: dict[str, Any]) -> dict[str, Any]:
    """A job of the native API when it is finished."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        now: dict[str, Any] = client.get(f"/api/v1/jobs/{job['id']}").json()
        if now["state"] in ("done", "failed", "cancelled"):
            return now
        time.sleep(0.02)
    raise AssertionError("the job does not end")
