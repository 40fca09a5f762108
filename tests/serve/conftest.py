"""A service with a tiny model and its memories, and a client of its endpoints."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from nearmt.models import TranslationModel
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.models import Models
from nearmt.serve.service import Service


@pytest.fixture
def service(tiny: TranslationModel, tmp_path: Path) -> Iterator[Service]:
    """A service without memories."""
    service = Service(ServeConfig(memories=str(tmp_path / "memories")), Models([tiny]))
    yield service
    service.close()


#: A name that the server answers to, unlike the `testserver` of the test client.
BASE_URL = "http://127.0.0.1:8080"


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service), base_url=BASE_URL) as client:
        yield client


@pytest.fixture
def unchanged_logging() -> Iterator[None]:
    """Logging of the process is restored."""
    names = ("", "nearmt.serve", "uvicorn", "uvicorn.error", "uvicorn.access")
    loggers = [logging.getLogger(name) for name in names]
    before = [(each.handlers[:], each.level, each.propagate, each.disabled) for each in loggers]
    yield
    logging.captureWarnings(False)
    for each, (handlers, level, propagate, disabled) in zip(loggers, before, strict=True):
        each.handlers[:], each.propagate, each.disabled = handlers, propagate, disabled
        each.setLevel(level)
