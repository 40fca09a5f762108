"""Log lines are JSON; messages that may hold texts are left out unless asked for."""

from __future__ import annotations

import io
import json
import logging
import warnings
from typing import Any

import pytest

from nearmt.serve.logs import log, request_id, start_logging

pytestmark = pytest.mark.usefixtures("unchanged_logging")


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_the_fields_and_the_id_of_the_request() -> None:
    stream = io.StringIO()
    start_logging(stream=stream)
    token = request_id.set("abc")
    log("request", status=200, key=None)
    request_id.reset(token)
    log("stop")
    first, second = lines(stream)
    assert (first["event"], first["status"], first["id"]) == ("request", 200, "abc")
    assert "key" not in first and "id" not in second


@pytest.mark.parametrize("log_text", [False, True])
def test_messages_are_text_of_users(log_text: bool) -> None:
    stream = io.StringIO()
    start_logging(log_text, stream=stream)
    try:
        raise ValueError("Geheim\n")
    except ValueError as error:
        log("error", error=error)
    logging.getLogger("some.library").warning("Geheim %s", "auch")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("Geheim", UserWarning, stacklevel=1)
    assert ("Geheim" in stream.getvalue()) == log_text
    error_line, library, warning = lines(stream)
    assert error_line["error"] == "ValueError" and "test_logs.py" in error_line["places"][0]
    assert library["library"] == "some.library" and warning["library"] == "py.warnings"


def test_quiet_leaves_errors() -> None:
    stream = io.StringIO()
    start_logging(quiet=True, stream=stream)
    log("request")
    log("error", ValueError())
    assert [line["event"] for line in lines(stream)] == ["error"]
