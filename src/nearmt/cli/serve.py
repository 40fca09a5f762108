"""nearmt serve"""

from __future__ import annotations

import importlib.util

import click

from nearmt.cli.console import echo, verbosity
from nearmt.cli.given import Given, pick
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import setting_options
from nearmt.cli.stopping import noting
from nearmt.config.model import DEFAULT_MODEL
from nearmt.errors import MissingPackageError
from nearmt.serve.config import ServeConfig

_SHOWN = (
    *("host", "port", "model", "memories", "default-memory", "state", "memory-budget"),
    *("allowed-host", "cors-origin", "log-text", "read-only"),
    *("device", "precision", "threads"),
)
_PACKAGES = ("fastapi", "uvicorn", "prometheus_client", "python_multipart")


@click.command(cls=ManualCommand)
@setting_options(
    ServeConfig, shown=_SHOWN, defaults={"model": DEFAULT_MODEL, "allowed-host": None, "cors-origin": None}
)
def command(given: Given) -> None:
    """Translate, learn and manage memories over HTTP.

    Without options: the embedded model, the memories in the folder memories, and the page at http://127.0.0.1:8080.
    A request goes to the model of its direction and to the memories that it names. Without keys the server listens
    on this machine only; `nearmt keys add` makes a key.

    SIGTERM and Ctrl-C let running requests finish (`--set drain=SECONDS`), then the command ends with exit code 0; a
    second signal ends them. Log lines on stderr are JSON and hold no text of users.

    \b
    nearmt serve
    nearmt serve --memories memories --port 9000 --memory-budget 8192
    nearmt serve --read-only --set requests=600
    """
    _check_packages()
    from nearmt.serve.logs import start_logging
    from nearmt.serve.server import run

    config = pick(ServeConfig, given.settings())
    start_logging(config.log_text, verbosity.quiet)
    signals: list[int] = []
    with noting(signals):
        run(config, signals, _announce)


def _announce(line: str) -> None:
    """On standard output: standard error has log lines, which programs read."""
    if not verbosity.quiet:
        echo(f"nearmt: {line}")


def _check_packages() -> None:
    for name in _PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise MissingPackageError(f"{name} is not installed: `pip install 'nearmt[serve]'`")
