"""The group of commands. Errors are printed as one line on stderr, with exit code 1 or 2."""

from __future__ import annotations

import difflib
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
from nearmt.config.old_names import REMOVED, REMOVED_OPTIONS
from nearmt.errors import NearmtError, NearmtWarning, did_you_mean

#: Environment variable in which a shell asks for completions.
COMPLETION_VARIABLE = "_NEARMT_COMPLETE"
#: Exit codes above this one are 128 plus the number of a signal.
_BY_SIGNAL = 128
_INTERRUPTED = "interrupted; finished work is kept if the command can continue"
# Command -> summary. The module of a command is imported when it is called: `nearmt --help` needs no torch.
COMMANDS = {
    "build": "Turn translation memories into a datastore.",
    "translate": "Translate text and documents.",
    "serve": "Translate, learn and manage memories over HTTP.",
    "keys": "Make, list and remove keys of a server.",
    "stream": "Translate interactively and learn every correction at once.",
    "evaluate": "Translate a test set and score it.",
    "tune": "Find the settings of a method that suit a datastore.",
    "train-adaptive": "Train a network that weighs neighbours.",
    "adapt": "Train an adapter of the model on a datastore's pairs.",
    "finetune": "Train a model on a memory, for comparison.",
    "experiment": "Measure the systems of the paper.",
    "bench": "Measure how fast nearmt and others translate.",
    "check": "Check translations for mistakes.",
    "inspect": "Show what is in translation memories.",
    "split": "Hold out a test set from a memory.",
    "info": "Describe a datastore.",
    "export": "Write a datastore's pairs as a file.",
    "add": "Add translation memories to a datastore.",
    "update": "Change the target of a pair of a datastore.",
    "delete": "Delete pairs from a datastore.",
    "fit-reduction": "Fit the PCA that all parts of a corpus share.",
    "merge": "Join the parts of a corpus to one datastore.",
    "compact": "Merge all segments into one, without deleted pairs.",
    "verify": "Check a datastore for damage, and repair it.",
    "prune": "Make a datastore faster to search by merging entries.",
    "reindex": "Give a datastore a new index, or another model.",
    "demo": "See a frozen model adapt to a manual.",
    "export-model": "Write the embedded model as an ordinary Hugging Face folder.",
    "settings": "List all settings for --set and --config.",
    "completion": "Print the completion script of a shell.",
}


class LazyGroup(click.Group):
    """Lists the commands by name and imports the one that is called."""

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

    A memory is a file of pairs: TMX, XLIFF, PO, MO, TSV, CSV, XLSX, JSONL or two aligned text files. `build` turns it
    into a datastore, `translate` uses that while it translates text or fills in documents.

    \b
    nearmt demo                                                    # see it work
    nearmt inspect memory.tmx                                      # what is in a memory
    nearmt build memory.tmx --out memory                           # learn it
    nearmt translate text.txt --datastore memory                   # translate with it
    nearmt translate app.po --datastore memory --output app.en.po  # fill in a document

    `nearmt COMMAND --help` describes a command. Errors are one line on stderr; the exit code is 0 if all
    went well, 2 for wrong usage, 3 for an output that partly lacks neighbours (index-fallback), 130 after Ctrl-C,
    143 after SIGTERM, 1 for everything else.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    code = run(arguments)
    if code > _BY_SIGNAL:  # do not wait for threads that still compute
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; errors become one line on stderr and an exit code."""
    verbosity.quiet = verbosity.verbose = False
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        return shell_complete(cli, {}, "nearmt", COMPLETION_VARIABLE, instruction)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["serve"]:
        _share_heap()
    with stopping():
        try:
            with _warnings_in_one_line(), cli.make_context("nearmt", given) as context:
                cli.invoke(context)
            sys.stdout.flush()
            return 0
        except BaseException as error:
            return _answer(error)


def _share_heap() -> None:
    """For a process that runs for long; before `stopping` starts a thread, which would get a heap of its own."""
    from nearmt.serve.heap import share

    share()


def _answer(error: BaseException) -> int:
    """Print the error as one line and return the exit code."""
    match error:
        case click.exceptions.Exit():  # after --help and --version
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message(), err=True)
            return 2
        case click.NoSuchOption() if advice := _about_option(error):
            return _fail(advice, 2)
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "nearmt"
            return _fail(f"{_one_line(error.format_message())} (see `{where} --help`)", 2)
        case KeyboardInterrupt():
            return _fail(str(error) or _INTERRUPTED, exit_code(error))
        case BrokenPipeError():
            # The reader of our output has gone. Keep Python from printing an error at exit.
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


def _about_option(error: click.NoSuchOption) -> str | None:
    """What to write instead of an option that was removed or is a setting; None for others."""
    name, context = error.option_name.lstrip("-"), error.ctx
    if name in REMOVED:
        return unknown_setting(name, ())
    if context is None:
        return None
    if removed := REMOVED_OPTIONS.get((context.info_name or "", name)):
        return f"--{name} was removed: {removed}"
    options = [option for option in context.command.params if isinstance(option, click.Option)]
    if not any(option.name == "assigned" for option in options):
        return None
    from nearmt.cli.given import SETTINGS

    shown = {spelling.lstrip("-") for option in options if not option.hidden for spelling in option.opts}
    settings = {setting for config in SETTINGS for setting in config.public_fields()} - shown
    close = difflib.get_close_matches(name, [*shown, *settings], n=1)
    return f"no option --{name}; write --set {close[0]}=VALUE" if close and close[0] in settings else None


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print nearmt's own warnings as one line; leave those of libraries as they are."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, NearmtWarning):
                warn(str(message))
            else:
                usual(neutral(str(message), keep="\n\t"), category, *where)

        warnings.showwarning = show  # type: ignore[assignment]  # it passes on the arguments it does not use
        warnings.simplefilter("always", NearmtWarning)
        yield


def _fail(message: str, code: int) -> int:
    echo(f"nearmt: error: {_one_line(message)}", err=True)
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())
