"""Log lines of the server: one JSON object a line on stderr.

They hold no text of users: paths are those of routes (`/{source}/{target}/unit/{text}`), queries are left out, and of
an unexpected error its type and the places in the code are logged, not its message. With `log_text` all is there.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from contextvars import ContextVar
from typing import IO, Any

#: The id of the request that is answered; empty outside of requests.
request_id: ContextVar[str] = ContextVar("nearmt_request_id", default="")

logger = logging.getLogger("nearmt.serve")

#: The attribute of a record that holds the fields of its line.
_FIELDS = "nearmt_fields"


class JsonFormatter(logging.Formatter):
    """A record as a JSON object; messages of other libraries are left out unless texts may be logged."""

    def __init__(self, log_text: bool = False) -> None:
        super().__init__()
        self.log_text = log_text

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record.created), "level": record.levelname.lower()}
        fields: dict[str, Any] | None = getattr(record, _FIELDS, None)
        if fields is not None:
            line |= {"event": record.getMessage(), **fields}
        else:
            line |= {"event": "library", "library": record.name, "place": f"{record.module}:{record.lineno}"}
            if self.log_text:
                line["message"] = record.getMessage()
        if current := request_id.get():
            line.setdefault("id", current)
        if record.exc_info and record.exc_info[1] is not None:
            line |= self._error(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True, default=str)

    def _error(self, error: BaseException) -> dict[str, Any]:
        frames = traceback.extract_tb(error.__traceback__)
        found: dict[str, Any] = {
            "error": type(error).__name__,
            "places": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        }
        if self.log_text:
            found["message"] = str(error)
        return found


def log(event: str, error: BaseException | None = None, **fields: Any) -> None:
    """Write a line; fields that are None are left out. Callers pass no text of users."""
    level = logging.INFO if error is None else logging.ERROR
    given = {name: value for name, value in fields.items() if value is not None}
    logger.log(level, event, extra={_FIELDS: given}, exc_info=error)


def start_logging(log_text: bool = False, quiet: bool = False, stream: IO[str] | None = None) -> None:
    """Send the lines of the server, and warnings of libraries, to the stream; only warnings and errors if quiet."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(log_text))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers[:], library.propagate = [], True
        library.setLevel(logging.WARNING)
    # An error of an answer is logged with its request, by `nearmt.serve.edge`.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn.access").disabled = True
    logging.captureWarnings(True)


def _time(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"
