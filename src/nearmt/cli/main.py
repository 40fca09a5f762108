"""The group of commands, and how errors reach the user: one line on stderr, exit code 1 or 2."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.shell_completion import shell_complete

from nearmt import __version__
from nearmt.cli.common import with_common_options
from nearmt.cli.console import echo, verbosity, warn
from nearmt.cli.shortages import exhausted, hint
from nearmt.cli.stopping import exit_code, stopping
from nearmt.cli.terminal import neutral
from nearmt.config import unknown_setting
from nearmt.config.old_names import REMOVED
from nearmt.errors import NearmtError, NearmtWarning, did_you_mean

#: Set by the shell when it asks for completions.
COMPLETION_VARIABLE = "_NEARMT_COMPLETE"
#: Exit codes above this one name the signal that ended a command.
_BY_SIGNAL = 128
_INTERRUPTED = "interrupted; finished work is kept where the command can continue"
# Command -> what it does. Its module is imported when it is called: `nearmt --help` needs no torch.
COMMANDS = {
    "build": "Turn translation memories into a datastore.",
    "translate": "Translate text and documents.",
    "stream": "Translate, correct, and have it learnt at once.",
    "evaluate": "Translate a test set and score it.",
    "tune": "Find the settings of a method that suit a datastore.",
    "train-adaptive": "Train a network that weighs neighbours.",
    "finetune": "Train a model on a memory, for comparison.",
    "experiment": "Measure the systems of the paper.",
    "bench": "Measure how fast nearmt and others translate.",
    "inspect": "Look at translation memories before they are used.",
    "info": "Show what a datastore holds.",
    "export": "Write a datastore's pairs as a file.",
    "add": "Add translation memories to a datastore.",
    "update": "Give a pair of a datastore another target.",
    "delete": "Delete pairs of a datastore.",
    "compact": "Make one segment of all, without what was deleted.",
    "verify": "Look for damage in a datastore, and mend it.",
    "prune": "Make a datastore faster to search by merging entries.",
    "reindex": "Give a datastore a new index, or another model.",
    "demo": "Watch a frozen model learn a manual's language.",
    "export-model": "Write the embedded model as an ordinary Hugging Face folder.",
    "completion": "Print what makes a shell complete nearmt's commands.",
}


class LazyGroup(click.Group):
    """Knows its commands by name and imports the one that is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"nearmt.cli.{name.replace('-', '_')}")
        return with_common_options(module.command)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            raise click.UsageError(f"no command '{args[0]}'{did_you_mean(args[0], COMMANDS)}", context)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="nearmt")
def cli() -> None:
    """Adapt a frozen translation model by looking things up in a translation memory.

    A memory is a file of pairs: TMX, XLIFF, PO, MO, TSV, JSONL or two aligned text files. `build` turns it
    into a datastore, `translate` uses that while it translates text or fills in documents.

    \b
    nearmt demo                                                    # see it work
    nearmt inspect memory.tmx                                      # what is in a memory
    nearmt build memory.tmx --out memory                           # learn it
    nearmt translate text.txt --datastore memory                   # translate with it
    nearmt translate app.po --datastore memory --output app.en.po  # fill in a document

    `nearmt COMMAND --help` describes a command. Errors are one line on stderr; the exit code is 0 if all
    went well, 2 for wrong usage, 130 after Ctrl-C, 143 after SIGTERM, 1 for everything else.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    code = run(arguments)
    if code > _BY_SIGNAL:  # threads that still compute must not keep the process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; errors become one line on stderr and an exit code."""
    verbosity.quiet = verbosity.verbose = False
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        return shell_complete(cli, {}, "nearmt", COMPLETION_VARIABLE, instruction)
    with stopping():
        try:
            given = list(sys.argv[1:] if arguments is None else arguments)
            with _warnings_in_one_line(), cli.make_context("nearmt", given) as context:
                cli.invoke(context)
            sys.stdout.flush()
            return 0
        except BaseException as error:
            return _answer(error)


def _answer(error: BaseException) -> int:
    """Say what went wrong in one line, and return the exit code."""
    match error:
        case click.exceptions.Exit():  # after --help and --version
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message(), err=True)
            return 2
        case click.NoSuchOption() if (name := error.option_name.lstrip("-")) in REMOVED:
            return _fail(unknown_setting(name, ()), 2)
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "nearmt"
            return _fail(f"{_one_line(error.format_message())} (see `{where} --help`)", 2)
        case KeyboardInterrupt():
            return _fail(str(error) or _INTERRUPTED, exit_code(error))
        case BrokenPipeError():
            # Whoever read our output has left; tell nobody, and keep Python from complaining at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        case NearmtError():
            return _fail(f"{error}{hint(error)}", error.exit_code)
    if shortage := exhausted(error):
        return _fail(shortage, 1)
    if isinstance(error, OSError):
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    if os.environ.get("NEARMT_DEBUG") or not isinstance(error, Exception):
        raise error
    return _fail(f"unexpected {type(error).__name__}: {error} (NEARMT_DEBUG=1 shows where)", 1)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """nearmt's own warnings look like its errors; those of libraries stay as they are."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, NearmtWarning):
                warn(str(message))
            else:
                usual(neutral(str(message), keep="\n\t"), category, *where)

        warnings.showwarning = show  # type: ignore[assignment]  # it hands on what it does not need
        warnings.simplefilter("always", NearmtWarning)
        yield


def _fail(message: str, code: int) -> int:
    echo(f"nearmt: error: {_one_line(message)}", err=True)
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())
