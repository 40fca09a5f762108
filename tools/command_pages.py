"""Write the documentation's page of every command from the command itself.

    python tools/command_pages.py --write

Without --write it only says whether the pages are up to date (exit code 1 if they are not).
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import click

from nearmt.cli.main import COMMANDS, cli
from nearmt.cli.manual import sections
from nearmt.cli.settings import by_group, for_methods, settings

FOLDER = Path(__file__).parent.parent / "docs" / "commands"


def pages() -> dict[str, str]:
    """File name -> content, for the overview and every command."""
    root = cli.make_context("nearmt", [], resilient_parsing=True)
    found = {"index.md": _overview(root)}
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        found[f"{name}.md"] = _page(click.Context(command, info_name=name, parent=root))
    return found


def _overview(context: click.Context) -> str:
    rows = [f"| [`nearmt {name}`]({name}.md) | {text} |" for name, text in COMMANDS.items()]
    return "\n".join([*_description("Commands", context), "| command | |", "|---|---|", *rows, ""])


def _page(context: click.Context) -> str:
    pieces = context.command.collect_usage_pieces(context)
    usage = ["```text", " ".join([context.command_path, *pieces]), "```", ""]
    title, *text = _description(f"nearmt {context.info_name}", context)
    lines = [title, "", *usage, *text]
    for section, options in sections(context.command, context).items():
        lines += [f"## {section}", "", "| option | |", "|---|---|", *(_row(option, context) for option in options), ""]
    if context.info_name == "settings":
        lines += _setting_tables()
    return "\n".join(lines)


def _setting_tables() -> list[str]:
    """A table for each group of settings, as the command prints them."""
    lines = []
    for group, found in by_group(settings()).items():
        lines += [f"## {group}", "", "| setting | meaning | values | default |", "|---|---|---|---|"]
        for setting in found:
            default = f"`{setting.default_text}`" if setting.default_text else ""
            lines.append(
                f"| `{setting.name}` | {setting.meaning}{for_methods(setting)} | {setting.values} | {default} |"
            )
        lines.append("")
    return lines


def _description(title: str, context: click.Context) -> list[str]:
    """The help text: paragraphs as they are, examples (behind \\b) as a block that the tests run."""
    lines = [f"# {title}", ""]
    for paragraph in inspect.cleandoc(context.command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            lines += ["```bash", *paragraph.splitlines()[1:], "```", ""]
        else:
            lines += [" ".join(paragraph.split()), ""]
    return lines


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None and record[1], f"{option.name} has no help text"
    # A bar would end the cell, and not all readers of Markdown take it escaped.
    name, text = (cell.replace("|", ", ") for cell in record)
    return f"| `{name}` | {text} |"


def main() -> None:
    stale = [name for name, content in pages().items() if not _is(FOLDER / name, content)]
    strays = [path for path in FOLDER.glob("*.md") if path.name not in pages()]
    if "--write" in sys.argv:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (FOLDER / name).write_text(pages()[name], encoding="utf-8")
        for path in strays:
            path.unlink()
    elif stale or strays:
        sys.exit(f"stale: {', '.join([*stale, *(path.name for path in strays)])}; run tools/command_pages.py --write")


def _is(path: Path, content: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == content


if __name__ == "__main__":
    main()
