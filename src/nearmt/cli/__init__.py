"""The command line: one file a command."""

from nearmt.cli.main import main

__all__ = ["main"]
